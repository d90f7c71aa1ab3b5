"""What variants for any size have beside the example's own config, each with the sizes at which it is better."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from ..config import Choice
from ..expr import Expr
from ..ir.graph import KernelIR
from ..passes.unit_batches import as_matrices
from ..schedule.computed import Computed
from ..schedule.single import Single
from ..schedule.structure import find_structure
from ..space.knobs import SCHEDULE
from ..space.schedules import refusal
from ..target import Target
from .copied_operands import BEGIN_NS, copied_ns, copies_fit, pipelined_ns
from .specialised import tiles_of_copies
from .split_products import both_tiles, other_tiles, tiles_of_parts


def copied_config(
    ir: KernelIR, unaligned: Mapping[str, Choice], target: Target
) -> tuple[dict[str, Choice], Expr] | None:
    """For any rows of one product's operands: the knobs of the schedule whose operands are all copied, and when that is
    worth it, as a condition on a call's sizes, where the pipelined variant has ``unaligned``. None for what has no such
    schedule."""
    if refusal(ir, target):
        return None
    ir = as_matrices(ir)
    found = find_structure(ir)
    if not isinstance(found, Single) or isinstance(found, Computed) or found.is_ragged or found.parts is not None:
        return None
    if not found.by_columns:  # a whole row changes lanes, for which there is no memory
        return None
    ways = both_tiles(ir, found, target) if found.is_split else [tiles_of_copies(ir, found)]
    tiles = tiles_of_parts(ir, found, target)[0] if found.is_split else ways[0][0]
    if not tiles:
        return None
    operands = (found.left, *found.rights)
    own = [copied_ns(ir, found, operands, way, turn_ns, target) for way, turn_ns in ways]
    pipelined = pipelined_ns(ir, found, unaligned, target) + BEGIN_NS
    worth = reduce(Expr.min, own).lt(pipelined).and_(copies_fit(ir, operands, target))
    return tiles | {SCHEDULE.name(ir): "warp_specialised"}, worth


def other_config(ir: KernelIR, chosen: Mapping[str, Choice], target: Target) -> tuple[dict[str, Choice], Expr] | None:
    """Other tiles of a warp-specialised launch than the ``chosen`` ones, and when they end sooner, as a condition on a
    call's sizes: one tile of a float32 product is at 0.6 times another's speed at some. None where one tile is as good
    as any, or was not compared."""
    if refusal(ir, target):
        return None
    ir = as_matrices(ir)
    found = find_structure(ir)
    return other_tiles(ir, found, chosen, target) if isinstance(found, Single) and found.is_split else None
