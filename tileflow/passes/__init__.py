"""IR -> IR. ``PREPARE`` runs once a lowering; ``specialise`` once for each structural choice. With
``TILEFLOW_VERIFY=1`` what was traced and what each pass gives goes through :func:`tileflow.ir.verify.verify`."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InternalError
from ..ir.graph import KernelIR
from ..ir.verify import verify
from ..runtime.environment import switch
from .agreeing_lanes import agree
from .along_memory import turn_along_memory
from .await_dot import await_dots
from .cut_columns import cut_columns
from .cut_products import cut_products
from .dead_code import remove_dead_code
from .divide_row import divide_row
from .exponents import fuse_exponents, sink_scales
from .fuse_dot import fuse_dot
from .gradual import keep_small_exponentials
from .grid_loops import lift_loops
from .histograms import as_histogram
from .hoist import hoist_loads
from .lane_sums import carry_lanes
from .masks import place_masks
from .neighbours import join_neighbours
from .nibbles import convert_nibbles
from .partial_blocks import mask_partial_blocks
from .rests import round_before_rests
from .roll import roll_all
from .share_loops import share_in_cluster
from .share_reductions import share_reductions
from .share_sorts import share_sorts
from .sort_keys import sort_keys_alone
from .split_pairs import split_pairs
from .spread import spread
from .strength import reduce_strength
from .structural_choice import StructuralChoice
from .subtile import subtile
from .tell_apart import tell_apart
from .transpose import transpose
from .turn_results import turn_results
from .unify import unify_sizes
from .unit_batches import drop_unit_batches
from .widened_operands import narrow_operands

VERIFY = "TILEFLOW_VERIFY"  # on: every region that a pass gives is verified, as in the tests

PREPARE: tuple[Callable[[KernelIR], KernelIR], ...] = (
    unify_sizes,
    lift_loops,
    narrow_operands,
    fuse_dot,
    hoist_loads,
    drop_unit_batches,
    mask_partial_blocks,
    reduce_strength,
    sink_scales,
    fuse_exponents,
    convert_nibbles,
    keep_small_exponentials,
    share_sorts,
    share_reductions,
    carry_lanes,
    split_pairs,
    remove_dead_code,
    sort_keys_alone,
    tell_apart,
    join_neighbours,
    cut_columns,
    cut_products,
)


def prepare(ir: KernelIR) -> KernelIR:
    """Run the passes that hold for every config."""
    _check(ir, "")
    for step in PREPARE:
        ir = _run(step, ir)
    return ir


def specialise(ir: KernelIR, choice: StructuralChoice) -> KernelIR:
    """One structural variant of a prepared region, then the masks that it needs."""
    if choice.rolled_reductions:
        ir = _run(_rolled, ir, choice.rolled_reductions)
    for site in choice.subtiled_stores:
        ir = _run(subtile, ir, site)
    for site in choice.transposed_products:
        ir = _run(_transposed_with_result if choice.in_consumers else transpose, ir, site)
    if choice.unit_blocks:
        ir = _run(drop_unit_batches, ir, choice.unit_blocks)
    for tile, programs in choice.spread_loops:
        ir = _run(spread, ir, tile, programs)
    for tile, blocks in choice.cluster_loops:
        ir = _run(share_in_cluster, ir, tile, blocks)
    if choice.row_blocks > 1:
        ir = _run(divide_row, ir, choice.row_blocks)
    for site in choice.histograms:
        ir = _run(as_histogram, ir, site)
    for step in (agree, round_before_rests):
        ir = _run(step, ir)
    for step in (place_masks, remove_dead_code) if choice.in_consumers else (place_masks, remove_dead_code, await_dots):
        ir = _run(step, ir)
    return ir


def along_memory(ir: KernelIR) -> KernelIR:
    """A specialised region for a Triton whose lanes follow a tile's first dimensions."""
    return _run(turn_along_memory, ir)


def _transposed_with_result(ir: KernelIR, site: str) -> KernelIR:
    """Raises InternalError where the result cannot be turned round: such a region has no schedule."""
    turned = turn_results(transpose(ir, site))
    if turned is None:
        raise InternalError("a product that consumers transpose has a result that can be turned round", got=site)
    return turned


def _rolled(ir: KernelIR, sites: tuple[str, ...]) -> KernelIR:
    """Raises InternalError where not all can be: the space has a constraint for those."""
    rolled = roll_all(ir, sites)
    if rolled is None:
        raise InternalError("reductions that are loops together must be rollable in some order", got=", ".join(sites))
    return rolled


def _run(step: Callable[..., KernelIR], ir: KernelIR, *choice: object) -> KernelIR:
    """One pass, and what it gave verified where the environment asks for it."""
    ir = step(ir, *choice)
    _check(ir, step.__name__)
    return ir


def _check(ir: KernelIR, after: str) -> None:
    if switch(VERIFY):
        verify(ir, after)
