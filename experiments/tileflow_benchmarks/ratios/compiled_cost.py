"""The cost of a kernel inside torch.compile, and a transformer block with kernels in it.

    python -m tileflow_benchmarks.ratios.compiled_cost --out FILE.json [--only host,inference,training,graphs]
                                                                       [--modes default,reduce-overhead]  on a GPU
    python -m tileflow_benchmarks.ratios.compiled_cost --out FILE.json --dry-run                          without one

A kernel's host share is compared with Inductor's own user-defined Triton kernel, the block with torch's own
torch.compile. Values are checked before anything is timed. Contenders are timed in turns, in one process. The bound by
Amdahl is what a block would gain if the parts that kernels replace took no time, of a product and what follows it what
it takes beyond the plain product. Those parts are timed for it on the device alone, by replays of a graph, compiled by
torch and with kernels.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F

from tileflow import library
from tileflow.build.compile import build
from tileflow.measure.timing import DeviceSampler
from tileflow.target import target

from . import compiled_graphs, in_turns
from .compiled_block import DRY, EPS, Block, Parts, Sizes, inputs, ours, torchs

Tensor = torch.Tensor
SECTIONS = ("host", "inference", "training", "graphs")
MODES = ("default", "reduce-overhead")
_CHAIN = (1, 9)  # kernels in a row: the slope between the two is the cost of one more
_WARM_UP = 5


# ---- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledCostBench:
    """Where calls run and how large they are."""

    sizes: Sizes
    is_dry: bool
    asked_modes: tuple[str, ...] = MODES

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of torch.compile that are measured."""
        return MODES[:1] if self.is_dry else self.asked_modes

    @property
    def device(self) -> str:
        """The device that tensors are on."""
        return "cpu" if self.is_dry else "cuda"

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of a block: bfloat16, or float32 in a dry run."""
        return torch.float32 if self.is_dry else torch.bfloat16

    def compile(self, fn: Callable[..., Any], mode: str = "default") -> Callable[..., Any]:
        """Compile with torch.compile; in a dry run without Inductor."""
        if self.is_dry:  # Inductor builds C++ there, which takes a minute
            return torch.compile(fn, fullgraph=True, dynamic=False, backend="aot_eager")
        return torch.compile(fn, fullgraph=True, dynamic=False, mode=None if mode == "default" else mode)

    def synchronize(self) -> None:
        """Wait for the device."""
        if not self.is_dry:
            torch.cuda.synchronize()

    def in_turn_us(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """Return the median device time of each contender's call, in rounds in which each has its turn."""
        found: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            for _ in range(1 if self.is_dry else _WARM_UP):
                call()
        for _ in range(self.sizes.rounds):
            for name, call in calls.items():
                found[name].append(self._once_us(call))
        return {name: round(median(times), 2) for name, times in found.items()}

    def device_us(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """Return the median time of each contender's call on the device alone, in turns: replays of a captured graph,
        in front of which the second-level cache is emptied. What the host takes between launches counts nowhere."""
        if self.is_dry:
            return self.in_turn_us(calls)
        return in_turns.medians({name: DeviceSampler(call, ()) for name, call in calls.items()}, self.sizes.rounds)

    def _once_us(self, call: Callable[[], Any]) -> float:
        self.synchronize()
        if self.is_dry:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e6
        cuda: Any = torch.cuda  # its events are not annotated
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(4):
            call()
        end.record()
        self.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / 4

    def host_us(self, call: Callable[[], Any]) -> float:
        """Return the host's time for one call: the least of some runs of many, without waiting for the device within
        one."""
        for _ in range(_WARM_UP):
            call()
        runs = []
        for _ in range(5):
            self.synchronize()
            start = time.perf_counter()
            for _ in range(self.sizes.calls // 5):
                call()
            runs.append((time.perf_counter() - start) / max(1, self.sizes.calls // 5) * 1e6)
        return min(runs)


def check(got: Any, wanted: Any, is_dry: bool) -> None:
    """Check a result against torch's, within bfloat16's rounding. Raises AssertionError."""
    tolerance = 1e-4 if is_dry else 4e-2
    for one, other in zip(got, wanted, strict=True):
        scale = float(other.float().abs().max()) or 1.0
        torch.testing.assert_close(one.float() / scale, other.float() / scale, rtol=tolerance, atol=tolerance)


# ---- an operator's host cost --------------------------------------------------------------------------------------


def host(bench: CompiledCostBench) -> dict[str, Any]:
    """Return mode -> contender -> host microseconds of one more kernel in a graph."""
    from examples.rms_norm import rms_norm

    x = torch.randn(bench.sizes.rows, bench.sizes.columns, dtype=bench.dtype, device=bench.device)
    weight = torch.rand(bench.sizes.columns, dtype=bench.dtype, device=bench.device) + 0.5
    contenders: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"tileflow": lambda x, w: rms_norm(x, w, EPS)}
    if not bench.is_dry:
        from ..suite.triton_kernels import rms_norm as by_hand

        contenders["triton"] = lambda x, w: by_hand(x, w, EPS)
    hidden = mock.patch.object(library.Operators, "_place", return_value=None)
    found: dict[str, Any] = {}
    for mode in ("eager", *bench.modes):
        row = found[mode] = {name: _slope(bench, norm, mode, x, weight) for name, norm in contenders.items()}
        if mode != "eager":
            with hidden:
                row["tileflow, opaque"] = _slope(bench, contenders["tileflow"], mode, x, weight)
    return found


def _slope(
    bench: CompiledCostBench, norm: Callable[[Tensor, Tensor], Tensor], mode: str, x: Tensor, weight: Tensor
) -> float:
    wanted = torchs().norm
    costs = []
    for count in _CHAIN:

        def chain(x: Tensor, w: Tensor, count: int = count, norm: Any = norm) -> Tensor:
            for _ in range(count):
                x = norm(x, w)
            return x

        torch.compiler.reset()
        call = chain if mode == "eager" else bench.compile(chain, mode)
        with torch.no_grad():
            check([call(x, weight)], [chain(x, weight, norm=wanted)], bench.is_dry)
            costs.append(bench.host_us(lambda call=call: call(x, weight)))  # type: ignore[misc]
    return round((costs[1] - costs[0]) / (_CHAIN[1] - _CHAIN[0]), 2)


# ---- a block ------------------------------------------------------------------------------------------------------

_ELEMENTWISE = ("norm", "rope", "gate")
INFERENCE = (
    ("norm",),
    _ELEMENTWISE,
    ("norm", "rope", "gated product", "residual"),
    ("norm", "rope", "gated product", "attention", "residual"),
)
TRAINING = (("norm",), _ELEMENTWISE, (*_ELEMENTWISE, "attention"))


def block(bench: CompiledCostBench, is_training: bool) -> dict[str, Any]:
    """Return mode -> contender -> microseconds of a forward pass or of a training step; the ratios, the parts, and the
    bounds."""
    found: dict[str, Any] = {}
    modes = bench.modes[:1] if is_training else bench.modes
    for mode in modes:
        calls = _blocks(bench, is_training, mode)
        times = bench.in_turn_us(calls)
        found[mode] = {"us": times, "over torch": {n: round(times["torch"] / t, 3) for n, t in times.items()}}
    parts = _parts_us(bench, is_training)
    replaced = replaced_us(parts["torch"])
    whole = found[modes[0]]["us"]["torch"]
    found["parts on the device, us"] = parts
    found["replaced, us"] = replaced
    return found | bounds(whole, replaced)


def replaced_us(times: Mapping[str, float]) -> dict[str, float]:
    """Return what the replaced parts of one block take of torch's time: of a product and what follows it, what it takes
    beyond the plain product."""
    found = {"two norms": 2 * times["norm"], "rope": times["rope"], "attention": times["attention"]}
    if "gate" in times:
        found["gate"] = times["gate"]
    else:
        found["gate"] = times["gated product"] - times["two products"]
        found["two additions"] = sum(times[f"{name} and residual"] - times[name] for name in ("o", "down"))
    return {name: round(max(us, 0.0), 2) for name, us in found.items()}


def bounds(whole: float, replaced: Mapping[str, float]) -> dict[str, float]:
    """Return how many times faster a block of so many microseconds were if those parts took none."""

    def bound(parts: Mapping[str, float]) -> float:
        return round(whole / max(whole - sum(parts.values()), 1e-9), 3)

    others = {name: us for name, us in replaced.items() if name != "attention"}
    return {"bound by Amdahl": bound(replaced), "bound by Amdahl, attention apart": bound(others)}


def _blocks(bench: CompiledCostBench, is_training: bool, mode: str) -> dict[str, Callable[[], Any]]:
    """Return the compiled calls, each checked against a block of torch's that is not compiled."""
    x, cos, sin = inputs(bench.sizes, bench.dtype, bench.device)
    x.requires_grad_(is_training)
    torch.manual_seed(0)
    plain = Block(bench.sizes, torchs(), bench.dtype, bench.device)
    wanted = _step(plain, x, cos, sin, is_training)()
    words = TRAINING if is_training else INFERENCE
    contenders = {"torch": torchs()} | {f"tileflow: {', '.join(w)}": ours(w, is_training) for w in words}
    torch.compiler.reset()  # one function may be compiled only so often
    calls = {}
    for name, parts in contenders.items():
        made = Block(bench.sizes, parts, bench.dtype, bench.device)
        made.load_state_dict(plain.state_dict())
        calls[name] = _step(bench.compile(made, mode), x, cos, sin, is_training, [*made.parameters()])
        check(calls[name](), wanted, bench.is_dry)
    return calls


def _step(
    fn: Any, x: Tensor, cos: Tensor, sin: Tensor, is_training: bool, leaves: Sequence[Tensor] | None = None
) -> Callable[[], list[Tensor]]:
    """Return a forward pass, or the gradients of all parameters and of the input."""
    leaves = [x, *(leaves if leaves is not None else fn.parameters())]

    def step() -> list[Tensor]:
        if not is_training:
            with torch.no_grad():
                return [fn(x, cos, sin)]
        out = fn(x, cos, sin)
        return [*torch.autograd.grad(out, leaves, torch.ones_like(out))]

    return step


Call = tuple[Callable[..., Any], list[Tensor], list[Tensor]]  # what is called, leaves, and tensors without gradients


def _parts_us(bench: CompiledCostBench, is_training: bool) -> dict[str, dict[str, float]]:
    """Return contender -> part -> the time on the device of the replaced parts and of the plain products: torch's each
    compiled by itself, tileflow's as they are, since graphs are replayed."""
    words = TRAINING[-1] if is_training else INFERENCE[-1]
    compiled = _calls(bench, torchs(), is_training) | ({} if is_training else _plain_products(bench))
    torch.compiler.reset()
    steps = {
        ("torch", part): _part(bench.compile(fn), leaves, rest, is_training)
        for part, (fn, leaves, rest) in compiled.items()
    } | {
        ("tileflow", part): _part(fn, leaves, rest, is_training)
        for part, (fn, leaves, rest) in _calls(bench, ours(words, is_training), is_training).items()
    }
    times = bench.device_us({"/".join(names): step for names, step in steps.items()})
    found: dict[str, dict[str, float]] = {"torch": {}, "tileflow": {}}
    for (name, part), us in zip(steps, times.values(), strict=True):
        found[name][part] = us
    return found


def _calls(bench: CompiledCostBench, parts: Parts, is_training: bool) -> dict[str, Call]:
    s = bench.sizes

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=bench.dtype, device=bench.device, requires_grad=is_training)

    _, cos, sin = inputs(s, bench.dtype, bench.device)
    q = made(1, s.heads, s.tokens, s.head)
    k, v = made(1, s.kv_heads, s.tokens, s.head), made(1, s.kv_heads, s.tokens, s.head)
    x, wide = made(s.tokens, s.hidden), made(s.tokens, s.mlp)
    found: dict[str, Call] = {
        "norm": (parts.norm, [x, made(s.hidden)], []),
        "rope": (parts.rope, [q, k], [cos, sin]),
        "attention": (parts.attention, [q, k, v], []),
    }
    if is_training:
        return found | {"gate": (parts.gate, [wide, made(s.tokens, s.mlp)], [])}
    return found | {
        "gated product": (parts.gated, [x, made(s.mlp, s.hidden), made(s.mlp, s.hidden)], []),
        "o and residual": (parts.linear_add, [x, made(s.hidden, s.hidden), x], []),
        "down and residual": (parts.linear_add, [wide, made(s.hidden, s.mlp), x], []),
    }


def _plain_products(bench: CompiledCostBench) -> dict[str, Call]:
    """Return the products alone that are replaced together with what follows them."""
    s = bench.sizes

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=bench.dtype, device=bench.device)

    x, wide = made(s.tokens, s.hidden), made(s.tokens, s.mlp)
    both = [x, made(s.mlp, s.hidden), made(s.mlp, s.hidden)]
    return {
        "two products": (lambda x, gate, up: (F.linear(x, gate), F.linear(x, up)), both, []),
        "o": (lambda x, weight: F.linear(x, weight), [x, made(s.hidden, s.hidden)], []),
        "down": (lambda x, weight: F.linear(x, weight), [wide, made(s.hidden, s.mlp)], []),
    }


def _part(fn: Callable[..., Any], leaves: list[Tensor], rest: list[Tensor], is_training: bool) -> Callable[[], Any]:
    """Return a call, or the gradients of its leaves for random gradients of its results."""

    def call() -> tuple[Tensor, ...]:
        out = fn(*leaves, *rest)
        return out if isinstance(out, tuple) else (out,)

    grads = [torch.randn_like(out) for out in call()] if is_training else []
    return (lambda: torch.autograd.grad(call(), leaves, grads)) if is_training else call


# ---- without a GPU ------------------------------------------------------------------------------------------------


def cross_compiled() -> dict[str, list[str]]:
    """Build the launches of the block's kernels at its real sizes for a GPU that is not here, and list them."""
    from examples import rms_norm, rope, swiglu
    from tileflow.kernels import flash, gated, residual

    s, device = Sizes(), target("nvidia-h200")

    def meta(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    q, k = meta(1, s.heads, s.tokens, s.head), meta(1, s.kv_heads, s.tokens, s.head)
    cos, wide, x, first = (
        meta(s.tokens, s.head // 2),
        meta(s.tokens, s.mlp),
        meta(s.tokens, s.hidden),
        meta(s.mlp, s.hidden),
    )
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (rms_norm.rms_norm, (meta(s.tokens, s.hidden), meta(s.hidden), EPS)),
        (rope.rope, (q, k, cos, cos)),
        (swiglu.swiglu, (wide, wide)),
        (gated.gated_linear, (x, first, first, "silu")),
        (residual.linear_add, (x, meta(s.hidden, s.hidden), x)),
        (residual.linear_add, (wide, meta(s.hidden, s.mlp), x)),
        (flash.attention, (q, k, k, True, True)),
    ]
    found: dict[str, list[str]] = {}
    for kernel, args in calls:
        lowered = kernel.lower(args, device)
        symbols = [build(source, device).abi.symbol for source in lowered.emit(lowered.default)]
        found.setdefault(kernel.name, []).extend(symbols)
    return found


class _Opaque(logging.Handler):
    """Collects the log messages which say that an operator is not visible to the compiler."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "opaque operator" in record.getMessage():
            self.said.append(record.getMessage())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sections, writing what is found after each. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between them")
    parser.add_argument("--modes", default=",".join(MODES), help="modes of torch.compile, with commas between them")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU, and builds for a GPU")
    options = parser.parse_args(argv)
    sizes = DRY if options.dry_run else Sizes()
    bench = CompiledCostBench(sizes, options.dry_run, tuple(options.modes.split(",")))
    torch.manual_seed(0)
    name = "none" if options.dry_run else torch.cuda.get_device_name()
    opaque = _Opaque()
    logging.getLogger("tileflow.runtime").addHandler(opaque)
    logging.getLogger("tileflow.runtime").setLevel(logging.INFO)
    found: dict[str, Any] = {"torch": torch.__version__, "device": name, "seconds": {}, "opaque": opaque.said}
    work: dict[str, Callable[[], Any]] = {
        "host": lambda: host(bench),
        "inference": lambda: block(bench, False),
        "training": lambda: block(bench, True),
        "graphs": lambda: compiled_graphs.checks(bench.device),
    }
    if options.dry_run:
        work["cross-compiled"] = cross_compiled
    asked = {*options.only.split(","), *({"cross-compiled"} if options.dry_run else ())}
    for section in [word for word in work if word in asked]:
        start = time.perf_counter()
        try:
            found[section] = work[section]()
        except Exception:  # the other sections still run
            found[section] = {"error": traceback.format_exc()}
        found["seconds"][section] = round(time.perf_counter() - start, 1)
        options.out.write_text(json.dumps(found, indent=1))  # keep the results if the next section fails
        print(section, json.dumps(found[section]), flush=True)
    return int(any("error" in found[section] for section in work if section in asked))


if __name__ == "__main__":
    sys.exit(main())
