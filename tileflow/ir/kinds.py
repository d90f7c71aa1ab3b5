"""The kinds of ops. What each one means is a row of the table in :mod:`tileflow.ir.op_table`."""

from __future__ import annotations

from enum import StrEnum


class OpKind(StrEnum):
    """An op's kind; its text is what the IR's printed form says."""

    LOAD = "load"
    STORE = "store"
    ATOMIC = "atomic"
    HISTOGRAM = "histogram"
    POINTWISE = "pointwise"
    CAST = "cast"
    BITCAST = "bitcast"
    FULL = "full"
    SIZE = "size"
    SCALAR = "scalar"
    TILE_INDEX = "tile_index"
    TILE_BEGIN = "tile_begin"
    TILE_END = "tile_end"
    TILE_ID = "tile_id"
    TILE_PART = "tile_part"
    ARANGE = "arange"
    RANDOM = "random"
    UNSQUEEZE = "unsqueeze"
    SQUEEZE = "squeeze"
    PERMUTE = "permute"
    EXPAND = "expand"
    RESHAPE = "reshape"
    NARROW = "narrow"
    JOIN = "join"
    SPLIT = "split"
    NIBBLES = "nibbles"
    GATHER = "gather"
    SORT = "sort"
    REDUCE = "reduce"
    SCAN = "scan"
    COMBINE = "combine"
    COMBINE_SCAN = "combine_scan"
    DOT = "dot"
    AWAIT_DOT = "await_dot"
    CLUSTER_REDUCE = "cluster_reduce"
    CLUSTER_EXCHANGE = "cluster_exchange"
    DOT_SCALED = "dot_scaled"
    WHERE_MASK = "where_mask"
    INLINE_ASM = "inline_asm"
    FOREIGN = "foreign"
    DEVICE_PRINT = "device_print"
    FOR = "for"
    WHILE = "while"
    IF = "if"


LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})  # whose region runs again and again
