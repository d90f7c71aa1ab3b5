"""What ``register_tunable`` may choose from, in the dialect's words, and the names of its searches.

A fragment is the tuple of its choices. The first one is the default, as for
:func:`tileflow.language.register_tunable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...errors import ConfigError
from .refusals import absent, refusal
from .timing import milliseconds


class ConfigSpecFragment(tuple[Any, ...]):
    """Choices of a tunable."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes have the same choices, whatever made them."""
        return _again, (type(self), tuple(self))

    def default(self) -> Any:
        """The first choice."""
        return self[0]


def _again(kind: type[ConfigSpecFragment], choices: tuple[Any, ...]) -> ConfigSpecFragment:
    return tuple.__new__(kind, choices)


def _require_bounds(kind: str, low: Any, high: Any) -> None:
    if type(low) is not int or type(high) is not int or low > high:
        raise ConfigError(
            f"the bounds of a {kind} are two ints, the lower one first",
            got=f"{low!r}, {high!r}",
            hint=f"{kind}(1, 8)",
        )


def _from(choices: Iterable[Any], default: Any) -> list[Any]:
    """The choices with the default first. Raises ConfigError where it is none of them."""
    choices = list(choices)
    if default not in choices:
        raise ConfigError(f"the default of a tunable is one of {choices}", got=repr(default))
    return [default, *(c for c in choices if c != default)]


class PowerOfTwoFragment(ConfigSpecFragment):
    """The powers of two from ``low`` to ``high``, both inclusive and powers of two."""

    def __new__(cls, low: int, high: int, default_val: int | None = None) -> PowerOfTwoFragment:
        """Raises ConfigError where a bound is no power of two. ``default_val``: the first choice, else ``low``."""
        _require_bounds(cls.__name__, low, high)
        for bound in (low, high):
            if bound < 1 or bound & (bound - 1):
                raise ConfigError("the bounds of a PowerOfTwoFragment are powers of two", got=bound)
        powers = [1 << n for n in range(low.bit_length() - 1, high.bit_length())]
        return super().__new__(cls, _from(powers, low if default_val is None else default_val))


class IntegerFragment(ConfigSpecFragment):
    """The ints from ``low`` to ``high``, both inclusive."""

    def __new__(cls, low: int, high: int, default_val: int | None = None) -> IntegerFragment:
        """``default_val``: the first choice, else ``low``."""
        _require_bounds(cls.__name__, low, high)
        return super().__new__(cls, _from(range(low, high + 1), low if default_val is None else default_val))


class EnumFragment(ConfigSpecFragment):
    """Any of ``choices``."""

    def __new__(cls, choices: Iterable[Any]) -> EnumFragment:
        """The first of ``choices`` is the default. Raises ConfigError where there is none."""
        choices = tuple(choices)
        if not choices:
            raise ConfigError("an EnumFragment has a choice", got="none", hint="EnumFragment(['a', 'b'])")
        return super().__new__(cls, choices)

    @property
    def choices(self) -> tuple[Any, ...]:
        """All choices, the default first."""
        return tuple(self)


class BooleanFragment(ConfigSpecFragment):
    """False or True."""

    def __new__(cls) -> BooleanFragment:
        """False is the default."""
        return super().__new__(cls, (False, True))


class BlockSizeFragment(PowerOfTwoFragment):
    """A block size."""


class NumWarpsFragment(PowerOfTwoFragment):
    """A number of warps."""


# ---- searches -----------------------------------------------------------------------------------


class BaseAutotuner(ABC):
    """What ``autotuner_fn`` makes: an author's own, derived from this or not, is asked for the config of a call."""

    @abstractmethod
    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The config to take."""


class Search(BaseAutotuner):
    """A search over the kernel's space, by whatever name: the one that tileflow has, and only when it is asked for."""

    def __init__(self, kernel: Any, args: Sequence[Any], **options: Any) -> None:
        self.kernel, self.args, self.options = kernel, args, options

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The best config for the search's arguments, by tileflow's own search. ``skip_cache`` changes nothing."""
        return self.kernel.autotune(self.args)


class FiniteSearch(Search):
    """The fastest of ``configs``."""

    def __init__(self, kernel: Any, args: Sequence[Any], configs: Sequence[Any] = (), **options: Any) -> None:
        super().__init__(kernel, args, **options)
        self.configs = list(configs)

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The fastest of the search's configs for its arguments."""
        return self.kernel.fastest(self.configs, self.args)


