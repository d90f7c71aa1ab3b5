"""Blocks that are cut where programs are few: more multiprocessors have work, and each has warps to run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod

from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..target import Target
from .chunks import chunks, tiles_along
from .recurrences import carries_chunks
from .runs import AS_LONG, TRANSACTION, element_bytes, gathers, runs_along
from .sizes import meetings

CHUNK_WARPS = 16  # of all chunks of a multiprocessor together, where one has fewer and registers suffice
MIN_WARPS = 4
LONG_ROWS = 4  # elements of a lane from which on one row is enough for a program
MANY_GATHERS = 6  # loads of gathered elements


def block_limits(ir: KernelIR, sizes: Mapping[str, int], row: int, target: Target) -> dict[str, int]:
    """Sizes of the grid's blocks by which programs are enough: for half of the multiprocessors, as far as each block
    stays as long as it must be. Where each turn needs what the one before left, two programs a multiprocessor wait in
    turns: a gated recurrence in chunks took 658 us in 80 programs and 187 in 640 (H200, by hand, 2026-11-26). Of many
    gathers a thread has one element from the start, and fewer registers wait: pictures that are warped took 137 us by
    four elements and 85 by one (12 loads), an advected field 660 and 501 (64), a round of a colouring 380 and 284 (32),
    two more 0.92 and 0.99 of the time (H100, 2026-11-28). ``row``: elements of a tile beside its blocks."""
    blocks = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"}
    limits = {symbol: size for symbol, size in sizes.items() if symbol in blocks}
    least = {} if chunks(ir) else _least(ir, limits, row, target)  # chunks are as many as it takes
    if not least:
        return {}
    has_loop, lanes = _has_loop(ir), MIN_WARPS * target.warp_size
    if not has_loop and row == 1 and gathers(ir) >= MANY_GATHERS:
        _halve(limits, dict.fromkeys(limits, 1), lambda: prod(limits.values()) <= lanes)
    enough = 2 * target.sm_count if carries_chunks(ir) else target.sm_count // 2
    _halve(limits, least, lambda: prod(tiles_along(ir, name, limits) for name in ir.grid) > enough)
    if has_loop:
        limits |= _rows_for_warps(ir, {**sizes, **limits}, row, limits.keys(), target)
    return limits if any(sizes[symbol] > limit for symbol, limit in limits.items()) else {}


def _least(ir: KernelIR, blocks: Collection[str], row: int, target: Target) -> dict[str, int]:
    """How long each block stays at least; empty where no block is cut. With loops, a transaction of memory along its
    runs, or a lane a neighbour where turns wait for each other. So where a program holds long rows, of which it may
    then hold one: two of 128256 words by 32 programs took 474 us, one by 64 293 (H200, 2026-11-29). Of programs that
    gather, an element a thread: a gather is a load of its own for each element, and the next to it no neighbour."""
    runs, lanes = runs_along(ir), MIN_WARPS * target.warp_size
    size, along = TRANSACTION // element_bytes(ir), {symbol for symbol in blocks if runs[symbol]}
    if not _has_loop(ir):
        if row >= LONG_ROWS * lanes:  # few bytes lie along the others
            along = {symbol for symbol in along if runs.total() <= AS_LONG * runs[symbol]}
        elif gathers(ir):
            size, along = lanes, {*blocks}
        else:
            return {}
    size = min(size, target.warp_size) if carries_chunks(ir) else size
    return {symbol: size if symbol in along else 1 for symbol in blocks}


def _halve(sizes: dict[str, int], least: Mapping[str, int], is_enough: Callable[[], bool]) -> None:
    """Halve the longest block that may be shorter, until that is enough or there is none."""
    while not is_enough():
        above = {symbol: size for symbol, size in sizes.items() if size > least[symbol]}
        if not above:
            return
        sizes[max(above, key=above.__getitem__)] //= 2


def _has_loop(ir: KernelIR) -> bool:
    return any(op.kind is OpKind.FOR for op in ir.walk())


def _rows_for_warps(
    ir: KernelIR, sizes: Mapping[str, int], row: int, blocks: Collection[str], target: Target
) -> dict[str, int]:
    """Where no multiprocessor has two programs: the grid's blocks that take no neighbours, so short that it has warps
    to run while others wait, or that a thread has one element. Blocks of 128 rows of an author's 16 bytes each took 145
    us where those of 16 take 90 (16384 x 2048 bytes, H100, by hand, 2026-11-25)."""
    runs, found = runs_along(ir), dict(sizes)
    rows = [symbol for symbol in blocks if not runs[symbol]]
    if prod(tiles_along(ir, name, found) for name in ir.grid) > target.sm_count:
        return {}

    def used(symbol: str) -> int:
        return row * max((prod(found.get(s, 1) for s in tile) for tile in meetings(ir) if symbol in tile), default=1)

    while rows and MIN_WARPS * prod(tiles_along(ir, name, found) for name in ir.grid) < CHUNK_WARPS * target.sm_count:
        widest = max(rows, key=found.__getitem__)
        if found[widest] == 1 or used(widest) < 2 * MIN_WARPS * target.warp_size:
            break
        found[widest] //= 2
    return {symbol: found[symbol] for symbol in rows}
