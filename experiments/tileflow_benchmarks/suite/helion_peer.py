"""Helion as a peer: how it is imported, its search, and its kernels with the configs that the search found."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Literal

from tileflow.api import load_kernel

from .cells import Cell
from .opponent import Opponent, Peer
from .results import Tuned

Effort = Literal["quick", "full"]
# By its default of 60 s a generation waits that long for one config of very large blocks, which is most of a budget.
COMPILE_LIMIT_S = 20
LEAST_TRIED = 10  # configs; a search that ended earlier counts as without a result


def available() -> bool:
    """Whether Helion is installed."""
    return importlib.util.find_spec("helion") is not None


def prepare() -> None:
    """Make ``import helion`` possible: its logger takes a name from torch's Inductor that torch 2.11 does not have.

    Processes that Helion spawns must run this too: they import the main module of their parent, which calls it.
    """
    compat = importlib.import_module("torch._inductor.runtime.triton_compat")
    if not hasattr(compat, "IntelGPUError"):
        setattr(compat, "IntelGPUError", type("IntelGPUError", (RuntimeError,), {}))  # noqa: B010


def peer(configs: Mapping[str, Tuned]) -> Peer:
    """Return Helion as a peer. ``configs``: by a cell's title.

    A cell that was not tuned has no opponent: a default is not Helion's best.
    """
    prepare()
    from . import helion_kernels

    def make(cell: Cell, args: Sequence[Any]) -> Opponent | None:
        import helion

        tuned = configs.get(cell.title)
        if tuned is None:
            return None
        if tuned.config is None:
            raise RuntimeError(f"its search found no config in {tuned.seconds:.0f} s: {tuned.error}")
        if tuned.tried < LEAST_TRIED:
            raise RuntimeError(f"its search timed {tuned.tried} configs in {tuned.seconds:.0f} s: not its best")
        call = helion_kernels.kernels(config=helion.Config(**tuned.config))[cell.kernel]
        return Opponent(call, note=f"{tuned.tried} configs in {tuned.seconds:.0f} s")

    return Peer("helion", make, metadata.version("helion"))


def tune(cell: Cell, seconds: float, effort: Effort, cores: int, device: str = "cuda") -> Tuned | None:
    """Run Helion's own search for one cell within a budget, from an empty cache; None where it has no kernel for it.

    It uses Helion's defaults, except the budget, one compile job per core, and a limit of compiling one config
    (:data:`COMPILE_LIMIT_S`). Its full effort begins with 100 random configs, its quick one with its own default and 30
    at most.
    """
    prepare()
    os.environ["HELION_SKIP_CACHE"] = "1"
    from helion.autotuner.metrics import register_post_autotune_hook, remove_post_autotune_hook

    from . import helion_kernels

    settings = {
        "autotune_budget_seconds": int(seconds),
        "autotune_effort": effort,
        "autotune_precompile_jobs": cores,
        "autotune_compile_timeout": COMPILE_LIMIT_S,
        "autotune_progress_bar": False,
    }
    kernel = helion_kernels.kernels(**settings).get(cell.kernel)
    if kernel is None:
        return None
    found: list[Any] = []
    register_post_autotune_hook(found.append)
    began = time.perf_counter()
    config, error = None, ""
    try:
        problem: dict[str, Any] = dict(cell.problem)
        args = load_kernel(cell.kernel).inputs(device=device, **problem)
        config = dict(kernel.bind(args).autotune(args))  # type: ignore[attr-defined]
    except Exception as failure:  # a search that finds nothing is a result
        error = f"{type(failure).__name__}: {failure}".splitlines()[0]
    finally:
        remove_post_autotune_hook(found.append)
    tried = sum(metrics.num_configs_tested for metrics in found)
    return Tuned(config, time.perf_counter() - began, tried, error, effort)
