"""Pairs of tensors of one launch that a caller may pass in one memory, of which one is stored into.

What a region does with such a pair was compiled for tensors apart, or for one memory where the traced call shared it.
Each launch checks what was taken for granted: see :mod:`tileflow.runtime.overlap`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..expr import Expr
from .attributes import TileAttrs
from .graph import Block, KernelIR, Op, Operand
from .hazards import Access, accesses_of
from .kinds import OpKind
from .op_table import PRODUCTS
from .types import Value

MOST_PAIRS = 64  # a list of many tensors has too many: beyond, none is checked


@dataclass(frozen=True, slots=True)
class _Placed:
    """An access, the block that it stands in (Python's id) and where there; the tiles whose loops go on around it."""

    access: Access
    block: int
    number: int
    loops: tuple[str, ...]


def with_pairs(ir: KernelIR, given: Collection[str]) -> KernelIR:
    """``ir`` with a guard for each pair whose order in memory matters. ``given``: the paths of the tensors that may lie
    in one memory, whatever the traced call had."""
    pairs = {f"{a}.{relation}.{b}": 1 for a, relation, b in _pairs(ir, given)}
    if not pairs or len(pairs) > MOST_PAIRS:
        return ir
    guards = tuple(Expr.sym(name).eq(1) for name in pairs)
    return replace(ir, guards=(*ir.guards, *guards), hints={**ir.hints, **pairs})


def _pairs(ir: KernelIR, given: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Each pair, and ``apart`` or ``in_step``. Of two that the trace knew to be one memory the order is kept, so that
    only those in step are checked: elsewhere the author may have divided one memory among programs."""
    placed: dict[str, list[_Placed]] = {}
    for found in _walk(ir, ir.body, ir.grid):
        if found.access.tensor in given:
            placed.setdefault(found.access.tensor, []).append(found)
    paths = sorted(placed)
    written = {path for path in paths if any(p.access.writes for p in placed[path])}
    for i, a in enumerate(paths):
        for b in paths[i + 1 :]:
            if {a, b} <= written or not {a, b} & written:
                is_in_step = False
            else:
                first, second = (b, a) if a in written else (a, b)
                is_in_step = _is_in_step(ir, placed[first], placed[second])
            if is_in_step:
                yield a, "in_step", b
            elif {a, b} & written and b not in ir.sharing(a):
                yield a, "apart", b


def _walk(ir: KernelIR, block: Block, loops: tuple[str, ...]) -> Iterator[_Placed]:
    accesses = accesses_of(ir)
    for number, op in enumerate(block.ops):
        for access in accesses(op):
            yield _Placed(access, id(block), number, loops)
        inner = (*loops, TileAttrs.of(op).tile) if op.kind is OpKind.FOR else loops
        for region in op.regions:
            yield from _walk(ir, region, inner)


def _is_in_step(ir: KernelIR, loads: Sequence[_Placed], others: Sequence[_Placed]) -> bool:
    """Whether each program, and each iteration of its loops, names the same elements of both by every access, which no
    other one names, and loads all of those of the first before it stores into the second."""
    every = [*loads, *others]
    places = every[0].access.places
    if places is None or not all(_is_alike(ir, every[0].access, p.access) for p in every):
        return False
    if any(p.block != every[0].block or not {*p.loops} <= {x for x in places if isinstance(x, str)} for p in every):
        return False
    stores = [p for p in others if p.access.writes]
    last = max(p.number for p in loads)
    if not all(p.access.op.kind is OpKind.STORE and p.number > last for p in stores):
        return False
    if all(isinstance(place, str) for place in places):
        return True
    # what a product gives a slice of has not the lanes of what it took: blocks of either may be a program's own
    return not any(op.kind in PRODUCTS for op in ir.walk()) and all(_is_last(ir, p.access.op) for p in stores)


def _is_alike(ir: KernelIR, a: Access, b: Access) -> bool:
    """Whether an access names by each lane what the other does, of tensors whose memory is the same."""
    if a.places is None or b.places is None or len(a.places) != len(b.places) or len(a.dims) != len(b.dims):
        return False
    if any(x.tile != y.tile or not _is_equal(ir, x.extent, y.extent) for x, y in zip(a.dims, b.dims, strict=True)):
        return False
    return all(_is_one_place(ir, x, y) for x, y in zip(a.places, b.places, strict=True))


def _is_one_place(ir: KernelIR, a: object, b: object) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):  # a slice: its start and its length
        return all(_is_equal(ir, x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _is_equal(ir: KernelIR, a: Expr, b: Expr) -> bool:
    """Whether sizes are equal, as they stand or since each launch checks it."""
    return a == b or a.eq(b) in ir.guards or b.eq(a) in ir.guards


def _is_last(ir: KernelIR, store: Op) -> bool:
    """Whether a store waits for all reductions: another one may be a loop of its own after it, which loads again."""
    before: set[int] = set()
    left: list[Operand] = [*store.inputs]
    while left:
        value = left.pop()
        made = ir.definitions.get(value) if isinstance(value, Value) else None
        if made is not None and id(made) not in before:
            before.add(id(made))
            left += made.inputs
    return all(id(op) in before for op in ir.walk() if op.kind is OpKind.REDUCE)
