"""Settings: what the dialect's decorator says about compiling and searching, and which of it means something here."""

from __future__ import annotations

import difflib
import enum
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...errors import ConfigError
from ...language.rules import OUTER_CONSTANTS
from ...runtime.ambient import with_float32_precision
from ...tolerances import Tolerances
from . import notes
from .autotuner import Search
from .config import Config
from .wording import errors_in_the_dialect


class RefMode(enum.Enum):
    """``EAGER``: the kernel runs as plain Python over real tiles."""

    OFF = "off"
    EAGER = "eager"


class CuteStructuralPolicy:
    """What a kernel lets another backend rewrite: accepted, and means nothing here."""

    def __init__(self, **choices: bool) -> None:
        self.__dict__.update(choices)


_defaults: dict[str, Any] = {}

MEANT = {
    "autotune_budget_seconds": None,
    "autotuner_fn": None,
    "dot_precision": None,
    "ignore_warnings": (),
    "output_origin_lines": True,
    "print_output_code": None,
    "ref_mode": None,
    "static_shapes": True,
}
UNUSED = {
    "advanced_controls_file": None, "allow_warp_specialize": True, "backend": "triton", "debug_dtype_asserts": False,
    "fast_math": False, "force_autotune": False, "index_dtype": None, "persistent_reserved_sms": 0,
    "print_repro": False, "triton_do_not_specialize": False, "torch_compile_fusion": False, "use_default_config": False,
    "disable_autotuner_heuristics": False, "distributed": False,
}  # fmt: skip
ELSEWHERE = ("autotune_", "cute_", "pallas_")  # of the search, and of other backends
OF_SEARCHES = {  # how long, in which order and with what output it goes on: a search of tileflow's knows its own way
    f"autotune_{name}"
    for name in (
        "accuracy_check", "adaptive_timeout", "baseline_atol", "baseline_fn", "baseline_rtol", "benchmark_subprocess",
        "benchmark_timeout", "best_available_max_cache_scan", "best_available_max_configs", "best_of_k",
        "budget_seconds", "cache", "compile_timeout", "config_filter", "effort", "force_persistent", "handoff",
        "handoff_budget_seconds", "ignore_errors", "initial_population_strategy", "log", "log_details", "log_level",
        "log_search_space", "log_search_space_path", "log_search_space_verbose", "max_generations", "precompile",
        "precompile_jobs", "progress_bar", "random_seed", "rebenchmark_threshold", "suspicious_rebenchmark_ratio",
        "with_torch_compile_fusion",
    )
}  # fmt: skip
OF_THEIR_SEARCH = {  # what it may find, and by whose word: said when a search begins that does not go by it
    f"autotune_{name}"
    for name in ("baseline_accuracy_check_fn", "benchmark_fn", "config_overrides", "search_acf", "seed_configs")
}
PRECISIONS = {"tf32": "high", "tf32x3": "highest", "ieee": "highest"}  # torch's word for what is traced
ALIASES = {"default": "tf32", "high": "tf32x3", "highest": "ieee"}  # the words of jax.lax.Precision, coarsest first


