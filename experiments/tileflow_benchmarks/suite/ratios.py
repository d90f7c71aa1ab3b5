"""The arithmetic of the report: speed ratios, averaged over shapes, then over kernels.

A wrong or failed cell of ours enters as 1.0x of eager's own time. A peer's failed cell is left out of its means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileflow.ir.types import itemsize

from .results import EAGER, OURS, CellResult

# The kernels of the chart that Helion was announced with (PyTorch blog, October 2025).
LAUNCH_POST = (
    "cross_entropy",
    "matmul",
    "int4_matmul",
    "jsd",
    "kl_div",
    "layer_norm",
    "layer_norm_bwd",
    "rms_norm",
    "rms_norm_bwd",
    "softmax",
    "welford",
)


@dataclass(frozen=True, slots=True)
class Mean:
    """An average of ratios.

    ``ratio``: the geometric mean over ``kernels`` kernels. ``least``: the smallest of a kernel, with that kernel's
    name.
    """

    ratio: float
    kernels: int
    least: float
    least_name: str


def our_us(result: CellResult) -> float | None:
    """Return our time, or eager's where ours is wrong or failed; None where there is neither."""
    return result.us(OURS) or result.us(EAGER)


def over(result: CellResult, peer: str) -> float | None:
    """Return how many times as fast as ``peer`` ours is; None without both times."""
    theirs, ours = result.us(peer), our_us(result)
    return theirs / ours if theirs and ours else None


def by_kernel(results: Sequence[CellResult], peer: str) -> dict[str, float]:
    """Return kernel -> geometric mean of :func:`over` over its shapes."""
    found: dict[str, list[float]] = {}
    for result in results:
        ratio = over(result, peer)
        if ratio is not None:
            found.setdefault(result.cell.name, []).append(ratio)
    return {name: geomean(ratios) for name, ratios in found.items()}


def mean(results: Sequence[CellResult], peer: str) -> Mean | None:
    """Return the mean over kernels; None where no cell has both."""
    kernels = by_kernel(results, peer)
    if not kernels:
        return None
    least = min(kernels, key=lambda name: kernels[name])
    return Mean(geomean(list(kernels.values())), len(kernels), kernels[least], least)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def groups(results: Sequence[CellResult]) -> Mapping[str, list[CellResult]]:
    """Return the subsets that have means of their own."""
    return {
        "whole suite": list(results),
        "bound by memory": [r for r in results if r.cell.bound == "memory"],
        "bound by the matrix units": [r for r in results if r.cell.bound == "matrix"],
        "the launch post's eleven": [r for r in results if r.cell.name in LAUNCH_POST],
    }


def roofline_us(result: CellResult) -> float | None:
    """Return the roofline's time by the copy bandwidth and the bf16 product of the same run on the same device.

    8-bit operands count at twice the rate. Returns None where these were not measured.
    """
    if result.ceilings is None or not result.bytes:
        return None
    rate = result.ceilings.matmul_tflops * (2 if itemsize(result.flop_dtype) == 1 else 1)
    memory = result.bytes / result.ceilings.copy_gbps / 1e3
    compute = result.flops / rate / 1e6 if result.cell.bound == "matrix" else 0.0
    return max(memory, compute)


def share(result: CellResult, name: str) -> float | None:
    """Return the share of the roofline that a contender reaches."""
    bound, us = roofline_us(result), result.us(name)
    return bound / us if bound and us else None
