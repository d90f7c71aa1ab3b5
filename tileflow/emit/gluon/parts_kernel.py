"""The Gluon kernel of a product whose inner dimension may be in parts: tiles of the grid that begin along it."""

from __future__ import annotations

from ...errors import ConfigError
from ...expr import Expr
from ...ir.access import ALIGNMENT, box_anywhere
from ...ir.attributes import AccessAttrs
from ...ir.graph import Op, TileIndex
from ...ir.types import itemsize
from ...schedule.parts import Parts
from .product_kernel import ProductKernel


class PartsKernel(ProductKernel):
    """One emission. Each tile has the turns of a whole part, past the inner dimension's end with zeros."""

    @property
    def parts(self) -> Parts | None:
        """The division of the inner dimension."""
        return self.single.parts

    def box_order(self, op: Op) -> tuple[int, ...] | None:
        """A box along the inner dimension begins where a turn of a part does, which is at aligned bytes."""
        return super().box_order(op) if self.parts is None else box_anywhere(self.plan.ir, op)

    def box_starts_aligned(self, op: Op, order: tuple[int, ...]) -> Expr:
        """Of rows along the inner dimension, whether parts do."""
        access = AccessAttrs.of(op)
        last = access.index[order[-1]]
        if self.parts is None or not isinstance(last, TileIndex) or last.tile != self.single.keys:
            return super().box_starts_aligned(op, order)
        size = itemsize(self.plan.ir.tensor(access.tensor).dtype)
        return (self.parts.length * size % ALIGNMENT).eq(0)

    def _check(self) -> None:
        super()._check()
        if self.parts is None:
            return
        block, blocks = self._turn_block, self.plan.cluster
        comes_out, numbers = self.parts.comes_out(block * blocks), {**self.plan.ir.hints, **self.plan.numbers}
        if not comes_out.evaluate(numbers):
            raise ConfigError(
                "turns divide a part of the inner dimension, all blocks' together, so that none reads of the next one",
                got=f"parts of {self.parts.length.evaluate(numbers)} in turns of {block} of {blocks} blocks",
                hint="a smaller block of the inner dimension, or fewer blocks of a cluster",
            )
        self.plan.guard(comes_out)
        for op in self.boxes.values():
            items = zip(AccessAttrs.of(op).index, self.plan.ir.tensor(AccessAttrs.of(op).tensor).shape, strict=True)
            for size in (n for i, n in items if isinstance(i, TileIndex) and i.tile == self.single.keys):
                self.plan.guard(self.parts.whole.eq(size))

    @property
    def _turn_block(self) -> int:
        return self.plan.block(self.plan.ir.tiles[self.single.keys].block)

    def _turns_of_tile(self) -> Expr:
        return super()._turns_of_tile() if self.parts is None else self.parts.length.cdiv(self._turn_block)

    def _turns(self) -> tuple[str, bool]:
        return super()._turns() if self.parts is None else self._turns_of_each()
