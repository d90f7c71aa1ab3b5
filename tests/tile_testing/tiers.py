"""Which cases a run without the slow tests has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every_other(cases: Iterable[object]) -> list[Any]:
    """The cases as parameters, of which the second, the fourth and so on are slow."""
    return [pytest.param(case, marks=pytest.mark.slow if n % 2 else ()) for n, case in enumerate(cases)]
