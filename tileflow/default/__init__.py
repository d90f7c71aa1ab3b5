"""The default config: a heuristic over the IR's access pattern and the Target.

Products get the block sizes that keep the matrix units fed (:mod:`products`); everything else moves bytes, so that a
program takes whole contiguous runs, enough of them to have many loads in flight, and few enough to keep every
multiprocessor busy (:mod:`streaming`), or the blocks of a cluster hold a row that is too long for one
(:mod:`clusters`). Where programs are still fewer than multiprocessors, those share the turns of loops
(:mod:`spreading`), or the blocks of clusters share them (:mod:`cluster_loops`). Where many numbers come to few
elements, programs have copies of these (:mod:`copies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..config import Choice, Config, ConfigSpace, Knob
from ..errors import ConfigError
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..space.knobs import NUM_STAGES, PRECISION, SCHEDULE
from ..target import Target
from .cached_order import cached_order_config
from .cluster_loops import alone_config, cluster_loop_config
from .clusters import cluster_config, held_row_config
from .copies import copies_config
from .free_blocks import free_block_config
from .full_blocks import full_blocks_config
from .products import product_config, warps_of_products
from .spreading import spread_config
from .streaming import streaming_config
from .together import together


def default_config(
    regions: Sequence[KernelIR], space: ConfigSpace, target: Target, pipelined: bool = False, unaligned: bool = False
) -> Config:
    """A config that needs no search and no measurement; valid in ``space``. ``pipelined``: in every launch, of which
    none has clusters. ``unaligned``: for variants that assume nothing of where rows begin and end, wherever the
    example's do."""
    names = {knob.name for knob in space.knobs}
    wanted = together(
        regions,
        [_wanted(ir, target, pipelined or SCHEDULE.name(ir) not in names, pipelined, unaligned) for ir in regions],
    )
    chosen = {k.name: _nearest(wanted.get(k.name, k.default), k.choices) for k in space.knobs}
    config = space.normalise(_valid(chosen, space, regions))
    free: dict[str, Choice] = {}
    for ir in regions:
        free |= free_block_config(ir, wanted, config.to_dict(), target)
    if free:
        config = space.normalise(space.repair(config.with_(free), warps_of_products(regions)))
    spread: dict[str, Choice] = {}
    for ir in regions:
        spread |= spread_config(ir, config.to_dict(), target)
    if not (pipelined or unaligned):
        for ir in regions:
            spread |= cluster_loop_config(ir, config, target)
        spread |= _alone(regions, space, config.with_(spread), target) if spread else {}
    for ir in regions:
        spread |= cached_order_config(ir, config.to_dict(), target)
        spread |= copies_config(ir, config.to_dict())
    return space.normalise(space.repair(config.with_(spread))) if spread else config


def _alone(regions: Sequence[KernelIR], space: ConfigSpace, config: Config, target: Target) -> dict[str, Choice]:
    """What blocks of clusters have besides that share no multiprocessor, where shared memory holds it."""
    found: dict[str, Choice] = {}
    for ir in regions:
        found |= alone_config(ir, config, target)
    return found if space.is_valid(space.normalise(config.with_(found))) else {}


def _wanted(ir: KernelIR, target: Target, is_plain: bool, pipelined: bool, unaligned: bool) -> dict[str, Choice]:
    """What a launch wants by itself. ``is_plain``: it has no schedule of warps' own."""
    if any(op.kind is OpKind.DOT for op in ir.walk()):
        wanted = product_config(ir, target, is_plain, unaligned)
    else:
        wanted = ({} if pipelined else cluster_config(ir, target)) or streaming_config(ir, target)
        wanted |= {} if pipelined else held_row_config(ir, wanted, target)
    # masks in a branch, but where pointers take the registers
    return wanted if unaligned else wanted | full_blocks_config(ir)


def _valid(chosen: Mapping[str, Choice], space: ConfigSpace, regions: Sequence[KernelIR]) -> Config:
    """The valid config that is nearest to what is chosen. Where none has room for operands that the matrix units take
    in parts, of which whole dimensions are as large as they are, products are by multiply-adds."""
    keep = warps_of_products(regions)
    try:
        return space.repair(Config.of(dict(chosen)), keep)
    except ConfigError:
        parts = {k.name: k.default for k in space.knobs if PRECISION.matches(k.name) and chosen[k.name] != k.default}
        if not parts:
            raise
        return space.repair(Config.of({**chosen, **parts}), keep)


def smaller_config(config: Config, space: ConfigSpace) -> Config | None:
    """A valid config that asks less of a device than ``config``: a stage fewer and the largest block halved; None where
    all are at their least."""
    blocks = [k for k in space.knobs if k.role == "block" and _position(k, config)]
    largest = max(blocks, key=lambda k: k.encode(config[k.name]), default=None)
    stages = [k for k in space.knobs if NUM_STAGES.matches(k.name) and _position(k, config)]
    lower = {k.name: k.choices[_position(k, config) - 1] for k in (*stages, *([largest] if largest else ()))}
    return space.repair(config.with_(lower)) if lower else None


def _position(knob: Knob, config: Config) -> int:
    return knob.choices.index(config[knob.name])


def _nearest(value: Choice, choices: tuple[Choice, ...]) -> Choice:
    """The choice that is closest to ``value`` in log distance; the first one where no number is among them."""
    ints = [c for c in choices if isinstance(c, int) and c > 0]
    if value in choices or isinstance(value, str) or not ints:
        return value if value in choices else choices[0]
    return min(ints, key=lambda c: abs(c.bit_length() - int(value).bit_length()))
