"""The default config as a call runs it: another than the heuristic's where its binary spills, or its code is long.

What a thread holds is known once the assembler has dealt out registers, not before. A default that spills took up to 29
times the best config's time (docs/explanations/defaults.md#defaults-that-spill), so that its neighbours that hold less
are built, and the one that spills least takes its place. One with more instructions than a multiprocessor keeps gives
its place to a neighbour with about half of them; a recurrence with few is unrolled. Nothing is measured. A process
remembers what it found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice

from .build.resources import LOOPED_SPILLS
from .config import Choice, Config
from .default.lighter import lighter_configs
from .default.recurrences import recurrences
from .emit.source import TritonSource
from .errors import BuildError, ConfigError, OutOfResources
from .ir.attributes import TileAttrs
from .ir.op_table import PRODUCTS
from .lowered import Lowered
from .runtime.abi import Resources
from .runtime.bounded import BoundedCache
from .space.knobs import NUM_STAGES, NUM_WARPS, UNROLL
from .space.names import loop_site

SPILLS = 64  # bytes of a thread up to which a default stays: most are addresses, stored once
SPILLS_BESIDE_PRODUCTS = 112  # the same with products, whose smaller blocks load their operands more often
SPILLS_ONCE = 512  # the same where no loop has them: an epilogue beside which the products are as fast as without it
ROOMY = 128  # registers of a thread with which the search for another config ends
WORTH = 4  # how many times less a neighbour spills that takes the default's place
MOST_BUILDS = 6  # of each launch
LONG_CODE = 8192  # instructions of PTX: 128 KiB at 16 bytes each, a multiprocessor's cache on Volta (arXiv:1804.06826)
SHORTER = 0.6  # the share of them that a neighbour has at most: half the elements a lane, whose code most of it is
LOADS_AHEAD = 4  # stages from which on a recurrence's turns count them and wait for copies
SHORT_CODE = 650  # instructions up to which four turns of such a one run at once
LEAST_CODE, MOST_CODE = 190, 530  # between which two turns of any other one do
_MOST_SETTLED = 4_096

_log = logging.getLogger("tileflow")
_settled: BoundedCache[Config] = BoundedCache(_MOST_SETTLED)
Resourced = Callable[[TritonSource], Resources]
Taken = list[Resources] | None
Weight = tuple[int, bool]  # bytes of spills beyond what is let be, whether the registers are more than ROOMY
_LIGHT: Weight = (0, True)  # a default that stays
_EASY: Weight = (0, False)  # a neighbour that is not looked beyond
_MISFIT: Weight = (1 << 62, True)  # more than the device has


def settled_default(lowered: Lowered, kernel_hash: str, resources_of: Resourced) -> Config:
    """The default of a call of the kernel with that hash, whose launches ``resources_of`` builds. Raises BuildError
    where Triton refuses the heuristic's."""

    def settle() -> Config:
        config = lowered.default
        for region in range(len(lowered.regions)):
            config = _settle(lowered, config, region, resources_of)
        return config

    return _settled.get_or_make(_key(lowered, kernel_hash), settle)


def known_default(lowered: Lowered, kernel_hash: str) -> Config:
    """The default that a call of this process runs, if there was one, else the heuristic's."""
    found = _settled.get(_key(lowered, kernel_hash))
    return found if found is not None and lowered.space.is_valid(found) else lowered.default


def _key(lowered: Lowered, kernel_hash: str) -> tuple[str, ...]:
    # an int of a call may choose what the kernel's code is, and is no part of its problem
    code = (ir.hash for ir in lowered.regions)
    return kernel_hash, lowered.problem.key, lowered.target.name, lowered.mode, *code


def _settle(lowered: Lowered, config: Config, region: int, resources_of: Resourced) -> Config:
    """The config, or a neighbour that takes its place in a launch."""
    has_products = any(op.kind in PRODUCTS for op in lowered.regions[region].walk())
    most = SPILLS_BESIDE_PRODUCTS if has_products else SPILLS
    taken = _taken(lowered, config, region, resources_of)
    if _weight(taken, most) > _LIGHT:
        return _lighter(lowered, config, region, resources_of, taken, most)
    if lowered.target.vendor != "nvidia" or has_products:  # nothing was measured
        return config
    length = _instructions(taken)
    return (_shorter if length >= LONG_CODE else _unrolled)(lowered, config, region, resources_of, length)


def _lighter(lowered: Lowered, config: Config, region: int, resources_of: Resourced, own: Taken, most: int) -> Config:
    """The neighbour that spills least beyond ``most``, if much less than the config, which takes ``own``."""
    first = _weight(own, most)
    best, chosen = first, config
    for near, taken in _neighbours(lowered, config, region, resources_of):
        weight = _weight(taken, most)
        if weight < best:
            best, chosen = weight, near
        if best <= _EASY:
            break
    if best[0] and chosen != config and most == SPILLS_BESIDE_PRODUCTS:
        best, chosen = _by_more_warps(lowered, chosen, region, resources_of, best, most)
    if best[0] * WORTH > first[0]:
        return config
    spilled = max((resources.spills for resources in own or ()), default=0)
    why = "does not fit the device" if first == _MISFIT else f"spills {spilled} bytes a thread"
    _log.info("%s: the default %s: %s runs instead", lowered.problem.key, why, chosen)
    return chosen


