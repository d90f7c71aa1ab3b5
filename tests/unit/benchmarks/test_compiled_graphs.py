"""The checks of graphs that run on a GPU, on a CPU: by aot_eager in Inductor's place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tileflow_benchmarks.ratios import compiled_graphs


@pytest.mark.slow
@pytest.mark.parametrize("check", compiled_graphs.CHECKS, ids=lambda check: check.__name__)
def test_a_graph(check: Callable[[str], str]) -> None:
    assert check("cpu")
