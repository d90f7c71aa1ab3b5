"""Tracer: records what device code does to tiles as IR.

One Tracer traces one region. It knows types, sizes, guards and where the user's code stands; what each torch
function means is in :mod:`operations`, indexing in :mod:`indexing`, loops and branches in :mod:`control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from types import CodeType
from typing import Any

import torch

from ..errors import KernelError, Location, ShapeError, TileflowError, TraceError
from ..expr import Expr, ExprLike, is_knob
from ..ir.attributes import NO_ATTRS, Attrs, AxisAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Builder, Operand, ScalarParam, TensorParam, Tile
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import INT32_MAX, ONE, Dim, TileType, Value, is_float
from ..language.captured_views import name_of_view
from ..language.elementwise import meets_by_loops
from ..language.operand_dtypes import Operand as Given
from ..language.operand_dtypes import check_dtypes
from ..language.rules import ALIGNED, ASSIGNED_HINT, CHANGED, CHANGED_HINT, MEET, NO_OUT, ORDER, TURNED
from ..runtime.numpy_numbers import plain_argument, plain_number
from ..runtime.views import NAMES
from .alignment import are_turned, gaps
from .assumptions import Assumptions
from .call_arguments import is_in_place, with_numbers, with_sizes
from .held_numbers import CHOOSING, check_number
from .intervals import check_widened, result_fits
from .loaded_tiles import Cut, Part, Shaped
from .operands import operand_of
from .promotion import Kind, kind_of, number_as, operand_dtype, promote, result_dtype, torch_dtype, weakened
from .refusals import not_implemented
from .structural_names import StructuralNames
from .taken import Found, Taken
from .torch_aliases import canonical_arguments, instead_of
from .torch_registry import TABLE
from .values import SymInt, TensorRef, TileProxy, TileValue, is_number
from .whole_quotients import WHOLE_QUOTIENTS, check_divisor

LEAST_EXTENT = 1 << 12  # of the loops of a variant that takes any


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a trace had when it was made: see :meth:`Tracer.checkpoint`."""

    mark: tuple[tuple[int, int], dict[str, int]]
    depth: int
    forced: Location | None
    tables: tuple[dict[Any, Any], ...]