class CachedFiniteSearch(FiniteSearch):
    """The fastest of the configs that loaded tables know for such calls, at most ``max_configs``, and ``configs``."""

    def __init__(
        self, kernel: Any, args: Sequence[Any], configs: Sequence[Any] = (), max_configs: int | None = None
    ) -> None:
        super().__init__(kernel, args, configs)
        self.max_configs = max_configs

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The fastest of them. Raises ConfigError where there is none."""
        configs = list(dict.fromkeys([*self.kernel.known_configs(self.max_configs), *self.configs]))
        if not configs:
            raise ConfigError(
                "from_cache knows a config for these arguments",
                got="no row of a loaded table, and configs=()",
                hint="tileflow.load a table that was tuned for them, or name some: from_cache(configs=[...])",
            )
        return self.kernel.fastest(configs, self.args)


def from_cache(*, max_configs: int | None = None, configs: Sequence[Any] = ()) -> Callable[..., CachedFiniteSearch]:
    """An ``autotuner_fn`` that times the configs of loaded tables' rows, and ``configs``, when autotune is called."""

    def made(kernel: Any, args: Sequence[Any], **options: Any) -> CachedFiniteSearch:
        return CachedFiniteSearch(kernel, args, configs, max_configs)

    return made


class LocalAutotuneCache(Search):
    """A search whose result is kept: here tables keep it."""

    def __init__(self, autotuner: Search) -> None:
        super().__init__(autotuner.kernel, autotuner.args)
        self.autotuner = autotuner

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The result of the search that it wraps."""
        return self.autotuner.autotune()


BaseSearch = PopulationBasedSearch = PatternSearch = LFBOPatternSearch = LFBOTreeSearch = Search
DifferentialEvolutionSearch = DESurrogateHybrid = RandomSearch = UCBPatternSearch = Search
LLMGuidedSearch = LLMSeededSearch = LLMSeededLFBOTreeSearch = Search
AOTAutotuneCache = StrictLocalAutotuneCache = LocalAutotuneCache

OF_ANOTHER_SEARCH = "kernel.autotune(args) is tileflow's own search; its options are those of tileflow.tune"
REFUSED = {  # what belongs to a search that is not here
    **dict.fromkeys(
        ("AutotuneEffortProfile", "CLISourceAgent", "ConfigSpec", "DifferentialEvolutionConfig", "FinalSelectionConfig",
         "HandoffAgentResult", "HandoffAgentRound", "HandoffBundle", "HandoffCandidate", "HandoffCaseResult",
         "HandoffEvaluation", "HandoffMeasurement", "HandoffPoint", "HandoffPolicy", "HandoffProgress",
         "InitialPopulationStrategy", "LLMSearchConfig", "PatternSearchConfig", "RandomSearchConfig", "UserConfigSpec",
         "build_handoff", "evaluate_handoff", "find_handoff"), OF_ANOTHER_SEARCH),
    **dict.fromkeys(("RemoteAutotuneCache", "RemoteCacheBackend", "StrictRemoteAutotuneCache"),
                    "tables keep results: tileflow.load(path) in each process"),
    **dict.fromkeys(("ListOf", "NumThreadsFragment"), "one tunable for each: hl.register_tunable(name, choices)"),
    "autotune": "kernel.autotune(args)",
}  # fmt: skip
search_algorithms: dict[str, type[Search]] = {
    "FiniteSearch": FiniteSearch,
    **dict.fromkeys(
        ("DifferentialEvolutionSearch", "LFBOPatternSearch", "LFBOTreeSearch", "PatternSearch", "RandomSearch"), Search
    ),
}
cache_classes = {"LocalAutotuneCache": LocalAutotuneCache, "StrictLocalAutotuneCache": StrictLocalAutotuneCache}


def __getattr__(name: str) -> Any:
    return refusal(f"helion.autotuner.{name}", REFUSED[name]) if name in REFUSED else absent(__name__, name)


# ---- timing -------------------------------------------------------------------------------------


def do_bench(fn: Callable[[], Any], **options: Any) -> float:
    """Milliseconds of a call on the current GPU, the median with a cold L2."""
    return milliseconds(fn, ())


def interleaved_bench(fns: Sequence[Callable[[], Any]], *, repeat: int = 0, desc: str | None = None) -> list[float]:
    """Milliseconds of each."""
    return [do_bench(fn) for fn in fns]


def compute_repeat(fn: Callable[[], Any], **options: Any) -> int:
    """How often to time a call: the timing decides itself."""
    return 1
