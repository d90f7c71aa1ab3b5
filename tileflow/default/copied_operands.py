"""Where it is worth a copy of a product's operands that it gets boxes of them, by default.

Rows that begin at any element have no boxes, and a pipelined kernel loads them an element at a time. A launch may copy
them first, with rows that begin at aligned bytes (:mod:`tileflow.runtime.aligned_copy`). The figures below are fits to
26 products of seven sizes that no 8 divides, of bfloat16 and float32 (H100, 2026-11-27, torch 2.11, Triton 3.6.0)."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op
from ..ir.types import itemsize
from ..schedule.single import Single
from ..space.knobs import NUM_WARPS
from ..target import Target
from .cluster_loops import MOST_WARPS, shared_us
from .sizes import programs, symbol, times

COPY_US = 4.0  # of an operand, beside its elements
ELEMENTS_US = {2: 2.6e-6, 4: 3.35e-6}  # of an element of up to so many bytes
BEGIN_US = 4.0  # of a product, beside its turns
# of a turn of 128 bytes of a tile of 128 x 128, on a multiprocessor
TURN_US = 0.5
# of a pipelined block's turn of 64 elements by itself: beside its sums, and for those of 128 x 128
BLOCK_US, SUMS_US = 1.1, 0.8
BLOCK_SUMS, BLOCK_TURN = 128 * 128, 64
# of a float32 block of 64 x 64 in a turn of 32: by itself, and beside others on its multiprocessor
PRECISE_US, PRECISE_BESIDE_US = 1.4, 0.87
PRECISE_SUMS, PRECISE_TURN = 64 * 64, 32


def is_worth_copying(
    ir: KernelIR,
    found: Single,
    wanted: Mapping[str, Choice],
    tiles: Mapping[str, Choice],
    turn_us: float,
    target: Target,
) -> bool:
    """Whether copies and the product of ``tiles``, whose turns take ``turn_us``, end before the pipelined blocks of
    ``wanted`` do."""
    length, inner = tile_length(ir, found.keys), tiles[symbol(found.inner)]
    assert isinstance(inner, int)
    turns = -(-length // (inner * times(found.inner)))
    waves = -(-programs(ir, tiles) // target.sm_count)
    own_us = BEGIN_US + waves * turns * turn_us + sum(_copy_us(ir, op) for op in found.copied)
    return own_us < _pipelined_us(ir, found, wanted, length, target)


def _copy_us(ir: KernelIR, op: Op) -> float:
    """What the copy of an operand's whole tensor takes."""
    tensor = ir.tensor(AccessAttrs.of(op).tensor)
    of_element = ELEMENTS_US[2 if itemsize(tensor.dtype) <= 2 else 4]
    return COPY_US + of_element * prod(ir.hint(size) for size in tensor.shape)


def _pipelined_us(ir: KernelIR, found: Single, wanted: Mapping[str, Choice], length: int, target: Target) -> float:
    """What a pipelined product takes whose operands come an element at a time, where few of its programs have their
    turns shared by the blocks of clusters."""
    sides = wanted.get(ir.tiles[found.rows].block.args[0], 1), wanted.get(symbol(found.columns), 1)
    sums = prod(side for side in sides if isinstance(side, int)) * times(found.columns) * len(found.products)
    blocks, warps = programs(ir, wanted), wanted.get(NUM_WARPS.name(ir))
    if found.is_split:
        beside = blocks / target.sm_count * PRECISE_BESIDE_US * sums / PRECISE_SUMS
        turns_us = length / PRECISE_TURN * max(PRECISE_US, beside)
    else:
        waves = -(-blocks // target.sm_count)
        turns_us = waves * length / BLOCK_TURN * (BLOCK_US + SUMS_US * sums / BLOCK_SUMS)
    is_slow = found.is_split or (isinstance(warps, int) and warps <= MOST_WARPS)
    return BEGIN_US + shared_us(turns_us, blocks, is_slow, target)
