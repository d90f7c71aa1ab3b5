"""Accesses of one memory in one program that must stay in the order in which the author wrote them.

The threads of a program share its tensors without waiting for each other: what one of them stored, another sees only
behind a barrier, and what one of them is about to load, another may have overwritten. Two accesses conflict if at least
one writes, unless their indices say that they never name one element. Tensors that share memory, a view and its base,
are one; what two names' indices say is not compared, for they count from other places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..expr import Expr
from .attributes import AccessAttrs, ForeignAttrs, TileAttrs, TilePartAttrs
from .graph import Block, ExprIndex, KernelIR, Op, SliceIndex, TileIndex, ValueIndex
from .kinds import LOOPS, OpKind
from .op_table import ACCESSES
from .types import Dim, Value

_NAMING = (OpKind.TILE_INDEX, OpKind.TILE_BEGIN)


@dataclass(frozen=True, slots=True)
class Part:
    """The lanes of a tile that is part ``number`` of the tile ``of``."""

    of: str
    number: int


@dataclass(frozen=True, slots=True)
class Access:
    """A load, store or atomic of ``tensor``. ``places``: by tensor dimension what names the elements, equal for equal
    ones, a tile's name for its own lanes; None: any of them may be meant. ``dims``: of the lanes."""

    op: Op
    tensor: str
    writes: bool
    places: tuple[object, ...] | None
    dims: tuple[Dim, ...]

    def is_lanewise(self, other: Access) -> bool:
        """Whether each lane of one names the element that the same lane of the other does."""
        return (
            self.tensor == other.tensor
            and self.places is not None
            and self.places == other.places
            and self.dims == other.dims
        )

    def is_apart(self, other: Access, loops: frozenset[str]) -> bool:
        """Whether both never name one element, ``loops`` being the tiles whose loops went on in between."""
        if self.tensor != other.tensor or self.places is None or other.places is None:
            return False
        return any(_apart(a, b, loops) for a, b in zip(self.places, other.places, strict=True))


Pending = dict[tuple[int, frozenset[str]], Access]  # by the op and the loops that went on since
Conflict = Callable[[Access, Access], bool]


def hazards(ir: KernelIR, conflict: Conflict) -> set[int]:
    """The ids (Python's) of the ops before which a barrier must stand, given that one stands before each of them.

    ``conflict``: of two accesses of one memory, of which one writes and that are not apart, whether they need one
    between them.
    """
    accesses = accesses_of(ir)
    sharing = {tensor.path: ir.sharing(tensor.path) for tensor in ir.tensors}
    written = {path for op in ir.walk() for a in accesses(op) if a.writes for path in sharing[a.tensor]}
    found: set[int] = set()

    def visit(block: Block, pending: Pending) -> Pending:
        for op in block.ops:
            if op.kind in LOOPS:
                pending = loop(op, pending)
            elif op.kind is OpKind.IF:
                sides = [visit(side, pending) for side in op.regions]
                pending = _needed({key: access for side in sides for key, access in side.items()})
            elif op.kind is not OpKind.COMBINE:
                pending = step(op, pending)
        return pending

    def loop(op: Op, pending: Pending) -> Pending:
        (body,) = op.regions
        once = visit(body, pending)
        own = frozenset({TileAttrs.of(op).tile} if op.kind is OpKind.FOR else ())
        again = {(key, loops | own): access for (key, loops), access in once.items()}
        return _needed(pending | visit(body, again))

    def step(op: Op, pending: Pending) -> Pending:
        own = [a for a in accesses(op) if a.tensor in written]
        for access in own:
            for (_, loops), earlier in pending.items():
                if earlier.tensor not in sharing[access.tensor] or not (earlier.writes or access.writes):
                    continue
                if not earlier.is_apart(access, loops) and conflict(earlier, access):
                    found.add(id(op))
        if id(op) in found:
            pending = {}
        return pending | {(id(op), frozenset[str]()): access for access in own}

    visit(ir.body, {})
    return found


def _needed(pending: Pending) -> Pending:
    """``pending`` without what says nothing more: accesses that are not apart are not so after fewer loops either. Each
    loop would double what it leaves of every access before it."""
    loops_of: dict[int, list[frozenset[str]]] = {}
    for op, loops in pending:
        loops_of.setdefault(op, []).append(loops)
    return {
        (op, loops): access
        for (op, loops), access in pending.items()
        if not any(others < loops for others in loops_of[op])
    }


def accesses_of(ir: KernelIR) -> Callable[[Op], list[Access]]:
    """A function that gives the accesses of an op of ``ir``."""
    parts = {
        TileAttrs.of(op).tile: Part(TilePartAttrs.of(op).whole, TilePartAttrs.of(op).part)
        for op in ir.walk()
        if op.kind is OpKind.TILE_PART
    }
    return lambda op: _accesses(op, ir.definitions, parts)


def _accesses(op: Op, defined: Mapping[Value, Op], parts: Mapping[str, Part]) -> list[Access]:
    if op.kind is OpKind.FOREIGN:  # the author's text may do anything with them
        return [Access(op, tensor, True, None, ()) for tensor in ForeignAttrs.of(op).tensors]
    if op.kind not in ACCESSES:
        return []
    value = op.output if op.kind is OpKind.LOAD else op.inputs[0]
    dims = value.dims if isinstance(value, Value) else ()
    places = tuple(_place(op, item, defined, parts) for item in AccessAttrs.of(op).index)
    return [Access(op, AccessAttrs.of(op).tensor, op.kind is not OpKind.LOAD, places, dims)]


def _place(op: Op, item: object, defined: Mapping[Value, Op], parts: Mapping[str, Part]) -> object:
    match item:
        case TileIndex(tile):
            return parts.get(tile, tile)
        case ValueIndex(position):
            value = op.inputs[position]
            made = defined.get(value) if isinstance(value, Value) else None
            return TileAttrs.of(made).tile if made is not None and made.kind in _NAMING else value
        case ExprIndex(size):
            return size
        case SliceIndex(start, dim):
            return start, dim.extent
    raise AssertionError(item)


def _apart(a: object, b: object, loops: frozenset[str]) -> bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return (a - b).constant not in (None, 0)
    if isinstance(a, tuple) and isinstance(b, tuple):
        gaps = [(right[0] - left[0] - left[1]).constant for left, right in ((a, b), (b, a))]
        return any(gap is not None and gap >= 0 for gap in gaps)
    if isinstance(a, Part) and isinstance(b, Part):
        return a.of == b.of and (a.number != b.number or a.of in loops)
    return isinstance(a, str) and a == b and a in loops
