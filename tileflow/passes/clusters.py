"""Rows that the blocks of a cluster may hold together: which dimension is divided among them.

Each block has a part of the dimension's lanes. What a block reduces of its part is one number, which the blocks
exchange (:mod:`tileflow.emit.clusters`). All else is done lane by lane, or once in each block alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..expr import is_knob
from ..ir.attributes import ReduceAttrs
from ..ir.graph import KernelIR, Op, once
from ..ir.hazards import accesses_of
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import Dim, is_float, itemsize
from .folds import folded
from .roll import ROW, rollable

EXCHANGED = ("sum", "prod", "max", "min")
WORDS = ("float32", "float64", "int32", "int64")  # that one instruction stores


@dataclass(frozen=True, slots=True)
class Row:
    """``site``: the reduction that the dimension's knob is named after."""

    site: str
    dim: Dim


@dataclass(frozen=True, slots=True)
class Whole:
    """A launch whose rows no cluster divides. ``reason``: in words."""

    reason: str


@once
def clustered_row(ir: KernelIR) -> Row | Whole:
    """The dimension of a region that the blocks of a cluster may divide, or why there is none."""
    refused = _refused_op(ir)
    if refused:
        return Whole(refused)
    sites = {site: dim for site, dim in rollable(ir).items() if not site.startswith(ROW)}
    if len(sites) != 1:
        return Whole(f"one dimension that loads make is reduced in one piece, not {len(sites)}")
    ((site, dim),) = sites.items()
    if any(folded(op) not in (dim, None) for op in ir.walk()):
        return Whole("one dimension is reduced, not several")
    found = _shared_numbers(ir, dim)
    return Whole(found) if found else Row(site, dim)


def _refused_op(ir: KernelIR) -> str:
    """Why an op cannot be done by each block for its part; empty where all can."""
    if any(op.regions for op in ir.walk()):
        return "an exchange has a place of its own in shared memory: the launch has neither loops nor branches"
    for op in ir.walk():
        effects = effects_of(op)
        if effects.is_seen or (effects.writes and op.kind is not OpKind.STORE):
            return f"each block of a cluster would do it once more: {op.kind}"
        if op.kind is OpKind.REDUCE:
            refused = _refused_reduction(op)
            if refused:
                return refused
    return ""


def _refused_reduction(op: Op) -> str:
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


def _shared_numbers(ir: KernelIR, dim: Dim) -> str:
    """Why a number of a row might be loaded by one block after another one has stored it; empty where none is. A caller
    may pass one tensor for two whose elements have one size and are loaded and stored at the same places
    (:mod:`tileflow.ir.overlap`); a program does so in that order, but the blocks of a cluster in none."""
    accesses = accesses_of(ir)
    numbers = [a for op in ir.walk() for a in accesses(op) if dim not in a.dims]
    sizes = {tensor.path: itemsize(tensor.dtype) for tensor in ir.tensors}
    for store in (a for a in numbers if a.writes):
        for load in (a for a in numbers if not a.writes):
            is_one = load.tensor in ir.sharing(store.tensor) and not load.is_apart(store, frozenset())
            if is_one or (load.places == store.places and sizes[load.tensor] == sizes[store.tensor]):
                return f"{store.tensor} may be {load.tensor}: one block could store a number before another loads it"
    return ""
