"""Running a kernel's host function: the context that it calls back, and binding launchers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import index
from typing import Any, Protocol

from ..config import Choice, Config
from ..errors import CallError, ConfigError, VariantError
from .launch import Launcher
from .settled import Settled

Bounds = tuple[tuple[int, ...], tuple[int, ...]]

_START = (0,)


class HostContext(Protocol):
    """What a host function calls in place of its tile loops: its first parameter, ``__tileflow__``."""

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """The ``region``-th outermost tile loop. ``frame``: the host function's locals; the rest: those of ``tile``."""
        ...

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``register_block_size`` and ``register_tunable``; ``site`` is the variable that is assigned."""
        ...


def bounds(first: Any, end: Any = None, block_size: Any = None, *, step: Any = None) -> Bounds:
    """(begins, ends) of ``tile``'s arguments: ``tile(end)``, ``tile(begin, end)``, either with lists for several axes.

    ``block_size`` and a grid's ``step`` belong to the config and are not looked at. Raises CallError.
    """
    if end is None:
        if isinstance(first, (list, tuple)):
            return (0,) * len(first), _indices(first)
        return (0,), _indices((first,))
    if isinstance(first, (list, tuple)) != isinstance(end, (list, tuple)):
        raise CallError("a tile's begin and end must both be lists or both be ints", got=f"{first!r} and {end!r}")
    if not isinstance(first, (list, tuple)):
        return _indices((first,)), _indices((end,))
    if len(first) != len(end):
        raise CallError("a tile's begins and ends must be as many", got=f"{len(first)} and {len(end)}")
    return _indices(first), _indices(end)


def _indices(values: Sequence[Any]) -> tuple[int, ...]:
    try:
        return tuple(map(index, values))
    except TypeError as error:
        raise CallError("a tile's bounds must be ints", got=repr(values), hint=str(error)) from error


class RuntimeContext:
    """Launches what was built. Holds no state of a call, so that one serves all calls and threads."""

    __slots__ = ("_config", "_launchers")

    def __init__(self, config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> None:
        self._config = config.to_dict()
        self._launchers = {region: tuple(variants) for region, variants in launchers.items()}

    def launch(
        self, region: int, frame: dict[str, Any], begin_or_end: Any, end: Any = None, block_size: Any = None, *,
        step: Any = None,
    ) -> None:  # fmt: skip
        """Launch the first variant whose guards hold. Raises VariantError where none does."""
        # the commonest form is spelled out: the rest costs a microsecond
        plain = type(begin_or_end) is int and end is None
        begins, ends = (_START, (begin_or_end,)) if plain else bounds(begin_or_end, end)
        self._accepting(region, frame, begins, ends)

    def _accepting(
        self, region: int, frame: dict[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]
    ) -> Launcher:
        """The launcher that has launched."""
        for launcher in self._launchers.get(region, ()):
            if launcher(frame, begins, ends):
                return launcher
        raise self._unmatched(region, begins, ends)

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Choice:
        """The config's choice for the knob."""
        knob = host_knob(site, function, args or tuple(kwargs.values()))
        try:
            return self._config[knob]
        except KeyError:
            raise ConfigError(
                f"the config must choose {knob}, which host code asks for", got=str(self._config)
            ) from None

    def _unmatched(self, region: int, begins: tuple[int, ...], ends: tuple[int, ...]) -> VariantError:
        variants = self._launchers.get(region, ())
        guards = "; ".join(str(v.guards) for v in variants)
        error = VariantError(
            f"one variant of region {region} must accept the call",
            got=f"bounds {begins} to {ends}, guards: {guards}" if variants else "no variant at all",
            hint="the arguments differ from those that the kernel was lowered for",
        )
        error.region = region
        return error


class KeyedContext(RuntimeContext):
    """The same for calls with one key: the first of them to launch a region settles its launcher."""

    __slots__ = ("_settled", "_warm")

    def __init__(self, context: RuntimeContext, settled: Sequence[Settled]) -> None:
        self._config, self._launchers = context._config, context._launchers
        self._settled = settled
        self._warm: dict[int, Launcher] = {}

    def launch(
        self, region: int, frame: dict[str, Any], begin_or_end: Any, end: Any = None, block_size: Any = None, *,
        step: Any = None,
    ) -> None:  # fmt: skip
        """Launch without a look at what is settled."""
        plain = type(begin_or_end) is int and end is None
        begins, ends = (_START, (begin_or_end,)) if plain else bounds(begin_or_end, end)
        warm = self._warm.get(region)
        if warm is None:
            self._settle(region, self._accepting(region, frame, begins, ends))
        elif not warm(frame, begins, ends):
            self._accepting(region, frame, begins, ends)

    def _settle(self, region: int, accepting: Launcher) -> None:
        """Remember the launcher, unless one that goes before it may accept a later call."""
        settle = getattr(accepting, "settle", None)
        if settle is None:  # an interpreter's
            return
        settled = self._settled[region]
        before = takewhile(lambda launcher: launcher is not accepting, self._launchers[region])
        if all(settled.chooses(launcher.guards) for launcher in before):
            self._warm[region] = settle(settled)


def host_knob(site: str, function: Callable[..., Any], args: Sequence[Any]) -> str:
    """The knob that a host call asks for: ``block:<variable>``, or ``tunable:<the name it gives>``."""
    return f"tunable:{args[0]}" if function.__name__ == "register_tunable" else f"block:{site}"


def bind(host: Callable[..., Any], config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> partial[Any]:
    """``host`` (a callable that takes its context first) as a plain callable of the user's arguments."""
    return partial(host, RuntimeContext(config, launchers))


def keyed(bound: partial[Any], settled: Sequence[Settled]) -> partial[Any]:
    """What :func:`bind` made, for calls with one key only; ``settled``: what that settles of each region."""
    return partial(bound.func, KeyedContext(bound.args[0], settled))
