"""Variants of a kernel that together serve every call of the same dtypes and ranks: what a bundle holds for a miss.

From the fastest on, in the order in which their guards are tried:

``dynamic``       sizes and strides are run-time arguments of 32 bits, those divisible by 16 that the example's are;
                  dimensions in one piece up to the example's size, to the next power of two. Warp-specialised where the
                  config is, with the row's own blocks and boxes; where nothing was tuned, of a float32 product in both
                  tiles of the default, each at the sizes where it ends sooner
``dynamic``       the same with divisible inner dimensions and strides, and any number of rows
``dynamic``       the same, pipelined, where a launch is warp-specialised: what that schedule's guards decline, such as
                  parts that its turns do not divide
``dynamic``       warp-specialised without divisibility: each launch of a plain product copies its operands, of sizes
                  for which that is worth it
``dynamic``       pipelined, without divisibility
``wide``          64 bits; reductions are looped, and dimensions that must be in one piece may be long; divisible by 16
``wide``          the same without divisibility
``generic``       nothing is assumed of strides and alignment, nothing is moved by descriptors; as the example's sizes
``generic``       the same for long dimensions, as in ``wide``

Warp-specialised variants count in 32 bits. So do the boxes of the copy engine, and their tensors may be larger: what
goes by boxes alone has no use for ``wide`` before a dimension does not fit.

Some may be equal, and are there once. All share the values of the knobs that host code asks for, since a call has one
config, and host code may allocate by it: :func:`portable_config` gives it.

What no variant serves: sizes that are 1 in one tensor and not in another, where the example's are equal (a call that
broadcasts is told apart by its own example); host code that takes another way than the example's to launch a region
that the example does not; what device code takes as a number (``int(n)``, a slice's step, comparisons of sizes) other
than the example's; and dimensions in one piece beyond ``REACHES``. Guards decline such calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from .config import Choice, Config, Knob
from .emit.parameters import Divisible
from .emit.source import TritonSource
from .errors import ConfigError, KernelError, TraceError
from .expr import TRUE, Expr
from .lowered import DIVISIBLE, Lowered
from .passes.lengthen import Reach, never_looped
from .space.knobs import (
    COPIES,
    CTAS,
    FLATTEN,
    GRID,
    HISTOGRAM,
    LOOP_CTAS,
    SCHEDULE,
    STATIC,
    UNROLL,
    WARP_SPECIALIZE,
    definition,
)
from .space.names import region_of

# Tried in turn: the first whose config fits the target. By the last one only reductions are longer.
REACHES = (Reach(1 << 14, 256), Reach(1 << 12, 128), Reach(1 << 10, 64), Reach(0, 0))
LOOP = 1 << 10  # what blocks are chosen for where the example's sizes say nothing, not even that they are small
# What only some sizes or strides allow, left at its default: loops that may be empty, a launch's long axes, boxes.
PLAIN = (GRID, FLATTEN, UNROLL, STATIC, WARP_SPECIALIZE, SCHEDULE, HISTOGRAM, COPIES)
SPECIAL = (SCHEDULE, CTAS)  # what launches of the example's sizes alone have
_log = logging.getLogger("tileflow")


def portable_sources(lowered: Lowered, config: Config | None = None) -> tuple[TritonSource, ...]:
    """The variants of a call ``lowered`` in dynamic mode. ``config``: of its first two; those after them keep what they
    can of it. Without one, and of a launch that is warp-specialised or has clusters, each has the default for what it
    may assume.
    Raises ConfigError where no variant can be made; one that cannot is left out, and logged."""
    is_tuned = config is not None and config != lowered.default
    config = portable_config(lowered, config)
    *divisible, anything = DIVISIBLE[lowered.mode]
    first = _in_all_ways(lowered, config, divisible, is_tuned)
    sources = {source.hash: source for source in (first if is_tuned else _worth_copies(lowered, first))}

    def add(make: Callable[[], Iterable[TritonSource]]) -> None:
        try:
            sources.update({source.hash: source for source in make() if source.hash not in sources})
        except (KernelError, ConfigError) as error:
            _log.warning("%s: not every call has a variant: %s", lowered.problem.kernel, error)

    @cache
    def pipelined() -> Config:
        return _pipelined_config(lowered, config)

    @cache
    def unaligned() -> Config:
        return _unaligned_config(lowered, config, pipelined(), is_tuned)

    add(lambda: lowered.emit(pipelined(), divisible[1:]) if pipelined() != config else ())
    add(lambda: _copied(lowered, unaligned()) if lowered.mode == "dynamic" else ())
    add(lambda: lowered.emit(unaligned(), (anything,)))
    add(lambda: _wide(lowered, pipelined(), unaligned()))
    add(lambda: _generic(lowered, pipelined(), unaligned()))
    return tuple(sources.values())


def portable_config(lowered: Lowered, config: Config | None = None) -> Config:
    """The config that host code runs under beside the variants: ``config`` fitted to the call, or the pipelined
    default, fitted to what only aligned addresses would allow too."""
    if config is not None:
        return lowered.space.adapt(config.to_dict())
    default = lowered.default_pipelined
    try:
        wide = replace(lowered, mode="wide")
    except KernelError:  # said when the variants are made
        return default
    return lowered.space.adapt(wide.space.adapt(default.to_dict()).to_dict())


def _pipelined_config(lowered: Lowered, config: Config) -> Config:
    """``config``, its warp-specialised launches pipelined, and none with clusters: what they leave open says nothing of
    boxes and warps, so that they have the default, or where host code's choices do not allow that, their own blocks
    and the default for what they leave open."""
    shared = [name for name, choice in config.items if LOOP_CTAS.matches(name) and choice != LOOP_CTAS.default]
    if shared:
        config = lowered.space.adapt(config.with_(dict.fromkeys(shared, LOOP_CTAS.default)).to_dict())
    regions = _specialised_regions(config)
    if not regions:
        return config
    default = _of_regions(lowered, lowered.default_pipelined, regions)
    open_ = {k.name for k in lowered.space.knobs if config[k.name] == k.default}
    kept = {name: choice for name, choice in default.items() if any(s.matches(name) for s in SPECIAL) or name in open_}
    return _asking_alike(lowered, config, (default, kept))


def _unaligned_config(lowered: Lowered, config: Config, pipelined: Config, is_tuned: bool) -> Config:
    """The config of variants without divisibility: ``pipelined``, or where products have a default of their own there,
    that one in each launch for which ``config`` says nothing: all unless it ``is_tuned``, then those that it has
    warp-specialised."""
    wanted = lowered.default_unaligned
    if wanted == lowered.default_pipelined:
        return pipelined
    regions = _specialised_regions(config) if is_tuned else {ir.region for ir in lowered.regions}
    return _asking_alike(lowered, pipelined, (_of_regions(lowered, wanted, regions), {}))


def _copied(lowered: Lowered, unaligned: Config) -> tuple[TritonSource, ...]:
    """Launches of one product whose operands are copied, as the default has them, where a call's sizes are worth it."""
    wanted, worth = lowered.default_copied
    if not worth:
        return ()
    config = _asking_alike(lowered, unaligned, (_of_regions(lowered, wanted, worth), {}))
    return _where(_in_all_ways(lowered, config, ("copied",)), worth)


