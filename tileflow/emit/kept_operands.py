"""Left operands of products that lie in registers through all turns of a loop, and what has the assembler keep them.

Hopper's warp groups take a computed left operand from registers. Of one that no turn changes, as the queries of
attention with something added to them, ptxas 12.8 gives the registers away behind the turn's own product where the loop
has a branch, a mask for the last keys, say: the turn's weights are written there, and the next turn multiplies them by
its keys. 97 % of the results were wrong, the same in each run (H200, Triton 3.6, 2026-11-30; read in the machine code);
in a loop without a branch they were right. Such an operand is made anew in each turn, out of itself and the sign of the
loop's counter, which is never set: a fact that neither LLVM nor ptxas knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.graph import Block, KernelIR, Op, Tile, once, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.types import Value, itemsize
from ..passes.await_dot import is_buffered
from ..space.knobs import FULL_BLOCKS
from ..space.names import loop_site
from .context import Context
from .module import INTERPRETED

_VARYING = frozenset({OpKind.LOAD, OpKind.ATOMIC, OpKind.RANDOM, OpKind.INLINE_ASM, OpKind.FOREIGN})
_COUNTING = frozenset({OpKind.TILE_INDEX, OpKind.TILE_BEGIN, OpKind.TILE_END, OpKind.TILE_ID, OpKind.TILE_PART})
# by the bytes of a loop's counter: PTX that has the operand, and its sign where no counter has one
_SIGNED = {
    4: "{ .reg .b32 sign; shr.s32 sign, $2, 31; or.b32 $0, $1, sign; }",
    8: "{ .reg .b64 wide; .reg .b32 sign; shr.s64 wide, $2, 63; cvt.u32.u64 sign, wide; or.b32 $0, $1, sign; }",
}
_WORD = 4  # bytes of a register


def kept(e: Context, out: Value, left: Value, text: str) -> str:
    """The text of the left operand of the product ``out``, made anew in each turn where it must be."""
    found, size = kept_operands(e.plan.ir).get(out), itemsize(left.type.dtype)
    if found is None or not e.target.has_wgmma or size > _WORD:
        return text
    tile = found.tile
    if not (found.has_branch or e.plan.choice(FULL_BLOCKS, loop_site(e.plan.ir, tile.name))):
        return text
    pack, counted = _WORD // size, itemsize(tile.index_dtype)
    counter = f"{e.tile(tile.name)}_begin"
    if not (isinstance(tile.begin, Expr) and tile.begin.constant == 0):
        counter = f"{counter} - {e.bound(tile, tile.begin)}"
    interpreted, word = e.module.constant(*INTERPRETED), "l" if counted > _WORD else "r"
    constraints = ",".join(["=r", "r", *[word] * pack])
    asm = f"""tl.inline_asm_elementwise(
            "{_SIGNED[counted]}", "{constraints}", [x, turn], dtype=x.dtype, is_pure=True, pack={pack}
        )"""
    body = f"(x, turn):\n    if {interpreted}:\n        return x\n    else:\n        return {asm}\n"
    return f"{e.module.helper(f'_kept_{pack}_{counted}', body)}({text}, tl.cast({counter}, tl.{tile.index_dtype}))"


@dataclass(frozen=True, slots=True)
class Kept:
    """``tile``: of the loop whose turns have the operand in common. ``has_branch``: whether a turn has one."""

    tile: Tile
    has_branch: bool


@once
def kept_operands(ir: KernelIR) -> Mapping[Value, Kept]:
    """By the results of products in loops, those whose left operand is computed and the same in each turn."""
    found: dict[Value, Kept] = {}
    for loop in ir.walk():
        if loop.kind is not OpKind.FOR:
            continue
        (turn,) = loop.regions
        changed = _changed(loop)
        for op in _own(turn):
            if op.kind is OpKind.DOT and op.values[0] not in changed and not is_buffered(op.values[0], ir.definitions):
                found[op.output] = Kept(ir.tiles[TileAttrs.of(loop).tile], _branches(loop))
    return MappingProxyType(found)


def _branches(loop: Op) -> bool:
    return any(op.kind is OpKind.IF or op.kind in LOOPS for region in loop.regions for op in walk(region))


def _own(turn: Block) -> Iterator[Op]:
    """The operations of a turn, those in its branches among them, those of loops inside it not."""
    for op in turn.ops:
        yield op
        if op.kind not in LOOPS:
            for region in op.regions:
                yield from _own(region)


def _changed(loop: Op) -> set[Value]:
    """The values of a turn that are not the same in each: what it carries, loads, counts, and makes of those."""
    inner = [op for region in loop.regions for op in walk(region)]
    counters = {TileAttrs.of(op).tile for op in (loop, *inner) if op.kind is OpKind.FOR}
    found = {param for op in (loop, *inner) for region in op.regions for param in region.params}
    for op in inner:
        counts = op.kind in _COUNTING and TileAttrs.of(op).tile in counters
        if counts or op.regions or op.kind in _VARYING or not found.isdisjoint(op.values):
            found.update(op.outputs)
    return found
