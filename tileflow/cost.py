"""A modelled time of one call, for targets that are not at hand and for pruning before any is measured.

Roofline (Williams, Waterman and Patterson, 2009) with four corrections that a binary's static facts give: spilled
registers move bytes, few active warps hide little latency, a last wave that is not full leaves SMs idle, and each
launch costs its overhead. It ranks configs; it does not predict microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .build.resources import MATRIX_CLASSES, occupancy
from .ir.traffic import Traffic
from .measure.types import Measurement, Outcome, Status
from .runtime.abi import Resources
from .target import Target

_LAUNCH_US = 3.0  # device-side cost of one kernel in a graph replay, order of magnitude
_BANDWIDTH_FRACTION = 0.9  # of the datasheet's, that a good copy reaches
_MATRIX_FRACTION = 0.75
_ENOUGH_WARPS = 0.25  # of an SM's warps: from here on more of them hide no more latency
_ENOUGH_WARPS_ASYNC = 0.0625  # where a warp does not wait for its loads and products
_SPILL_USES = 2  # a spilled value is stored once and loaded once
# What products that a warp waits for may reach of the peak where there are asynchronous ones. Chosen to be safe, not
# measured: `python -m tileflow_benchmarks.search_replay replay` counts the configs that beat their bound.
_WARP_MMA_FRACTION = 0.7
_PACKED_RATE = 2  # products without a matrix unit, two halves an instruction at the most


@dataclass(frozen=True, slots=True)
class Launch:
    """One region's launch: its binary's static facts, and how many blocks run it (a program may be several)."""

    resources: Resources
    programs: int


@dataclass(frozen=True, slots=True)
class Modelled:
    """Microseconds: ``memory_us`` and ``compute_us`` overlap, ``overhead_us`` does not. ``roofline_us`` is the time
    of the same traffic on this target with nothing lost."""

    memory_us: float
    compute_us: float
    overhead_us: float
    roofline_us: float

    @property
    def total_us(self) -> float:
        """Microseconds of the call: the larger of memory and compute, plus the overhead."""
        return max(self.memory_us, self.compute_us) + self.overhead_us


def model(traffic: Traffic, launches: Sequence[Launch], target: Target) -> Outcome:
    """The modelled outcome of one call; ``invalid_static`` where it launches nothing, which has no time, and where not
    one block of a launch fits an SM."""
    if not launches:
        return Outcome(Status.INVALID_STATIC, error_digest="the call launches nothing", measured=False)
    for launch in launches:
        if occupancy(launch.resources, target) == 0:
            facts = launch.resources
            return Outcome(
                Status.INVALID_STATIC,
                error_digest=f"no block fits: {facts.threads} threads of {facts.registers} registers, "
                f"{facts.shared} bytes of shared memory",
                measured=False,
            )
    time_us = estimate(traffic, launches, target).total_us
    return Outcome(Status.OK, Measurement((time_us,), time_us, time_us, time_us, 0.0), measured=False)


def estimate(traffic: Traffic, launches: Sequence[Launch], target: Target) -> Modelled:
    """The parts of the modelled time. The call's traffic is shared out evenly over its launches, which run in turn."""
    share = 1 / max(len(launches), 1)
    memory = compute = 0.0
    for launch in launches:
        efficiency = _efficiency(launch, target)
        spilled = launch.resources.spills * launch.resources.threads * launch.programs * _SPILL_USES
        memory += memory_us(traffic.bytes * share + spilled, target) / (_BANDWIDTH_FRACTION * efficiency)
        compute += compute_us(traffic, target, matrix=uses_matrix_unit(launch.resources)) * share / efficiency
    return Modelled(memory, compute, _LAUNCH_US * len(launches), roofline_us(traffic, target))


def roofline_us(traffic: Traffic, target: Target) -> float:
    """The least time of ``traffic`` on ``target`` by its datasheet."""
    return max(memory_us(traffic.bytes, target), traffic.flops / (target.tflops(traffic.flop_dtype) * 1e6))