def _in_all_ways(
    lowered: Lowered, config: Config, variants: Sequence[Divisible], is_tuned: bool = False
) -> tuple[TritonSource, ...]:
    """The sources of ``config``, among those of other ways that end sooner at some sizes, unless it ``is_tuned``. Of
    these there is the variant that assumes least."""
    own, sources = lowered.emit(config, variants), list[TritonSource]()
    is_copied = tuple(variants) == ("copied",)
    if is_tuned or not lowered.other_ways(config, is_copied):
        return own
    others, served = replace(lowered, of_other_calls=True), set[int]()
    for other, sooner in others.other_ways(config, is_copied):
        try:
            asked = _asking_alike(others, config, (_of_regions(others, other, sooner), {}))
            sources += _where(others.emit(asked, variants if asked == config else variants[-1:]), sooner)
            served |= {region for region, when in sooner.items() if when == TRUE or asked == config}
        except ConfigError as error:  # what host code asserts, or computes by a tile, may leave it no schedule
            _log.info("%s: variants in fewer ways, which serve all calls: %s", lowered.problem.kernel, error)
    return (*sources, *(source for source in own if source.region not in served))


def _worth_copies(lowered: Lowered, sources: Sequence[TritonSource]) -> Sequence[TritonSource]:
    """The sources; those that copy operands for calls of which it is worth it alone, as it is for the example."""
    copying = {source.hash for source in sources if any(a.tensor_map and a.tensor_map.copied for a in source.args)}
    if not copying:
        return sources
    hints = {ir.region: ir.hints for ir in lowered.regions}
    worth = {n: when for n, when in lowered.default_copied[1].items() if when.holds(hints[n])}
    guarded = copying & {source.hash for source in sources if source.region in worth}
    return [replace(s, guards=s.guards.and_(worth[s.region])) if s.hash in guarded else s for s in sources]


