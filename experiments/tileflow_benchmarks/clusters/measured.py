"""Softmax of rows that the blocks of a cluster hold together, on a GPU: checked, then timed beside the default config.

    python -m tileflow_benchmarks.clusters.measured --out DIR             on a GPU with clusters
    python -m tileflow_benchmarks.clusters.measured --out DIR --dry-run   compiles only, without one

A case is a shape, a number of blocks in the cluster, and warps a block. Each is checked in a process of its own, so
that a deadlock ends as a timeout that names the case. Cases that were right are timed in turns in one more process,
beside the default config, ``torch.softmax`` plain and compiled, and a copy. All goes into ``DIR/measured.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tileflow.api import load_kernel
from tileflow.build import compat
from tileflow.build.resources import read_resources
from tileflow.expr import TRUE, Expr
from tileflow.runtime.abi import Binary, LaunchAbi, LaunchArg
from tileflow.runtime.drivers import cuda_load
from tileflow.target import Target

from ..ratios.command import device_of
from ..ratios.in_turns import medians
from .rows import ENTER, by_text, exchange

SHAPES = ((8192, 131072, "bf16"), (4096, 65536, "bf16"), (2048, 262144, "bf16"), (4096, 131072, "fp32"))
CLUSTERS = ((2, 16), (4, 16), (4, 32), (8, 8), (8, 16))  # blocks, warps a block
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
TOLERANCES = {"bf16": 2**-7, "fp32": 2e-5}  # of the value; a bfloat16 is within 2**-8 of what it stands for
MOST_A_THREAD = 128  # numbers; a thread has at most 255 registers
CHECK_ROWS = 512
REPEATS = 30
ROUNDS = 9
CHECK_LIMIT_S = 45
TIME_LIMIT_S = 60
AT_ONCE = 10

Call = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """``shape``: its index in SHAPES. ``blocks``: of a cluster. ``warps``: of a block."""

    shape: int
    blocks: int
    warps: int

    @property
    def text(self) -> str:
        """The case as an argument of the command."""
        return f"{self.shape},{self.blocks},{self.warps}"

    @property
    def name(self) -> str:
        """The case in words."""
        m, n, dtype = SHAPES[self.shape]
        return f"{m}x{n} {dtype}, {self.blocks} blocks of {self.warps} warps"


def cases() -> list[Case]:
    """Return the cases whose threads could hold their part of a row."""
    every = (Case(shape, *cluster) for shape in range(len(SHAPES)) for cluster in CLUSTERS)
    return [c for c in every if SHAPES[c.shape][1] <= MOST_A_THREAD * c.blocks * c.warps * 32]


def built(case: Case, device: Target) -> Binary:
    """Compile a case. Its launch has clusters, of which the compiler knows nothing."""
    rows, length, dtype = SHAPES[case.shape]
    texts = {"BEGIN": ENTER, "MAX": exchange(case.blocks, "max.f32"), "SUM": exchange(case.blocks, "add.f32")}
    constants: dict[str, Any] = {"PARTS": case.blocks, "LANES": length // case.blocks, **texts}
    types = {"x": f"*{dtype}", "out": f"*{dtype}", "n": "i32"}
    signature = types | dict.fromkeys(constants, "constexpr")
    compiled = compat.compile_ast(by_text, signature, constants, (0, 1, 2), device, {"num_warps": case.warps})
    tensors = (LaunchArg(name, "tensor", types[name], path=name) for name in ("x", "out"))
    abi = LaunchAbi(
        symbol=compiled.symbol,
        args=(*tensors, LaunchArg("n", "int", "i32", value=Expr.of(length))),
        grid=(Expr.of(rows), Expr.of(1), Expr.of(1)),
        threads=compiled.warps * device.warp_size,
        shared=compiled.shared,
        scratch=compiled.scratch,
        cluster=(case.blocks, 1, 1),
    )
    return Binary(0, device.name, compiled.format, compiled.code, abi, TRUE, read_resources(compiled, device))


def loaded(case: Case, device: Target) -> Call:
    """Return a call of a case on the current device. Rows are of any length that 16 divides, up to the shape's."""
    enqueue = (on_device := cuda_load(built(case, device), torch.cuda.current_device())).enqueue

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        stream = torch.cuda.current_stream().cuda_stream
        status = enqueue(stream, x.size(0) * case.blocks, 1, 1, x.data_ptr(), out.data_ptr(), x.size(1))
        if status:
            raise on_device.refused(status)
        return out

    return call


