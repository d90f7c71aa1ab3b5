"""The table of op kinds: one row says all that holds for the ops of a kind. A new kind is a row here, an attributes
class if it has any, and a function that writes its text (:mod:`tileflow.emit.table`)."""

from __future__ import annotations

from . import masked_rules as masked
from . import signatures as check
from .attributes import (
    AccessAttrs,
    ArangeAttrs,
    AtomicAttrs,
    Attrs,
    AxisAttrs,
    ClusterExchangeAttrs,
    ClusterReduceAttrs,
    CombineAttrs,
    CombineScanAttrs,
    DotAttrs,
    DotScaledAttrs,
    ForeignAttrs,
    HistogramAttrs,
    IfAttrs,
    InlineAsmAttrs,
    LoadAttrs,
    LoopAttrs,
    NibblesAttrs,
    PermuteAttrs,
    PointwiseAttrs,
    PrintAttrs,
    RandomAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    ScalarAttrs,
    ScanAttrs,
    SizeAttrs,
    StoreAttrs,
    TileAttrs,
    TilePartAttrs,
    WhereMaskAttrs,
)
from .graph import Op
from .kinds import OpKind
from .opdef import Effects, OpDef, Trait, Work
from .ops import POINTWISE

K, T = OpKind, Trait
_SEEN = Effects(is_seen=True)


def _reads(op: Op) -> Effects:
    return Effects(reads=(AccessAttrs.of(op).tensor,))


def _writes(op: Op) -> Effects:
    return Effects(writes=(AccessAttrs.of(op).tensor,))


def _updates(op: Op) -> Effects:
    tensor = AccessAttrs.of(op).tensor
    return Effects((tensor,), (tensor,))


def _assembly(op: Op) -> Effects:
    return Effects(is_seen=not InlineAsmAttrs.of(op).is_pure)


def _foreign(op: Op) -> Effects:
    """The author's text may do anything with the tensors that it is given."""
    tensors = ForeignAttrs.of(op).tensors
    return Effects(tensors, tensors, is_seen=not op.outputs)


def _seen(op: Op) -> Effects:
    return _SEEN


def _each_output(op: Op) -> Work:
    return Work(POINTWISE[PointwiseAttrs.of(op).fn].flops, op.output.dims)


def _each_input(op: Op) -> Work:
    return Work(1, op.values[0].dims)


def _each_step(op: Op) -> Work:
    """What the region's function computes, for each element."""
    steps = (POINTWISE[o.attrs.fn].flops for o in op.regions[0].ops if isinstance(o.attrs, PointwiseAttrs))
    return Work(sum(steps), op.values[0].dims)


def _product(op: Op) -> Work:
    """A multiply-add is two."""
    a, b = op.values[:2]
    return Work(2, (*a.dims, b.dims[-1]))


