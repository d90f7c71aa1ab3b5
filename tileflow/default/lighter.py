"""Configs near a default that leave more registers to each element: asked for where a default's binary spills."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..config import Choice, Config, ConfigSpace, Knob
from ..errors import ConfigError
from ..ir.analysis import contiguous_tiles
from ..ir.graph import KernelIR
from ..space.knobs import MAXNREG, NUM_WARPS, PRECISION
from ..space.names import region_of, suffixed
from ..space.precisions import OF_ANY_LENGTH

MANY_WARPS = 16  # from which on a thread has at most 128 registers
_HALVINGS = 2  # of a block
_RUN = 64  # elements along memory up to which another block is halved first: lanes of two warps side by side


def lighter_configs(config: Config, space: ConfigSpace, ir: KernelIR) -> Iterator[Config]:
    """Valid configs in the order in which they are worth a build: products by the matrix units, in parts, where they
    are multiply-adds of each thread, as they are and with the largest block of the region halved, and halved again;
    that alone; twice and four times the warps, or half of many; a reduction over a whole dimension in blocks; the two
    largest blocks halved."""
    seen = {config}
    for change in _changes(config, space, ir):
        near = _valid(config.with_(change), change, space)
        if near is not None and near not in seen:
            seen.add(near)
            yield near


def _valid(near: Config, change: Mapping[str, Choice], space: ConfigSpace) -> Config | None:
    """The config, if it is valid. One with products in parts may take a smaller block or a reduction in blocks beside
    it: their operands are staged, where multiply-adds have theirs in registers. Two products of rows of 128 in a row,
    the first one's of the whole row, spill 2064 bytes by multiply-adds and nothing so (sm_90a, Triton 3.6)."""
    in_parts = {name: choice for name, choice in change.items() if PRECISION.matches(name)}
    try:
        near = space.normalise(near)
        if space.is_valid(near):
            return near
        near = space.repair(near) if in_parts else near
    except ConfigError:
        return None
    return near if in_parts and all(near[name] == choice for name, choice in in_parts.items()) else None


def _changes(config: Config, space: ConfigSpace, ir: KernelIR) -> Iterator[Mapping[str, Choice]]:
    own = [k for k in space.knobs if region_of(k.name) == ir.region]
    sized = [k for k in own if k.role in ("block", "reduction") and _number(config, k) > 1]
    runs = {suffixed(ir, f"block:{tile}") for tile in contiguous_tiles(ir)}
    largest = max(sized, key=lambda k: _first_halved(k.name in runs, _number(config, k)), default=None)
    halved = _below(largest, _number(config, largest))[:_HALVINGS] if largest is not None else []
    smaller: list[dict[str, Choice]] = [{largest.name: size} for size in halved if largest is not None]
    if parts := _in_parts(config, own):
        yield from ({**parts, **change} for change in ({}, *smaller))
    yield from smaller
    warps = next((k for k in own if NUM_WARPS.matches(k.name)), None)
    if warps is not None:
        now = _number(config, warps)
        wanted = (now // 2,) if now >= MANY_WARPS else (now * 2, now * 4)
        yield from ({warps.name: count} for count in wanted if count in warps.choices)
    for knob in own:
        if knob.role == "reduction" and config[knob.name] == 0:
            yield from ({knob.name: size} for size in _below(knob, math.inf)[:1] if size > 1)
    yield from _both_halved(config, sized)


def _first_halved(runs_along: bool, size: int) -> tuple[bool, int]:
    """The order of blocks. A short one along memory comes last: 64 towers of halves a row, 36 loads each, of which 16
    were left, took 2780 us; of which all were, with a fourth of the rows, 770 (H200, 2026-11-29)."""
    return not (runs_along and size <= _RUN), size


def _both_halved(config: Config, sized: list[Knob]) -> Iterator[Mapping[str, Choice]]:
    """The two largest blocks halved: half a side of 32 rows has no more of a matrix unit's, and the other side's sums
    stay. Products of bits, sixteen a turn, spill 4136 bytes at 128 x 64, 968 at 64 x 64, 304 at 32 x 64 and 72 at
    64 x 32 (sm_90a, Triton 3.6)."""
    two = sorted(sized, key=lambda k: -_number(config, k))[:2]
    halves = {k.name: size for k in two for size in _below(k, _number(config, k))[:1]}
    if len(halves) == 2:
        yield halves


def _in_parts(config: Config, own: list[Knob]) -> dict[str, Choice]:
    """The choices by which all products of a region are in parts, without the limit of registers that multiply-adds
    have; empty where none is made of these, or one has no parts."""
    written_out = [k for k in own if PRECISION.matches(k.name) and config[k.name] == PRECISION.default]
    if not written_out or not all(OF_ANY_LENGTH in k.choices for k in written_out):
        return {}
    limits = [k.name for k in own if MAXNREG.matches(k.name)]
    return dict.fromkeys((k.name for k in written_out), OF_ANY_LENGTH) | dict.fromkeys(limits, MAXNREG.default)


def _number(config: Config, knob: Knob) -> int:
    choice = config[knob.name]
    return choice if isinstance(choice, int) else 0


def _below(knob: Knob, size: float) -> list[int]:
    """A knob's sizes below one, the largest first."""
    return sorted((c for c in knob.choices if isinstance(c, int) and 0 < c < size), reverse=True)
