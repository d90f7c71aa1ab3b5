"""Measuring: contenders of one cell, checked, then sampled in turn so that drift hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.timing import DeviceSampler, summarise
from tileflow.runtime.describe import device_class
from tileflow.target import target

from .peers import PEERS, eager
from .suite import Cell

ROUNDS = 10
SAMPLES = 10
WARM_CALLS = 200


@dataclass(frozen=True, slots=True)
class Timing:
    """``median_us``, ``ci95_us``: device time of a call with a cold L2. ``host_us``: host time of a warm call.

    ``error``: why there is no time. ``max_err``: over the tolerance (at most 1 passes).
    """

    median_us: float | None = None
    ci95_us: float | None = None
    host_us: float | None = None
    max_err: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """One cell: its traffic, and the timing of each contender."""

    cell: Cell
    bytes: int
    flops: int
    flop_dtype: str
    timings: Mapping[str, Timing]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What this card reaches in this run: bytes copied (read + written), and a bf16 product of 8192 cubed."""

    copy_gbps: float
    matmul_tflops: float


def ceilings() -> Ceilings:
    source = torch.randn(1 << 28, device="cuda")
    # an elementwise kernel: in a captured graph a plain copy would go to the slower copy engine
    copy = DeviceSampler(lambda x, y: torch.mul(x, 1.0, out=y), (source, torch.empty_like(source)))
    copied_us = statistics.median(copy(30))
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_us = statistics.median(DeviceSampler(torch.matmul, (a, b))(30))
    return Ceilings(2 * 4 * (1 << 28) / copied_us / 1e3, 2 * 8192**3 / product_us / 1e6)


def run_cell(cell: Cell, compile_peer: bool) -> Result:
    """Check and time every contender of one cell; one that cannot even be set up is ours to have failed."""
    try:
        return _run_cell(cell, compile_peer)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        return Result(cell, 0, 0, "float32", {"tileflow": Timing(error=why)})


def _run_cell(cell: Cell, compile_peer: bool) -> Result:
    kernel = load_kernel(cell.kernel)
    problem: dict[str, Any] = dict(cell.problem)
    args = kernel.inputs(device="cuda", **problem)
    lowered = kernel.lower(args, target(device_class("cuda")))
    timings: dict[str, Timing] = {}
    samplers: dict[str, DeviceSampler] = {}
    reference = make_reference(kernel.reference, args)
    for name, make in _contenders(kernel, lowered, args, compile_peer).items():
        try:
            call = make()
            verdict = check_call(call, args, reference)
            # autograd's own random state does not survive the capture of a backward pass that fails
            samplers[name] = DeviceSampler(call, args, capture=name != "eager" or kernel.name not in PEERS)
            host = _host_us(call, args)
        except Exception as error:  # a contender that fails is a cell of the report, not the end of the run
            timings[name] = Timing(error=f"{type(error).__name__}: {error}".splitlines()[0])
            samplers.pop(name, None)
            continue
        wrong = "" if verdict.ok else f"{verdict.status}: {verdict.reason}"
        timings[name] = Timing(host_us=host, max_err=verdict.max_err, error=wrong)
    for name, samples in _interleaved(samplers).items():
        found, known = summarise(samples), timings[name]
        timings[name] = Timing(found.median_us, found.ci95_us, known.host_us, known.max_err, known.error)
    traffic = lowered.traffic
    return Result(cell, traffic.bytes, traffic.flops, traffic.flop_dtype, timings)


def _contenders(
    kernel: Kernel, lowered: Lowered, args: tuple[Any, ...], compile_peer: bool
) -> dict[str, Callable[[], Callable[..., Any]]]:
    """What makes each. ``tileflow``: the kernel as a user calls it; ``default``: its zero-search config."""
    found: dict[str, Callable[[], Callable[..., Any]]] = {
        "tileflow": lambda: kernel,
        "default": lambda: kernel.compile(lowered, lowered.default, "cuda"),
        "eager": lambda: eager(kernel.name, kernel.reference, args),
    }
    if compile_peer and kernel.name not in PEERS:
        found["torch.compile"] = lambda: _compiled(kernel.reference)
    return found


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch.compiler.reset()
    compiled: Callable[..., Any] = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    return compiled


def _interleaved(samplers: Mapping[str, DeviceSampler]) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(ROUNDS):
        for name, sampler in samplers.items():
            samples[name] += sampler(SAMPLES)
    return samples


def _host_us(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Host time of a warm call: the median of five runs of many calls, the queue emptied in between."""
    runs = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(WARM_CALLS // 5):
            call(*args)
        runs.append((time.perf_counter() - start) / (WARM_CALLS // 5))
    torch.cuda.synchronize()
    return statistics.median(runs) * 1e6


def dispatch_us(shapes: int = 1, calls: int = 20_000) -> dict[str, float]:
    """Host time of a warm call of a small two-input kernel beside ``torch.add``, over ``shapes`` alternating shapes."""
    add = load_kernel("examples.vector_add:vector_add")
    pairs = [
        (torch.randn(1024 + 16 * n, device="cuda"), torch.randn(1024 + 16 * n, device="cuda")) for n in range(shapes)
    ]
    found = {}
    for name, function in (("tileflow", add), ("torch.add", torch.add)):
        for x, y in pairs:
            function(x, y)
        runs = []
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for n in range(calls // 5):
                function(*pairs[n % shapes])
            runs.append((time.perf_counter() - start) / (calls // 5) * 1e6)
        found[name] = statistics.median(runs)
    return found
