"""Helion's dialect: what its kernels read besides their arguments takes effect when it changes: more of ``CASES``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
from tile_testing.kernels.changing_kernels import CASES, case, run
from tile_testing.kernels.outside_kernels import Step, X

__all__ = ["CASES", "run"]

FACTOR, IS_SCALED = 2.0, True


def scaled(tile: torch.Tensor) -> torch.Tensor:
    return tile * FACTOR


def shifted(tile: torch.Tensor) -> torch.Tensor:
    return tile + FACTOR


helper: Callable[[torch.Tensor], torch.Tensor] = scaled


def by_globals(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = helper(x[tile]) if IS_SCALED else x[tile]
    return out


def applied(x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = function(x[tile])
    return out


CONFIG = helion.Config(block_sizes=[4])
KERNELS = {"a_config": helion.kernel(by_globals, config=CONFIG), "the_default": helion.kernel(by_globals)}


def _changing(call: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[Step]:
    global FACTOR, IS_SCALED, helper
    FACTOR, IS_SCALED, helper = 2.0, True, scaled
    yield call(X), X * 2
    FACTOR = 3.0
    yield call(X), X * 3
    helper = shifted
    yield call(X), X + 3
    IS_SCALED = False
    yield call(X), X
    FACTOR, IS_SCALED, helper = 2.0, True, scaled
    yield call(X), X * 2


def _of_calls(kernel: helion.Kernel) -> Callable[[], Iterator[Step]]:
    return lambda: _changing(kernel)


def _of_bound(kernel: helion.Kernel) -> Callable[[], Iterator[Step]]:
    return lambda: _changing(kernel.bind((X,)))


# with a config, the first call's globals and helpers were kept
CASES |= {f"the_dialect_under_{name}": _of_calls(kernel) for name, kernel in KERNELS.items()}
CASES |= {f"the_dialect_bound_under_{name}": _of_bound(kernel) for name, kernel in KERNELS.items()}


@case
def the_dialect_and_a_passed_function() -> Iterator[Step]:
    """What it reads counts as well."""
    global FACTOR
    kernel = helion.kernel(applied, config=CONFIG)
    for number in (2.0, 3.0):
        FACTOR = number
        yield kernel(X, scaled), X * number
        yield kernel.bind((X, shifted))(X, shifted), X + number