def _where(sources: Iterable[TritonSource], conditions: Mapping[int, Expr]) -> tuple[TritonSource, ...]:
    """The warp-specialised launches that have conditions, guarded by these."""
    return tuple(
        replace(source, guards=source.guards.and_(conditions[source.region]))
        for source in sources
        if source.language == "gluon" and source.region in conditions
    )


def _specialised_regions(config: Config) -> set[int]:
    """Those of launches that are warp-specialised or have clusters."""
    return {
        region_of(name)
        for name, choice in config.items
        if any(knob.matches(name) and choice != knob.default for knob in SPECIAL)
    }


def _of_regions(lowered: Lowered, config: Config, regions: Container[int]) -> dict[str, Choice]:
    """What ``config`` says of these launches, without what host code asks for, which all variants share."""
    asked = {knob.name for knob in lowered.host_knobs}
    return {name: c for name, c in config.items if region_of(name) in regions and name not in asked}


def _asking_alike(lowered: Lowered, config: Config, changes: Iterable[Mapping[str, Choice]]) -> Config:
    """``config`` with the first of the ``changes`` that leaves what host code asks for as it is, fitted to the space.
    Raises ConfigError where none does."""
    asked = [knob.name for knob in lowered.host_knobs]
    for change in changes:
        fitted = lowered.space.adapt(config.with_(change).to_dict())
        if all(fitted[name] == config[name] for name in asked):
            return fitted
    raise ConfigError(
        "all variants of a call share the knobs of host code",
        got=", ".join(f"{name}={config[name]}" for name in asked),
        where=str(config),
        hint="block sizes that a pipelined schedule has room for",
    )


def _wide(lowered: Lowered, config: Config, unaligned: Config) -> tuple[TritonSource, ...]:
    wide = replace(lowered, mode="wide")
    if unaligned == config:
        return _longest(wide, config)
    *divisible, anything = DIVISIBLE["wide"]
    found = (*_longest(wide, config, divisible), *_longest(wide, unaligned, (anything,)))
    return tuple(sorted(found, key=lambda source: source.region))


def _generic(lowered: Lowered, config: Config, unaligned: Config) -> tuple[TritonSource, ...]:
    try:
        plain = replace(lowered, mode="generic")
    except TraceError:  # a size of 1 is broadcast
        plain = replace(lowered, mode="generic_ones")
    # registers for long dimensions are a waste where the example's are enough
    short = _within(plain, REACHES[-1], unaligned) if any(map(never_looped, plain.regions)) else ()
    return (*short, *_longest(plain, unaligned))


def _longest(lowered: Lowered, config: Config, variants: Sequence[Divisible] | None = None) -> tuple[TritonSource, ...]:
    """The variant for the longest dimensions that registers and shared memory allow."""
    failed: list[ConfigError] = []
    for reach in REACHES:
        try:
            return _within(lowered, reach, config, variants)
        except ConfigError as error:
            failed.append(error)
    raise failed[-1]


def _within(
    lowered: Lowered, reach: Reach, config: Config, variants: Sequence[Divisible] | None = None
) -> tuple[TritonSource, ...]:
    """The sources for dimensions up to ``reach``: under what the space has of ``config``, or where they are longer than
    the example's, of the default for such; with what host code asks for as in ``config``."""
    keeps_layout = lowered.shape_mode.keeps_layout
    example, lowered = lowered, replace(lowered, reach=reach if keeps_layout else replace(reach, loop=LOOP))
    is_longer = any(a.hints != b.hints for a, b in zip(example.regions, lowered.regions, strict=True))
    wanted = lowered.default_pipelined if is_longer else config
    asked = {knob.name: config[knob.name] for knob in lowered.host_knobs}
    plain = {} if keeps_layout else {k.name: _plain(k) for k in lowered.space.knobs}
    fitted = lowered.space.adapt(wanted.to_dict() | {n: c for n, c in plain.items() if c is not None} | asked)
    changed = {name: fitted[name] for name, choice in asked.items() if fitted[name] != choice}
    if changed:
        raise ConfigError(
            "all variants of a call share the knobs of host code",
            got=str(changed),
            where=str(config),
            hint="smaller block sizes leave registers for longer dimensions",
        )
    return lowered.emit(fitted, variants)


def _plain(knob: Knob) -> Choice | None:
    found = definition(knob.name)
    return found.default if found in PLAIN else None
