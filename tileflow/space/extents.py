"""Register extents as expressions over knobs: what constraints on register tiles and shared memory are made of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import Location
from ..expr import Expr, is_knob
from ..ir.graph import KernelIR, Operand
from ..ir.pressure import on_the_way
from ..ir.types import Dim, Value


def block_of(extent: Expr) -> tuple[str, int]:
    """The block symbol that an extent is so many times; an empty name where it is not one's multiple."""
    for symbol in extent.symbols():
        factor = extent.quotient(Expr.sym(symbol))
        if is_knob(symbol) and factor is not None and factor.constant is not None:
            return symbol, factor.constant
    return "", 1


class Extents:
    """Extents of one region's dimensions. ``rolled``: those that may be loops, by site. ``parts``: of those that the
    blocks of a cluster divide, how many blocks do."""

    def __init__(
        self, ir: KernelIR, rolled: Mapping[str, Dim], parts: Mapping[Dim, Expr] = MappingProxyType({})
    ) -> None:
        self._ir = ir
        self._parts = parts
        self.sites = {dim: site for site, dim in rolled.items()}

    def of(self, dim: Dim) -> Expr:
        """Lanes of a dimension: a block symbol, a power of two, or the block of a reduction where it is looped."""
        extent = dim.extent
        if all(map(is_knob, extent.symbols())) and extent.symbols():
            return extent
        whole = 1 << max(self._ir.hint(extent) - 1, 0).bit_length()
        part, site = Expr.of(whole) // self._parts.get(dim, Expr.of(1)), self.sites.get(dim)
        if site is None:
            return part
        knob = Expr.sym(site)
        return knob + knob.eq(0) * part

    def elements(self, dims: tuple[Dim, ...]) -> Expr:
        """Elements of a register tile."""
        count = Expr.of(1)
        for dim in dims:
            count = count * self.of(dim)
        return count

    def tiles(self) -> dict[Expr, Location | None]:
        """The sizes of all register tiles of the region, with the author's line that has the first one."""
        found: dict[Expr, Location | None] = {}
        for op in self._ir.walk():
            operands: tuple[Operand, ...] = (*op.inputs, *op.outputs)
            for value in operands:
                if isinstance(value, Value) and value.dims and value not in on_the_way(self._ir):
                    size = self.elements(value.dims)
                    found[size] = found.get(size) or op.loc
        return found
