"""The Gluon kernel of a product of ragged groups: programs walk over the blocks of rows of their tiles' groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...config import Config
from ...ir.access import box_anywhere
from ...ir.attributes import AccessAttrs
from ...ir.graph import KernelIR, Op, Tile, TileIndex
from ...ir.types import INT32_MAX, Dim
from ...schedule.product import Shape
from ...target import Target
from .. import grid
from ..parameters import Divisible
from .grouped_roles import GroupedRoles
from .product_kernel import ProductKernel


class GroupedKernel(ProductKernel):
    """One emission. Rows begin and end where a program's numbers say; vectors of such numbers are each warp's own."""

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: Divisible) -> None:
        super().__init__(ir, config, target, divisible)
        self.rows_end = self.names.fresh("rows_end")  # the name of where the group's rows end
        self._of_groups = False

    def box_order(self, op: Op) -> tuple[int, ...] | None:
        """A box of rows begins and ends anywhere: what a group does not own is thrown away, or not stored as a box."""
        return box_anywhere(self.plan.ir, op)

    @contextmanager
    def numbers(self) -> Iterator[None]:
        """Write what is computed of the groups' numbers, in a layout that any number of warps has."""
        self._of_groups = True
        yield
        self._of_groups = False

    def layout(self, dims: tuple[Dim, ...]) -> str:
        """The layout of a value; of groups' numbers, the lanes of a warp, of which each has them all."""
        if self._of_groups:
            return f"gl.BlockedLayout([{max(self.extent(dims[0]) // 32, 1)}], [32], [gl.num_warps()], [0])"
        return super().layout(dims)

    def _end(self, tile: Tile) -> str:
        return self.rows_end if tile.name == self.single.rows else super()._end(tile)

    def _shape(self) -> Shape:
        found = self.single
        return replace(super()._shape(), ragged=found.saved is not None, searching=found.frame.has_vectors)

    def _walk(self) -> None:
        turns, _ = self._turns()
        self._guard_turns()
        self._start(GroupedRoles(self, self.specialised, turns))

    def _guard_turns(self) -> None:
        """Turns are counted in 32 bits, of as many blocks as all rows have and one a group that ends inside a block."""
        loop, rows = (self.plan.ir.tiles[n] for n in (self.single.keys, self.single.rows))
        left = self.plan.ir.tensor(AccessAttrs.of(self.single.left).tensor)
        items = zip(AccessAttrs.of(self.single.left).index, left.shape, strict=True)
        (height,) = (n for item, n in items if isinstance(item, TileIndex) and item.tile == rows.name)
        turns = (loop.end - loop.begin).cdiv(self.plan.block(loop.block))  # type: ignore[operator]
        blocks = height.cdiv(self.plan.block(rows.block)) + 1
        self.plan.guard((grid.total(self) * blocks * turns).le(INT32_MAX))
