"""``python -m tileflow_experiments.bench``: run the suite on the GPU at hand."""

from __future__ import annotations

import argparse
import datetime
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tileflow import runtime

from .measure import Ceilings, Result, ceilings, dispatch_us, run_cell
from .report import to_json, to_markdown
from .suite import SUITE


def main() -> int:
    """Exit code 1 where one of our cells was wrong or failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(description="Time the gallery beside torch on the GPU at hand.")
    parser.add_argument("--tables", type=Path, help="tables or a bundle to dispatch from; without, the defaults run")
    parser.add_argument("--out", type=Path, required=True, help="folder for bench.json and bench.md")
    parser.add_argument("--only", default="", help="cells whose title holds this")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("the benchmark needs a GPU that torch sees", file=sys.stderr)
        return 2
    if options.tables:
        runtime.load(options.tables)
    options.out.mkdir(parents=True, exist_ok=True)
    limits, header = ceilings(), _header()
    results: list[Result] = []
    for cell in SUITE:
        if options.only in cell.title:
            results.append(run_cell(cell, not options.no_compile))
            times = {n: t.error or f"{t.median_us:.1f}" for n, t in results[-1].timings.items()}
            print(cell.title, times, flush=True)
            torch.cuda.empty_cache()
            _write(options.out, header, limits, {}, results)  # what there is survives what comes
    _write(options.out, header, limits, {str(n): dispatch_us(n) for n in (1, 64)}, results)
    print((options.out / "bench.md").read_text())
    return int(any(r.timings["tileflow"].error for r in results))


def _write(
    out: Path, header: dict[str, Any], limits: Ceilings, dispatch: dict[str, Any], results: list[Result]
) -> None:
    (out / "bench.json").write_text(to_json(header, limits, dispatch, results))
    (out / "bench.md").write_text(to_markdown(header, limits, dispatch, results))


def _header() -> dict[str, Any]:
    import torch
    import triton

    return {
        "command": "scripts/bench " + shlex.join(sys.argv[1:]),
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "driver": _driver(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }


def _driver() -> str:
    """As nvidia-smi tells it; ``unknown`` on a machine without one."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.splitlines()[0].strip()


if __name__ == "__main__":
    sys.exit(main())
