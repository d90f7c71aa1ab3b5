"""What a config chooses of a region's operations themselves: what :func:`tileflow.passes.specialise` goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StructuralChoice:
    """One structural variant of a region, by its operations' call sites; the default leaves all as they are.

    ``rolled_reductions``: these become loops over blocks of the dimension. ``subtiled_stores``: these are done in two
    halves, with what leads to them. ``transposed_products``: these are computed as the transposed product of the
    swapped operands. ``unit_blocks``: the block symbols that are 1, so that products over such batches are of matrices.
    ``spread_loops``: tiles whose loops' turns are dealt out, and to how many programs. ``cluster_loops``: tiles of
    loops whose turns the blocks of a cluster share, and how many blocks. ``row_blocks``: how many of these hold a row
    together. ``in_consumers``: a product's left operand is
    computed by warps that await it themselves, so that transposed products leave transposed results. ``histograms``:
    these atomics are counted in the program first.
    """

    rolled_reductions: tuple[str, ...] = ()
    subtiled_stores: tuple[str, ...] = ()
    transposed_products: tuple[str, ...] = ()
    unit_blocks: tuple[str, ...] = ()
    spread_loops: tuple[tuple[str, int], ...] = ()
    cluster_loops: tuple[tuple[str, int], ...] = ()
    row_blocks: int = 1
    in_consumers: bool = False
    histograms: tuple[str, ...] = ()
