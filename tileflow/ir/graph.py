"""KernelIR: one region of a kernel as a graph of ops, in order, with structured loops and branches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any, TypeVar

from ..errors import Location
from ..expr import Expr
from ..locks import cached_property
from .attributes import NO_ATTRS, AccessAttrs, Attrs
from .kinds import OpKind
from .modes import SHAPE_MODES, ShapeMode
from .types import Dim, TileType, Value

Operand = Value | int | float | bool
_Result = TypeVar("_Result")
_Of = TypeVar("_Of")


@dataclass(frozen=True, slots=True)
class Inside:
    """The conditions under which no lane of an index lies outside the tensor: ``below``, not before the first element;
    ``above``, not past the last. They are over launch and block symbols. Where the config does not decide one of them,
    the lanes are compared with the tensor's end one by one."""

    below: Expr
    above: Expr


@dataclass(frozen=True, slots=True)
class TileIndex:
    """A tensor dimension indexed by a tile: its lanes from begin to end. ``inside``: as of :class:`ValueIndex`, where
    the loop's bounds are the kernel's own."""

    tile: str
    axis: int
    inside: Inside | None = None


@dataclass(frozen=True, slots=True)
class SliceIndex:
    """``start : start + extent`` of a tensor dimension; the whole of it when start is 0 and extent its size."""

    start: Expr
    dim: Dim
    axis: int


@dataclass(frozen=True, slots=True)
class ValueIndex:
    """A tensor dimension indexed by the op's input number ``input``: a scalar (no axes) or a tile of indices.

    ``inside``: of lanes that may lie outside the tensor, which then read 0 and are not written; None where all are in.
    """

    input: int
    axes: tuple[int, ...]
    inside: Inside | None = None


@dataclass(frozen=True, slots=True)
class ExprIndex:
    """A tensor dimension indexed by a size expression or an int; negative ones already wrapped. ``inside``: as of
    :class:`ValueIndex`, where block sizes decide."""

    value: Expr
    inside: Inside | None = None


IndexItem = TileIndex | SliceIndex | ValueIndex | ExprIndex


def may_lie_outside(item: IndexItem) -> bool:
    """Whether lanes of an index that count may lie outside the tensor."""
    return not isinstance(item, SliceIndex) and item.inside is not None


