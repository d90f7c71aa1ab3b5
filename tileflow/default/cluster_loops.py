"""Loops whose turns the blocks of a cluster share, where the grid alone leaves multiprocessors idle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod

from ..config import Choice, Config
from ..ir.analysis import tile_length
from ..ir.attributes import TileAttrs, site_of
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import itemsize
from ..passes.cluster_loops import shared_loops
from ..passes.running import running
from ..space.knobs import LOOP_CTAS, NUM_STAGES, NUM_WARPS, PRECISION, SCHEDULE
from ..space.names import loop_site
from ..target import Target
from .operands import comes_by_element, gathers
from .shared_turns import sooner_way
from .sizes import known_ends, programs, symbol

# Fitted by hand to 60 products of 15 sizes and 11 loops without any (H100, 2026-11-27), in microseconds. A turn is what
# a program waits for that has a multiprocessor for itself, or with one other, not what it computes.
_STREAMED_TURN_US = 0.35  # without products
_TURN_US, _TURN_US_A_BYTE = 0.15, 0.2 / 256  # of so many bytes of a row of the left operand
_PARTS_TURN_US = 1.0  # of operands in parts
_ELEMENT_US = 0.045  # of an element that a thread loads by itself
JOINED_US = {1: 0.0, 2: 2.8, 4: 4.0, 8: 11.0}  # what blocks of a cluster take to add up their sums
# Blocks that a multiprocessor has at once: of clusters of four and eight the last slots stay empty, since the hardware
# places a cluster in one group of 16 or 18 multiprocessors. Where operands are slow there are two.
_AT_ONCE = {1: 1.0, 2: 1.0, 4: 0.9, 8: 0.85}
_SLOW_AT_ONCE = {1: 2.0, 2: 2.0, 4: 1.6, 8: 1.6}
_WORTH = 0.9  # of the time without clusters
# Of products one after the other around a running maximum, whose shared memory leaves room for two (H200, 2026-12-01,
# six decoding steps and three of attention): where queries are few, a multiprocessor waits for keys.
_CHAINED_AT_ONCE = {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}
_DECODED_AT_ONCE = {1: 2.0, 2: 2.0, 4: 1.0, 8: 1.0}
_FEW_ROWS = 16
_BESIDE = 1.25  # times as long a turn of one block beside another's
MOST_WARPS = 8  # of a block of which there are two
_ELEMENTS = 64 * 64  # of such a block's sums in parts; of smaller ones there are more at once


def cluster_loop_config(ir: KernelIR, config: Config, target: Target) -> dict[str, Choice]:
    """So many blocks for each program as end the launch soonest, all at once; of a product whose launch ends sooner
    still where it is warp-specialised, the knobs of that. ``config``: the rest of the choices."""
    launch = _launch_of(ir, config, target)
    if launch is None:
        return {}
    blocks = min(JOINED_US, key=launch.takes_us)
    least = launch.takes_us(blocks)
    if way := sooner_way(ir, least, target):
        return way
    name = LOOP_CTAS.name(loop_site(ir, launch.tiles[0]))
    return {name: blocks} if least < _WORTH * launch.takes_us(1) else {}


def alone_config(ir: KernelIR, config: Config, target: Target) -> dict[str, Choice]:
    """What chained products may have besides whose blocks have a multiprocessor each, by the blocks that ``config``
    says: four stages where two programs were to share it with two each. Where queries are few and so are the programs
    that eight blocks of each leave multiprocessors idle, a turn has twice as many keys in three stages (decoding 32768
    keys of 8 heads 64 us by turns of 64, 51 by 128; 16384 keys of 64 columns 36 by 128 in two stages and 22 by 256;
    1024 x 4096 x 64 20 and 16; H200, 2026-12-01)."""
    launch = _launch_of(ir, config, target)
    if launch is None or not launch.is_chained or (blocks := launch.chosen) == 1:
        return {}
    keys = symbol(launch.scores.output.dims[-1])
    if launch.has_few_rows and blocks == max(JOINED_US) and isinstance(size := config.get(keys, 0), int) and size:
        return {keys: 2 * size, NUM_STAGES.name(ir): 3}
    return {NUM_STAGES.name(ir): 4} if NUM_STAGES.chosen(config, ir) == 2 else {}


def _launch_of(ir: KernelIR, config: Config, target: Target) -> _Launch | None:
    """A launch whose turns blocks of clusters may share, of those that were measured."""
    found = shared_loops(ir) if target.has_clusters else None
    name = LOOP_CTAS.name(loop_site(ir, found.tile)) if found is not None else ""
    if found is None or (found.rolled and config[found.rolled] == 0):
        return None
    if name not in config.to_dict() or SCHEDULE.chosen(config, ir) != SCHEDULE.default:
        return None
    if not known_ends(found.region, *found.tiles, *ir.grid):
        return None  # the author has a number of parts, or only the device knows how many programs have anything to do
    turns = tuple(op for loop in found.loops for op in walk(loop.regions[0]))
    products = sum(op.kind in PRODUCTS for op in turns)
    if products > (len(found.loops) == 1) and not (len(found.loops) == 1 and running(found.loops[0])):
        return None
    return _Launch(found.region, found.tiles, turns, config, target)


def shared_us(alone_us: float, count: int, is_slow: bool, target: Target) -> float:
    """How long the turns of so many programs take that would take ``alone_us`` by themselves: of blocks that all run at
    once, as many for each program as end soonest. ``is_slow``: of which a multiprocessor has two at once, each of whose
    turns takes longer beside the other's (58 us for 513 x 513 x 4097 in bfloat16, 83 by one block each)."""
    slots = _SLOW_AT_ONCE if is_slow else _AT_ONCE
    fitting = [blocks for blocks in JOINED_US if blocks == 1 or count * blocks <= target.sm_count * slots[blocks]]
    longer = _BESIDE if is_slow else 1.0
    return min(alone_us * (longer if blocks > 1 else 1.0) / blocks + JOINED_US[blocks] for blocks in fitting)


