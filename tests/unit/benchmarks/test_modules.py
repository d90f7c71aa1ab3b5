"""Chains behind linear layers and windows: forty and the rest, of both types, each right on small arguments."""

from __future__ import annotations

from collections import Counter

import pytest
from tileflow_benchmarks.ratios.module_cases import CASES, ModuleCase
from tileflow_benchmarks.ratios.modules import checked_small


def test_forty_chains_of_both_types() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    kinds = Counter(" ".join(case.name.split()[:1] + case.name.split()[2:3]) for case in CASES)
    assert kinds["chains float32"] == kinds["chains bfloat16"] == 20
    assert kinds["windows float32"] >= 14 and kinds["windows bfloat16"] >= 14


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_small_call_is_right(case: ModuleCase) -> None:
    assert checked_small(case)["status"] == "built"
