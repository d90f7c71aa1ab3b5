"""The Gluon kernel of one float32 product in parts: its buffers, and the layouts of what threads load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...errors import ConfigError
from ...ir.attributes import AccessAttrs
from ...ir.graph import Op, TileIndex
from ...ir.types import Dim
from ...schedule.split_product import GROUPS, NAMES, TURN, split_product
from ...schedule.types import Buffer, Schedule
from ...space.knobs import NUM_STAGES
from ..descriptors import box_of
from .product_kernel import ProductKernel
from .split_roles import SplitRoles

_NEIGHBOURS, _LANES = 4, 32  # numbers of a thread, of 16 bytes; threads of a warp
_SWIZZLED = "gl.constexpr(gl.NVMMASharedLayout(128, 32, 2))"  # rows of 128 bytes of 32-bit numbers


class SplitKernel(ProductKernel):
    """One emission. ``_loaded``: the layouts of tiles that the splitter's threads load, while that is written."""

    own_names = NAMES
    _loaded: Mapping[tuple[Dim, ...], str] = {}

    @property
    def boxes(self) -> Mapping[str, Op]:
        """The operands that are boxes, by the buffer that they fill."""
        loaded = dict(zip(("left", "right"), self.single.loaded, strict=True))
        return {name: op for name, op in super().boxes.items() if not loaded[name]}

    def _check(self) -> None:
        super()._check()
        inner = self.extent(self.single.inner)
        if self.groups != GROUPS or self.is_dealt or inner != TURN:
            raise ConfigError(
                f"a float32 product in parts has {GROUPS} groups that share a tile, and turns of {TURN}",
                got=f"{self.groups} groups, each with tiles of its own: {self.is_dealt}, and turns of {inner}",
                hint="choose the schedule pipelined",
            )

    def _schedule(self) -> Schedule:
        self.scheduled = self._shape()
        self.pieces = self.scheduled.pieces
        return split_product(self.scheduled, self.plan.launch(NUM_STAGES))

    def _operand_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of boxes, and of tiles that are loaded."""
        return self._operand_shape(self.single.left, 0), self._operand_shape(self.single.right, 1)

    def _operand_shape(self, op: Op, side: int) -> tuple[int, ...]:
        return tuple(map(self.extent, op.output.dims)) if self.single.loaded[side] else box_of(self, op).block

    def _roles(self, turns: str) -> SplitRoles:
        return SplitRoles(self, self.specialised, turns)

    def _memory_of(self, buffer: Buffer) -> tuple[str, str]:
        if buffer.name in ("left", "right", "out"):
            return super()._memory_of(buffer)
        return "gl.float32", self.module.constant("TURNED", _SWIZZLED)

    # ---- layouts --------------------------------------------------------------------------------

    def layout(self, dims: tuple[Dim, ...]) -> str:
        """The layout of a value; of an operand that is loaded, the one that its memory suggests."""
        return self._loaded.get(dims) or super().layout(dims)

    @contextmanager
    def loading(self, op: Op) -> Iterator[None]:
        """Write the load of an operand: lanes of a warp go along what lies together in memory. Where that is not the
        inner dimension, each thread has four neighbours along this one, which it writes to shared memory at once; so it
        has where both operands lie along it, whose rows have an address each: fewer rows a thread, or it spills."""
        inner = next(n for n, dim in enumerate(op.output.dims) if dim == self.single.inner)
        along = self._contiguous(op)
        each, lanes, warps = [1, 1], [1, 1], [1, 1]
        lanes[along], warps[1 - along] = _LANES, 4
        if along != inner:
            each[inner] = _NEIGHBOURS
        elif self._both_along():
            each[inner], lanes[along], lanes[1 - along] = _NEIGHBOURS, TURN // _NEIGHBOURS, _LANES * _NEIGHBOURS // TURN
        order = [along, 1 - along]
        name = self.module.constant(
            f"BY_LANES_{along}{inner}", f"gl.constexpr(gl.BlockedLayout({each}, {lanes}, {warps}, {order}))"
        )
        self._loaded = {op.output.dims: name}
        try:
            yield
        finally:
            self._loaded = {}

    def _both_along(self) -> bool:
        """Whether both operands are loaded, and lie along the inner dimension."""
        found = self.single
        sides = [op.output.dims[self._contiguous(op)] == found.inner for op in (found.left, found.right)]
        return all(found.loaded) and all(sides)

    def _contiguous(self, op: Op) -> int:
        """The dimension of a load's tile along which elements lie together; the last one where none is known to."""
        access = AccessAttrs.of(op)
        strides = self.plan.ir.tensor(access.tensor).strides
        for item, stride in zip(access.index, strides, strict=True):
            if isinstance(item, TileIndex) and stride.constant == 1:
                return item.axis
        return 1