@dataclass(frozen=True, slots=True)
class _Launch:
    """A launch, and what a turn of its loops over ``tiles`` does."""

    ir: KernelIR
    tiles: tuple[str, ...]
    turn: tuple[Op, ...]
    config: Config
    target: Target

    def takes_us(self, blocks: int) -> float:
        """How long it takes with so many blocks for each program; infinitely long where not all run at once."""
        count = programs(self.ir, self.config.to_dict())
        if blocks > 1 and count * blocks > self._slots(blocks):
            return math.inf
        turns = sum(-(-self._turns_of(tile) // blocks) for tile in self.tiles)
        waves = max(-(-count // int(self._slots(1))), 1)
        return waves * turns * self._turn_us + len(self.tiles) * JOINED_US[blocks]

    @property
    def chosen(self) -> int:
        """How many blocks the config has for each program."""
        return LOOP_CTAS.chosen(self.config, loop_site(self.ir, self.tiles[0]))

    @property
    def is_chained(self) -> bool:
        """Whether a turn has products one after the other."""
        return len(self._dots) > 1

    @property
    def scores(self) -> Op:
        """A turn's first product."""
        return self._dots[0]

    @property
    def has_few_rows(self) -> bool:
        """Whether a program has so few queries that it waits for keys."""
        return self.scores.output.dims[-2].extent.evaluate(self._sizes) <= _FEW_ROWS

    def _turns_of(self, tile: str) -> int:
        return -(-tile_length(self.ir, tile) // max(self.ir.tiles[tile].block.evaluate(self._sizes), 1))

    @property
    def _sizes(self) -> dict[str, int]:
        return {name: size for name, size in self.config.items if isinstance(size, int)} | self.ir.hints

    @property
    def _dots(self) -> list[Op]:
        return [op for op in self.turn if op.kind is OpKind.DOT]

    @property
    def _turn_us(self) -> float:
        if not self._dots:
            return _STREAMED_TURN_US
        sizes = self._sizes
        if self._comes_by_element:
            operands = {v for op in self._dots for v in op.values[:2]}
            elements = sum(prod(d.extent.evaluate(sizes) for d in v.dims) for v in operands)
            return _ELEMENT_US * elements / (NUM_WARPS.chosen(self.config, self.ir) * self.target.warp_size)
        if self._is_in_parts:
            return _PARTS_TURN_US
        inner = [op.values[0] for op in self._dots]
        rows = [v.dims[-1].extent.evaluate(sizes) * itemsize(v.type.dtype) for v in inner]
        return self._inner_turns * sum(_TURN_US + _TURN_US_A_BYTE * row for row in rows)

    @property
    def _inner_turns(self) -> int:
        """Turns of the loops that a turn has, one inside of the other."""
        return prod(self._turns_of(TileAttrs.of(op).tile) for op in self.turn if op.kind is OpKind.FOR)

    @property
    def _is_in_parts(self) -> bool:
        return any(PRECISION.chosen(self.config, site_of(op)) != PRECISION.default for op in self._dots)

    @property
    def _comes_by_element(self) -> bool:
        return any(comes_by_element(self.ir, v, self.target) for op in self._dots for v in op.values[:2])

    def _slots(self, blocks: int) -> float:
        """How many blocks the device has at once, of clusters of so many. Those that gather want the first-level cache
        for what they gather."""
        if not self._dots:
            at_once = _AT_ONCE if any(gathers(op, 1) for op in self.turn) else _SLOW_AT_ONCE
            return self.target.sm_count * at_once[blocks]
        if self._is_in_parts:
            sums = max(prod(d.extent.evaluate(self._sizes) for d in op.output.dims) for op in self._dots)
            return self.target.sm_count * _SLOW_AT_ONCE[blocks] * max(_ELEMENTS // sums, 1)
        if self.is_chained:
            return self.target.sm_count * (_DECODED_AT_ONCE if self.has_few_rows else _CHAINED_AT_ONCE)[blocks]
        warps = NUM_WARPS.chosen(self.config, self.ir)
        is_slow = self._comes_by_element and warps <= MOST_WARPS
        return self.target.sm_count * (_SLOW_AT_ONCE if is_slow else _AT_ONCE)[blocks]
