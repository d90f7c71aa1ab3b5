"""The verifier's rules for single ops: what the operands, attributes and outputs of each kind are to each other.

The numbers of inputs, outputs and regions, and the class of the attributes, are checked before by the table's columns.
"""

from __future__ import annotations

from .control import anything, branch, foreign, inline_asm, loop, turns
from .dimensions import expand, gather, join, narrow, nibbles, permute, reshape, sort, split, squeeze, unsqueeze
from .elementwise import (
    arange,
    bitcast,
    captured,
    full,
    pointwise,
    random,
    scalar_int,
    tile_index,
    tile_part,
    tile_scalar,
    where_mask,
)
from .memory import atomic, histogram, load, store
from .operands import same_dims, same_type
from .products import dot, dot_scaled
from .reductions import combine, combine_scan, exchange, reduce, scan

__all__ = [
    "anything",
    "arange",
    "atomic",
    "bitcast",
    "branch",
    "captured",
    "combine",
    "combine_scan",
    "dot",
    "dot_scaled",
    "exchange",
    "expand",
    "foreign",
    "full",
    "gather",
    "histogram",
    "inline_asm",
    "join",
    "load",
    "loop",
    "narrow",
    "nibbles",
    "permute",
    "pointwise",
    "random",
    "reduce",
    "reshape",
    "same_dims",
    "same_type",
    "scalar_int",
    "scan",
    "sort",
    "split",
    "squeeze",
    "store",
    "tile_index",
    "tile_part",
    "tile_scalar",
    "turns",
    "unsqueeze",
    "where_mask",
]
