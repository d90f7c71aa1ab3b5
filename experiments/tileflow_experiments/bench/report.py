"""The report of a benchmark run: one JSON with everything, one Markdown table for people."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

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
        + " | of the roofline | over eager | default over tuned |",
        "|---|" + "---|" * (len(CONTENDERS) + 3),
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
             _ratio(result, "tileflow", "default")]  # fmt: skip
    return f"| {result.cell.title} | {' | '.join(cells)} | {' | '.join(parts)} |"


def _us(result: Result, name: str) -> float | None:
    timing = result.timings.get(name)
    return timing.median_us if timing is not None and not timing.error else None


def _ratio(result: Result, over: str, name: str) -> str:
    a, b = _us(result, over), _us(result, name)
    return f"{a / b:.2f}x" if a and b else "-"


def _roofline_us(result: Result, ceilings: Ceilings) -> float:
    memory = result.bytes / ceilings.copy_gbps / 1e3
    compute = result.flops / ceilings.matmul_tflops / 1e6 if result.cell.bound == "matrix" else 0.0
    return max(memory, compute)


def _summary(results: Sequence[Result]) -> list[str]:
    """Geomeans per kernel over its shapes, then over kernels."""
    lines = []
    for peer in ("eager", "torch.compile"):
        kernels: dict[str, list[float]] = {}
        for r in results:
            theirs, ours = _us(r, peer), _us(r, "tileflow")
            if theirs:
                kernels.setdefault(r.cell.kernel, []).append(theirs / ours if ours else 1.0)
        if kernels:
            lines.append(f"Geomean over {peer}: {_geomean([_geomean(v) for v in kernels.values()]):.2f}x "
                         f"over {len(kernels)} kernels.")  # fmt: skip
    return lines


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _failures(results: Sequence[Result]) -> list[str]:
    failed = [(r, n, t) for r in results for n, t in r.timings.items() if t.error]
    if not failed:
        return ["Every contender of every cell was right."]
    return ["Failed:", *(f"- {r.cell.title}, {n}: {t.error}" for r, n, t in failed)]
