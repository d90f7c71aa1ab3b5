"""Left operands of products that lie in registers through all turns of a loop, and what has the assembler keep them.

Hopper's warp groups take a computed left operand from registers. Of one that no turn changes, as the queries of
attention with something added to them, ptxas 12.8 gave the registers away behind the turn's own product: the turn's
weights were written there, and the next turn multiplied them by its keys. 97 % of the results were wrong, the same in
each run (H200, Triton 3.6, 2026-11-30; read in the machine code). The same loop without its branch, a mask for the last
keys, was right; but ptxas makes branches of its own, of square roots, say, so that no loop is trusted.

Such an operand is made anew in each turn, out of itself and the sign of the loop's counter, or of the clock where a
loop has none. It is never set: a fact that neither LLVM nor ptxas knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from types import MappingProxyType

from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.graph import Block, KernelIR, Op, once, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.types import Value, itemsize
from ..passes.await_dot import is_buffered
from ..space.knobs import NUM_WARPS
from ..space.warp_groups import ROWS_OF_A_WARP
from .context import Context
from .module import INTERPRETED

_VARYING = frozenset({OpKind.LOAD, OpKind.ATOMIC, OpKind.RANDOM, OpKind.INLINE_ASM, OpKind.FOREIGN})
_COUNTING = frozenset({OpKind.TILE_INDEX, OpKind.TILE_BEGIN, OpKind.TILE_END, OpKind.TILE_ID, OpKind.TILE_PART})
# by the bytes of a loop's counter: PTX that has the operand, and its sign where no counter has one
_SIGNED = {
    4: "{ .reg .b32 sign; shr.s32 sign, $2, 31; or.b32 $0, $1, sign; }",
    8: "{ .reg .b64 wide; .reg .b32 sign; shr.s64 wide, $2, 63; cvt.u32.u64 sign, wide; or.b32 $0, $1, sign; }",
}
_CLOCK = "mov.u64 $0, %clock64;"
_GROUP = 4  # warps
_WORD = 4  # bytes of a register


def kept(e: Context, out: Value, left: Value, text: str) -> str:
    """The text of the left operand of the product ``out``, made anew in each turn where it must be."""
    loop, size = kept_operands(e.plan.ir).get(out), itemsize(left.type.dtype)
    if loop is None or size > _WORD or not _by_warp_groups(e, left):
        return text
    pack, (counter, counted) = _WORD // size, _counter(e, loop)
    word = "l" if counted > _WORD else "r"
    constraints = ",".join(["=r", "r", *[word] * pack])
    asm = f"""tl.inline_asm_elementwise(
            "{_SIGNED[counted]}", "{constraints}", [x, turn], dtype=x.dtype, is_pure=True, pack={pack}
        )"""
    return f"{_helper(e, f'_kept_{pack}_{counted}', '(x, turn)', 'x', asm)}({text}, {counter})"


def _by_warp_groups(e: Context, left: Value) -> bool:
    rows = prod(e.plan.extent(dim.extent) for dim in left.dims[:-1])
    warps = e.plan.launch(NUM_WARPS)
    return e.target.has_wgmma and rows >= _GROUP * ROWS_OF_A_WARP and warps % _GROUP == 0


def _counter(e: Context, loop: Op) -> tuple[str, int]:
    """The text of a number that is never negative and that each turn finds anew, and its bytes."""
    if loop.kind is OpKind.WHILE:
        asm = f'tl.inline_asm_elementwise("{_CLOCK}", "=l,r", [0], dtype=tl.int64, is_pure=False, pack=1)'
        return f"{_helper(e, '_clock', '()', 'tl.full([], 0, tl.int64)', asm)}()", 8
    tile = e.plan.ir.tiles[TileAttrs.of(loop).tile]
    counter = f"{e.tile(tile.name)}_begin"
    if not (isinstance(tile.begin, Expr) and tile.begin.constant == 0):
        counter = f"{counter} - {e.bound(tile, tile.begin)}"
    return f"tl.cast({counter}, tl.{tile.index_dtype})", itemsize(tile.index_dtype)


def _helper(e: Context, name: str, parameters: str, interpreted: str, asm: str) -> str:
    flag = e.module.constant(*INTERPRETED)
    return e.module.helper(
        name, f"{parameters}:\n    if {flag}:\n        return {interpreted}\n    else:\n        return {asm}\n"
    )


@once
def kept_operands(ir: KernelIR) -> Mapping[Value, Op]:
    """The products in loops whose left operand is computed and the same in each turn: by their results, the loops."""
    found: dict[Value, Op] = {}
    for loop in (op for op in ir.walk() if op.kind in LOOPS):
        (turn,) = loop.regions
        changed = _changed(loop)
        for op in _own(turn):
            if op.kind is OpKind.DOT and op.values[0] not in changed and not is_buffered(op.values[0], ir.definitions):
                found[op.output] = loop
    return MappingProxyType(found)


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
