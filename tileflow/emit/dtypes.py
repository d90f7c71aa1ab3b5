"""Dtypes in Triton's spelling, and the dtype that a value is held in between ops."""

from __future__ import annotations

import math
import struct

from ..ir.types import is_float

_TRITON = {
    "float64": "tl.float64", "float32": "tl.float32", "float16": "tl.float16", "bfloat16": "tl.bfloat16",
    "float8_e4m3fn": "tl.float8e4nv", "float8_e5m2": "tl.float8e5", "float8_e4m3fnuz": "tl.float8e4b8",
    "float8_e5m2fnuz": "tl.float8e5b16", "int64": "tl.int64", "int32": "tl.int32", "int16": "tl.int16",
    "int8": "tl.int8", "uint8": "tl.uint8", "uint16": "tl.uint16", "uint32": "tl.uint32", "uint64": "tl.uint64",
    "bool": "tl.int1",
}  # fmt: skip
_SIGNATURE = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "bool": "i1",
}  # fmt: skip

NARROW_INTS = ("int8", "uint8", "int16", "uint16")  # what Triton's functions widen to 32 bits, its operators not
_WIDENING = ("sum", "max", "min")  # by which Triton reduces and scans those


def triton_dtype(dtype: str) -> str:
    """``tl.float32``."""
    return _TRITON[dtype]


def signature(dtype: str) -> str:
    """``fp32``: the word of a signature."""
    return _SIGNATURE[dtype]


def narrowed(text: str, fn: str, dtype: str) -> str:
    """A reduction's or a scan's text in the dtype of its operand, also where Triton's own result is wider."""
    return f"{text}.to({triton_dtype(dtype)})" if fn in _WIDENING and dtype in NARROW_INTS else text


def compute_dtype(dtype: str) -> str:
    """What values of ``dtype`` are computed and held in: half and fp8 types in float32, without rounding in between."""
    return "float32" if is_float(dtype) and dtype != "float64" else dtype


def literal(value: float | int | bool, dtype: str) -> str:
    """A number as text for an operand of ``dtype``; negative ones in parentheses."""
    if dtype == "bool":
        return "True" if value else "False"
    if not is_float(dtype):
        return f"({int(value)})" if value < 0 else str(int(value))
    value = float(value)
    if value != value:
        return "float('nan')"
    if value in (float("inf"), float("-inf")):
        return "float('inf')" if value > 0 else "float('-inf')"
    if value == 0 and math.copysign(1, value) < 0:  # Triton makes 0.0 of a bare -0.0
        return f"(tl.cast(0.0, {triton_dtype(compute_dtype(dtype))}) * -1.0)"
    if dtype == "float64" and value != rounded(value):  # a bare number is a float32 where Triton meets it first
        return f"tl.full([], {value!r}, tl.float64)"
    return f"({value!r})" if value < 0 else repr(value)


def typed_literal(value: float | int | bool, dtype: str) -> str:
    """A number as text that has ``dtype`` wherever it stands: a bare one is a float32 where no tile is beside it."""
    text = literal(value, dtype)
    return text if "tl." in text else f"tl.full([], {text}, {triton_dtype(dtype)})"


def rounded(value: float) -> float:
    """``value`` as the nearest float32; itself where it lies beyond those."""
    try:
        (found,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return value
    return float(found)
