"""The cost of a kernel inside torch.compile, and a transformer block with kernels in it.

    python -m tileflow_benchmarks.ratios.compiled_cost --out FILE.json [--only host,inference,training,graphs]  on a GPU
    python -m tileflow_benchmarks.ratios.compiled_cost --out FILE.json --dry-run                          without one

A kernel's host share is compared with Inductor's own user-defined Triton kernel, the block with torch's own
torch.compile. Values are checked before anything is timed. Contenders are timed in turns, in one process. The bound by
Amdahl is what a block would gain if the parts that kernels replace took no time; those parts are timed for it, compiled
by torch alone.
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

import tileflow
from tileflow import library
from tileflow.build.compile import build
from tileflow.target import target

from . import compiled_graphs

Tensor = torch.Tensor
SECTIONS = ("host", "inference", "training", "graphs")
MODES = ("default", "reduce-overhead")
EPS = 1e-5
_CHAIN = (1, 9)  # kernels in a row: the slope between the two is the cost of one more
_WARM_UP = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a block, and of the small call whose host share is measured."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    mlp: int = 14336
    tokens: int = 4096
    rows: int = 256
    columns: int = 1024
    rounds: int = 20
    calls: int = 400

    @property
    def head(self) -> int:
        """The elements of a head."""
        return self.hidden // self.heads


DRY = Sizes(64, 4, 2, 96, 32, 8, 32, 1, 5)


# ---- the block ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parts:
    """The operations around a block's products. ``attention`` is torch's in every block."""

    norm: Callable[[Tensor, Tensor], Tensor]
    rope: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    gate: Callable[[Tensor, Tensor], Tensor]


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def torchs() -> Parts:
    """Return torch's own, for Inductor to fuse."""
    return Parts(
        lambda x, w: F.rms_norm(x, (x.size(-1),), w, EPS),
        lambda q, k, cos, sin: (_turn(q, cos, sin), _turn(k, cos, sin)),
        lambda a, b: F.silu(a) * b,
    )


def ours(words: Sequence[str], is_training: bool) -> Parts:
    """Return torch's, with the kernels that ``words`` name in place of some."""
    from examples import rms_norm, rope, swiglu, training

    plain = torchs()
    norm = training.rms_norm if is_training else rms_norm.rms_norm
    gate = training.swiglu if is_training else swiglu.swiglu
    turned = _trained_rope() if is_training else rope.rope
    return Parts(
        (lambda x, w: norm(x, w, EPS)) if "norm" in words else plain.norm,
        turned if "rope" in words else plain.rope,
        gate if "gate" in words else plain.gate,
    )


def _trained_rope() -> Any:
    from examples import rope

    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *rope.rope_bwd(*(grad.contiguous() for grad in grads), *ctx.saved), None, None

    return tileflow.differentiable(rope.rope, backward, save=("cos", "sin"))


class Block(torch.nn.Module):
    """One layer of a Llama."""

    def __init__(self, sizes: Sizes, parts: Parts, dtype: torch.dtype, device: str) -> None:
        super().__init__()
        self.sizes, self.parts = sizes, parts
        hidden, kv = sizes.hidden, sizes.kv_heads * sizes.head

        def weight(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape, dtype=dtype, device=device) * shape[-1] ** -0.5)

        self.first = torch.nn.Parameter(torch.ones(hidden, dtype=dtype, device=device))
        self.second = torch.nn.Parameter(torch.ones(hidden, dtype=dtype, device=device))
        self.q, self.o = weight(hidden, hidden), weight(hidden, hidden)
        self.k, self.v = weight(kv, hidden), weight(kv, hidden)
        self.gate, self.up, self.down = weight(sizes.mlp, hidden), weight(sizes.mlp, hidden), weight(hidden, sizes.mlp)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the layer's output for a batch of one."""
        s, parts = self.sizes, self.parts
        y = parts.norm(x, self.first)
        q = F.linear(y, self.q).view(1, -1, s.heads, s.head).transpose(1, 2)
        k = F.linear(y, self.k).view(1, -1, s.kv_heads, s.head).transpose(1, 2)
        v = F.linear(y, self.v).view(1, -1, s.kv_heads, s.head).transpose(1, 2)
        q, k = parts.rope(q, k, cos, sin)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + F.linear(attended.transpose(1, 2).reshape(-1, s.hidden), self.o)
        y = parts.norm(x, self.second)
        return x + F.linear(parts.gate(F.linear(y, self.gate), F.linear(y, self.up)), self.down)


