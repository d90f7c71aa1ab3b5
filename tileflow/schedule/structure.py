"""Which structure with a warp-specialised schedule a region has."""

from __future__ import annotations

from ..ir.graph import KernelIR
from .chained import Chained, Refusal, find_chained, products_of
from .single import Single, find_single

Structure = Chained | Single


def find_structure(ir: KernelIR) -> Structure | Refusal:
    """The structure of a region, or why it has none: of one product as that in a loop, else as two chained ones."""
    return find_single(ir) if len(products_of(ir)) == 1 else find_chained(ir)
