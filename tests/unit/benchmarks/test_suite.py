"""The benchmark suite: its cells lower, the sweep that tunes it covers all of them, and contenders are timed fairly."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from tile_testing import ROOT
from tileflow_benchmarks.suite.cells import SUITE, Cell
from tileflow_benchmarks.suite.measure import SAMPLES, interleaved
from tileflow_experiments.spec import parse

from tileflow.api import load_kernel
from tileflow.target import target

SPEC = ROOT / "configs" / "suite.yaml"


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


def test_contenders_come_in_another_order_in_each_round() -> None:
    """Whoever always follows the same neighbour inherits its heat."""
    turns: list[str] = []

    def sampler(name: str) -> Callable[[int], list[float]]:
        def sample(count: int) -> list[float]:
            turns.append(name)
            return [1.0] * count

        return sample

    names = ["tileflow", "default", "eager"]
    samples = interleaved({name: sampler(name) for name in names}, rounds=12)
    rounds = [tuple(turns[i : i + 3]) for i in range(0, 36, 3)]
    assert all(sorted(order) == sorted(names) for order in rounds) and len(set(rounds)) > 3
    assert {len(times) for times in samples.values()} == {12 * SAMPLES}
