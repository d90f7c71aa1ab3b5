"""``import helion`` for programs whose imports cannot change."""

from __future__ import annotations

import importlib
import sys

_SUBMODULES = {
    "": "", "_compat": "_compat", "_testing": "_testing", "_utils": "_utils", "autotuner": "autotuner",
    "autotuner.aot_cache": "autotuner", "autotuner.base_search": "autotuner", "autotuner.benchmarking": "autotuner",
    "autotuner.config_fragment": "autotuner", "autotuner.differential_evolution": "autotuner",
    "autotuner.finite_search": "autotuner", "autotuner.local_cache": "autotuner",
    "autotuner.pattern_search": "autotuner", "autotuner.random_search": "autotuner", "exc": "exc",
    "experimental": "experimental", "language": "language",
    "runtime": "runtime", "runtime.config": "config", "runtime.kernel": "kernel", "runtime.ref_mode": "settings",
    "runtime.settings": "settings",
}  # fmt: skip


def install() -> None:
    """Make ``helion`` and its documented submodules this package's in this process, from now on."""
    package = __package__
    for theirs, ours in _SUBMODULES.items():
        module = importlib.import_module(f"{package}.{ours}" if ours else package)
        sys.modules[f"helion.{theirs}".rstrip(".")] = module
