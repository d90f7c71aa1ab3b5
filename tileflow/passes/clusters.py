"""Rows that the blocks of a cluster may hold together: which dimension is divided among them.

Each block has a part of the dimension's lanes. What a block reduces of its part is one number, which the blocks
exchange (:mod:`tileflow.emit.exchanges`). All else is done lane by lane, or once in each block alike: the bounds of
loops, too, so that all blocks do the same turns and exchange the same numbers in the same order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..expr import is_knob
from ..ir.attributes import ReduceAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, once
from ..ir.hazards import Access, accesses_of
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS, effects_of
from ..ir.types import Dim, is_float, itemsize
from .folds import folded
from .roll import ROW, is_whole, rollable, takes_blocks

EXCHANGED = ("sum", "prod", "max", "min")
WORDS = ("float32", "float64", "int32", "int64")  # that one instruction stores


@dataclass(frozen=True, slots=True)
class Row:
    """``site``: the reduction that the dimension's knob is named after, empty where it is never read in a loop.
    ``rows``: of what blocks exchange one number for each, blocks of which are to be 1."""

    dim: Dim
    site: str
    rows: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """A launch whose rows no cluster divides. ``reason``: in words."""

    reason: str


@once
def clustered_row(ir: KernelIR) -> Row | Whole:
    """The dimension of a region that the blocks of a cluster may divide, or why there is none."""
    refused = next((why for op in ir.walk() if (why := _refusal(ir, op))), "")
    if refused:
        return Whole(refused)
    found = dict.fromkeys(dim for op in ir.walk() if (dim := folded(op)) is not None and is_whole(dim))
    if len(found) != 1:
        return Whole(f"one dimension that loads make is reduced in one piece, not {len(found)}")
    (dim,) = found
    exchanged = [op for op in ir.walk() if folded(op) == dim]
    reasons = itertools.chain(map(_unexchanged, exchanged), (_undivided(ir, op, dim) for op in ir.walk()))
    refused = next(filter(None, reasons), "") or _meeting(ir, dim)
    if refused:
        return Whole(refused)
    sites = (site for site, its in rollable(ir).items() if its == dim and not site.startswith(ROW))
    rows = dict.fromkeys(its for op in exchanged for its in op.output.dims if its.extent.constant != 1)
    return Row(dim, next(sites, ""), tuple(rows))


def _refusal(ir: KernelIR, op: Op) -> str:
    """Why an op cannot be done by each block for its part, whatever it is of; empty where it can."""
    if op.kind is OpKind.FOR:
        if ir.tiles[TileAttrs.of(op).tile].lengths is None:
            return ""
        return "blocks of a cluster exchange what they reduce in turns that all of them do: a loop is jagged"
    if op.kind in (OpKind.IF, OpKind.WHILE):
        return f"blocks of a cluster exchange what they reduce where all of them come by, not in a branch: {op.kind}"
    if op.kind in PRODUCTS:
        return "each block of a cluster would do a product once more"
    effects = effects_of(op)
    if effects.is_seen or (effects.writes and op.kind is not OpKind.STORE):
        return f"each block of a cluster would do it once more: {op.kind}"
    return ""


def _undivided(ir: KernelIR, op: Op, dim: Dim) -> str:
    """Why an op that has the dimension cannot be done for a part of it; empty where it can, or has none of it."""
    dims = {its for v in (*op.values, *op.outputs) for its in v.dims}
    if any(its != dim and its.extent == dim.extent for its in dims):  # blocks are told apart by extents
        return f"{op.kind} has another dimension of {dim.extent} elements, of which each block of a cluster has all"
    if dim not in dims or op.kind is OpKind.FOR or takes_blocks(ir, op, dim):
        return ""
    return f"{op.kind} takes all of the dimension, of which each block of a cluster has a part"


def _unexchanged(op: Op) -> str:
    """Why blocks cannot exchange what a reduction of their parts gives; empty where they can."""
    if op.kind is not OpKind.REDUCE:
        return f"blocks of a cluster exchange {', '.join(EXCHANGED)}, not {op.kind}"
    fn, dtype = ReduceAttrs.of(op).fn, op.values[0].type.dtype
    if fn not in EXCHANGED:
        return f"blocks of a cluster exchange {', '.join(EXCHANGED)}, not {fn}, whose result is no single number"
    if dtype not in WORDS and not is_float(dtype):
        return f"blocks of a cluster exchange words of 4 or 8 bytes, not {dtype}"
    if not all(map(_may_be_one, op.output.dims)):
        return "blocks of a cluster exchange one number, and here is one for each lane of another dimension"
    return ""


def _may_be_one(dim: Dim) -> bool:
    """Whether a dimension is 1, or a block that may be."""
    return dim.extent.constant == 1 or (dim.extent.op == "sym" and is_knob(str(dim.extent.args[0])))


def _meeting(ir: KernelIR, dim: Dim) -> str:
    """Why a block might load, or store, what another one has not yet stored, or has already; empty where none does. A
    program does all in the author's order, but the blocks of a cluster wait for each other at exchanges alone: what
    two accesses name is to be the same lanes of the dimension, which one block has, or never the same."""
    find = accesses_of(ir)
    accesses = [access for op in ir.walk() for access in find(op)]
    for one, other in itertools.combinations(accesses, 2):
        if (one.writes or other.writes) and _may_meet(ir, one, other, dim):
            written, also = (one, other) if one.writes else (other, one)
            what = "stores it" if also.writes else "loads it"
            return f"{written.tensor} may be {also.tensor}: one block could store a number before another {what}"
    return ""


def _may_meet(ir: KernelIR, one: Access, other: Access, dim: Dim) -> bool:
    """Whether two accesses may name one element from different blocks. A caller may pass one tensor for two whose
    elements have one size and are accessed at the same places (:mod:`tileflow.ir.overlap`). Numbers that are stored
    one after the other are the same in each block, whose last ones stay."""
    if one.writes and other.writes and dim not in one.dims and dim not in other.dims:
        return False
    if other.tensor in ir.sharing(one.tensor):
        is_own = one.is_lanewise(other) and dim in one.dims
        return not is_own and not one.is_apart(other, frozenset())
    sizes = {tensor.path: itemsize(tensor.dtype) for tensor in ir.tensors}
    is_number = dim not in one.dims or dim not in other.dims
    return is_number and one.places == other.places and sizes[one.tensor] == sizes[other.tensor]
