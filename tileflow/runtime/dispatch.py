"""Running a kernel's host function: the context that it calls back, and binding launchers to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

from ..config import Choice, Config
from ..errors import ConfigError, VariantError
from .bounds import bounds
from .launch import Launcher
from .settled import Settled

_START = (0,)


class HostContext(Protocol):
    """What a host function calls in place of its tile loops: its first parameter, ``__tileflow__``."""

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """The ``region``-th outermost tile loop. ``frame``: the host function's locals; the rest: those of ``tile``."""
        ...

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``register_block_size`` and ``register_tunable``; ``site`` is the variable that is assigned."""
        ...


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
        self.accepting(region, frame, begins, ends)

    def variants(self, region: int) -> Sequence[Launcher]:
        """The launchers of a region in the order in which they are tried."""
        return self._launchers.get(region, ())

    def accepting(self, region: int, frame: dict[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> Launcher:
        """The first variant whose guards hold, which has launched. Raises VariantError where none does."""
        for launcher in self.variants(region):
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
        variants = self.variants(region)
        guards = "; ".join(str(v.guards) for v in variants)
        error = VariantError(
            f"one variant of region {region} must accept the call",
            got=f"bounds {begins} to {ends}, guards: {guards}" if variants else "no variant at all",
            hint="the arguments differ from those that the kernel was lowered for",
        )
        error.region = region
        return error


@dataclass(frozen=True, slots=True)
class KeyedRegion:
    """``names``: the locals of host code that a region captures, in order; ``settled``: what a key settles of it."""

    names: tuple[str, ...]
    settled: Settled


class KeyedContext:
    """Launches for calls with one key, out of host code that hands over what its regions capture: a host function's
    ``flat``.

    ``regions``: by their numbers, functions of the captured values and then the arguments of ``tile``. At first each
    checks all, as a RuntimeContext does; once it has launched, it leaves out what the key settles.
    """

    __slots__ = ("_context", "_known", "host_call", "regions")

    def __init__(self, context: RuntimeContext, known: Sequence[KeyedRegion]) -> None:
        self._context, self._known = context, known
        self.host_call = context.host_call
        self.regions: list[Callable[..., Any]] = [partial(self._launch, region) for region in range(len(known))]

    def _launch(self, region: int, *args: Any, **kwargs: Any) -> None:
        names, settled = self._known[region].names, self._known[region].settled
        frame = dict(zip(names, args, strict=False))
        begins, ends = bounds(*args[len(names) :], **kwargs)
        accepting = self._context.accepting(region, frame, begins, ends)
        settle = getattr(accepting, "settle", None)
        # a variant that goes before it may accept a later call
        before = takewhile(lambda launcher: launcher is not accepting, self._context.variants(region))
        if settle is not None and all(settled.chooses(launcher.guards) for launcher in before):
            self.regions[region] = settle(settled, names, partial(self._launch, region))


def host_knob(site: str, function: Callable[..., Any], args: Sequence[Any]) -> str:
    """The knob that a host call asks for: ``block:<variable>``, or ``tunable:<the name it gives>``."""
    return f"tunable:{args[0]}" if function.__name__ == "register_tunable" else f"block:{site}"


def bind(host: Callable[..., Any], config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> partial[Any]:
    """``host`` (a callable that takes its context first) as a plain callable of the user's arguments."""
    return partial(host, RuntimeContext(config, launchers))


def keyed(flat: Callable[..., Any], bound: partial[Any], known: Sequence[KeyedRegion]) -> partial[Any]:
    """What :func:`bind` made, for calls with one key only. ``flat``: its host function as a KeyedContext takes it."""
    return partial(flat, KeyedContext(bound.args[0], known))
