"""The traced meaning of the language's own functions, and of Python's built-ins on traced values."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import torch

from ...errors import TraceError
from ...expr import Expr
from ...ir.kinds import OpKind
from ...ir.types import TileType, Value, is_float
from ...language.bounds import axes
from ...python_functions import python_own
from ..control import TileLoop, scalar_loop
from ..held_numbers import check_number
from ..host_containers import HostDict, HostList
from ..host_values import ConstantFloat, ConstantInt
from ..indexing import load, store
from ..language_registry import ALWAYS, PYTHON, REPLACEABLE, register_language
from ..part_views import in_memory
from ..promotion import dtype_name
from ..torch_registry import METHODS
from ..trace import Tracer
from ..values import SymInt, TensorRef, TileValue, is_number
from .factories import arange
from .quotients import cut, rounded_down, rounded_up
from .reductions import reduce as reduce_tile
from .stacks import StackRef, load_stack, store_stack


@register_language("tile")
def tile(t: Tracer, begin_or_end: Any, end: Any = None, block_size: Any = None) -> TileLoop:
    """A tile loop over one or more ranges, whose variables stand for blocks of indices."""
    return _loop(begin_or_end, end, block_size, scalar=False)


@register_language("grid")
def grid(t: Tracer, begin_or_end: Any, end: Any = None, step: Any = 1) -> TileLoop:
    """A tile loop over one or more ranges, whose variables stand for single indices."""
    return _loop(begin_or_end, end, step, scalar=True)


@register_language("jagged_tile")
def jagged_tile(t: Tracer, lengths: Any, *, block_size: Any = None) -> TileLoop:
    """A tile loop with a length for each lane of the tile around it. The loop goes up to the longest. Raises TraceError
    unless ``lengths`` is a 1-D tile of ints over a loop's tile."""
    value = t.operand(lengths)
    if not isinstance(value, Value) or len(value.dims) != 1 or value.dims[0].tile is None or is_float(value.type.dtype):
        raise TraceError(
            "jagged_tile takes a 1-D tile of ints over the tile of a loop around it",
            got=repr(lengths),
            where=t.location(),
            hint="load one length for each lane: lengths[tile]",
        )
    longest = reduce_tile(t, "max", t.wrap(value), None, False)
    return TileLoop((0,), (longest,), (block_size,), several=False, scalar=False, lengths=value)


def _loop(begin_or_end: Any, end: Any, block_size: Any, scalar: bool) -> TileLoop:
    box = axes(begin_or_end, end, block_size)
    if not box.ends:
        raise TraceError(
            "a tile loop has an axis or more",
            got="an empty list",
            where=None,
            hint="for tile in tfl.tile(n), for a, b in tfl.tile([m, n])",
        )
    return TileLoop(box.begins, box.ends, box.blocks, box.several, scalar)


@register_language("full")
def full(t: Tracer, shape: Any, value: Any, dtype: Any = None) -> Any:
    """A tile filled with ``value``; float32 where no dtype is given."""
    name = dtype_name(dtype or torch.float32)
    check_number(t, value, name)
    return t.full(t.dims_of(shape), value, name)


@register_language("zeros")
def zeros(t: Tracer, shape: Any, dtype: Any = None) -> Any:
    """A tile of zeros; float32 where no dtype is given."""
    return full(t, shape, 0, dtype)


def _items(index: Any) -> Any:
    """An index as a list is one of several items."""
    return tuple(index) if isinstance(index, list) else index


@register_language("load")
def load_(
    t: Tracer, tensor: Any, index: Any, *, extra_mask: Any = None, eviction_policy: str | None = None, other: Any = 0
) -> Any:
    """A load of ``tensor``, or through a stack, at ``index``, with ``other`` in the lanes that ``extra_mask`` leaves
    out."""
    if isinstance(tensor, StackRef):
        return load_stack(t, tensor, _items(index), extra_mask, other)
    return load(t, in_memory(t, tensor, "tfl.load reads"), _items(index), extra_mask, eviction_policy, other)


@register_language("store")
def store_(t: Tracer, tensor: Any, index: Any, value: Any, *, extra_mask: Any = None) -> None:
    """A store of ``value`` into ``tensor``, or through a stack, at ``index``, except in the lanes that ``extra_mask``
    leaves out."""
    if isinstance(tensor, StackRef):
        store_stack(t, tensor, _items(index), value, extra_mask)
    else:
        store(t, in_memory(t, tensor, "tfl.store writes to"), _items(index), value, extra_mask)


