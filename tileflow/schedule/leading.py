"""Branches of an author's that only the first turns of a loop take, as the mask of a diagonal is: the loop goes on in a
second one without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.attributes import IfAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import Value
from .chained import read_by

_TAKEN_BELOW = {"lt": (0, 1), "gt": (1, 0)}  # the places of what is smaller, and of what is larger


@dataclass(frozen=True, slots=True)
class Leading:
    """Branches without an effect besides their results, which a turn takes where its tile begins before ``bound``."""

    branches: tuple[Op, ...]
    bound: Operand


def leading_branches(tile: str, scalars: Iterable[Op], parts: Iterable[tuple[Op, ...]]) -> Leading | None:
    """Those among the operations of a loop over ``tile``, all with one bound; None where there is none."""
    made = {v: op for op in scalars for v in op.outputs}
    found: list[Op] = []
    bounds: list[Operand] = []
    for op in (op for ops in parts for op in ops if op.kind is OpKind.IF):
        bound = _bound(op, tile, made)
        if bound is not None:
            found.append(op)
            bounds.append(bound)
    if not found or any(bound != bounds[0] for bound in bounds):
        return None
    return Leading(tuple(found), bounds[0])


def _bound(branch: Op, tile: str, made: dict[Value, Op]) -> Operand | None:
    condition = branch.inputs[0] if branch.inputs and IfAttrs.of(branch).test is None else None
    test = made.get(condition) if isinstance(condition, Value) else None
    if test is None or test.kind is not OpKind.POINTWISE or PointwiseAttrs.of(test).fn not in _TAKEN_BELOW:
        return None
    smaller, larger = (test.inputs[n] for n in _TAKEN_BELOW[PointwiseAttrs.of(test).fn])
    maker = made.get(smaller) if isinstance(smaller, Value) else None
    if maker is None or maker.kind is not OpKind.TILE_BEGIN or TileAttrs.of(maker).tile != tile:
        return None
    return None if _depends(larger, tile, made) else larger


def _depends(operand: Operand, tile: str, made: dict[Value, Op]) -> bool:
    """Whether a number follows from where the turn's tile is, or from more than numbers of the program."""
    op = made.get(operand) if isinstance(operand, Value) else None
    if op is None:
        return False
    if op.kind in (OpKind.TILE_BEGIN, OpKind.TILE_END, OpKind.TILE_ID):
        return TileAttrs.of(op).tile == tile
    return op.kind is OpKind.LOAD or any(_depends(value, tile, made) for value in read_by([op]))