def adversarial(rows: int, length: int, blocks: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Return rows, a third each: plain; of a peak in one part, without which the exponentials overflow; of parts that
    differ by steps of 4, and one of which is all minus infinity."""
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(rows, length, generator=generator, device=device)
    part = torch.arange(length, device=device) * blocks // length
    row = torch.arange(rows, device=device)
    peaks = row[1::3]
    x[peaks, (peaks * 7919) % length] = 200.0
    x[2::3] += 4.0 * ((part[None, :] + row[2::3, None]) % blocks)
    x[2::3] = x[2::3].masked_fill(part[None, :] == row[2::3, None] % blocks, -torch.inf)
    return x.to(dtype)


def fault(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> str:
    """Return what is wrong with a result, in words; nothing where each value is within its tolerance."""
    got, expected = got.float(), expected.float()
    off = ~((got - expected).abs() <= tolerance * expected.abs() + 1e-12)
    if not bool(off.any()):
        return ""
    row, column = off.nonzero()[0].tolist()
    values = f"{got[row, column].item():g} for {expected[row, column].item():g}"
    return f"{int(off.sum())} values in {int(off.any(1).sum())} rows, the first at ({row}, {column}): {values}"


def checked(case: Case, device: Target) -> dict[str, Any]:
    """Check a case with whole and with masked rows, many times, since races need not show at once."""
    resources = built(case, device).resources
    found: dict[str, Any] = {"registers": resources.registers, "spills": resources.spills}
    call = loaded(case, device)
    _, length, dtype = SHAPES[case.shape]
    for n in (length, length - 48, length // case.blocks + 16):  # the last: one part of 16 lanes, and empty ones
        x = adversarial(CHECK_ROWS, n, case.blocks, DTYPES[dtype], "cuda")
        first = call(x)
        wrong = fault(first, torch.softmax(x.float(), 1), TOLERANCES[dtype])
        if wrong:
            return found | {"status": "wrong", "reason": f"rows of {n}: {wrong}"}
        unequal = sum(not torch.equal(first, call(x)) for _ in range(REPEATS))
        if unequal:
            return found | {"status": "race", "reason": f"rows of {n}: {unequal} of {REPEATS} launches differ"}
    return found | {"status": "ok"}


def timed(right: Iterable[Case], device: Target) -> None:
    """Time the cases that were right beside their peers, a shape at a time, and print a line for each shape."""
    by_shape: dict[int, list[Case]] = {}
    for case in right:
        by_shape.setdefault(case.shape, []).append(case)
    for shape, mine in by_shape.items():
        print(json.dumps({"shape": shape, **_of_shape(shape, mine, device)}), flush=True)
        torch.cuda.empty_cache()


def _of_shape(shape: int, mine: list[Case], device: Target) -> dict[str, Any]:
    from tileflow.measure.timing import DeviceSampler

    rows, length, dtype = SHAPES[shape]
    x = torch.randn(rows, length, device="cuda", dtype=DTYPES[dtype])
    kernel = load_kernel("examples.softmax:softmax")
    lowered = kernel.lower((x,), device)
    calls: dict[str, Call] = {case.name: loaded(case, device) for case in mine}
    calls["default"] = kernel.compile(lowered, lowered.default, "cuda")
    calls["torch"] = _softmax
    calls["torch.compile"] = torch.compile(_softmax, dynamic=False)
    calls["copy"] = torch.clone
    us = medians({name: DeviceSampler(call, (x,)) for name, call in calls.items()}, ROUNDS)
    gbps = {name: round(2 * x.nbytes / 1e3 / time) for name, time in us.items()}
    return {"us": us, "gbps": gbps}


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, 1)


def _in_process(options: list[str], limit_s: int) -> tuple[list[Any], str]:
    """Run this command apart. Return what its lines of JSON hold, and why it ended, empty where it ended well."""
    command = [sys.executable, "-m", "tileflow_benchmarks.clusters.measured", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as stopped:
        return _rows((stopped.stdout or b"").decode()), f"timeout after {limit_s} s"
    return _rows(done.stdout), "" if done.returncode == 0 else done.stderr[-1500:]


def _rows(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]


def _check_apart(case: Case) -> dict[str, Any]:
    rows, reason = _in_process(["--check", case.text], CHECK_LIMIT_S)
    ended = {"status": "timeout" if reason.startswith("timeout") else "failed", "reason": reason}
    found = {"case": case.name, **(ended if reason else rows[0])}  # what a process said before it failed is no answer
    print(json.dumps(found), flush=True)
    return found


def main() -> int:
    """Check, then time. Exit code 1 where a case is not right, or its time is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--check", type=_case, help=argparse.SUPPRESS)
    parser.add_argument("--time", type=_case, nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    device = device_of(asked.dry_run)
    if asked.check is not None:
        print(json.dumps(checked(asked.check, device)), flush=True)
        return 0
    if asked.time is not None:
        timed(asked.time, device)
        return 0
    if asked.out is None:
        parser.error("--out DIR is needed")
    if asked.dry_run:
        for case in cases():
            taken = built(case, device).resources
            print(f"{case.name}: {taken.registers} registers, {taken.spills} bytes spilled", flush=True)
        return 0
    return _measure(asked.out)


def _measure(folder: Path) -> int:
    every = cases()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        checks = list(pool.map(_check_apart, every))
    right = [case.text for case, found in zip(every, checks, strict=True) if found["status"] == "ok"]
    times, reason = _in_process(["--time", *right], TIME_LIMIT_S) if right else ([], "no case is right")
    for row in times:
        print(json.dumps(row), flush=True)
    print(reason, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    result = {"device": torch.cuda.get_device_name(), "checks": checks, "times": times, "reason": reason}
    (folder / "measured.json").write_text(json.dumps(result, indent=1))
    return 0 if len(right) == len(every) and not reason else 1


def _case(text: str) -> Case:
    shape, blocks, warps = (int(number) for number in text.split(","))
    return Case(shape, blocks, warps)


if __name__ == "__main__":
    sys.exit(main())
