"""Loops and branches, and text of the author's that the compiler does not read."""

from __future__ import annotations

from ..attributes import ForeignAttrs, IfAttrs, LoopAttrs
from ..checking import Checker
from ..graph import Block, Op, Operand
from ..types import Value
from .operands import is_assignable, yields


def loop(c: Checker, op: Op) -> None:
    """A loop runs over a tile of the region that is not the grid's, reads that tile's bounds first, and carries values
    of fixed types."""
    attrs, (body,) = LoopAttrs.of(op), op.regions
    tile = c.ir.tiles.get(attrs.tile)
    if tile is None:
        c.refuse(op, "a loop is over a tile of the region", attrs.tile, sorted(c.ir.tiles))
    c.require(attrs.tile not in c.ir.grid, op, "a loop's tile is none of the grid's", attrs.tile, c.ir.grid)
    c.require(
        op.inputs[: attrs.bounds] == tile.bounds,
        op,
        "a loop reads its tile's bounds first",
        op.inputs[: attrs.bounds],
        tile.bounds,
    )
    if tile.dealt:
        shared = (*c.ir.grid, *c.ir.cluster)
        c.require(tile.dealt in shared, op, "programs or blocks of a cluster share a loop's turns", tile.dealt, shared)
        is_apart = tile.dealt in c.ir.grid and bool(body.params)
        c.require(not is_apart, op, "a loop whose turns programs share carries nothing", len(body.params))
    _carries(c, op, op.inputs[attrs.bounds :], body)


def turns(c: Checker, op: Op) -> None:
    """What a while-loop carries first is a scalar bool, which says whether there is another turn."""
    (body,) = op.regions
    _carries(c, op, op.inputs, body)
    goes_on = op.inputs[0]
    is_one_bool = isinstance(goes_on, Value) and goes_on.type.dtype == "bool" and not goes_on.dims
    c.require(is_one_bool, op, "one bool of the kernel says whether there is another turn", goes_on)


def _carries(c: Checker, op: Op, carried: tuple[Operand, ...], body: Block) -> None:
    counts = len(carried), len(body.params), len(op.outputs)
    c.require(len(set(counts)) == 1, op, "a loop carries as many values in, around and out", *counts)
    for entry, param in zip(carried, body.params, strict=True):
        fits = not isinstance(entry, Value) or is_assignable(c, entry, param)
        c.require(fits, op, "what a loop carries enters with its type", entry, param.type)
    yields(c, op, body, body.params)
    yields(c, op, body, op.outputs)


def branch(c: Checker, op: Op) -> None:
    """A branch has one condition, a scalar of the kernel or of the config; both sides yield the results' types."""
    test = IfAttrs.of(op).test
    c.require(
        len(op.inputs) == (test is None), op, "the kernel or the config answers a branch, one of both", test, op.inputs
    )
    for operand in op.values:
        c.require(not operand.dims, op, "a condition is a scalar", operand.type)
    for side in op.regions:
        c.require(not side.params, op, "a branch's sides take no arguments", side.params)
        yields(c, op, side, op.outputs)


def anything(c: Checker, op: Op) -> None:
    """Any operands."""


def inline_asm(c: Checker, op: Op) -> None:
    """Operands and results have one shape; a reference block takes no arguments and yields the results' types."""
    dims = op.outputs[0].dims if op.outputs else ()
    for v in (*op.values, *op.outputs):
        c.require(c.same_sizes(v.dims, dims), op, "operands and results have one shape", v.type, dims)
    for block in op.regions:
        c.require(not block.params, op, "the reference reads the operands themselves", block.params)
        yields(c, op, block, op.outputs)


def foreign(c: Checker, op: Op) -> None:
    """Foreign text names only tensors that the region captures."""
    unknown = [path for path in ForeignAttrs.of(op).tensors if path not in c.tensors]
    c.require(not unknown, op, "the text is given tensors of the region", unknown, sorted(c.tensors))
