"""The kernels written against another dialect, compiled and run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "interpreter"))
from compat_runs import UNMOVED, cases, check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", [name for name in cases() if name not in UNMOVED])
def test_on_the_gpu(name: str) -> None:
    assert check(name, "cuda") == ""