def inputs(sizes: Sizes, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return a block's input, and the angles of its positions."""
    x = torch.randn(sizes.tokens, sizes.hidden, dtype=dtype, device=device)
    frequencies = 10_000.0 ** (-torch.arange(0, sizes.head, 2, device=device) / sizes.head)
    angles = torch.arange(sizes.tokens, device=device)[:, None] * frequencies
    return x, angles.cos().to(dtype), angles.sin().to(dtype)


# ---- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompiledCostBench:
    """Where calls run and how large they are."""

    sizes: Sizes
    is_dry: bool

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of torch.compile that are measured."""
        return MODES[:1] if self.is_dry else MODES

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
            return torch.compile(fn, fullgraph=True, backend="aot_eager")
        return torch.compile(fn, fullgraph=True, mode=None if mode == "default" else mode)

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

BLOCKS = {", ".join(words): words for words in (("norm",), ("norm", "rope", "gate"))}


def block(bench: CompiledCostBench, is_training: bool) -> dict[str, Any]:
    """Return mode -> contender -> microseconds of a forward pass or of a training step; the ratios, and the bound."""
    found: dict[str, Any] = {}
    for mode in bench.modes[:1] if is_training else bench.modes:
        calls = _blocks(bench, is_training, mode)
        times = bench.in_turn_us(calls)
        found[mode] = {"us": times, "over torch": {n: round(times["torch"] / t, 3) for n, t in times.items()}}
    parts = _parts_us(bench, is_training)
    whole = found["default"]["us"]["torch"]
    rest = max(whole - sum(parts.values()), 1e-9)
    return found | {"parts of torch's, us": parts, "bound by Amdahl": round(whole / rest, 3)}


def _blocks(bench: CompiledCostBench, is_training: bool, mode: str) -> dict[str, Callable[[], Any]]:
    """Return the compiled calls, each checked against a block of torch's that is not compiled."""
    x, cos, sin = inputs(bench.sizes, bench.dtype, bench.device)
    x.requires_grad_(is_training)
    torch.manual_seed(0)
    plain = Block(bench.sizes, torchs(), bench.dtype, bench.device)
    wanted = _step(plain, x, cos, sin, is_training)()
    contenders = {"torch": torchs()} | {f"tileflow: {n}": ours(w, is_training) for n, w in BLOCKS.items()}
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


def _parts_us(bench: CompiledCostBench, is_training: bool) -> dict[str, float]:
    """Return the times of the replaced parts of one block, compiled by torch alone."""
    s, parts = bench.sizes, torchs()

    def made(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=bench.dtype, device=bench.device, requires_grad=is_training)

    _, cos, sin = inputs(s, bench.dtype, bench.device)
    q, k = made(1, s.heads, s.tokens, s.head), made(1, s.kv_heads, s.tokens, s.head)
    calls: dict[str, tuple[Callable[..., Any], list[Tensor], list[Tensor]]] = {
        "two norms": (parts.norm, [made(s.tokens, s.hidden), made(s.hidden)], []),
        "rope": (parts.rope, [q, k], [cos, sin]),
        "gate": (parts.gate, [made(s.tokens, s.mlp), made(s.tokens, s.mlp)], []),
    }
    torch.compiler.reset()
    steps = {}
    for name, (fn, leaves, rest) in calls.items():
        steps[name] = _part(bench.compile(lambda *args, fn=fn: fn(*args)), leaves, rest, is_training)
    times = bench.in_turn_us(steps)
    return times | {"two norms": round(2 * times["two norms"], 2)}


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

    s, device = Sizes(), target("nvidia-h200")

    def meta(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    q, k = meta(1, s.heads, s.tokens, s.head), meta(1, s.kv_heads, s.tokens, s.head)
    cos, wide = meta(s.tokens, s.head // 2), meta(s.tokens, s.mlp)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (rms_norm.rms_norm, (meta(s.tokens, s.hidden), meta(s.hidden), EPS)),
        (rope.rope, (q, k, cos, cos)),
        (swiglu.swiglu, (wide, wide)),
    ]
    found = {}
    for kernel, args in calls:
        lowered = kernel.lower(args, device)
        found[kernel.name] = [build(source, device).abi.symbol for source in lowered.emit(lowered.default)]
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
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU, and builds for a GPU")
    options = parser.parse_args(argv)
    bench = CompiledCostBench(DRY if options.dry_run else Sizes(), options.dry_run)
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