_ROWS = (
    OpDef(K.LOAD, "read a tile", "index values, an optional mask", LoadAttrs, (0, None), check.load,
          traits=T.ACCESS | T.BY_BLOCKS | T.BY_HALVES, masked=masked.load, effects=_reads),
    OpDef(K.STORE, "write a tile", "value, index values, an optional mask", StoreAttrs, (1, None), check.store,
          outputs=0, traits=T.ACCESS | T.BY_BLOCKS, effects=_writes),
    OpDef(K.ATOMIC, "read-modify-write: the old value", "one value or two, index values, an optional mask", AtomicAttrs,
          (1, None), check.atomic, traits=T.ACCESS, effects=_updates),
    OpDef(K.HISTOGRAM, "count what lanes choose, and add each count to its element",
          "value, index values, an optional mask", HistogramAttrs, (1, None), check.histogram, outputs=0,
          traits=T.ACCESS, effects=_updates),
    OpDef(K.POINTWISE, "one row of POINTWISE, broadcast", "operands", PointwiseAttrs, (1, 3), check.pointwise,
          traits=T.BROADCASTS | T.ON_SCALARS | T.BY_BLOCKS | T.BY_HALVES | T.SPECULATIVE, masked=masked.pointwise,
          work=_each_output),
    OpDef(K.CAST, "change dtype, as .to does", "value", Attrs, (1, 1), check.same_dims,
          traits=T.BROADCASTS | T.ON_SCALARS | T.BY_BLOCKS | T.BY_HALVES | T.SPECULATIVE, masked=masked.cast),
    OpDef(K.BITCAST, "reinterpret, as .view(dtype) does", "value", Attrs, (1, 1), check.bitcast,
          traits=T.BROADCASTS | T.ON_SCALARS | T.BY_BLOCKS | T.BY_HALVES),
    OpDef(K.FULL, "a tile of one value", "scalar", Attrs, (1, 1), check.full,
          traits=T.BROADCASTS | T.ON_SCALARS | T.BY_BLOCKS | T.BY_HALVES | T.SPECULATIVE, masked=masked.full),
    OpDef(K.SIZE, "an int: a size, a captured int, a block size", "-", SizeAttrs, (0, 0), check.scalar_int,
          traits=T.SPECULATIVE),
    OpDef(K.SCALAR, "a captured run-time float", "-", ScalarAttrs, (0, 0), check.captured),
    OpDef(K.TILE_INDEX, "the tile's indices, 1-D", "-", TileAttrs, (0, 0), check.tile_index,
          traits=T.BY_HALVES | T.SPECULATIVE),
    OpDef(K.TILE_BEGIN, "the tile's first index", "-", TileAttrs, (0, 0), check.tile_scalar, traits=T.SPECULATIVE),
    OpDef(K.TILE_END, "the index past the tile's last one", "-", TileAttrs, (0, 0), check.tile_scalar,
          traits=T.SPECULATIVE),
    OpDef(K.TILE_ID, "the tile's number in its loop", "-", TileAttrs, (0, 0), check.tile_scalar),
    OpDef(K.TILE_PART, "from here on a tile is the left or right half of another", "-", TilePartAttrs, (0, 0),
          check.tile_part, outputs=0, effects=_seen),
    OpDef(K.ARANGE, "start + [0, extent)", "-", ArangeAttrs, (0, 0), check.arange),
    OpDef(K.RANDOM, "random numbers: language/random.py", "seed, for ints low and high", RandomAttrs, (1, 3),
          check.random, traits=T.BY_BLOCKS),
    OpDef(K.UNSQUEEZE, "insert a dimension of extent 1", "value", AxisAttrs, (1, 1), check.unsqueeze,
          traits=T.BY_BLOCKS | T.BY_HALVES | T.REARRANGES | T.STAYS_SHARED | T.SPECULATIVE, masked=masked.unsqueeze),
    OpDef(K.SQUEEZE, "drop a dimension of extent 1", "value", AxisAttrs, (1, 1), check.squeeze,
          traits=T.BY_BLOCKS | T.BY_HALVES | T.REARRANGES | T.STAYS_SHARED | T.SPECULATIVE, masked=masked.squeeze),
    OpDef(K.PERMUTE, "reorder dimensions", "value", PermuteAttrs, (1, 1), check.permute,
          traits=T.BY_BLOCKS | T.REARRANGES | T.STAYS_SHARED | T.AS_LOADED, masked=masked.permute),
    OpDef(K.EXPAND, "broadcast to the output's dims", "value", Attrs, (1, 1), check.expand,
          traits=T.BROADCASTS | T.BY_BLOCKS | T.BY_HALVES | T.REARRANGES | T.SPECULATIVE, masked=masked.expand),
    OpDef(K.RESHAPE, "same elements, other dims", "value", ReshapeAttrs, (1, 1), check.reshape,
          traits=T.REARRANGES | T.STAYS_SHARED, masked=masked.reshape),
    OpDef(K.NARROW, "fewer or more lanes count, of as many registers", "value", Attrs, (1, 1), check.narrow),
    OpDef(K.JOIN, "both in a new last dimension of 2", "a, b", Attrs, (2, 2), check.join,
          traits=T.REARRANGES | T.BY_BLOCKS, masked=masked.join),
    OpDef(K.SPLIT, "the two halves of a last dimension of 2", "value", Attrs, (1, 1), check.split, outputs=2,
          traits=T.BY_BLOCKS, masked=masked.same),
    OpDef(K.NIBBLES, "the low and the high 4 bits of each byte as floats", "bytes", NibblesAttrs, (1, 1),
          check.nibbles, outputs=2, traits=T.BY_BLOCKS, masked=masked.nibbles),
    OpDef(K.GATHER, "the elements along an axis that the indices name", "value, indices", AxisAttrs, (2, 2),
          check.gather),
    OpDef(K.SORT, "the least elements along the last axis in ascending order", "value", AxisAttrs, (1, 1), check.sort,
          fills=masked.sort_fills),
    OpDef(K.REDUCE, "drop a dimension", "value", ReduceAttrs, (1, 1), check.reduce, traits=T.COLLECTIVE,
          fills=masked.fold_fills, work=_each_input),
    OpDef(K.SCAN, "cumulative sum or product", "value", ScanAttrs, (1, 1), check.scan, traits=T.COLLECTIVE,
          fills=masked.fold_fills, work=_each_input),
    OpDef(K.COMBINE, "drop a dimension, by the region's function", "values of one shape", CombineAttrs, (1, None),
          check.combine, outputs=None, regions=(1,), traits=T.COLLECTIVE, fills=masked.combine_fills,
          work=_each_step),
    OpDef(K.COMBINE_SCAN, "cumulative, by the region's function", "values of one shape", CombineScanAttrs, (1, None),
          check.combine_scan, outputs=None, regions=(1,), traits=T.COLLECTIVE, work=_each_step),
    OpDef(K.DOT, "(..., m, k) @ (..., k, n) + acc", "a, b, an optional acc", DotAttrs, (2, 3), check.dot,
          traits=T.PRODUCT | T.COLLECTIVE, fills=masked.product_fills, work=_product),
    OpDef(K.AWAIT_DOT, "the value, once the product that adds to it is over", "value", Attrs, (1, 1), check.same_type),
    OpDef(K.CLUSTER_REDUCE, "what a cluster's blocks have, put together: in each, or else in the first one alone",
          "value", ClusterReduceAttrs, (1, 1), check.same_type, effects=_seen),
    OpDef(K.CLUSTER_EXCHANGE, "numbers that a cluster's blocks have of their parts, all blocks' put together in each",
          "values of one element", ClusterExchangeAttrs, (1, None), check.exchange, outputs=None, effects=_seen),
    OpDef(K.DOT_SCALED, "(m, k) @ (k, n) + acc of microscaling formats", "a, b, scales, an optional acc",
          DotScaledAttrs, (2, 5), check.dot_scaled, traits=T.PRODUCT | T.COLLECTIVE, fills=masked.product_fills),
    OpDef(K.WHERE_MASK, "the value in valid lanes of some axes, else other", "value, other", WhereMaskAttrs, (2, 2),
          check.where_mask, traits=T.BY_BLOCKS | T.STAYS_SHARED | T.AS_LOADED, masked=masked.where_mask),
    OpDef(K.INLINE_ASM, "assembly; the region is its reference", "operands", InlineAsmAttrs, (0, None),
          check.inline_asm, outputs=None, regions=(0, 1), effects=_assembly),
    OpDef(K.FOREIGN, "Triton text of the author's", "operands", ForeignAttrs, (0, None), check.foreign, outputs=None,
          effects=_foreign),
    OpDef(K.DEVICE_PRINT, "print", "operands", PrintAttrs, (0, None), check.anything, outputs=0, effects=_seen),
    OpDef(K.FOR, "a tile loop", "bounds that are values, what is carried", LoopAttrs, (0, None), check.loop,
          outputs=None, regions=(1,)),
    OpDef(K.WHILE, "turns as long as the first of what is carried is true", "what is carried", Attrs, (1, None),
          check.turns, outputs=None, regions=(1,)),
    OpDef(K.IF, "a branch on a scalar", "the condition, where the kernel answers", IfAttrs, (0, 1), check.branch,
          outputs=None, regions=(2,), masked=masked.branch),
)  # fmt: skip

OPS: dict[OpKind, OpDef] = {row.kind: row for row in _ROWS}


def having(trait: Trait) -> frozenset[OpKind]:
    """The kinds of ops that have a trait."""
    return frozenset(row.kind for row in _ROWS if trait in row.traits)


ACCESSES = having(Trait.ACCESS)
PRODUCTS = having(Trait.PRODUCT)


def effects_of(op: Op) -> Effects:
    """What an op does besides giving its outputs; of its regions' ops, ask each."""
    return OPS[op.kind].effects(op)
