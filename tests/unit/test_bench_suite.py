"""The benchmark suite: its cells lower, and the sweep that tunes it covers all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tileflow_experiments.bench.suite import SUITE, Cell
from tileflow_experiments.spec import parse

from tileflow.api import load_kernel
from tileflow.target import target

SPEC = Path(__file__).parent.parent.parent / "configs" / "suite.yaml"


@pytest.mark.parametrize("cell", SUITE, ids=lambda c: c.title)
def test_every_cell_lowers_and_moves_something(cell: Cell) -> None:
    kernel = load_kernel(cell.kernel)
    lowered = kernel.lower(kernel.inputs(device="meta", **dict(cell.problem)), target("nvidia-h200"))
    assert lowered.emit(lowered.default)
    traffic = lowered.traffic
    assert traffic.bytes > 0
    assert (traffic.flops / traffic.bytes > 20) or cell.bound == "memory" or "int4" in cell.title


def test_the_sweep_of_the_suite_covers_it() -> None:
    spec = parse(yaml.safe_load(SPEC.read_text()))
    tuned = {(k.kernel, frozenset(problem)) for k in spec.kernels for problem in k.problems}
    assert tuned == {(cell.kernel, frozenset(cell.problem)) for cell in SUITE}
