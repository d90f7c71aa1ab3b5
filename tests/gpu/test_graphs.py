"""Kernels inside of compiled graphs, on a GPU: what :mod:`tileflow_benchmarks.ratios.compiled_graphs` checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tileflow_benchmarks.ratios import compiled_graphs

pytestmark = pytest.mark.gpu


CRASHES = pytest.mark.xfail(reason="loading the package was a segmentation fault on an H200 (torch 2.11)")
CHECKS = [
    pytest.param(check, marks=CRASHES if check is compiled_graphs.ahead_of_time else ())
    for check in compiled_graphs.CHECKS
]


@pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in compiled_graphs.CHECKS])
def test_a_graph(check: Callable[[str], str]) -> None:
    assert check("cuda")