@dataclass(frozen=True, slots=True)
class Block:
    """A sequence of ops. ``params`` are bound by the op that owns it; ``results`` are what it yields."""

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Op:
    """One operation; what holds for its kind is a row of :mod:`tileflow.ir.op_table`."""

    kind: OpKind
    inputs: tuple[Operand, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs = NO_ATTRS
    regions: tuple[Block, ...] = ()
    loc: Location | None = None

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def values(self) -> tuple[Value, ...]:
        """The inputs that are values, constants left out."""
        return tuple(v for v in self.inputs if isinstance(v, Value))

    def with_(
        self,
        inputs: tuple[Operand, ...] | None = None,
        outputs: tuple[Value, ...] | None = None,
        attrs: Attrs | None = None,
        regions: tuple[Block, ...] | None = None,
    ) -> Op:
        """The op with these parts exchanged where they are not None, in a third of the time of
        ``dataclasses.replace``."""
        return Op(
            self.kind,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.attrs if attrs is None else attrs,
            self.regions if regions is None else regions,
            self.loc,
        )


@dataclass(frozen=True, slots=True)
class TensorParam:
    """A captured tensor. ``shape``, ``strides``: constants in static mode, symbols in the others. ``torch_dtype``: the
    name of torch's own, where device code sees it as another. ``shares``: the paths of the tensors captured before it
    that lie in the same memory, as a view and its base do.
    """

    path: str
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    aligned: bool
    name: str
    torch_dtype: str = ""
    shares: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A captured number that is a run-time argument: ``float32``, ``int32`` or ``int64``."""

    path: str
    dtype: str
    name: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile loop's axis. ``begin``, ``end``: sizes, or values of the kernel. ``block``: a symbol or a constant.

    ``wide``: the indices need 64 bits. ``lengths``: of a jagged loop, a 1-D value: in a tile that has its dimension
    too, a lane counts if its index is less than the length there. ``dealt``: the tile, of blocks of 1, whose
    programs share the loop's turns; empty where each program does all of them. ``in_cluster``: of such a tile, that
    these are the blocks of a cluster, which stand for one program of the grid.
    """

    name: str
    block: Expr
    begin: Expr | Value
    end: Expr | Value
    is_grid: bool
    wide: bool = False
    lengths: Value | None = None
    dealt: str = ""
    in_cluster: bool = False

    @property
    def dim(self) -> Dim:
        """The dimension that a tile of this loop has: as long as a block, its lanes masked as the loop's."""
        return Dim(self.block, self.name)

    @property
    def index_dtype(self) -> str:
        """The dtype of the loop's indices: int64 where the loop is wide, else int32."""
        return "int64" if self.wide else "int32"

    @property
    def bounds(self) -> tuple[Value, ...]:
        """What the loop reads of the kernel's values, besides what it carries."""
        return tuple(v for v in (self.begin, self.end, self.lengths) if isinstance(v, Value))


CUT = "cut:"


@dataclass(frozen=True, slots=True)
class BlockSymbol:
    """A block size to be chosen: the knob ``name``, between ``low`` and ``high`` (both inclusive)."""

    name: str
    low: int
    high: int

    @property
    def is_cut(self) -> bool:
        """Whether the loop is the compiler's, over a dimension that the author's text takes whole."""
        return self.name.startswith(CUT)


@dataclass(frozen=True, slots=True)
class DividedRow:
    """That so many blocks of a cluster have a part each of every whole dimension of this extent."""

    extent: Expr
    blocks: int


@dataclass(frozen=True)
class KernelIR:
    """One region. ``grid``: the tiles of the outermost loop, in the user's order.

    ``guards``: what was assumed of launch symbols while tracing. ``hints``: the launch symbols' values in the example
    that was traced; they may steer choices, never meaning. ``value_names``: what the author calls values, by their ids.
    ``divided``: the rows of which the blocks of a cluster have a part each; None where each program is a block.

    A region never changes, so that what is asked of it often is found once and kept: its ops, where values are defined
    and used, its hash, and what :func:`once` marks.
    """

    name: str
    region: int
    mode: str
    tensors: tuple[TensorParam, ...]
    scalars: tuple[ScalarParam, ...]
    tiles: dict[str, Tile]
    grid: tuple[str, ...]
    blocks: tuple[BlockSymbol, ...]
    body: Block
    guards: tuple[Expr, ...]
    hints: dict[str, int]
    value_names: dict[int, str] = field(default_factory=dict)
    divided: DividedRow | None = None

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the printed form: equal graphs are equal."""
        from .printer import render

        return hashlib.sha256(render(self).encode()).hexdigest()

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """Every op, outer ones first."""
        return tuple(walk(self.body))

    def walk(self) -> Iterator[Op]:
        """Every op, outer ones first."""
        return iter(self.ops)

    @cached_property
    def definitions(self) -> Mapping[Value, Op]:
        """The op that gives each value, but those that regions are given."""
        return {v: op for op in self.ops for v in op.outputs}

    @cached_property
    def uses(self) -> Mapping[Value, int]:
        """How often each value is used, yields counted."""
        return uses(self.body)

    @cached_property
    def next_id(self) -> int:
        """The first id after those of all values."""
        params = (p for op in self.ops for block in op.regions for p in block.params)
        return 1 + max((v.id for values in (self.definitions, params) for v in values), default=-1)

    @cached_property
    def cluster(self) -> tuple[str, ...]:
        """The tiles whose programs are the blocks of a cluster."""
        return tuple(name for name, tile in self.tiles.items() if tile.in_cluster)

    @property
    def shape_mode(self) -> ShapeMode:
        """The mode: what the region took over from the traced example."""
        return SHAPE_MODES[self.mode]

    def tensor(self, path: str) -> TensorParam:
        """The tensor parameter at ``path``. Raises KeyError where the region captures none there."""
        return self._tensors[path]

    @cached_property
    def _tensors(self) -> Mapping[str, TensorParam]:
        return {t.path: t for t in self.tensors}

    @cached_property
    def _found(self) -> dict[Callable[..., Any], Any]:
        """Results by analysis."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def sharing(self, path: str) -> frozenset[str]:
        """The paths of the tensors whose elements may be elements of the one at ``path``, itself among them."""
        return frozenset({path, *self.tensor(path).shares, *(t.path for t in self.tensors if path in t.shares)})

    def hint(self, e: Expr) -> int:
        """The value of a size expression in the traced example."""
        return e.evaluate(self.hints)


def once(analysis: Callable[[KernelIR], _Result]) -> Callable[[KernelIR], _Result]:
    """An analysis of a region whose result is kept with the region; nobody may change it."""

    @wraps(analysis)
    def kept(ir: KernelIR) -> _Result:
        if analysis not in ir._found:
            ir._found[analysis] = analysis(ir)
        return ir._found[analysis]  # type: ignore[no-any-return]

    return kept


def once_each(analysis: Callable[[KernelIR, _Of], _Result]) -> Callable[[KernelIR, _Of], _Result]:
    """An analysis of the values of a region, whose results are kept with the region; nobody may change them. One that
    asks for the operands of what it is asked for goes over each value once, however many ops read it."""

    @wraps(analysis)
    def kept(ir: KernelIR, value: _Of) -> _Result:
        if not isinstance(value, Value):
            return analysis(ir, value)
        results = ir._found.setdefault(analysis, {})
        if value not in results:
            results[value] = analysis(ir, value)
        return results[value]  # type: ignore[no-any-return]

    return kept


def walk(block: Block) -> Iterator[Op]:
    """Every op in the block and the blocks inside it."""
    for op in block.ops:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def uses(block: Block) -> dict[Value, int]:
    """How often each value is used, yields counted."""
    counts: dict[Value, int] = {}

    def count(operands: tuple[Operand, ...]) -> None:
        for operand in operands:
            if isinstance(operand, Value):
                counts[operand] = counts.get(operand, 0) + 1

    for op in walk(block):
        count(op.inputs)
        for inner in op.regions:
            count(inner.results)
    count(block.results)
    return counts


class Builder:
    """Appends ops to a stack of open blocks and hands out value ids."""

    def __init__(self, first_id: int = 0) -> None:
        self.definitions: dict[Value, Op] = {}
        self.writes: list[tuple[int, str]] = []  # the first value after each write, and the tensor written to
        self._next = first_id
        self._open: list[list[Op]] = [[]]

    def value(self, type_: TileType, loc: Location | None = None) -> Value:
        """A new value with the next free id; no op defines it yet."""
        self._next += 1
        return Value(self._next - 1, type_, loc)

    def add(
        self,
        kind: OpKind,
        inputs: tuple[Operand, ...],
        type_: TileType,
        attrs: Attrs = NO_ATTRS,
        loc: Location | None = None,
    ) -> Value:
        """Append an op with one output of ``type_``; returns the output."""
        out = self.value(type_, loc)
        self.append(Op(kind, inputs, (out,), attrs, (), loc))
        return out

    def append(self, op: Op) -> None:
        """Append ``op`` to the innermost open block and note its outputs, and the tensor that it writes, if any."""
        self.definitions.update(dict.fromkeys(op.outputs, op))
        if op.kind in (OpKind.STORE, OpKind.ATOMIC):
            self.writes.append((self._next, AccessAttrs.of(op).tensor))
        self._open[-1].append(op)

    def push(self) -> None:
        """Open a block: ops go there until :meth:`pop`."""
        self._open.append([])

    def pop(self) -> tuple[Op, ...]:
        """Close the innermost block and return its ops."""
        return tuple(self._open.pop())

    def mark(self) -> tuple[int, int]:
        """Where the innermost open block is now, for :meth:`rewind`."""
        return len(self._open[-1]), len(self.writes)

    def rewind(self, mark: tuple[int, int]) -> None:
        """Drop what was appended to the innermost open block since then."""
        del self._open[-1][mark[0] :], self.writes[mark[1] :]

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops of the innermost open block so far."""
        return tuple(self._open[-1])
