"""Turns of a tile that the blocks of a cluster share: what their roles do beside a product's schedule.

Block ``p`` of ``n`` has the turns ``p``, ``p + n``, ``p + 2n`` ... of the tile's loop, as many as the others: past the
inner dimension's end the copy engine reads zeros. Then each gives every other block the piece of its sums whose number
that one has, in its shared memory, adds up its own piece, and finishes and stores that one alone (a reduce-scatter, by
the distributed shared memory of Hopper's clusters).

The hardware has one barrier for a cluster, at which all its threads arrive. Memory of a block that has not begun may
not be written, so each role arrives when it begins and whoever gives waits for that round first. A second round says
that all is given. What helpers do ends with their second arrival. Nobody writes to a block's memory after it, so that
each block may leave. A program works on one tile: the slots are filled once.
"""

from __future__ import annotations

from .types import WARPS_OF_A_GROUP, ArriveCluster, Cut, Give, Join, Step, WaitCluster

_SUM_BYTES = 4  # of a float32


def begun(blocks: int) -> tuple[Step, ...]:
    """What each role does first."""
    return (ArriveCluster(),) if blocks > 1 else ()


def leaves(blocks: int) -> tuple[Step, ...]:
    """What a helper does last: it gives nothing, and is one of those whom the others wait for."""
    return (WaitCluster(), ArriveCluster()) if blocks > 1 else ()


def joined(blocks: int) -> tuple[Step, ...]:
    """What a consumer group does with its sums of all turns: ``sums`` are the block's own columns then."""
    pieces = tuple(f"sums_{n}" for n in range(blocks))
    exchanged = (WaitCluster(), Give(pieces), ArriveCluster(), WaitCluster())
    return (Cut("sums", pieces), *exchanged, Join(pieces, "sums"))


def given_bytes(sums: int, blocks: int) -> int:
    """Bytes that other blocks give a group of a block, of ``sums`` registers of a thread before they are cut."""
    return (blocks - 1) * (sums // blocks) * _SUM_BYTES * WARPS_OF_A_GROUP * 32


def producer_warps(blocks: int) -> int:
    """A whole warp group where there is a cluster: the compiler's own, which would sit idle, would never arrive."""
    return WARPS_OF_A_GROUP if blocks > 1 else 1
