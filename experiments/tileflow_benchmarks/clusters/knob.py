"""What the knob ``ctas`` is worth on a GPU: long rows that blocks of a cluster hold, beside the same kernel without.

    python -m tileflow_benchmarks.clusters.knob --out DIR              on a GPU with clusters
    python -m tileflow_benchmarks.clusters.knob --only softmax         those cases alone
    python -m tileflow_benchmarks.clusters.knob --dry-run              compiles only, without a GPU

A case is a kernel and a shape. Each number of blocks is checked against the reference first, twenty times, since races
need not show at once. What was right is timed in turns: the default without clusters (``ctas`` 1), each number of
blocks, ``torch.compile`` of the reference. The ratio is the time without clusters over that with 8 blocks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.target import Target

from ..ratios.command import device_of
from ..ratios.in_turns import medians

KERNELS = ("examples.softmax:softmax", "examples.softmax:softmax_bwd", "examples.rms_norm:rms_norm",
           "examples.layer_norm:layer_norm")  # fmt: skip
SHAPES = ((4096, 131072, "float32"), (4096, 100000, "float32"), (8192, 65536, "float32"), (4096, 65536, "bfloat16"),
          (8192, 131072, "bfloat16"))  # fmt: skip
BLOCKS = (2, 4, 8)
LANES_A_THREAD = 64  # that a thread holds of a row; with 2 blocks more
CHECK_ROWS = 256
REPEATS = 20
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel on a matrix of rows."""

    kernel: str
    m: int
    n: int
    dtype: str

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.kernel.partition(':')[2]} {self.m}x{self.n} {self.dtype}"

    def args(self, kernel: Kernel, device: str, m: int) -> tuple[Any, ...]:
        """Arguments of so many rows."""
        return kernel.inputs(device=device, m=m, n=self.n, dtype=getattr(torch, self.dtype))


def cases() -> list[Case]:
    """Return every kernel at every shape."""
    return [Case(kernel, *shape) for kernel in KERNELS for shape in SHAPES]


def configs(lowered: Lowered, n: int) -> Iterator[tuple[str, Config]]:
    """What is compared, by name: the default without clusters, and one row a program with each number of blocks."""
    yield "1", lowered.default_pipelined
    rows: dict[str, Choice] = {k.name: 0 for k in lowered.space.knobs if k.role == "reduction"}
    rows |= {k.name: 1 for k in lowered.space.knobs if k.role == "block"}
    lanes = 1 << (n - 1).bit_length()
    for blocks in BLOCKS:
        warps = min(max(lanes // (blocks * LANES_A_THREAD * 32), 4), 32)
        config = lowered.space.complete({**rows, "ctas": blocks, "num_warps": warps})
        if lowered.space.is_valid(config):
            yield str(blocks), config


def compiled(case: Case, device: Target) -> Iterator[str]:
    """Compile a case, and say what its blocks take."""
    kernel = load_kernel(case.kernel)
    lowered = kernel.lower(case.args(kernel, "meta", case.m), device)
    for name, config in configs(lowered, case.n):
        for source in lowered.emit(config):
            taken = build(source, device).resources
            yield f"ctas {name}, {config['num_warps']} warps: {taken.registers} registers, {taken.spills} bytes spilled"


def measured(case: Case, device: Target) -> dict[str, Any]:
    """Check a case, then time it: microseconds by number of blocks."""
    from tileflow.measure.timing import DeviceSampler

    kernel = load_kernel(case.kernel)
    few = case.args(kernel, "cuda", CHECK_ROWS)
    reference = make_reference(kernel.reference, few)
    lowered = kernel.lower(few, device)
    wrong = {}
    for name, config in configs(lowered, case.n):
        verdict = check_call(kernel.compile(lowered, config, "cuda"), few, reference, repeats=REPEATS)
        if not verdict.ok:
            wrong[name] = verdict.reason
    args = case.args(kernel, "cuda", case.m)
    lowered = kernel.lower(args, device)
    calls: dict[str, Callable[..., Any]] = {
        name: kernel.compile(lowered, config, "cuda") for name, config in configs(lowered, case.n) if name not in wrong
    }
    calls["torch.compile"] = torch.compile(kernel.reference, dynamic=False)
    us = medians({name: DeviceSampler(call, args) for name, call in calls.items()}, ROUNDS)
    chosen = str(lowered.default.get("ctas", 1))
    return {"case": case.name, "default": chosen, "wrong": wrong, "us": us}


def line(found: dict[str, Any]) -> str:
    """One case's row."""
    us = found["us"]
    times = "  ".join(f"{name}: {time:.0f} us" for name, time in us.items())
    ratio = f"  {us['1'] / us['8']:.2f}x" if {"1", "8"} <= us.keys() else ""
    return f"{found['case']} (default ctas {found['default']})  {times}{ratio}  {found['wrong'] or 'all right'}"


def main() -> int:
    """Check and time every case. Exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    device = device_of(asked.dry_run)
    wanted = [case for case in cases() if asked.only in case.name]
    if asked.dry_run:
        for case in wanted:
            for text in compiled(case, device):
                print(f"{case.name}, {text}", flush=True)
        return 0
    found = []
    for case in wanted:
        found.append(measured(case, device))
        print(line(found[-1]), flush=True)
        torch.cuda.empty_cache()
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        result = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": found}
        (asked.out / "knob.json").write_text(json.dumps(result, indent=1))
    return 1 if any(row["wrong"] for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
