"""Pairs of registers taken apart: the elements of a reshaped dimension of 2 that are picked, as a butterfly's halves.

A pick is traced as a sum whose other terms are 0, for most dimensions have more elements than one thread. The lanes
that share such a sum all have its result, and what is computed of it, joined and reshaped for the next pick, is
computed by all of them: each of seven layers of a transform doubled the work of the last (88,741 lines of PTX, which
ptxas had not assembled after 70 s; 4,920 since). Triton splits a pair whose halves it brings into one thread first.
Pairs that no reshape made stay: as columns of a matrix, they are picked once.
"""

from __future__ import annotations

from ..ir.attributes import NO_ATTRS, ArangeAttrs, AxisAttrs, PermuteAttrs, ReduceAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import TileType, Value
from .makers import Makers, function_of
from .rewrite import Fresh, rename, with_body

_SPREAD = (OpKind.UNSQUEEZE, OpKind.EXPAND)
_Known = dict[tuple[Value, int], tuple[Value, ...]]


def split_pairs(ir: KernelIR) -> KernelIR:
    """Each pick of a reshaped pair as a half of it. Regions with products stay: their tiles have layouts of their
    own."""
    ops = list(ir.walk())
    if any(op.kind in PRODUCTS for op in ops):
        return ir
    picks = {op.output: found for op in ops if op.kind is OpKind.REDUCE and (found := _picked(ir.definitions, op))}
    return with_body(ir, _Splitter(Fresh(ir), picks).block(ir.body, {}, {})) if picks else ir


def _picked(makers: Makers, pick: Op) -> tuple[Value, int] | None:
    """The pair that an op takes an element of, and which one; None of any other op."""
    axis, total = ReduceAttrs.of(pick).axis, pick.output
    chosen = makers.get(pick.values[0])
    if ReduceAttrs.of(pick).fn != "sum" or chosen is None or function_of(chosen) != "where" or chosen.inputs[2] != 0:
        return None
    mask, pair, _ = chosen.inputs
    if not isinstance(mask, Value) or not isinstance(pair, Value) or pair.dims != chosen.output.dims:
        return None
    dim = pair.dims[axis]
    is_pair = dim.extent.constant == 2 and dim.tile is None and total.type.dtype == pair.type.dtype
    if not is_pair or not _is_reshaped(makers, pair):
        return None
    number = _chosen_number(makers, mask, len(pair.dims) - 1 - axis)
    return None if number is None else (pair, number)


def _is_reshaped(makers: Makers, pair: Value) -> bool:
    made = makers.get(pair)
    while made is not None and made.kind is OpKind.PERMUTE:
        made = makers.get(made.values[0])
    return made is not None and made.kind is OpKind.RESHAPE


def _chosen_number(makers: Makers, mask: Value, behind: int) -> int | None:
    """Which lane of a dimension a mask chooses, 0 or 1, that has ``behind`` dimensions after it; None of any other
    mask."""
    made = makers.get(mask)
    while made is not None and made.kind in _SPREAD:
        behind -= made.kind is OpKind.UNSQUEEZE and len(made.output.dims) - 1 - AxisAttrs.of(made).axis < behind
        made = makers.get(made.values[0])
    if made is None or function_of(made) != "eq" or made.inputs[1] not in (0, 1):
        return None
    lanes = makers.get(made.values[0])
    while lanes is not None and lanes.kind in _SPREAD:
        behind -= lanes.kind is OpKind.UNSQUEEZE and len(lanes.output.dims) - 1 - AxisAttrs.of(lanes).axis < behind
        lanes = makers.get(lanes.values[0])
    if lanes is None or lanes.kind is not OpKind.ARANGE or ArangeAttrs.of(lanes).start.constant != 0:
        return None
    number = made.inputs[1]
    return int(number) if behind == 0 and isinstance(number, int) else None


class _Splitter:
    """One rewrite: the first pick of a pair splits it, for all picks of the block and those in it."""

    def __init__(self, fresh: Fresh, picks: dict[Value, tuple[Value, int]]) -> None:
        self._fresh, self._picks = fresh, picks

    def block(self, block: Block, known: _Known, renamed: dict[Value, Operand]) -> Block:
        """The block with its picks as halves. ``known``: of the pairs that were split around it."""
        known, ops = dict(known), list[Op]()
        for op in block.ops:
            found = self._picks.get(op.outputs[0]) if op.outputs else None
            if found is None:
                op = op.with_(inputs=tuple(rename(v, renamed) for v in op.inputs))
                ops.append(op.with_(regions=tuple(self.block(r, known, renamed) for r in op.regions)))
                continue
            (pair, number), axis = found, ReduceAttrs.of(op).axis
            if (pair, axis) not in known:
                ops += self._split(op, rename(pair, renamed), axis)
                known[pair, axis] = ops[-1].outputs
            renamed[op.output] = known[pair, axis][number]
        return Block(block.params, tuple(ops), tuple(rename(v, renamed) for v in block.results))

    def _split(self, pick: Op, pair: Operand, axis: int) -> list[Op]:
        """The ops that split a pair along a dimension, which is turned to be the last one."""
        assert isinstance(pair, Value)
        ops, rank = list[Op](), len(pair.dims)
        if axis < rank - 1:
            order = (*(n for n in range(rank) if n != axis), axis)
            turned = self._fresh.value(TileType(pair.type.dtype, tuple(pair.dims[n] for n in order)), pick.output)
            ops.append(Op(OpKind.PERMUTE, (pair,), (turned,), PermuteAttrs(order), (), pick.loc))
            pair = turned
        half = TileType(pair.type.dtype, pair.dims[:-1])
        halves = tuple(self._fresh.value(half, pick.output) for _ in range(2))
        return [*ops, Op(OpKind.SPLIT, (pair,), halves, NO_ATTRS, (), pick.loc)]
