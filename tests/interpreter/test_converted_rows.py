"""Reductions of converted rows: the lanes past a row's end hold nothing that the loaded dtype cannot have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Interpreter = Callable[..., Any]

DTYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"]


def test_rows_of_any_dtype_reduce_as_torch_does(interpreter: Interpreter) -> None:
    """The load filled such lanes with minus infinity: True of a bool, an InternalError of an int, NaN of a float8."""
    found = interpreter("runs.converted_rows:differences", DTYPES)
    assert found == {name: [] for name in DTYPES}
