"""Causal attention of narrow heads: the schedule that ends first, by how its tiles come out.

A causal tile of rows has as many turns as rows before it, so that tiles of 64, 128 and 256 rows come out more or less
even on the multiprocessors, and have more or less of the diagonal's other side. Between schedules that decides more
than their speed does: 48 heads of 2048 rows had 1.09 of the speed of torch's by pipelined programs and 0.96 by two
groups, 12 of 2560 rows 1.19 and 1.34 (H100, 2026-11-27). So each way is judged by the work of the multiprocessor that
ends last, as a multiple of the mean, over the way's speed where tiles are many
(docs/measurements/warp-specialisation.md, *Causal rows of narrow heads*).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..schedule.chained import Chained
from ..space.knobs import DESCENDING, NUM_STAGES, PERSISTENT, PING_PONG
from ..target import Target
from .longest_first import MOST_COUNTED, dealt, section_of, taken, turns_in_order
from .sizes import symbol, tiles_of_axes


@dataclass(frozen=True, slots=True)
class _Way:
    """``rows`` of a tile, ``keys`` of a turn; whether programs walk; how many a multiprocessor holds; the speed where
    tiles are many, as a share of the fastest's."""

    rows: int
    keys: int
    walks: bool
    resident: int
    speed: float


PIPELINED = _Way(64, 64, False, 3, 0.88)
FOUR = (_Way(256, 64, True, 1, 1.0), _Way(256, 64, False, 1, 0.95))
TWO = (_Way(128, 128, True, 1, 0.92), _Way(128, 128, False, 1, 0.80))


def causal_rows_config(ir: KernelIR, found: Chained, groups: frozenset[int], target: Target) -> dict[str, Choice]:
    """The knobs of the way that ends first, of those with so many ``groups``; none where that is the pipelined one."""
    rows = ir.tiles[found.rows].block.args[0]
    ways = [way for of, some in ((4, FOUR), (2, TWO)) if of in groups for way in some]
    ends = {way: end for way in (*ways, PIPELINED) if (end := _end(ir, rows, way, target)) is not None}
    best = min(ends, key=lambda way: ends[way], default=PIPELINED)
    if best is PIPELINED:
        return {}
    return {
        rows: best.rows,
        symbol(found.scores.output.dims[1]): best.keys,
        NUM_STAGES.name(ir): 3,
        PING_PONG.name(ir): best.walks and best in TWO,
        PERSISTENT.name(ir): int(best.walks),
    }


def _end(ir: KernelIR, rows: str, way: _Way, target: Target) -> float | None:
    """When the last multiprocessor ends, as a multiple of the fastest way's time for the half below the diagonal; None
    where the way has no tile for each."""
    chosen: dict[str, Choice] = {rows: way.rows, DESCENDING.name(ir): True}
    *axes, of_a_head = tiles_of_axes(ir, chosen)
    heads, slots = prod(axes), target.sm_count * way.resident
    if heads * of_a_head < target.sm_count + way.walks:
        return None
    turns = tuple(
        turns_in_order(
            of_a_head,
            max(min(heads, MOST_COUNTED // of_a_head), 1),
            1 if way.walks else section_of(ir, chosen, target),
        )
    )
    even = dealt(turns, slots) if way.walks else taken(turns, slots)
    computed = of_a_head * (of_a_head + 1) * way.rows**2 / tile_length(ir, ir.grid[-1]) ** 2
    return even * computed / way.speed