class Tracer(Assumptions):
    """The state of one region's trace.

    ``mode`` and ``hints``: see :class:`Assumptions`. ``files``: the code that is the user's, for locations. ``found``:
    what the traces before found out.
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
        super().__init__(mode, hints, files)
        self.names = names
        self.device = device
        self.builder = Builder()
        self.tiles: dict[str, Tile] = {}
        self.ranges: set[str] = set()  # of them, the loops whose variable is one of Python's ints to the author
        self.tensors: dict[str, TensorParam] = {}
        self.scalars: dict[str, ScalarParam] = {}
        self.blocks: dict[str, tuple[int, int]] = {}
        self.value_names: dict[int, str] = {}  # the author's, by the value's id
        self.side_by_side: dict[Value, tuple[int, tuple[Value, ...]]] = {}  # the axis and the parts of torch.cat
        self.loaded: dict[Value, Part] = {}  # of loads, what they name
        self.cuts: dict[Value, Cut] = {}  # of parts of tiles, of which ones
        self.reshaped: dict[Value, Shaped] = {}  # of tiles under other dimensions, which ones
        self.read_again: set[str] = set()  # paths of tensors that parts of such tiles are read from
        self.found = found or Found()
        self.through: set[Taken] = set()  # where parts are taken that tiles hold, and that are stored through
        self.scopes: list[int] = [0]
        self.overwritten: dict[int, tuple[TileValue, int]] = {}  # by identity: tiles changed in place, and the scope
        self.held: list[set[int]] = []  # of the loops around, the identities of what containers hold before them
        self.stands_for: dict[Value, TileValue] = {}  # of what a loop carries, the tile that its first turn has
        self.loops: set[int] = set()  # of the scopes, those of loops' bodies
        self._scope_count = 0
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

    # ---- names ----------------------------------------------------------------------------------

    def name_value(self, value: Value, name: str) -> None:
        """Note what the author calls a value first."""
        self.value_names.setdefault(value.id, name.partition(".")[0].partition("[")[0])

    # ---- scopes ---------------------------------------------------------------------------------

    def open_scope(self) -> None:
        """Begin a block, of a loop's body or of a branch: ops go there until :meth:`close_scope`."""
        self._scope_count += 1
        self.scopes.append(self._scope_count)
        self.builder.push()

    def close_scope(self) -> tuple[Any, ...]:
        """End the innermost block and return its ops; its values are out of reach from then on."""
        self.scopes.pop()
        return self.builder.pop()

    def overwrite(self, tile: TileValue) -> None:
        """Note that Python's meaning changes ``tile`` here, which no name has from now on. Raises TraceError where each
        turn of a loop would change the same one again."""
        inside = self.scopes[self.scopes.index(tile.scope) + 1 :]
        if self.loops & {*inside} and not any(id(tile) in held for held in self.held):
            raise self.was_overwritten(tile)
        changed: TileValue | None = tile
        while changed is not None:
            self.overwritten[id(changed)] = changed, self.scopes[-1]
            changed = self.stands_for.get(changed.value)

    def was_overwritten(self, tile: TileValue) -> TraceError:
        """What is said where ``tile`` is used after it was changed in place."""
        return TraceError(CHANGED, got=repr(tile), where=self.location(), hint=CHANGED_HINT)

    def is_overwritten(self, tile: TileValue) -> bool:
        """Whether Python's meaning of ``tile`` is another one by now."""
        return self.overwritten.get(id(tile), (tile, -1))[1] in self.scopes

    def hand_on(self, since: int) -> None:
        """What was changed in place in scopes that were opened after the first ``since``, and are closed, is so in the
        one around them."""
        for key, (tile, scope) in list(self.overwritten.items()):
            if scope > since and scope not in self.scopes:
                self.overwritten[key] = tile, self.scopes[-1]

    @property
    def opened(self) -> int:
        """How many scopes were opened."""
        return self._scope_count

    def mark(self) -> tuple[tuple[int, int], dict[str, int]]:
        """The place that the trace is at, to come back to by :meth:`rewind`."""
        return self.builder.mark(), self.names.snapshot()

    def rewind(self, mark: tuple[tuple[int, int], dict[str, int]]) -> None:
        """Go back to a place of the same scope: what was recorded since is dropped, its names are given again."""
        self.builder.rewind(mark[0])
        self.names.restore(mark[1])

    def checkpoint(self) -> Checkpoint:
        """All that the trace has, to come back to by :meth:`restore` out of whatever it was in the middle of."""
        own = (self.tiles, self.blocks, self.guards, self.value_names, self.overwritten)
        return Checkpoint(self.mark(), len(self.scopes), self.forced, tuple(dict(d) for d in own))

    def restore(self, to: Checkpoint) -> None:
        """Be where the trace was, as if nothing had been recorded since."""
        depth = len(self.scopes) - to.depth
        del self.scopes[to.depth :]
        for _ in range(depth):
            self.builder.pop()
        self.rewind(to.mark)
        self.at(to.forced)
        own: tuple[dict[Any, Any], ...] = (self.tiles, self.blocks, self.guards, self.value_names, self.overwritten)
        for now, before in zip(own, to.tables, strict=True):
            now.clear()
            now.update(before)

    def wrap(self, value: Value) -> TileValue:
        """``value`` as device code sees it, of the scope that is open now."""
        return TileValue(value, self, self.scopes[-1])

    def number(self, x: TileValue) -> TileValue:
        """``x`` as a number of Python's, which has no dtype where it meets a scalar that has one."""
        return TileValue(x.value, self, x.scope, is_number=True)

    def operand(self, x: Any) -> Operand:
        """The IR operand that a traced or Python value stands for. Raises TraceError for anything else."""
        return operand_of(self, x)

    # ---- recording ------------------------------------------------------------------------------

    def emit(self, kind: OpKind, inputs: tuple[Operand, ...], type_: TileType, attrs: Attrs = NO_ATTRS) -> TileValue:
        """The result of an op appended now, with the place of the user's line."""
        return self.wrap(self.builder.add(kind, inputs, type_, attrs, self.location()))

    def pointwise(self, fn: str, *args: Any) -> TileValue:
        """Record one row of POINTWISE over broadcast operands, with torch's promotion."""
        given = [self.operand(a) for a in args]
        dtype, operand = self._pointwise_dtypes(fn, weakened(tuple(map(kind_of, given)), [*map(is_number, args)]))
        are_numbers = all(map(is_number, args)) and not any(isinstance(o, Value) and o.dims for o in given)
        of_ints = are_numbers and operand in ("int32", "int64")
        operands = self.opposite(self._as_operands(fn, args, given, "int64" if of_ints else operand))
        dims = self.broadcast([o.dims for o in operands if isinstance(o, Value)])
        aligned = tuple(self.align(o, len(dims)) for o in operands)
        for value in operands[fn == "where" :]:
            check_widened(self, value, operand)
        if of_ints:
            dtype, operand = self._bits_of_ints(fn, dtype, operand, operands)
        # what a loop carries has a dtype: a float is held in 32 bits, and is no more exact in doubles
        held = [o.type.dtype for o in operands if isinstance(o, Value) and not o.type.weak]
        is_as_held = any(is_float(d) or not is_float(dtype) for d in held)
        weak = are_numbers and not POINTWISE[fn].boolean and not is_as_held
        made = self.emit(OpKind.POINTWISE, aligned, TileType(dtype, dims, weak), PointwiseAttrs(fn, operand))
        return self.number(made) if are_numbers and not POINTWISE[fn].boolean else made

    def _bits_of_ints(self, fn: str, dtype: str, operand: str, operands: Sequence[Operand]) -> tuple[str, str]:
        """The dtypes of a result of Python's ints, which have no end, and of its operands: 64 bits, of which 32 suffice
        where nothing can be more."""
        are_short = all(map(_is_short, operands))
        if POINTWISE[fn].boolean:
            return dtype, operand if are_short else "int64"
        bits = "int32" if are_short and result_fits(self, fn, operands) else "int64"
        return (dtype if is_float(dtype) else bits), bits

    def _pointwise_dtypes(self, fn: str, kinds: tuple[Kind, ...]) -> tuple[str, str]:
        """The dtypes of the result and of its operands. Raises TraceError where torch takes no such operands."""
        try:
            with self.plain_torch():
                dtype, operand = result_dtype(fn, kinds), operand_dtype(fn, kinds)
        except (RuntimeError, TypeError) as error:
            raise TraceError(
                f"torch.{fn} takes these operands",
                got=", ".join(k[0] for k in kinds),
                where=self.location(),
                hint=str(error).splitlines()[0],
            ) from error
        if POINTWISE[fn].int_only and torch_dtype(operand).is_floating_point:
            raise TraceError(
                f"torch.{fn} takes ints and bools",
                got=", ".join(k[0] for k in kinds),
                where=self.location(),
                hint="convert with .int(), or .view(torch.int32)",
            )
        return dtype, operand

    def _as_operands(self, fn: str, args: Sequence[Any], given: list[Operand], dtype: str) -> list[Operand]:
        """The operands, numbers among them as ``dtype`` holds them. Raises TraceError for those that it does not hold,
        and for divisors that do not divide."""
        has_dtype = any(isinstance(o, Value) and not o.type.weak for o in given)
        for arg, number in zip(args, given, strict=True) if fn in CHOOSING else ():
            check_number(self, arg if isinstance(arg, SymInt) and has_dtype else number, dtype)
        with self.plain_torch():
            operands = [number_as(fn, place, o, dtype) for place, o in enumerate(given)]
        if fn in WHOLE_QUOTIENTS:
            check_divisor(self, fn, operands[1], args[1], dtype)
        return operands

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

    # ---- shapes ---------------------------------------------------------------------------------

    def broadcast(self, shapes: Iterable[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The broadcast of several shapes, aligned at the right. Raises ShapeError."""
        shapes = list(shapes)
        try:
            return self._broadcast(shapes)
        except ShapeError as error:
            turned = next(((a, b) for a, b in combinations(shapes, 2) if are_turned(a, b)), None)
            if turned is None:
                raise
            raise ShapeError(ORDER, got=" and ".join(map(show, turned)), where=error.where, hint=TURNED) from error

    def _broadcast(self, shapes: list[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        rank = max((len(s) for s in shapes), default=0)
        result = []
        for axis in range(rank):
            merged: Dim | None = None
            for shape in shapes:
                position = axis - (rank - len(shape))
                if position >= 0:
                    merged = shape[position] if merged is None else self.merge(merged, shape[position])
            assert merged is not None
            result.append(merged)
        return tuple(result)

    def merge(self, a: Dim, b: Dim) -> Dim:
        """One dimension out of two that meet elementwise."""
        if a == b:
            return a
        if a.extent.constant == 1 and a.tile is None:
            return b
        if b.extent.constant == 1 and b.tile is None:
            return a
        if not self.same_size(a.extent, b.extent):
            both = all(any(map(is_knob, e.symbols())) for e in (a.extent, b.extent))
            raise ShapeError(
                MEET,
                got=f"{a} and {b}",
                where=self.location(),
                hint="give both loops the same block size with tfl.register_block_size" if both else ALIGNED,
            )
        if a.tile and b.tile and a.tile != b.tile:
            raise ShapeError(
                "tiles of two different loops never meet elementwise",
                got=f"{a} and {b}",
                where=self.location(),
                hint="combine them as an outer product, x[:, None] and y[None, :], or index both by one tile",
            )
        if a.tile and b.tile and a.step != b.step:
            raise ShapeError(
                "a tile's lanes meet elementwise in one order",
                got=f"{a} and {b}",
                where=self.location(),
                hint="join or repeat both tiles alike",
            )
        return a if a.tile else b

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
        if name in NAMES and args and isinstance(args[0], TileValue) and args[0].taken is not None:
            result = self.of_part(args[0], lambda: self.run(handler, name, args, kwargs))
        else:
            result = self.run(handler, name, args, kwargs)
        if is_in_place(handler, args, kwargs) and isinstance(args[0], TileValue) and result.value != args[0].value:
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


def _operands(args: Iterable[Any], kwargs: Mapping[str, Any]) -> Iterator[Given]:
    """The operands of a call that have a dtype."""
    types = (x.value.type for x in (*args, *kwargs.values()) if isinstance(x, TileValue))
    return (Given(of.dtype, bool(of.dims)) for of in types if not of.weak)


def _is_short(operand: Operand) -> bool:
    """Whether a weak int is held in 32 bits."""
    return operand.type.dtype != "int64" if isinstance(operand, Value) else abs(operand) <= INT32_MAX


def show(dims: tuple[Dim, ...]) -> str:
    """``[tile_m, 128]``."""
    return "[" + ", ".join(map(str, dims)) + "]"
