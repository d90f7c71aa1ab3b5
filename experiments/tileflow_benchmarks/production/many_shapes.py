"""New shapes: the cost of the first call of each, and the memory that ten thousand of them keep."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.runtime.binaries import MODULES

from .rounds import interval, ratio
from .warm_calls import ADD

MOST_NEW_SHAPE_US, MOST_BYTES, MOST_REVISIT = 200.0, 50_000_000, 2.0
FIRST = 5_001  # the smallest new size
PASSES = 5

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes in use: the process's resident set, and the device memory that torch's allocator has not reserved."""

    host: int
    device: int

    def minus(self, other: Memory) -> dict[str, int]:
        """Return the difference to ``other``, in bytes."""
        return {"host": self.host - other.host, "device": self.device - other.device}


def memory(device: str) -> Memory:
    """Return the memory in use now, after garbage collection."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    host = pages * os.sysconf("SC_PAGE_SIZE")
    if device == "cpu":
        return Memory(host, 0)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return Memory(host, total - free - torch.cuda.memory_reserved())


def measure(bundle: Path, device: str, timed: int, kept: int) -> dict[str, Any]:
    """Measure ``timed`` new shapes one by one, then ``kept`` more, their second calls, and unloading the bundle."""
    add = load_kernel(ADD)
    large = [torch.randn(FIRST + timed + kept, device=device) for _ in range(2)]
    for size in (FIRST - 1, FIRST - 2, 4992, 64):  # load every variant's machine code first
        add(*_views(large, [size])[0])
    first_us = _first_calls(add, _views(large, range(FIRST, FIRST + timed)), device)
    pairs = _views(large, range(FIRST + timed, FIRST + timed + kept))
    modules, before = len(MODULES), memory(device)
    for pair in pairs:
        add(*pair)
    after, added = memory(device), len(MODULES) - modules
    again, warm = _revisits(add, pairs, device)
    steps = runtime.stats()
    runtime.unload(bundle)
    return {
        "new_shape_us": {
            "median": statistics.median(first_us),
            "mean": statistics.fmean(first_us),
            "p99": sorted(first_us)[int(len(first_us) * 0.99)],
            "most": max(first_us),
            "shapes": timed,
        },
        "kept": {"shapes": kept, "bytes": after.minus(before), "modules": added},
        "kept_after_unload": {"bytes": memory(device).minus(before), "modules": len(MODULES)},
        "revisit_us": interval(again).median,
        "warm_us": interval(warm).median,
        "revisit_of_warm": ratio(again, warm).median,
        "steps": steps,
    }


def _views(large: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[Pair]:
    """Return the beginnings of two tensors: new shapes that take no memory of the device."""
    x, y = large
    return [(x[:size], y[:size]) for size in sizes]


def _first_calls(add: Any, pairs: Sequence[Pair], device: str) -> list[float]:
    found = []
    for number, (x, y) in enumerate(pairs):
        if device == "cuda" and number % 500 == 0:
            torch.cuda.synchronize()
        started = time.perf_counter_ns()
        add(x, y)
        found.append((time.perf_counter_ns() - started) / 1e3)
    return found


def _revisits(add: Any, pairs: Sequence[Pair], device: str) -> tuple[list[float], list[float]]:
    """Return the microseconds of calls over all shapes in turn, and of as many of one shape, pass by pass."""
    again: list[float] = []
    warm: list[float] = []
    for _ in range(PASSES):
        for times, those in ((again, pairs), (warm, [pairs[0]] * len(pairs))):
            if device == "cuda":
                torch.cuda.synchronize()
            started = time.perf_counter_ns()
            for x, y in those:
                add(x, y)
            times.append((time.perf_counter_ns() - started) / len(those) / 1e3)
    return again, warm
