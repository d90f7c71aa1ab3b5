"""What a launch may be at most: the types, with their limits, of the fields that tables hold of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from ..errors import TableError
from ..expr import Expr
from ..target import CATALOGUE
from .codec import Between, Items, Text
from .paths import Symbol

# Triton's signature words: of run-time numbers, and of what tensors hold
INT_WORDS = frozenset({"i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64"})
FLOAT_WORDS = frozenset({"fp32", "f32", "fp64", "f64"})
ELEMENT_WORDS = INT_WORDS | FLOAT_WORDS | {"fp16", "bf16", "fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"}
# torch's names of what tensors may hold
DTYPES = frozenset({
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn_x2", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
    "bool", "complex128", "complex64",
})  # fmt: skip
_MAX_REGIONS = 1024
_MAX_GRID = (1 << 31) - 1  # blocks along one axis
MAX_CLUSTER = 16  # blocks, where the device allows more than the portable 8
_MAX_SCRATCH = 1 << 26  # bytes a block
_TARGET_SYMBOLS = frozenset(next(iter(CATALOGUE.values())).symbols())
DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[(\d{1,7}(?:, ?\d{1,7}){0,4})\]>")  # at most 2**20 elements

Name = Annotated[str, Text(256)]
Dims = Annotated[tuple[Expr, ...], Items(1, 5)]  # what the copy engine takes
ClusterDim = Annotated[int, Between(1, MAX_CLUSTER)]
Bytes = Annotated[int, Between(0, _MAX_SCRATCH)]
Threads = Annotated[int, Between(1, 1024)]
Shared = Annotated[int, Between(0, 1 << 20)]
Region = Annotated[int, Between(0, _MAX_REGIONS - 1)]
Count = Annotated[int, Between(0, 1 << 40)]


def check_symbols(exprs: Iterable[Expr], where: str) -> None:
    """Raises TableError where one of ``exprs`` names what a launch does not have, ``where``."""
    for name in {name for e in exprs for name in e.symbols()}:
        if name in _TARGET_SYMBOLS:
            continue
        try:
            Symbol.parse(name)
        except TableError as error:
            raise TableError(error.constraint, got=error.got, where=where, hint=error.hint) from error


def check_grid(grid: tuple[Expr, Expr, Expr]) -> None:
    """Raises TableError where a grid names what a launch does not have, or is larger than any device's."""
    check_symbols(grid, "grid")
    if any((g.constant or 0) > _MAX_GRID for g in grid):
        raise TableError(
            f"a grid must have at most {_MAX_GRID} blocks an axis", got=", ".join(map(str, grid))[:120], where="grid"
        )
