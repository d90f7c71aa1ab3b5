"""Expressions out of data that nobody vouches for. What limits a table's are: ``runtime/test_limits.py``."""

from __future__ import annotations

import pytest

from tileflow.errors import TableError
from tileflow.expr_reader import read_expr


@pytest.mark.parametrize(
    "data",
    [True, 1.5, None, "n", [], ["sum"], ["prod"], ["pow", 2, 3], ["min", 1], ["not", 1, 2], {"sym": 3},
     {"sym": "n", "x": 1}, {"symbol": "n"}, ["sum", 1, "n"], [["sum", 1]]],
)  # fmt: skip
def test_damaged_json_is_refused(data: object) -> None:
    with pytest.raises(TableError, match="an expression must be"):
        read_expr(data)
