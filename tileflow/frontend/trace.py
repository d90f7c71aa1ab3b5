"""Tracer: records what device code does to tiles as IR.

One Tracer traces one region. It knows types, sizes, guards and where the user's code stands; what each torch
function means is in :mod:`operations`, indexing in :mod:`indexing`, loops and branches in :mod:`control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch

from ..errors import KernelError, ShapeError, TileflowError, TraceError
from ..expr import Expr, ExprLike
from ..ir.attributes import NO_ATTRS, Attrs, AxisAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Operand, ScalarParam, TensorParam
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import INT32_MAX, ONE, Dim, TileType, Value, is_float
from ..language.captured_views import BY_ITEM, ITSELF, by_item, gives_views, name_of_view
from ..language.cuts import Spans
from ..language.elementwise import meets_by_loops
from ..language.operand_dtypes import Operand as Given
from ..language.operand_dtypes import check_dtypes
from ..language.rules import ASSIGNED_HINT, NO_OUT, PART_IN_TURNS, TAKEN_ANEW
from ..runtime.numpy_numbers import plain_argument, plain_number
from ..runtime.views import NAMES
from .alignment import gaps
from .call_arguments import is_in_place, with_numbers, with_sizes
from .changed_tiles import ones, related
from .dimensions import show
from .intervals import check_widened
from .loaded_tiles import Cut, Part, Shaped
from .operands import operand_of
from .pointwise_dtypes import as_operands, bits_of_ints, pointwise_dtypes
from .promotion import kind_of, number_as, promote, weakened
from .refusals import not_implemented
from .scopes import Scopes
from .structural_names import StructuralNames
from .taken import Found, Loaded, Taken
from .torch_aliases import canonical_arguments, instead_of
from .torch_registry import TABLE
from .values import SymInt, TensorRef, TileProxy, TileValue, is_number
from .view_cuts import cut_by

LEAST_EXTENT = 1 << 12  # of the loops of a variant that takes any


class Tracer(Scopes):
    """The state of one region's trace.

    ``mode`` and ``hints``: see :class:`Assumptions`; ``names``: see :class:`Scopes`. ``files``: the code that is the
    user's, for locations. ``found``: what the traces before found out.
    """

    def __init__(
        self,
        mode: str,
        hints: dict[str, int],
        names: StructuralNames,
        files: set[str],
        device: torch.device,
        found: Found | None = None,
    ) -> None:
        super().__init__(mode, hints, files, names)
        self.device = device
        self.ranges: set[str] = set()  # loops whose variable is one of Python's ints to the author
        self.tensors: dict[str, TensorParam] = {}
        self.scalars: dict[str, ScalarParam] = {}
        self.side_by_side: dict[Value, tuple[int, tuple[Value, ...]]] = {}  # the axis and the parts of torch.cat
        self.loaded: dict[Value, Part] = {}  # of loads, what they name
        self.cuts: dict[Value, Cut] = {}  # of parts of tiles, of which ones
        self.reshaped: dict[Value, Shaped] = {}  # of tiles under other dimensions, which ones
        self.read_again: set[str] = set()  # paths of tensors that parts of such tiles are read from
        self.found = found or Found()
        self.through: set[Taken] = set()  # where parts are taken that tiles hold, and that are stored through
        self.is_plain = False
        self.kernel: CodeType | None = None  # of the user's function, to which a region belongs

    def sharing(self, path: str) -> frozenset[str]:
        """The paths of the captured tensors that lie in one memory with the one at ``path``, itself among them."""
        return frozenset(
            {path, *self.tensors[path].shares, *(t.path for t in self.tensors.values() if path in t.shares)}
        )

    def store_through(self, tile: TileValue) -> None:
        """Note that what follows stores through ``tile``. Who asks refuses it: where the tile holds a part of a tensor,
        the next trace has that part in its place."""
        if tile.taken is not None:
            self.through.add(tile.taken)

    def part_taken(self, tile: TileValue) -> Taken | None:
        """Where the part of a tensor is taken that a name is of, in a loop's first turn at least; None of others."""
        return next((one.taken for one in ones(tile) if one.taken is not None), None)

    def loaded_from(self, tile: TileValue) -> Loaded | None:
        """What a tile, or what it is a view of, holds of a tensor of which torch has a view; None of others."""
        return next((one.loaded for one in related(tile) if one.loaded is not None), None)

    def is_stored_through(self, tile: TileValue) -> TraceError:
        """What is said where a name of a part is stored through, and is of another in a later turn of a loop; else the
        next trace has the part in its place."""
        self.store_through(tile)
        return TraceError(PART_IN_TURNS, got=repr(tile), where=self.location(), hint=TAKEN_ANEW)

    def of_part(self, tile: TileValue, view: Callable[[], Any]) -> Any:
        """What ``view`` makes of a tile that holds a part of a tensor, which is of that part. What registers refuse
        memory may have: the next trace asks the part."""
        try:
            result = view()
        except TileflowError:
            self.store_through(tile)
            raise
        for part in result if isinstance(result, (tuple, list)) else (result,):
            part.taken = tile.taken
        return result

    # ---- recording ------------------------------------------------------------------------------

    def wrap(self, value: Value) -> TileValue:
        """``value`` as device code sees it, of the scope that is open now."""
        return TileValue(value, self, self.scopes[-1])

    def copied(self, x: TileValue) -> TileValue:
        """The same value as another tile, which is not changed where Python's meaning changes ``x`` in place."""
        return TileValue(x.value, self, x.scope, x.is_number)

    def viewing(self, found: Any, of: TileValue, cut: Spans | None = None) -> Any:
        """What is ``found`` as views that the author's text takes of a tile in registers: of a part of a tensor, memory
        has what its names change. ``cut``: what one view names; several are apart."""
        if of.taken is not None:
            return found
        if isinstance(found, (tuple, list)):
            call = object()
            return tuple(self.viewing(one, of, {call: (n, n + 1, 1)}) for n, one in enumerate(found))
        if not isinstance(found, TileValue) or found is of:
            return found
        view = self.copied(found)
        view.base, view.cut = of, cut or {}
        return view

    def number(self, x: TileValue) -> TileValue:
        """``x`` as a number of Python's, which has no dtype where it meets a scalar that has one."""
        return TileValue(x.value, self, x.scope, is_number=True)

    def operand(self, x: Any) -> Operand:
        """The IR operand that a traced or Python value stands for. Raises TraceError for anything else."""
        return operand_of(self, x)

    def emit(self, kind: OpKind, inputs: tuple[Operand, ...], type_: TileType, attrs: Attrs = NO_ATTRS) -> TileValue:
        """The result of an op appended now, with the place of the user's line."""
        return self.wrap(self.builder.add(kind, inputs, type_, attrs, self.location()))

    def pointwise(self, fn: str, *args: Any) -> TileValue:
        """Record one row of POINTWISE over broadcast operands, with torch's promotion."""
        given = [self.operand(a) for a in args]
        dtype, operand = pointwise_dtypes(self, fn, weakened(tuple(map(kind_of, given)), [*map(is_number, args)]))
        are_numbers = all(map(is_number, args)) and not any(isinstance(o, Value) and o.dims for o in given)
        of_ints = are_numbers and operand in ("int32", "int64")
        operands = self.opposite(as_operands(self, fn, args, given, "int64" if of_ints else operand))
        dims = self.broadcast([o.dims for o in operands if isinstance(o, Value)])
        aligned = tuple(self.align(o, len(dims)) for o in operands)
        for value in operands[fn == "where" :]:
            check_widened(self, value, operand)
        if of_ints:
            dtype, operand = bits_of_ints(self, fn, dtype, operand, operands)
        # what a loop carries has a dtype: a float is held in 32 bits, and is no more exact in doubles
        held = [o.type.dtype for o in operands if isinstance(o, Value) and not o.type.weak]
        is_as_held = any(is_float(d) or not is_float(dtype) for d in held)
        weak = are_numbers and not POINTWISE[fn].boolean and not is_as_held
        made = self.emit(OpKind.POINTWISE, aligned, TileType(dtype, dims, weak), PointwiseAttrs(fn, operand))
        return self.number(made) if are_numbers and not POINTWISE[fn].boolean else made

    def cast(self, x: Any, dtype: str) -> TileValue:
        """``x`` converted to ``dtype``, rounded there."""
        value = self.operand(x)
        if not isinstance(value, Value):
            return self.full((), value, dtype)
        if value.type.dtype == dtype and not value.type.weak:
            return self.wrap(value)
        check_widened(self, value, dtype)
        return self.emit(OpKind.CAST, (value,), TileType(dtype, value.dims))

    def full(self, dims: tuple[Dim, ...], value: Any, dtype: str) -> TileValue:
        """A tile filled with a number or a scalar of the kernel."""
        operand = self.operand(value)
        if type(operand) is int and operand < 0 and dtype.startswith("uint"):
            operand = number_as("full", 0, operand, dtype)
        return self.emit(OpKind.FULL, (operand,), TileType(dtype, dims))

    def align(self, operand: Operand, rank: int) -> Operand:
        """A value with leading dimensions of 1 added up to ``rank``; scalars and numbers stay."""
        if not isinstance(operand, Value) or not operand.dims:
            return operand
        while len(operand.dims) < rank:
            type_ = TileType(operand.type.dtype, (ONE, *operand.dims))
            operand = self.emit(OpKind.UNSQUEEZE, (operand,), type_, AxisAttrs(0)).value
        return operand

    def opposite(self, operands: list[Operand], wide: tuple[Dim, ...] = ()) -> list[Operand]:
        """The operands, a tile's dimension of one opposite the same tile's of the widest one (or of ``wide``)."""
        widest = max((wide, *(o.dims for o in operands if isinstance(o, Value))), key=len)
        found = []
        for operand in operands:
            for axis in gaps(operand.dims, widest) if isinstance(operand, Value) else ():
                assert isinstance(operand, Value)
                type_ = TileType(operand.type.dtype, (*operand.dims[:axis], ONE, *operand.dims[axis:]))
                operand = self.emit(OpKind.UNSQUEEZE, (operand,), type_, AxisAttrs(axis)).value
            found.append(operand)
        return found

    def expand(self, x: TileValue, dims: tuple[Dim, ...]) -> TileValue:
        """``x`` broadcast to ``dims``."""
        if gaps(x.value.dims, dims):
            (stood,) = self.opposite([x.value], dims)
            assert isinstance(stood, Value)
            x = self.wrap(stood)
        value = x.value
        merged = self.broadcast([value.dims, dims])
        # a size that is 1 here meets a constant 1 as equal, where nothing else would broadcast
        pairs = zip(merged, dims, strict=False)
        if len(merged) != len(dims) or not all(self.same_size(a.extent, b.extent) for a, b in pairs):
            raise ShapeError(
                "a tile must broadcast to the dimensions it is used with",
                got=f"{show(value.dims)} for {show(dims)}",
                where=self.location(),
            )
        if value.dims == dims:
            return x
        if not value.dims:
            return self.full(dims, x, value.type.dtype)
        aligned = self.align(value, len(dims))
        assert isinstance(aligned, Value)
        if aligned.dims == dims:
            return self.wrap(aligned)
        return self.emit(OpKind.EXPAND, (aligned,), TileType(value.type.dtype, dims))

    # ---- sizes ----------------------------------------------------------------------------------

    def size(self, e: ExprLike) -> Any:
        """A size as device code sees it: an int where it is one, else a SymInt."""
        e = Expr.of(e)
        return e.constant if e.constant is not None else SymInt(e, self)

    def as_expr(self, x: Any, what: str) -> Expr:
        """A size as an Expr; TraceError where ``x`` is a value of the device."""
        if isinstance(x, SymInt):
            return x.expr
        if isinstance(x, TileProxy):
            return x.dim.extent
        x = plain_number(x)
        if isinstance(x, int) and not isinstance(x, bool):
            return Expr.of(x)
        hint = "divide sizes by //" if isinstance(x, float) else "load it as an index, or pass it as an int argument"
        raise TraceError(
            f"{what} must be a size, a block size or an int", got=repr(x)[:200], where=self.location(), hint=hint
        )

    def condition(self, e: Expr) -> Any:
        """What a comparison of sizes gives: a bool, guarded; or a SymInt where block sizes decide."""
        if e.constant is not None:
            return bool(e.constant)
        return self.decide(e) if e.symbols() <= self.hints.keys() else SymInt(e, self)

    # ---- tiles ----------------------------------------------------------------------------------

    def tile_scalar(self, kind: OpKind, tile: TileProxy) -> TileValue:
        """``tile_index`` (1-D), ``tile_begin``, ``tile_end`` or ``tile_id`` of a tile in scope."""
        if tile.scope not in self.scopes:
            raise TraceError(
                "a tile is used only inside its loop",
                got=tile.name,
                where=self.location(),
                hint="store inside the loop, or carry what the tile loads out in a variable",
            )
        dims = (tile.dim,) if kind is OpKind.TILE_INDEX else ()
        type_ = TileType(self.tiles[tile.name].index_dtype, dims, weak=not dims)
        return self.emit(kind, (), type_, TileAttrs(tile.name))

    def is_wide(self, *bounds: Expr | Value) -> bool:
        """Whether a loop's indices need 64 bits: by its bounds, or where the kernel computes those by the sizes of the
        tensors."""
        sizes = [e for e in bounds if isinstance(e, Expr) and e.symbols() <= self.hints.keys()]
        if any(self.is_open(e) for e in sizes):
            return True
        if any(isinstance(b, Value) and b.type.dtype == "int64" for b in bounds):
            if self.shape_mode.is_wide:
                return True
            sizes += [size for tensor in self.tensors.values() for size in tensor.shape]
        if any(e.evaluate(self.hints) > INT32_MAX for e in sizes):
            return True
        for e in sizes:
            self.guard(e.le(INT32_MAX))
        return False

    def valid_lanes(self, name: str) -> TileValue:
        """How many lanes of a tile are inside its loop's bounds."""
        if self.tiles[name].lengths is not None:
            raise TraceError(
                "statistics over a jagged tile are made of sums",
                got=name,
                where=self.location(),
                hint="accumulate sums over the loop, and divide by the lengths after it",
            )
        proxy = TileProxy(name, self, self.scopes[-1], Expr.of(0))
        return self.pointwise(
            "sub", self.tile_scalar(OpKind.TILE_END, proxy), self.tile_scalar(OpKind.TILE_BEGIN, proxy)
        )

    def new_block(self, name: str, extent: int | None) -> Expr:
        """A block size to be chosen, up to the power of two that covers ``extent``; not a small one of an example from
        which nothing is taken over."""
        knob = f"block:{name}"
        if not self.shape_mode.keeps_layout and extent is not None:
            extent = max(extent, LEAST_EXTENT)
        high = 1 << max((extent or 1 << 16) - 1, 0).bit_length()
        self.blocks[knob] = (1, high)
        return Expr.sym(knob)

    def dims_of(self, shape: Any) -> tuple[Dim, ...]:
        """The dims of a register shape: tiles keep their lanes, sizes and block sizes are bare."""
        items = shape if isinstance(shape, (list, tuple)) else [shape]
        return tuple(
            s.dim if isinstance(s, TileProxy) else Dim(self.extent(self.as_expr(s, "a register tile's size")))
            for s in items
        )

    def common_type(self, a: Any, b: Any) -> TileType:
        """The type that holds two values, of whatever scopes: promoted dtype, broadcast dims."""
        operands = [x.value if isinstance(x, TileValue) else self.operand(x) for x in (a, b)]
        kinds = tuple(kind_of(o) for o in operands)
        dims = self.broadcast([o.dims for o in operands if isinstance(o, Value)])
        same = {o.type.dtype for o in operands if isinstance(o, Value)}
        if len(same) == 1 and all(isinstance(o, Value) for o in operands):
            return TileType(same.pop(), dims)
        try:
            with self.plain_torch():
                return TileType(promote(kinds), dims)
        except RuntimeError as error:
            raise TraceError(
                "values that one name takes have dtypes that promote to one",
                where=self.location(),
                got=" and ".join(k[0] for k in kinds),
                hint="convert one of them: .to(torch.float32)",
            ) from error

    def cast_weakly(self, x: TileValue, like: TileValue) -> TileValue:
        """``x`` in the dtype of ``like``; half results are not rounded, as within one expression."""
        dtype = like.value.type.dtype
        return x if x.value.type.dtype == dtype else self.cast(x, dtype)

    def tile_count(self, tile: TileProxy) -> Any:
        """How many blocks a tile's loop has. Raises TraceError where the kernel computes its bounds."""
        info = self.tiles[tile.name]
        if isinstance(info.begin, Value) or isinstance(info.end, Value):
            raise TraceError(
                "tile.count is known for loops over sizes only",
                got=tile.name,
                where=self.location(),
                hint="compute it from the bounds: (end - begin + block - 1) // block",
            )
        return self.size((info.end - info.begin).cdiv(info.block))

    @contextmanager
    def plain_torch(self) -> Iterator[None]:
        """torch functions called inside are our own, and not recorded."""
        before, self.is_plain = self.is_plain, True
        try:
            yield
        finally:
            self.is_plain = before

    # ---- calls ----------------------------------------------------------------------------------

    def run(self, handler: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
        """Call an implementation; a TypeError of its signature is the user's."""
        args, kwargs = tuple(map(plain_argument, args)), {n: plain_argument(v) for n, v in kwargs.items()}
        try:
            return handler(self, *args, **kwargs)
        except TypeError as error:
            if isinstance(error, KernelError):
                raise
            spelled_out = name if name.startswith("tfl.") else f"torch.{name}"
            raise TraceError(
                f"{spelled_out} must be called as tileflow implements it",
                got=str(error),
                where=self.location(),
                hint="docs/reference/language.md lists the operations, and what differs from torch",
            ) from error

    def run_torch(self, handler: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
        """Call a row of torch's table, however the call is spelled."""
        args, kwargs = canonical_arguments(tuple(map(_whole, args)), {n: _whole(v) for n, v in kwargs.items()})
        args, kwargs = with_numbers(handler, *with_sizes(handler, args, kwargs))
        check_dtypes(name, _operands(args, kwargs), self.location())
        if meets_by_loops(name):
            found = self.facing([*args, *kwargs.values()])
            args, kwargs = tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :], strict=True))
        for x in _tiles((*args, *kwargs.values())):
            self.use(x)
        if name in NAMES and args and isinstance(args[0], TileValue) and args[0].taken is not None:
            result = self.of_part(args[0], lambda: self.run(handler, name, args, kwargs))
        else:
            result = self.run(handler, name, args, kwargs)
        if not args or not isinstance(args[0], TileValue):
            return result
        if gives_views(name) or (name in ITSELF and result.value == args[0].value and kwargs.get("copy") is not True):
            items = by_item(name, args[0].ndim, args[1:], kwargs) if name in BY_ITEM else ()
            return self.viewing(result, args[0], cut_by(args[0], items, self.hints))
        if result is args[0] and name not in ITSELF:
            return self.copied(args[0])  # another tensor of torch's
        if is_in_place(handler, args, kwargs) and result.value != args[0].value:
            self.overwrite(args[0])
        return result

    def facing(self, args: Sequence[Any]) -> list[Any]:
        """Arguments of a call, a tile's dimension of one opposite the same tile's of the widest."""
        wide = max((x.value.dims for x in args if isinstance(x, TileValue)), key=len, default=())
        found = []
        for x in args:
            if isinstance(x, TileValue) and gaps(x.value.dims, wide):
                (value,) = self.opposite([x.value], wide)
                assert isinstance(value, Value)
                x = self.wrap(value)
            found.append(x)
        return found

    def torch_call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A torch function on traced values."""
        is_ref = bool(args) and isinstance(args[0], TensorRef)
        if is_ref and (args[0].is_part or not args[0].is_whole) and (view := name_of_view(func)):
            return args[0].viewed(view, *args[1:], **kwargs)
        if is_ref and not args[0].is_whole and instead_of(func.__name__, ""):
            getattr(args[0], func.__name__)  # the error of the method of that name
        if func not in TABLE:
            raise self.placed(not_implemented(getattr(func, "__name__", str(func))))
        handler, name = TABLE[func]
        if kwargs.get("out") is not None:
            raise TraceError(NO_OUT, got=f"torch.{name}(..., out=...)", where=self.location(), hint=ASSIGNED_HINT)
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}  # torch's Python functions spell their defaults out
        return self.run_torch(handler, name, args, kwargs)


def _whole(x: Any) -> Any:
    """A module's tensor as a tile; a tile of one element, and what is read by index, as they are."""
    return x.all() if isinstance(x, TensorRef) and x.is_whole and x.dims else x


def _tiles(args: Iterable[Any]) -> Iterator[TileValue]:
    """The tiles among arguments, and in lists of them."""
    for x in args:
        yield from (y for y in (x if isinstance(x, (tuple, list)) else (x,)) if isinstance(y, TileValue))


def _operands(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[Given]:
    """The operands of a call that have a dtype."""
    types = (x.value.type for x in (*args, *kwargs.values()) if isinstance(x, TileValue))
    return (Given(of.dtype, bool(of.dims)) for of in types if not of.weak)