@dataclass(frozen=True, slots=True)
class StaticFacts:
    """What is known of a built config before it runs. ``values``: numbers by name, for a model to learn from.

    ``least_us``: no time below it is possible on this target, with the matrix instructions that the binary has and the
    SMs that its grid fills. ``spilled``: bytes that spilled registers move over the bytes that the call must.
    ``fits``: a block of every launch fits an SM.
    """

    values: tuple[tuple[str, float], ...]
    least_us: float
    spilled: float
    fits: bool


def static_facts(traffic: Traffic, launches: Sequence[Launch], target: Target) -> StaticFacts:
    """The facts of a call's binaries; sums and extremes over its launches."""
    found = [launch.resources for launch in launches]
    values = {
        "registers": max((r.registers for r in found), default=0),
        "spills": max((r.spills for r in found), default=0),
        "shared": max((r.shared for r in found), default=0),
        "threads": max((r.threads for r in found), default=0),
        "programs": sum(launch.programs for launch in launches),
        "occupancy": min((occupancy(r, target) for r in found), default=0.0),
    }
    for name, count in (pair for r in found for pair in r.instructions):
        values[f"mix.{name}"] = values.get(f"mix.{name}", 0) + count
    fits = bool(found) and values["occupancy"] > 0
    if fits:
        values["modelled_us"] = estimate(traffic, launches, target).total_us
    moved = sum(r.spills * r.threads * launch.programs for r, launch in zip(found, launches, strict=True)) * _SPILL_USES
    return StaticFacts(
        tuple(sorted((name, float(value)) for name, value in values.items())),
        max(memory_us(traffic.bytes, target), _least_compute_us(traffic, launches, target)),
        moved / max(traffic.bytes, 1),
        fits,
    )


def _least_compute_us(traffic: Traffic, launches: Sequence[Launch], target: Target) -> float:
    """Microseconds of the arithmetic on the best unit that any launch uses; 0 where its type or the grid is not
    known."""
    programs = max((launch.programs for launch in launches), default=0)
    if not (traffic.flop_dtype and programs):
        return 0.0
    kinds = {name for launch in launches for name, count in launch.resources.instructions if count} & MATRIX_CLASSES
    rate = target.tflops(traffic.flop_dtype)
    if not kinds:
        rate = min(rate, _PACKED_RATE * target.tflops("float32"))
    elif kinds == {"mma"} and target.has_warp_groups:
        rate *= _WARP_MMA_FRACTION
    return traffic.flops / (rate * 1e6) / min(programs / target.sm_count, 1.0)


def memory_us(size: float, target: Target) -> float:
    """Microseconds to move ``size`` bytes at the datasheet's bandwidth."""
    return size / (target.dram_gbps * 1e3)


def compute_us(traffic: Traffic, target: Target, *, matrix: bool) -> float:
    """Microseconds of the operations, on the matrix unit or else on the plain float32 one."""
    rate = target.tflops(traffic.flop_dtype) * _MATRIX_FRACTION if matrix else target.tflops("float32")
    return traffic.flops / (rate * 1e6)


def uses_matrix_unit(resources: Resources) -> bool:
    """Whether the binary has matrix instructions at all."""
    return any(name in MATRIX_CLASSES and count for name, count in resources.instructions)


def _efficiency(launch: Launch, target: Target) -> float:
    """The share of the device's throughput that a launch reaches: SMs with work, averaged over the waves, times the
    latency hidden."""
    active = occupancy(launch.resources, target)
    blocks_per_sm = max(round(active * target.max_threads_per_sm / launch.resources.threads), 1)
    programs, slots = max(launch.programs, 1), blocks_per_sm * target.sm_count
    if programs > slots:
        busy, resident = programs / (math.ceil(programs / slots) * slots), active
    else:
        busy = min(programs / target.sm_count, 1.0)
        resident = active * math.ceil(programs / target.sm_count) / blocks_per_sm
    enough = _ENOUGH_WARPS_ASYNC if _asynchronous(launch.resources) else _ENOUGH_WARPS
    return busy * min(resident / enough, 1.0)


def _asynchronous(resources: Resources) -> bool:
    """Whether a warp has loads or products in flight that it does not wait for."""
    return any(name in ("async_copy", "wgmma", "tcgen05") and count for name, count in resources.instructions)
