"""``scaling.throughput --simulated``: a real Ray, driver and strategy, with stages that only take their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tile_testing import ROOT

SPEC = """
name: throughput
kernels:
  - kernel: examples.vector_add:vector_add
    problems:
      - {n: 16777216, dtype: float32}
device_classes: [nvidia-h200]
strategy: {name: default, seed: 0}
budget: {trials: 12}
modes: [static]
"""


@pytest.mark.slow
def test_a_row_for_each_number_of_gpus(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    command = [sys.executable, "-m", "tileflow_benchmarks.scaling.throughput", str(spec), "--simulated", "--cores", "2"]
    done = subprocess.run(
        [*command, "--gpus", "1", "2", "--compile-s", "0.02", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    title, _, *rows = (line.strip("| ").split(" | ") for line in done.stdout.strip().splitlines())
    one, two = (dict(zip(title, row, strict=True)) for row in rows)
    found = [json.loads((tmp_path / "out" / f"{gpus}.json").read_text()) for gpus in (1, 2)]
    rates = [12 / counters["elapsed_s"] for counters in found]
    assert (one["GPUs"], one["tried"], one["efficiency"]) == ("1", "12", "100%")
    assert (two["GPUs"], two["tried"], two["efficiency"]) == ("2", "12", f"{rates[1] / 2 / rates[0]:.0%}")
    assert [float(row["/s"]) for row in (one, two)] == [round(rate, 2) for rate in rates]
    assert all(0 < counters[share] < 1 for counters in found for share in ("device_idle", "compile_idle"))
