"""Products under their default configs in the four layouts, beside torch's own.

    python -m tileflow_benchmarks.ratios.layouts --out DIR [--only WORDS]   on a GPU
    python -m tileflow_benchmarks.ratios.layouts --out DIR --dry-run        builds only, without one

``N``: an operand as the product reads it, row by row; ``T``: a transposed view, as every ``nn.Linear`` has its weight.
Results are checked against float64 first; then the products are timed in turns in one process. Float32 is without TF32,
as torch has it by default.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.measure.device import identity
from tileflow.measure.timing import DeviceSampler
from tileflow.target import target

from .command import DRY_DEVICE, chosen
from .in_turns import medians

LAYOUTS = ("NN", "NT", "TN", "TT")
DTYPES = ("float32", "bfloat16", "float16")
SIZES = (  # rows, columns, summed over; rows of the last ones begin anywhere in all layouts
    *((4096, 4096, 4096), (8192, 1024, 4096), (777, 1111, 4096), (1000, 1000, 1000)),
    *((4097, 1111, 777), (1001, 1001, 1001), (2047, 2047, 2049), (8191, 1023, 1023), (513, 513, 4097)),
)
_ROUNDS = 12
_WORST = {"float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}  # of the largest value, by float64


def product() -> Kernel:
    """Import the matmul kernel of the gallery."""
    return load_kernel("examples.matmul:matmul")


@dataclass(frozen=True, slots=True)
class LayoutCase:
    """One product."""

    layout: str
    dtype: str
    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """The dtype, the layouts and the sizes as text."""
        return f"{self.dtype} {self.layout} {self.m}x{self.n}x{self.k}"

    def args(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return two random operands in the case's layouts."""
        dtype: torch.dtype = getattr(torch, self.dtype)

        def operand(layout: str, rows: int, columns: int) -> torch.Tensor:
            if layout == "N":
                return torch.randn(rows, columns, dtype=dtype, device=device)
            return torch.randn(columns, rows, dtype=dtype, device=device).t()

        return operand(self.layout[0], self.m, self.k), operand(self.layout[1], self.k, self.n)


CASES = tuple(LayoutCase(layout, dtype, *size) for dtype in DTYPES for size in SIZES for layout in LAYOUTS)


def built(item: tuple[LayoutCase, str]) -> dict[str, Any]:
    """Build the default config of one case for a device class; Triton's cache keeps it."""
    case, device = item
    lowered = product().lower(case.args("meta"), target(device))
    (source,) = lowered.emit(lowered.default)
    taken = build(source, lowered.target).resources
    return {
        "registers": taken.registers,
        "spills": taken.spills,
        "shared": taken.shared,
        "wgmma": dict(taken.instructions).get("wgmma", 0),
        "config": lowered.default.to_dict(),
    }


def measured(case: LayoutCase) -> dict[str, Any]:
    """Check a case's result, then time it beside torch's."""
    args = case.args("cuda")
    wanted = args[0].double() @ args[1].double()
    errors = {
        name: float((run(*args).double() - wanted).abs().max() / wanted.abs().max())
        for name, run in (("ours", product()), ("torch", torch.matmul))
    }
    if not errors["ours"] <= _WORST[case.dtype]:
        return {"status": "incorrect", "errors": errors}
    samplers = {"ours": DeviceSampler(product(), args), "torch": DeviceSampler(torch.matmul, args)}
    us = medians(samplers, _ROUNDS)
    return {"status": "ok", "errors": errors, "us": us, "of_torch": round(us["torch"] / us["ours"], 3)}


def main() -> int:
    """Run the comparison. Exit code 1 where a product was wrong or spilled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for layout_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    options = parser.parse_args()
    cases = [CASES[number] for number in chosen(CASES, options.only)]
    device = DRY_DEVICE if options.dry_run else identity().device_class
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        found = dict(zip(cases, pool.map(built, [(case, device) for case in cases]), strict=True))
    options.out.mkdir(parents=True, exist_ok=True)
    for case in cases:
        found[case] |= {"status": "built"} if options.dry_run else measured(case)
        print(case.name, {n: v for n, v in found[case].items() if n != "config"}, flush=True)
    by_group: dict[str, list[float]] = {}
    for case in cases:
        if "of_torch" in found[case]:
            by_group.setdefault(f"{case.dtype} {case.layout}", []).append(found[case]["of_torch"])
    means = {group: round(math.prod(ratios) ** (1 / len(ratios)), 3) for group, ratios in by_group.items()}
    print(json.dumps(means, indent=1))
    said = {"device": device, "means": means, "cases": {case.name: found[case] for case in cases}}
    (options.out / "layout_ratio.json").write_text(json.dumps(said, indent=1))
    return int(any(said["status"] not in ("ok", "built") or said["spills"] for said in found.values()))


if __name__ == "__main__":
    sys.exit(main())
