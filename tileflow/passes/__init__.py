"""IR -> IR. ``PREPARE`` runs once a lowering; ``specialise`` once for each choice of the structural knobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ..ir.graph import KernelIR
from .dead_code import remove_dead_code
from .fuse_dot import fuse_dot
from .gradual import keep_small_exponentials
from .masks import place_masks
from .nibbles import convert_nibbles
from .roll import roll
from .settle import settle_products
from .strength import reduce_strength
from .subtile import subtile
from .transpose import transpose
from .unify import unify_sizes
from .unit_batches import drop_unit_batches

PREPARE: tuple[Callable[[KernelIR], KernelIR], ...] = (
    unify_sizes,
    fuse_dot,
    drop_unit_batches,
    reduce_strength,
    convert_nibbles,
    keep_small_exponentials,
    remove_dead_code,
)


def prepare(ir: KernelIR) -> KernelIR:
    """What holds for every config."""
    for step in PREPARE:
        ir = step(ir)
    return ir


def specialise(
    ir: KernelIR,
    looped: Iterable[str],
    halved: Iterable[str] = (),
    transposed: Iterable[str] = (),
    ones: Collection[str] = (),
) -> KernelIR:
    """One structural variant: the reductions ``looped`` (sites) in loops, the stores ``halved`` in two parts, the
    products ``transposed``, those over blocks ``ones`` of batches a matrix at a time, then the masks that this needs.
    """
    for site in looped:
        ir = roll(ir, site)
    for site in halved:
        ir = subtile(ir, site)
    for site in transposed:
        ir = transpose(ir, site)
    if ones:
        ir = drop_unit_batches(ir, ones)
    return settle_products(remove_dead_code(place_masks(ir)))