@register_language("specialize")
def specialize(t: Tracer, value: Any) -> Any:
    """The size as a constant of this kernel, which a guard then holds. Raises TraceError for a value that only the
    kernel knows."""
    if isinstance(value, TileValue):
        raise TraceError(
            "tfl.specialize takes a size or an int argument",
            got=repr(value),
            where=t.location(),
            hint="what a tensor holds is known to the kernel only",
        )
    return t.specialize(value.expr) if isinstance(value, SymInt) else value


@register_language("arange")
def arange_(t: Tracer, start_or_end: Any, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Indices from ``start`` up to ``end``, as ``torch.arange`` gives them."""
    return arange(t, start_or_end, end, step, dtype=dtype)


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
    if isinstance(x, SymInt) or _is_int(x):
        return x
    of_sizes = cut(t, x)
    if of_sizes is not None:
        return of_sizes
    found = t.cast(_scalar(t, x, "int"), _bits(x))
    return found if found.value.dims else t.emit(OpKind.CAST, (found.value,), TileType(_bits(x), weak=True))


def _is_int(x: Any) -> bool:
    """Whether a scalar of the kernel is an int of Python's already."""
    return isinstance(x, TileValue) and x.is_number and x.value.type.dtype in ("int32", "int64")


def _bits(x: Any) -> str:
    """The dtype that holds what ``int`` makes of a number: a float may be any, and an int has its own bits."""
    dtype = x.value.type.dtype if isinstance(x, TileValue) else "int64"
    return "int64" if is_float(dtype) or dtype in ("int64", "uint32", "uint64") else "int32"


def _float(t: Tracer, x: Any) -> Any:
    return t.number(t.cast(_scalar(t, x, "float"), "float32"))


def _scalar(t: Tracer, x: Any, name: str) -> Any:
    """``x``, of one element at most, as Python wants it for a number."""
    if isinstance(x, TileValue) and any(d.extent.constant != 1 for d in x.value.dims):
        raise TraceError(
            f"{name}(...) takes a scalar", got=repr(x), where=t.location(), hint=f"convert a tile by .{name}()"
        )
    return x


def _rounding(fn: str, of_sizes: Callable[[Tracer, Any], Any]) -> Callable[..., Any]:
    def compute(t: Tracer, x: Any) -> Any:
        if isinstance(x, SymInt):
            return x
        found = of_sizes(t, x)
        return _int(t, t.pointwise(fn, x)) if found is None else found

    return compute


def _log(t: Tracer, x: Any, base: Any = None) -> Any:
    """The natural logarithm; of a size to a base as Python's, which ranges count by."""
    if base is None:
        return t.pointwise("log", x)
    if not any(isinstance(n, TileValue) for n in (x, base)):
        return math.log(x, base)
    return t.pointwise("log", x) / (t.pointwise("log", base) if isinstance(base, TileValue) else math.log(base))


def _pointwise(fn: str) -> Callable[..., Any]:
    return lambda t, *args: t.pointwise(fn, *args)


def _range(t: Tracer, *args: Any) -> Any:
    """A range that the trace does not know: a loop of the kernel."""
    if not 1 <= len(args) <= 3 or any(isinstance(a, float) for a in args):
        raise TraceError(
            "a range is between ints and sizes", got=f"range{args!r}", where=t.location(), hint="divide sizes by //"
        )
    args = tuple(map(partial(_bound, t), args))
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if not isinstance(step, (int, SymInt)) or (isinstance(step, int) and step == 0):
        raise TraceError(
            "the step of a range in device code is a size, or an int other than 0", got=repr(step), where=t.location()
        )
    return scalar_loop(start, stop, step)


def _bound(t: Tracer, x: Any) -> Any:
    """A bound of a range, where a scalar of the kernel is an int to Python, which does not wrap."""
    of = x.value.type if isinstance(x, TileValue) else None
    return _int(t, x) if of is not None and not of.dims and not is_float(of.dtype) else x


@register_language("static_range")
def static_range(t: Tracer, begin_or_end: Any, end: Any = None, step: Any = 1) -> Any:
    """Turns that are written out: the sizes are constants of the kernel from here on."""
    bounds = (0, begin_or_end) if end is None else (begin_or_end, end)
    return list(range(*(t.specialize(a.expr) if isinstance(a, SymInt) else a for a in (*bounds, step))))


@register_language("barrier")
def barrier(t: Tracer) -> None:
    """Raises TraceError: a barrier inside a tile loop has no meaning; host code sees the ones between loops."""
    raise TraceError(
        "a barrier stands between two outermost tile loops",
        got="one inside a tile loop",
        where=t.location(),
        hint="end the loop, call tfl.barrier(), and begin another: each is a launch",
    )


def _divmod(t: Tracer, a: Any, b: Any) -> Any:
    """The quotient, rounded down, and the remainder."""
    return a // b, a % b


def _round(t: Tracer, number: Any, ndigits: int | None = None) -> Any:
    """To the nearest integer, halves to the even one, as Python and torch do; of a tile of floats it stays one."""
    if isinstance(number, SymInt):
        return round(number, ndigits)
    if ndigits is None and isinstance(number, TileValue) and not number.is_floating_point():
        return number
    if ndigits is None and is_number(number):
        return _int(t, t.pointwise("round", number))
    return t.run_torch(METHODS["round"], "round", (number,), {} if ndigits is None else {"decimals": ndigits})


def _abs(t: Tracer, x: Any) -> Any:
    return t.run_torch(METHODS["abs"], "abs", (x,), {})


def _bool(t: Tracer, x: Any) -> Any:
    return t.cast(_scalar(t, x, "bool"), "bool") if isinstance(x, TileValue) else bool(x)


def _any_or_all(fn: str) -> Callable[..., Any]:
    return lambda t, items: reduce(lambda a, b: t.pointwise(fn, a, b), [_bool(t, i) for i in items])


_STANDS_FOR: dict[type, type] = {HostList: list, HostDict: dict, ConstantInt: int, ConstantFloat: float}


def is_instance(t: Tracer, x: Any, kinds: Any) -> bool:
    """What Python says of the tensor, the number or the object that is there where the kernel runs as Python."""
    return issubclass(_class(x), kinds)


def _class(x: Any) -> type:
    if isinstance(x, SymInt):
        return int
    if isinstance(x, TensorRef):
        return torch.Tensor
    if not isinstance(x, TileValue):
        return _STANDS_FOR.get(type(x)) or x.__class__  # of what stands for a captured object, the object's
    of = x.value.type
    if of.dims or not x.is_number:
        return torch.Tensor
    return bool if of.dtype == "bool" else float if is_float(of.dtype) else int


def _type(t: Tracer, *args: Any) -> type:
    return _class(args[0]) if len(args) == 1 else type(*args)


def _str(t: Tracer, *args: Any, **kwargs: Any) -> str:
    """Of a size, the digits that it has; the kernel is for that size from here on."""
    return str(*(t.specialize(x.expr) if isinstance(x, SymInt) else x for x in args), **kwargs)


def _no_breakpoint(t: Tracer, *args: Any, **kwargs: Any) -> None:
    raise TraceError(
        "a breakpoint stops Python, which a compiled kernel is not",
        got="breakpoint()",
        where=t.location(),
        hint="run the kernel as Python: with tileflow.interpret(): ...",
    )


PYTHON.update(
    {
        python_own(min): _fold("minimum", "min"),
        python_own(max): _fold("maximum", "max"),
        abs: _abs,
        int: _int,
        float: _float,
        bool: _bool,
        any: _any_or_all("logical_or"),
        all: _any_or_all("logical_and"),
        range: _range,
        divmod: _divmod,
        round: _round,
        math.exp: _pointwise("exp"),
        math.log: _log,
        math.sqrt: _pointwise("sqrt"),
        math.sin: _pointwise("sin"),
        math.cos: _pointwise("cos"),
        math.floor: _rounding("floor", rounded_down),
        math.ceil: _rounding("ceil", rounded_up),
    }
)


def _as_torch(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """One of Python's functions of floats: torch's of that name for scalars of the kernel, itself for sizes."""

    def compute(t: Tracer, *args: Any) -> Any:
        if not any(isinstance(x, TileValue) for x in args):
            return function(*args)
        return t.run_torch(METHODS[name], name, tuple(x if isinstance(x, TileValue) else float(x) for x in args), {})

    return compute


_OF_TORCH = (
    "acos", "asin", "atan", "atan2", "copysign", "cosh", "erf", "erfc", "expm1", "fmod", "hypot", "isfinite", "isinf",
    "isnan", "log10", "log1p", "log2", "pow", "sinh", "tan", "tanh",
)  # fmt: skip
PYTHON.update({own: _as_torch(own, name) for name in _OF_TORCH if (own := python_own(getattr(math, name)))})
PYTHON[math.fabs] = _as_torch(math.fabs, "abs")

ALWAYS.update({isinstance: is_instance, type: _type, str: _str})
REPLACEABLE["breakpoint"] = _no_breakpoint