def _by_more_warps(
    lowered: Lowered, config: Config, region: int, resources_of: Resourced, own: Weight, most: int
) -> tuple[Weight, Config]:
    """A neighbour with products that still spills, by twice the warps, where it spills less so: 584 us became 383
    (`talking_heads`, 1320 bytes a thread and 64; an H200, 2026-11-30). Without products, whose lanes may then hold the
    same twice, 2502 became 6087 (`intra_modes`, 528 bytes and 88)."""
    name = NUM_WARPS.name(lowered.regions[region])
    near = config.with_({name: 2 * NUM_WARPS.chosen(config, lowered.regions[region])})
    try:
        near = lowered.space.normalise(near)
        weight = _weight(_taken(lowered, near, region, resources_of), most) if lowered.space.is_valid(near) else own
    except (BuildError, ConfigError):
        return own, config
    return (weight, near) if weight < own else (own, config)


def _shorter(lowered: Lowered, config: Config, region: int, resources_of: Resourced, longest: int) -> Config:
    """The first neighbour with much fewer instructions than ``longest``, those of the config. Six kernels of others
    take 0.61 to 1.16 of their time so, 0.85 in the mean (H100, 2026-11-28; docs/measurements/default-rules.md)."""
    for near, taken in _neighbours(lowered, config, region, resources_of):
        if _weight(taken, SPILLS) <= _LIGHT and _instructions(taken) <= SHORTER * longest:
            _log.info("%s: the default has %d instructions: %s runs instead", lowered.problem.key, longest, near)
            return near
    return config


def _unrolled(lowered: Lowered, config: Config, region: int, resources_of: Resourced, own: int) -> Config:
    """The config with several turns of recurrences at once, where these take as many registers as one, about, and as
    many times its code. A permutation of 25 words, whose elements LLVM chooses one by one then, has 254 registers by
    two turns for 62, six times the code, and took 4100 us for 588 (H200, 2026-11-29). ``own``: its instructions."""
    ir = lowered.regions[region]
    names = [UNROLL.name(loop_site(ir, TileAttrs.of(loop).tile)) for loop in recurrences(ir)]
    known, turns = [name for name in names if name in config], _turns_at_once(config.get(NUM_STAGES.name(ir), 1), own)
    if not known or turns == 1:
        return config
    near = lowered.space.normalise(config.with_(dict.fromkeys(known, turns)))
    try:
        taken = _taken(lowered, near, region, resources_of) if lowered.space.is_valid(near) else None
    except (BuildError, ConfigError):
        return config
    if _weight(taken, SPILLS) > _EASY or _instructions(taken) > (turns + 1) * own:
        return config
    _log.info("%s: %d turns of a short recurrence at once: %s runs instead", lowered.problem.key, turns, near)
    return near


def _turns_at_once(stages: Choice, instructions: int) -> int:
    """Four turns where each counts stages and waits for copies: of 15 recurrences of others with such code 0.49 to 1.13
    of the time, 0.87 in the mean. Two where nothing is loaded ahead, of code that LLVM does not unroll by itself: of 12
    0.69 to 1.03, 0.93 in the mean. Of longer code up to 2.5 times, of shorter up to 5.9 (H200, 2026-11-29;
    docs/measurements/default-rules.md)."""
    assert isinstance(stages, int)
    if stages >= LOADS_AHEAD:
        return 4 if instructions <= SHORT_CODE else 1
    return 2 if LEAST_CODE <= instructions <= MOST_CODE else 1


def _neighbours(
    lowered: Lowered, config: Config, region: int, resources_of: Resourced
) -> Iterator[tuple[Config, Taken]]:
    """The neighbours that can be built, and what they take."""
    for near in islice(lighter_configs(config, lowered.space, lowered.regions[region]), MOST_BUILDS):
        try:
            taken = _taken(lowered, near, region, resources_of)
        except (BuildError, ConfigError):
            continue
        yield near, taken


def _taken(lowered: Lowered, config: Config, region: int, resources_of: Resourced) -> Taken:
    """What the binaries of a launch take; None where that is more than the device has."""
    try:
        return [resources_of(source) for source in lowered.emit(config) if source.region == region]
    except OutOfResources:
        return None


def _weight(taken: Taken, most: int) -> Weight:
    """What a source of the launch spills beyond ``most``, and whether one has many registers. What a launch with
    products spills in no loop, it spills once (a gradient turned and added up by columns in its epilogue: 247 us by
    128 x 64, which does not spill, 200 by 128 x 256, which spills 432 bytes a thread; H100, 2026-11-28)."""
    if taken is None:
        return _MISFIT
    beyond = (resources.spills - _let_be(resources, most) for resources in taken)
    return max((0, *beyond)), any(resources.registers > ROOMY for resources in taken)


def _let_be(resources: Resources, most: int) -> int:
    is_once = not dict(resources.instructions).get(LOOPED_SPILLS, 0)
    return max(most, SPILLS_ONCE) if is_once and most == SPILLS_BESIDE_PRODUCTS else most


def _instructions(taken: Taken) -> int:
    """How many instructions the longest source of the launch has."""
    return max((dict(resources.instructions).get("total", 0) for resources in taken or ()), default=0)
