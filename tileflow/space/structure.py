"""The structural variant of a region that a config asks for."""

from __future__ import annotations

from dataclasses import replace

from ..config import Config
from ..ir.attributes import site_of
from ..ir.graph import KernelIR
from ..passes.cluster_loops import shared_loops
from ..passes.histograms import histograms
from ..passes.roll import rollable
from ..passes.spread import spreadable
from ..passes.structural_choice import StructuralChoice
from ..passes.subtile import subtilable
from ..passes.transpose import transposable
from ..passes.unit_batches import as_matrices, batch_blocks
from ..schedule.computed import Computed
from ..schedule.structure import find_structure
from .knobs import CTAS, HISTOGRAM, LOOP_CTAS, REDUCTION, SCHEDULE, SPREAD, SUBTILE, TRANSPOSED
from .names import loop_site


def structural_choice(ir: KernelIR, config: Config) -> StructuralChoice:
    """What the structural knobs of ``config`` say of the prepared region ``ir``."""
    choice = _of_knobs(ir, config)
    if SCHEDULE.chosen(config, ir) == "warp_specialised":
        choice = replace(choice, cluster_loops=())  # the schedule's own, which is cut in no other way
        found = find_structure(as_matrices(ir))
        if isinstance(found, Computed):
            turned = (site_of(found.product),) if found.turned else ()
            return replace(choice, transposed_products=turned, in_consumers=True)
    return choice


def _of_knobs(ir: KernelIR, config: Config) -> StructuralChoice:
    rolled = tuple(site for site in rollable(ir) if config[site] != 0)
    return StructuralChoice(
        rolled_reductions=rolled,
        subtiled_stores=tuple(site for site in subtilable(ir) if SUBTILE.chosen(config, site) == 2),
        transposed_products=tuple(site for site in transposable(ir) if TRANSPOSED.chosen(config, site)),
        unit_blocks=tuple(symbol for symbol in batch_blocks(ir) if config.get(symbol, 0) == 1),
        spread_loops=tuple(
            (tile, n) for tile in spreadable(ir) if (n := SPREAD.chosen(config, loop_site(ir, tile))) > 1
        ),
        cluster_loops=tuple(
            (found.tile, n)
            for found in (shared_loops(ir),)
            if found is not None and (n := LOOP_CTAS.chosen(config, loop_site(ir, found.tile))) > 1
        ),
        row_blocks=1 if any(map(REDUCTION.matches, rolled)) else CTAS.chosen(config, ir),  # a looped row has none
        histograms=tuple(
            site
            for site, found in histograms(ir).items()
            if HISTOGRAM.chosen(config, site) and found.is_one_lane(config.to_dict())
        ),
    )
