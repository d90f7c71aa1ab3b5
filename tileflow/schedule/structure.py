"""Which structure with a warp-specialised schedule a region has."""

from __future__ import annotations

from ..ir.graph import KernelIR
from .chained import Chained, Refusal, find_chained, products_of
from .gradient_loop import GradientLoop, find_gradient_loop

Structure = Chained | GradientLoop


def find_structure(ir: KernelIR) -> Structure | Refusal:
    """The structure of a region, or why it has none: of three products and more as a loop of gradients, else as two
    chained products."""
    return find_gradient_loop(ir) if len(products_of(ir)) > 2 else find_chained(ir)
