"""The host's cost of a warm call: ``python -m tileflow_benchmarks.suite.dispatch``.

On a GPU it is measured whole, beside ``torch.add``. Without one only Python's share is: tensors are the CPU's, the
binary is compiled for an H200, and a stand-in replaces the driver. Times are microseconds, the least of many short
runs, which other processes hardly affect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.runtime.launch import cuda_launcher
from tileflow.target import target

KERNEL = "examples.vector_add:vector_add"
RUNS, CALLS = 1000, 128

Pair = tuple[torch.Tensor, torch.Tensor]


def dispatch_us(shapes: int = 1) -> dict[str, float]:
    """Time a warm call of a small two-input kernel beside ``torch.add``, over ``shapes`` shapes in turn."""
    add = load_kernel(KERNEL)
    pairs = _pairs(shapes, "cuda")
    return {"tileflow": _least_us(add, pairs), "torch.add": _least_us(torch.add, pairs)}


def python_us(shapes: int = 1) -> dict[str, float]:
    """Time the same on the CPU with a stand-in for the driver; and the host code's own ``torch.empty_like``."""
    add = load_kernel(KERNEL)
    pairs = _pairs(shapes, "cpu")
    for pair in pairs:
        _bind_stand_in(add, pair)
    calls: dict[str, Callable[..., Any]] = {
        "tileflow": add,
        "torch.empty_like": lambda x, y: torch.empty_like(x),
        "torch.add": torch.add,
    }
    return {name: _least_us(function, pairs) for name, function in calls.items()}


def _pairs(shapes: int, device: str) -> list[Pair]:
    sizes = [1024 + 16 * n for n in range(shapes)]
    return [(torch.randn(n, device=device), torch.randn(n, device=device)) for n in sizes]


def _least_us(function: Callable[..., Any], pairs: list[Pair]) -> float:
    for x, y in pairs:
        function(x, y)
    runs = []
    for _ in range(RUNS):
        if pairs[0][0].is_cuda:
            torch.cuda.synchronize()
        turns = cycle(pairs)
        start = time.perf_counter()
        for (x, y), _ in zip(turns, range(CALLS), strict=False):
            function(x, y)
        runs.append((time.perf_counter() - start) / CALLS * 1e6)
    return min(runs)


def _bind_stand_in(kernel: Kernel, args: Pair) -> None:
    lowered = kernel.lower(args, target("nvidia-h200"))
    binaries = [build(source, lowered.target) for source in lowered.emit(lowered.default)]
    launchers = {b.region: [cuda_launcher(b, "cpu", kernel.scope, driver=_Driver, stream=int)] for b in binaries}
    kernel.serve(args, kernel.bind(lowered.default, launchers))


_OK = (0,)


class _Driver:
    """The part of ``cuda.bindings.driver`` that a launcher of a small kernel uses."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_INVALID_VALUE=1, CUDA_ERROR_INVALID_CONTEXT=201)
    CUfunction_attribute = CUlaunchAttributeID = SimpleNamespace()
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUstream = int

    @staticmethod
    def cuLaunchKernel(*args: Any) -> tuple[int]:
        return _OK

    cuInit = cuCtxPushCurrent = cuCtxPopCurrent = staticmethod(lambda *args: _OK)
    cuDeviceGet = cuDevicePrimaryCtxRetain = cuModuleLoadData = cuModuleGetFunction = staticmethod(lambda *args: (0, 0))
    cuThreadExchangeStreamCaptureMode = staticmethod(lambda mode: (0, mode))


def main() -> int:
    """Print the times for one shape and for many. Returns the exit code."""
    measure = dispatch_us if torch.cuda.is_available() else python_us
    for shapes in (1, 64):
        times = measure(shapes)
        print(f"{shapes} shapes in turn: " + ", ".join(f"{name} {us:.2f} us" for name, us in times.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
