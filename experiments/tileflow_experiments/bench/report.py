"""The report of a benchmark run: one JSON with everything, one Markdown table for people."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tileflow.ir.types import itemsize

from .measure import Ceilings, Result

CONTENDERS = ("tileflow", "default", "eager", "torch.compile")


def to_json(header: dict[str, Any], ceilings: Ceilings, dispatch: dict[str, Any], results: Sequence[Result]) -> str:
    data = {"header": header, "ceilings": asdict(ceilings), "dispatch_us": dispatch,
            "results": [asdict(r) for r in results]}  # fmt: skip
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def to_markdown(header: dict[str, Any], ceilings: Ceilings, dispatch: dict[str, Any], results: Sequence[Result]) -> str:
    """The tables. A wrong or failed cell of ours counts as 1.0x of eager and is listed."""
    lines = [
        f"Command `{header['command']}`, {header['date']}, {header['device']}, driver {header['driver']}, "
        f"torch {header['torch']}, triton {header['triton']}, Python {header['python']}.",
        "",
        f"Ceilings in the same run: copy {ceilings.copy_gbps:.0f} GB/s, "
        f"bf16 product {ceilings.matmul_tflops:.0f} TFLOP/s.",
        "",
        "| kernel | "
        + " | ".join(f"{c} us" for c in CONTENDERS)
        + " | of the roofline | over eager | over torch.compile | default over tuned |",
        "|---|" + "---|" * (len(CONTENDERS) + 4),
    ]
    lines += [_row(r, ceilings) for r in results]
    lines += [
        "",
        *_summary(results),
        "",
        *_failures(results),
        "",
        "Host time of a warm call of a two-input kernel, us:",
        "",
    ]
    lines += ["| shapes in turn | tileflow | torch.add |", "|---|---|---|"]
    lines += [f"| {n} | {d['tileflow']:.1f} | {d['torch.add']:.1f} |" for n, d in dispatch.items()]
    return "\n".join(lines) + "\n"


def _row(result: Result, ceilings: Ceilings) -> str:
    cells = []
    for name in CONTENDERS:
        timing = result.timings.get(name)
        usable = timing is not None and timing.median_us is not None
        cells.append(f"{timing.median_us:.1f} ± {timing.ci95_us:.1f}" if usable and timing else "-")
    ours = _us(result, "tileflow")
    roofline = _roofline_us(result, ceilings)
    parts = [f"{roofline / ours:.0%}" if ours else "-", _ratio(result, "eager", "tileflow"),
             _ratio(result, "torch.compile", "tileflow"), _ratio(result, "tileflow", "default")]  # fmt: skip
    return f"| {result.cell.title} | {' | '.join(cells)} | {' | '.join(parts)} |"


def _us(result: Result, name: str) -> float | None:
    timing = result.timings.get(name)
    return timing.median_us if timing is not None and not timing.error else None


def _ratio(result: Result, over: str, name: str) -> str:
    a, b = _us(result, over), _us(result, name)
    return f"{a / b:.2f}x" if a and b else "-"


def _roofline_us(result: Result, ceilings: Ceilings) -> float:
    """By the copy bandwidth and the bf16 product of the same run; 8-bit operands go through at twice the rate."""
    rate = ceilings.matmul_tflops * (2 if itemsize(result.flop_dtype) == 1 else 1)
    memory = result.bytes / ceilings.copy_gbps / 1e3
    compute = result.flops / rate / 1e6 if result.cell.bound == "matrix" else 0.0
    return max(memory, compute)


# The kernels of the chart that Helion was announced with (PyTorch blog, October 2025).
LAUNCH_POST = ("cross_entropy", "matmul", "int4_matmul", "jsd", "kl_div", "layer_norm", "layer_norm_bwd", "rms_norm",
               "rms_norm_bwd", "softmax", "welford")  # fmt: skip


def _summary(results: Sequence[Result]) -> list[str]:
    """Geomeans per kernel over its shapes, then over kernels: of all, of those bound by memory or by the matrix units,
    and of the ones that others compare."""
    groups: dict[str, list[Result]] = {
        "all": list(results),
        "bound by memory": [r for r in results if r.cell.bound == "memory"],
        "bound by the matrix units": [r for r in results if r.cell.bound == "matrix"],
        "the eleven of Helion's launch post": [r for r in results if _name(r) in LAUNCH_POST],
    }
    lines = ["| geomean of tileflow over | " + " | ".join(groups) + " |", "|---|" + "---|" * len(groups)]
    for peer in ("eager", "torch.compile"):
        lines.append(f"| {peer} | " + " | ".join(_over(group, peer, "tileflow") for group in groups.values()) + " |")
    lines.append("| its default | " + " | ".join(_over(g, "default", "tileflow") for g in groups.values()) + " |")
    return lines


def _name(result: Result) -> str:
    return result.cell.kernel.rpartition(":")[2]


def _over(results: Sequence[Result], peer: str, name: str) -> str:
    """``2.56x (21)``: the ratio and how many kernels it is of."""
    kernels: dict[str, list[float]] = {}
    for r in results:
        theirs, ours = _us(r, peer), _us(r, name)
        if theirs:
            kernels.setdefault(r.cell.kernel, []).append(theirs / ours if ours else 1.0)
    return f"{_geomean([_geomean(v) for v in kernels.values()]):.2f}x ({len(kernels)})" if kernels else "-"


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _failures(results: Sequence[Result]) -> list[str]:
    failed = [(r, n, t) for r in results for n, t in r.timings.items() if t.error]
    if not failed:
        return ["Every contender of every cell was right."]
    return ["Failed:", *(f"- {r.cell.title}, {n}: {t.error}" for r, n, t in failed)]
