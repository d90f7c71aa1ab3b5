"""``python -m tileflow_experiments.throughput --rehearse``: a real Ray, driver and strategy; compilers and a GPU that
only take their time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
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


def test_a_row_for_each_number_of_gpus(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    command = [sys.executable, "-m", "tileflow_experiments.throughput", str(spec), "--rehearse", "--cores", "2"]
    done = subprocess.run(
        [*command, "--compile-s", "0.02", "--out", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    title, _, row = done.stdout.strip().splitlines()
    cells = dict(zip(title.strip("| ").split(" | "), row.strip("| ").split(" | "), strict=True))
    found = json.loads((tmp_path / "out" / "1.json").read_text())
    assert (cells["GPUs"], cells["tried"], cells["efficiency"]) == ("1", "12", "100%")
    assert float(cells["/s"]) == round(12 / found["elapsed_s"], 2)
    assert 0 < found["device_idle"] < 1 and 0 < found["compile_idle"] < 1
