"""Measuring: contenders of one cell, checked, then sampled in turn so that drift affects all of them alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.lowered import Lowered
from tileflow.measure.check import reference_of
from tileflow.measure.inputs import clone, map_tensors
from tileflow.measure.timing import DeviceSampler, Sampler, summarise
from tileflow.runtime.describe import device_class
from tileflow.runtime.table_lookup import lookup
from tileflow.target import target

from .cells import Cell
from .eager import compiled, eager
from .opponent import Opponent, Peer
from .results import DEFAULT, EAGER, OURS, Ceilings, CellResult, Timing
from .verdicts import check_result

ROUNDS = 20
SAMPLES = 5
WARM_CALLS = 200
COMPILE = "torch.compile"

Tell = Callable[[str], None]


class DeviceLost(Exception):
    """The device no longer answers in this process: whoever runs cells must end it."""


@dataclass(frozen=True, slots=True)
class Bench:
    """How cells are measured. ``compile_s``: the longest that torch.compile may take per cell; 0 leaves it out.

    ``is_dry``: on the CPU, at small sizes, by wall clock: a dry run whose times mean nothing.
    """

    peers: Sequence[Peer] = ()
    compile_s: float = 120.0
    ceilings: Ceilings | None = None
    is_dry: bool = False

    @property
    def device(self) -> str:
        """The device that arguments are on."""
        return "cpu" if self.is_dry else "cuda"

    def sampler(self, opponent: Opponent, args: tuple[Any, ...]) -> Sampler:
        """Return what samples the call's time in us: on the device, or by wall clock in a dry run."""
        if self.is_dry:
            copies = map_tensors(clone, args)
            return lambda count: [_wall_us(opponent.call, copies, 1) for _ in range(count)]
        return DeviceSampler(opponent.call, args, capture=opponent.capture)

    def synchronize(self) -> None:
        """Wait for the device."""
        if not self.is_dry:
            torch.cuda.synchronize()


def ceilings() -> Ceilings:
    """Measure what the card reaches: an elementwise copy of 1 GiB, and a bf16 product of 8192 cubed."""
    source = torch.randn(1 << 28, device="cuda")
    # an elementwise kernel: in a captured graph a plain copy would go to the slower copy engine
    copy = DeviceSampler(lambda x, y: torch.mul(x, 1.0, out=y), (source, torch.empty_like(source)))
    copied_us = statistics.median(copy(30))
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_us = statistics.median(DeviceSampler(torch.matmul, (a, b))(30))
    return Ceilings(2 * 4 * (1 << 28) / copied_us / 1e3, 2 * 8192**3 / product_us / 1e6)


def run_cell(cell: Cell, bench: Bench, tell: Tell, skip: Mapping[str, str]) -> CellResult:
    """Check and time every contender of one cell. A failure of the set-up counts as ours.

    ``tell`` is called with the name of each contender before it is touched, and with ``timing`` at last. ``skip``:
    contenders that are left out -> why. Raises DeviceLost.
    """
    try:
        return _run_cell(cell, bench, tell, skip)
    except DeviceLost:
        raise
    except Exception as error:
        return CellResult(cell, {OURS: Timing(error=_line(error))}, ceilings=bench.ceilings)
    finally:
        gc.collect()
        if not bench.is_dry:
            torch.cuda.empty_cache()