class Settings:
    """The keyword arguments of ``helion.kernel`` that are no config, as attributes.

    ``dot_precision`` (``tf32`` by default, as there), ``static_shapes``, ``ref_mode``, ``print_output_code``,
    ``autotuner_fn``, ``autotune_budget_seconds``, ``autotune_baseline_fn`` and its ``_atol`` and ``_rtol`` have a
    meaning here; the others are accepted and noted. Raises
    ConfigError for a name that the dialect does not have.
    """

    def __init__(self, **values: Any) -> None:
        merged = {**_defaults, **values}
        for name, value in merged.items():
            if name in MEANT:
                continue
            if name in UNUSED:
                if value != UNUSED[name]:
                    notes.once(name, "the setting has no meaning here")
            elif name.startswith("autotune_"):
                if name not in OF_SEARCHES | OF_THEIR_SEARCH:
                    notes.once(name, _unknown(name))
            elif not name.startswith(ELSEWHERE):
                raise ConfigError(
                    "a setting is one that the dialect documents",
                    got=name,
                    hint=f"it has {', '.join(sorted((*MEANT, *UNUSED)))} and autotune_*",
                )
        self.values: dict[str, Any] = {**MEANT, **UNUSED, **merged}
        self._require()
        if self.precision not in PRECISIONS:
            known = [*PRECISIONS, *ALIASES]
            raise ConfigError(f"dot_precision is one of {known}", got=repr(self.precision))

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            if name.startswith(ELSEWHERE):
                return None
            raise AttributeError(f"a Settings has no {name!r}") from None

    def to_dict(self) -> dict[str, Any]:
        """The keyword arguments that make these settings again."""
        return dict(self.values)

    @property
    def precision(self) -> str:
        """The precision of float32 products, ``tf32``, ``tf32x3`` or ``ieee``, whichever of its names was given."""
        given = str(self.values["dot_precision"] or os.environ.get("TRITON_F32_DEFAULT") or "default")
        return ALIASES.get(given, given)

    @property
    def tolerances(self) -> Tolerances:
        """How far results may differ from those of ``autotune_baseline_fn``, or of the kernel's own reference."""
        return Tolerances(self.autotune_baseline_atol, self.autotune_baseline_rtol)

    @property
    def mode(self) -> str:
        """The shape mode that a call is lowered in."""
        return "static" if self.values["static_shapes"] is not False else "dynamic"

    @property
    def eager(self) -> bool:
        """Whether calls run as plain Python: ``ref_mode``, else ``HELION_INTERPRET=1``."""
        given = self.values["ref_mode"]
        return given is RefMode.EAGER if given is not None else _is_set("HELION_INTERPRET")

    @property
    def prints(self) -> bool:
        """Whether the generated source is printed: ``print_output_code``, else ``HELION_PRINT_OUTPUT_CODE=1``."""
        given = self.values["print_output_code"]
        return bool(given) if given is not None else _is_set("HELION_PRINT_OUTPUT_CODE")

    @property
    def checks_results(self) -> bool:
        """Whether configs are checked before they are timed: unless ``autotune_accuracy_check`` is false."""
        return self.values.get("autotune_accuracy_check") is not False

    def allowed(self, configs: Sequence[Config]) -> list[Config]:
        """Those of ``configs`` that ``autotune_config_filter`` lets through, as it gives them. Raises ConfigError where
        it is none."""
        allow = self.autotune_config_filter
        found = list(configs) if allow is None else [c for c in map(allow, configs) if c is not None]
        if configs and not found:
            raise ConfigError(
                "autotune_config_filter lets a config through",
                got=f"none of {len(configs)}",
                hint="return the config, or another one, for those that may be timed",
            )
        return found

    def say_what_a_search_leaves_out(self) -> None:
        """Warn about the settings that say what a search may find, and that tileflow's does not know."""
        for name in sorted(OF_THEIR_SEARCH | {"autotune_config_filter"}):
            if self.values.get(name):
                notes.once(name, "the setting has no meaning in a search over tileflow's knobs")

    def _require(self) -> None:
        """Raise ConfigError for a value of another kind than its setting's: it would change nothing, without a word."""
        given = self.values["ref_mode"]
        if given is not None and not isinstance(given, RefMode):
            raise ConfigError("ref_mode is a RefMode", got=repr(given), hint="helion.RefMode.EAGER")
        for name in ("autotuner_fn", "autotune_baseline_fn", "autotune_config_filter"):
            given = self.values.get(name)
            if given is not None and not callable(given):
                raise ConfigError(f"{name} is a function", got=repr(given), hint=f"{name}=my_function")

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Inside, kernels are traced as these settings say: without autograd, products in ``dot_precision``."""
        if self.precision == "tf32x3":
            notes.once(
                f"dot_precision={self.values['dot_precision'] or 'tf32x3'!r}", "computed in full float32 precision"
            )
        with of_the_dialect(), with_float32_precision(PRECISIONS[self.precision]):
            yield


@contextmanager
def of_the_dialect() -> Iterator[None]:
    """Inside, a kernel's text means what it means there, where that is another thing than here, and errors are said in
    the dialect's words."""
    token = OUTER_CONSTANTS.set(True)
    try:
        with torch.no_grad(), errors_in_the_dialect():
            yield
    finally:
        OUTER_CONSTANTS.reset(token)


def _unknown(name: str) -> str:
    """What is said of a name that may be a later version's, or a slip."""
    near = difflib.get_close_matches(name, sorted(OF_SEARCHES | OF_THEIR_SEARCH), 1)
    return "no setting that is known here" + (f"; {near[0]} is one" if near else "")


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def default_autotuner_fn(bound_kernel: Any, args: Sequence[Any], **options: Any) -> Search:
    """The default of ``autotuner_fn``: tileflow's own search."""
    return Search(bound_kernel, args, **options)


def _get_backend() -> str:
    """The one way that kernels are compiled here: programs choose their kernels by it."""
    return "triton"


def set_default_settings(settings: Settings) -> None:
    """What kernels that are decorated from now on take where they say nothing themselves."""
    _defaults.clear()
    _defaults.update(settings.values)
