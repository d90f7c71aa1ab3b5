"""The kernels written against another dialect, compiled and run."""

from __future__ import annotations

import pytest
from tile_testing.runs.compat_runs import UNMOVED, cases, check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", [name for name in cases() if name not in UNMOVED])
def test_on_the_gpu(name: str) -> None:
    assert check(name, "cuda") == ""
