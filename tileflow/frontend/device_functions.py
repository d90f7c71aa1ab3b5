"""The traced meaning of the language's own functions, and of Python's built-ins on traced values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from ..errors import TraceError
from ..expr import Expr
from ..language.bounds import axes
from . import atomics as _atomics
from . import random_numbers as _random_numbers
from . import scans as _scans
from .control import TileLoop
from .device_table import DEVICE, device_function
from .indexing import load, store
from .matmul import language_dot
from .promotion import dtype_name
from .torch_ops import arange
from .trace import Tracer
from .values import SymInt

__all__ = ["DEVICE", "PYTHON"]

_FAMILIES = (_atomics, _random_numbers, _scans)  # imported for the meanings that they register

DEVICE["dot"] = language_dot


@device_function("tile")
def tile(t: Tracer, begin_or_end: Any, end: Any = None, *, block_size: Any = None) -> TileLoop:
    return _loop(begin_or_end, end, block_size, scalar=False)


@device_function("grid")
def grid(t: Tracer, begin_or_end: Any, end: Any = None) -> TileLoop:
    return _loop(begin_or_end, end, None, scalar=True)


def _loop(begin_or_end: Any, end: Any, block_size: Any, scalar: bool) -> TileLoop:
    box = axes(begin_or_end, end, block_size)
    return TileLoop(box.begins, box.ends, box.blocks, box.several, scalar)


@device_function("full")
def full(t: Tracer, shape: Any, value: Any, dtype: Any = None) -> Any:
    return t.full(t.dims_of(shape), value, dtype_name(dtype or torch.float32))


@device_function("zeros")
def zeros(t: Tracer, shape: Any, dtype: Any = None) -> Any:
    return full(t, shape, 0, dtype)


@device_function("load")
def load_(t: Tracer, tensor: Any, index: Any, *, extra_mask: Any = None, eviction_policy: str | None = None) -> Any:
    return load(t, tensor, index, extra_mask, eviction_policy)


@device_function("store")
def store_(t: Tracer, tensor: Any, index: Any, value: Any, *, extra_mask: Any = None) -> None:
    store(t, tensor, index, value, extra_mask)


@device_function("specialize")
def specialize(t: Tracer, value: Any) -> Any:
    return t.specialize(value.expr) if isinstance(value, SymInt) else value


@device_function("arange")
def arange_(t: Tracer, start_or_end: Any, end: Any = None, *, dtype: Any = None) -> Any:
    return arange(t, start_or_end, end, dtype=dtype)


def _fold(fn: str, expr: str) -> Callable[..., Any]:
    def pair(t: Tracer, a: Any, b: Any) -> Any:
        sizes = [x.expr if isinstance(x, SymInt) else x for x in (a, b)]
        if all(isinstance(x, int) or isinstance(s, SymInt) for x, s in zip(sizes, (a, b), strict=True)):
            return t.size(getattr(Expr.of(sizes[0]), expr)(sizes[1]))
        return t.pointwise(fn, a, b)

    def call(t: Tracer, *args: Any) -> Any:
        items = args[0] if len(args) == 1 else args
        return reduce(lambda a, b: pair(t, a, b), items)

    return call


def _int(t: Tracer, x: Any) -> Any:
    return x if isinstance(x, SymInt) else t.cast(x, "int32")


def _float(t: Tracer, x: Any) -> Any:
    return t.cast(x, "float32")


def _pointwise(fn: str) -> Callable[..., Any]:
    return lambda t, *args: t.pointwise(fn, *args)


def _range(t: Tracer, *args: Any) -> Any:
    if any(not isinstance(a, (int, SymInt)) for a in args) or len(args) > 2:
        raise TraceError("range in device code takes sizes, with step 1", got=args, where=t.location(),
                         hint="use tfl.grid(begin, end) for bounds computed in the kernel")  # fmt: skip
    return grid(t, *args)


PYTHON: dict[Any, Callable[..., Any]] = {
    min: _fold("minimum", "min"),
    max: _fold("maximum", "max"),
    abs: _pointwise("abs"),
    int: _int,
    float: _float,
    range: _range,
    math.exp: _pointwise("exp"),
    math.log: _pointwise("log"),
    math.log2: _pointwise("log2"),
    math.sqrt: _pointwise("sqrt"),
    math.sin: _pointwise("sin"),
    math.cos: _pointwise("cos"),
    math.floor: _pointwise("floor"),
    math.ceil: _pointwise("ceil"),
}
