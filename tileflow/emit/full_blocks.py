"""Masks that full blocks jump over: a branch on whether the block is partial (the knob ``full_blocks``)."""

from __future__ import annotations

from ..ir.attributes import WhereMaskAttrs
from ..ir.graph import Block, Op, Tile
from ..ir.kinds import OpKind
from ..ir.types import Value
from ..space.full_blocks import masks_behind_products, turns
from ..space.knobs import FULL_BLOCKS
from ..space.names import loop_site
from . import pointwise
from .context import Context
from .module import INTERPRETED
from .table import TRITON

# LLVM would compute both sides and select between them. It does not where a side has an effect, which an assembly text
# of no instruction might have. What follows from its zero is not computed in front of the branch, or of the loop.
_KEEP_BRANCH = """():
    zero = tl.full([], 0, tl.int32)
    if not INTERPRETED:
        zero = tl.inline_asm_elementwise("", "=r,0", [zero], dtype=tl.int32, is_pure=False, pack=1)
    return zero
"""


@TRITON.emits(OpKind.WHERE_MASK)
def where_mask(e: Context, op: Op) -> None:
    """``tl.where`` over the lanes of the masked axes; with the knob only where the loop's block is partial."""
    tile = _partial_tile(e, op)
    if tile is None:
        pointwise.where_mask(e, op)
        return
    (value, other), out = op.inputs, op.output
    assert isinstance(value, Value)
    held, name = e.held(value), e.names.of(out, "v")
    fill = e.as_dtype(other, held)
    begin, end = f"{e.tile(tile.name)}_begin", e.bound(tile, tile.end)
    lanes = f"({begin} + {_kept_in_branch(e)} + {e.arange(tile.block)} < {end})"
    mask = e.lanes(lanes, value.dims.index(tile.dim), len(value.dims))
    e.writer.line(f"if {begin} + {e.plan.step_text(tile.block)} > {end}:")
    with e.writer.indented():
        e.writer.line(f"{name} = {pointwise.chosen(mask, e.name(value), fill, held)}")
    e.writer.line("else:")
    with e.writer.indented():
        e.writer.line(f"{name} = {e.name(value)}")
    e.bind(out, name, held)


def keep_side(e: Context, op: Op, side: Block) -> None:
    """The author's own branch in a turn stays one too: a side that computes tiles is worth a jump."""
    if not side.ops or not any(len(out.dims) > 1 for out in op.outputs):
        return
    if any(op in body.ops and _is_asked(e, tile) for tile, body in turns(e.plan.ir)):
        e.writer.line(_kept_in_branch(e))


def _kept_in_branch(e: Context) -> str:
    """Zero. The branch in whose side this stands stays one, and what is computed from it stays there."""
    e.module.constant(*INTERPRETED)
    return f"{e.module.helper('_keep_branch', _KEEP_BRANCH)}()"


def _is_asked(e: Context, tile: Tile) -> bool:
    return e.plan.choice(FULL_BLOCKS, loop_site(e.plan.ir, tile.name))


def _partial_tile(e: Context, op: Op) -> Tile | None:
    """The tile of the loop whose partial blocks alone need this mask, where the config asks for a branch."""
    dims = [op.output.dims[a] for a in WhereMaskAttrs.of(op).axes]
    if not any(d.tile is not None and _is_asked(e, e.plan.ir.tiles[d.tile]) for d in dims):
        return None
    tile = masks_behind_products(e.plan.ir).get(id(op))
    if tile is None or not _is_asked(e, tile) or not e.plan.fills(tile.block):
        return None
    return tile if [d for d in dims if e.plan.is_masked(d)] == [tile.dim] else None
