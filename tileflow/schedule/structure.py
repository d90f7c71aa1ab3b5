"""Which structure with a warp-specialised schedule a region has."""

from __future__ import annotations

from ..ir.graph import KernelIR
from .chained import Chained, Refusal, find_chained, products_of
from .computed import find_computed, is_computed
from .gradient_loop import GradientLoop, find_gradient_loop
from .single import Single, find_single, shares_left

Structure = Chained | Single | GradientLoop  # a Computed is a Single


def find_structure(ir: KernelIR) -> Structure | Refusal:
    """The structure of a region, or why it has none: of one product, or of two of one left operand, as that in a loop,
    of three and more as a loop of gradients, else as two chained products."""
    count = len(products_of(ir))
    if count == 1 and is_computed(ir):
        return find_computed(ir)
    if count == 1 or shares_left(ir):
        return find_single(ir)
    return find_gradient_loop(ir) if count > 2 else find_chained(ir)
