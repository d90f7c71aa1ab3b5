"""Running a kernel's host function: the contexts that it calls back, and binding launchers to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from ..config import Choice, Config
from ..errors import ConfigError, VariantError
from ..lazy_dataclass import dataclass
from .guards import explain_guards
from .key_invariants import KeyInvariants
from .launch import Launcher
from .loop_bounds import bounds
from .observe import Served, served
from .paths import Symbol, read_symbol

_START = (0,)
_NONE: Mapping[str, Any] = MappingProxyType({})


class Seeds:
    """The seed of a launch: ``seed``, a new number out of torch's generator each time."""

    __slots__ = ()

    @property
    def seed(self) -> int:
        """A new number out of torch's generator."""
        from .ambient import draw_seed

        return draw_seed()


class HostContext(Protocol):
    """What a host function calls in place of its tile loops: its first parameter, ``__tileflow__``."""

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """The ``region``-th outermost tile loop. ``frame``: the host function's locals; the rest: those of ``tile``."""
        ...

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``register_block_size`` and ``register_tunable``; ``site`` is the variable that is assigned."""
        ...


class RuntimeContext(Seeds):
    """Launches what was built. Holds no state of a call, so that one serves all calls and threads.

    ``counter``: of the calls that it serves.
    """

    __slots__ = ("_config", "_launchers", "counter")

    def __init__(
        self, config: Config, launchers: Mapping[int, Sequence[Launcher]], counter: Served | None = None
    ) -> None:
        self.counter = counter or served("", "bound")
        self._config = config.to_dict()
        self._launchers = {region: tuple(variants) for region, variants in launchers.items()}

    def launch(
        self,
        region: int,
        frame: dict[str, Any],
        begin_or_end: Any,
        end: Any = None,
        block_size: Any = None,
        *,
        step: Any = None,
    ) -> None:
        """Launch the first variant whose guards hold. Raises VariantError where none does."""
        # the commonest form is spelled out: the rest costs a microsecond
        plain = type(begin_or_end) is int and end is None
        begins, ends = (_START, (begin_or_end,)) if plain else bounds(begin_or_end, end)
        self.accepting(region, frame, begins, ends, (begin_or_end, end, block_size if step is None else step))

    def variants(self, region: int) -> Iterable[Launcher]:
        """The launchers of a region in the order in which they are tried."""
        return self._launchers.get(region, ())

    def accepting(
        self,
        region: int,
        frame: Mapping[str, Any],
        begins: tuple[int, ...],
        ends: tuple[int, ...],
        given: tuple[Any, ...] = (),
    ) -> tuple[Launcher, Sequence[Launcher]]:
        """The first variant whose guards hold, which has launched, and those before it, which declined. ``given``: the
        arguments of ``tile``.

        Raises VariantError where none does.
        """
        declined: list[Launcher] = []
        for launcher in self.variants(region):
            if launcher(frame, begins, ends):
                return launcher, declined
            declined.append(launcher)
        raise unmatched(region, frame, begins, ends, declined)

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Choice:
        """The config's choice for the knob."""
        knob = host_knob(site, function, args, kwargs)
        try:
            return self._config[knob]
        except KeyError:
            raise ConfigError(
                f"the config must choose {knob}, which host code asks for", got=str(self._config)
            ) from None


def unmatched(
    region: int, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...], declined: Sequence[Launcher]
) -> VariantError:
    """The error of a region that no variant accepts: it names each variant's first guard that does not hold."""
    got = "no variant at all"
    if declined:
        reasons = [_why(launcher, frame, begins, ends) for launcher in declined]
        got = f"bounds {begins} to {ends}; " + "; ".join(dict.fromkeys(reasons))
    error = VariantError(
        f"one variant of launch {region} must accept the call",
        got=got,
        hint="this code is for other arguments, and for some sizes there is none under its config: lower the kernel "
        "for these, or call it without a config, which finds code for them",
    )
    error.region, error.tried = region, (frame, begins, ends, declined)
    return error


def _why(launcher: Launcher, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> str:
    explain = getattr(launcher, "explain", None)
    if explain is not None:
        return str(explain(frame, begins, ends))
    return explain_guards(launcher.guards, lambda name: read_symbol(Symbol.parse(name), frame, None, begins, ends)) or (
        "nothing: it would accept the call now"
    )


@dataclass(frozen=True, slots=True)
class KeyedRegion:
    """``names``: the locals of host code that a region captures, in order; ``invariants``: what a key fixes of it."""

    names: tuple[str, ...]
    invariants: KeyInvariants


class KeyedContext(Seeds):
    """Launches for calls with one key, out of host code that hands over what its regions capture: a host function's
    ``flat``.

    ``regions``: by their numbers, functions of this context, the captured values, and then the arguments of ``tile``.
    At first each checks all, as a RuntimeContext does; once it has launched, it leaves out what the key fixes. The
    functions are the binary's and shared by all keys, so that a further key costs some hundred bytes.
    """

    __slots__ = ("_context", "_known", "counter", "host_call", "regions")

    def __init__(self, context: RuntimeContext, known: Sequence[KeyedRegion]) -> None:
        self._context, self._known, self.counter = context, known, context.counter
        self.host_call = context.host_call
        self.regions: list[Callable[..., Any]] = [partial(_launch, region) for region in range(len(known))]

    def launch(self, region: int, *args: Any, **kwargs: Any) -> None:
        """Launch the region with everything checked: the values of its names, then the arguments of ``tile``."""
        names, invariants = self._known[region].names, self._known[region].invariants
        frame = {"__tileflow__": self, **dict(zip(names, args, strict=False))}
        given = _given(*args[len(names) :], **kwargs)
        begins, ends = bounds(*given)
        accepting, declined = self._context.accepting(region, frame, begins, ends, given)
        specialize = getattr(accepting, "specialize", None)
        # a variant that goes before it may accept a later call
        if specialize is not None and all(invariants.chooses(launcher.guards) for launcher in declined):
            self.regions[region] = specialize(invariants, names, region)


def _given(begin_or_end: Any, end: Any = None, block_size: Any = None, *, step: Any = None) -> tuple[Any, Any, Any]:
    """The arguments of ``tile`` or ``grid`` by position."""
    return begin_or_end, end, block_size if step is None else step


def _launch(region: int, context: KeyedContext, *args: Any, **kwargs: Any) -> None:
    context.launch(region, *args, **kwargs)


class Shapes:
    """A host context that launches nothing: the host function's results have their shapes and no values.

    Block sizes are 32, tunables their first choice; ``other``: 64, and the last choice.
    """

    def __init__(self, other: bool = False) -> None:
        self._other = other

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """Nothing."""

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A choice; a block size is not compared with its upper limit, which may be symbolic."""
        if function.__name__ == "register_block_size":
            return max(64 if self._other else 32, args[0] if len(args) > 1 else 1)
        *_, choices = (*args, *(given for name, given in kwargs.items() if name != "name"))
        return tuple(choices)[-1 if self._other else 0]


def host_knob(site: str, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] = _NONE) -> str:
    """The knob that a host call asks for: ``block:<variable>``, or ``tunable:<the name it gives>``."""
    if function.__name__ != "register_tunable":
        return f"block:{site}"
    return f"tunable:{args[0] if args else kwargs['name']}"


def bind(host: Callable[..., Any], config: Config, launchers: Mapping[int, Sequence[Launcher]]) -> partial[Any]:
    """``host`` (a callable that takes its context first) as a plain callable of the user's arguments."""
    return partial(host, RuntimeContext(config, launchers))