def _run_cell(cell: Cell, bench: Bench, tell: Tell, skip: Mapping[str, str]) -> CellResult:
    tell("inputs")
    kernel = load_kernel(cell.kernel)
    problem: dict[str, Any] = dict(cell.problem)
    if bench.is_dry:
        problem = kernel.small(problem) | {
            name: 64 for name in ("d", "k") if name in problem
        }  # halves of them are taken
    args = kernel.inputs(device=bench.device, **problem)
    lowered = kernel.lower(args, target("nvidia-h200" if bench.is_dry else device_class("cuda")))
    reference = reference_of(kernel, args)
    timings: dict[str, Timing] = {}
    samplers: dict[str, Sampler] = {}
    for name, make in _contenders(cell, kernel, lowered, args, bench).items():
        if name in skip:
            timings[name] = Timing(error=skip[name])
            continue
        tell(name)
        began = time.perf_counter()
        try:
            opponent = make()
            if opponent is None:
                continue
            own = args if opponent.args is None else opponent.args
            result = opponent.call(*map_tensors(clone, own))
            bench.synchronize()
            setup_s = time.perf_counter() - began
            del result
            wrong, note, max_err = check_result(name, opponent, own, reference)
            timing = Timing(
                max_err=max_err, setup_s=setup_s, error=wrong, note="; ".join(filter(None, (opponent.note, note)))
            )
            if not wrong or name in (OURS, DEFAULT):
                samplers[name] = bench.sampler(opponent, own)
                timing = replace(timing, host_us=_host_us(opponent.call, own, bench))
            timings[name] = timing
        except Exception as error:  # a contender that fails is a cell of the report, not the end of the run
            _check_device(bench, error)
            timings[name] = Timing(error=_line(error))
            samplers.pop(name, None)
    tell("timing")
    for name, samples in interleaved(samplers, 1 if bench.is_dry else ROUNDS).items():
        found = summarise(samples)
        timings[name] = replace(timings[name], median_us=found.median_us, ci95_us=found.ci95_us)
    traffic = lowered.traffic
    where = "cpu" if bench.is_dry else torch.cuda.get_device_name()
    return CellResult(cell, timings, traffic.bytes, traffic.flops, traffic.flop_dtype, bench.ceilings, where)


def _contenders(
    cell: Cell, kernel: Kernel, lowered: Lowered, args: tuple[Any, ...], bench: Bench
) -> dict[str, Callable[[], Opponent | None]]:
    """Return what makes each contender, the most reliable first.

    ``tileflow``: as a user calls it; ``default``: its default config.
    """
    found: dict[str, Callable[[], Opponent | None]] = {
        OURS: lambda: Opponent(kernel, note=_row(kernel, lowered, bench)),
        DEFAULT: lambda: Opponent(kernel.compile(lowered, lowered.default, bench.device)),
        EAGER: lambda: eager(kernel, args),
    }
    for peer in bench.peers:
        found[peer.name] = lambda peer=peer: peer.make(cell, args)  # type: ignore[misc]
    if bench.compile_s:
        found[COMPILE] = lambda: compiled(kernel, map_tensors(clone, args), bench.compile_s)
    return found


def _row(kernel: Kernel, lowered: Lowered, bench: Bench) -> str:
    """Return what a call of ours dispatches to, where it is not a row tuned for this very problem."""
    live = None if bench.is_dry else device_class("cuda")
    hit = lookup(kernel.name, kernel.semantic_hash, lowered.problem, live)
    if hit is None or hit.default_is_better:
        return "no tuned row: the default"
    return "" if hit.exact else f"another problem's row: {hit.reason}"


def interleaved(samplers: Mapping[str, Sampler], rounds: int) -> dict[str, list[float]]:
    """Return samples of each, in every round in another order.

    A card near its power limit slows down whoever follows a heavy neighbour.
    """
    order, chance = list(samplers), random.Random(0)
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            samples[name] += samplers[name](SAMPLES)
    return samples


def _host_us(call: Callable[..., Any], args: tuple[Any, ...], bench: Bench) -> float:
    """Return the host time of a warm call: the median of five runs of many calls, the queue emptied in between.

    It calls on copies, since a call may change its arguments.
    """
    args = map_tensors(clone, args)
    runs = []
    for _ in range(1 if bench.is_dry else 5):
        bench.synchronize()
        runs.append(_wall_us(call, args, 1 if bench.is_dry else WARM_CALLS // 5))
    bench.synchronize()
    return statistics.median(runs)


def _wall_us(call: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call(*args)
    return (time.perf_counter() - start) / calls * 1e6


def _check_device(bench: Bench, error: Exception) -> None:
    try:
        bench.synchronize()
    except RuntimeError as lost:
        raise DeviceLost(str(lost)) from error


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]
