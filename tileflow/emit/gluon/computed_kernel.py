"""The Gluon kernel of one product whose left operand the consumers compute: its boxes, layouts and turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...errors import ConfigError
from ...ir.attributes import AxisAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, Value
from ...schedule.computed import Computed
from ...schedule.computed_product import NAMES, computed_product
from ...schedule.types import WARPS_OF_A_GROUP, Schedule
from ...space.knobs import NUM_STAGES
from .computed_roles import ComputedRoles
from .operand_layouts import Lanes, followed_back, of_operand
from .parts_kernel import PartsKernel


class ComputedKernel(PartsKernel):
    """One emission. ``_operand_lanes``: of what the operand is made of, by its dimensions, while that is written; of a
    vector, those of the tile that it is made part of, and the dimension that it lacks."""

    own_names = NAMES
    _operand_lanes: Mapping[tuple[Dim, ...], tuple[Lanes, int | None]] = {}
    _named_lanes: tuple[Lanes, ...] = ()  # which the module has constants of

    @property
    def computed(self) -> Computed:
        """The structure of the kernel."""
        assert isinstance(self.structure, Computed)
        return self.structure

    def _schedule(self) -> Schedule:
        self.scheduled = self._shape()
        self.pieces = self.scheduled.pieces
        return computed_product(self.scheduled, self.groups, self.plan.launch(NUM_STAGES), self.is_dealt)

    def _roles(self, turns: str) -> ComputedRoles:
        return ComputedRoles(self, self.specialised, turns)

    def _registers_held(self) -> int:
        """The sums, an operand that a product reads and the next one."""
        threads = WARPS_OF_A_GROUP * self.target.warp_size
        return self.sums + self.group_rows * self.extent(self.computed.inner) // threads

    # ---- layouts --------------------------------------------------------------------------------

    def layout(self, dims: tuple[Dim, ...]) -> str:
        """The layout of a value; of what the operand is made of, the one that the operand's lanes lead back to."""
        if dims not in self._operand_lanes:
            return super().layout(dims)
        lanes, axis = self._operand_lanes[dims]
        known = [*self._named_lanes, *(() if lanes in self._named_lanes else (lanes,))]
        alike = [other for other in known if other.shape == lanes.shape]
        name = "_".join(map(str, ("LANES", *lanes.shape, *([alike.index(lanes)] if lanes != alike[0] else []))))
        self._named_lanes = tuple(known)
        text = self.module.constant(name, f"gl.constexpr({lanes.text})")
        return text if axis is None else f"gl.SliceLayout({axis}, {text})"

    def is_in_pairs(self, dims: tuple[Dim, ...]) -> bool:
        """Whether the first two registers of a thread's lanes are one of the operand's."""
        lanes, axis = self._operand_lanes.get(dims, (None, None))
        return lanes is not None and axis is None and len(lanes.registers) > 0

    def are_read_in_words(self, dims: tuple[Dim, ...]) -> bool:
        """Whether the operand's pairs lie beside each other in the box: a thread reads several bytes at once."""
        left = self.computed.left
        lanes, _ = self._operand_lanes.get(dims, (None, None))
        order = self.box_order(left)
        if lanes is None or order is None or dims != left.output.dims:
            return False
        return lanes.places(lanes.registers[:1])[0].index(1) == order[-1]

    @property
    def operand_layout(self) -> str:
        """The layout in which the product takes its left operand from registers."""
        return self.operand_of(self.single.product, "AS_OPERAND")

    @contextmanager
    def of_operand(self) -> Iterator[None]:
        """Write what the operand is made of in the layouts that its lanes lead back to. Raises ConfigError where tiles
        of the same dimensions have different ones."""
        found = self.computed
        operand = found.product.values[0]
        ops = (found.left, *found.prepare)
        values = {v for op in ops for v in (*op.values, *op.outputs)}
        shapes = {v: tuple(map(self.extent, v.dims)) for v in values}
        whole = of_operand(self.group_rows, self.extent(found.inner))
        known: dict[tuple[Dim, ...], tuple[Lanes, int | None]] = {}
        for value, lanes in followed_back(ops, operand, whole, shapes).items():
            if known.setdefault(value.dims, (lanes, None)) != (lanes, None):
                raise ConfigError(
                    "tiles of the same dimensions have one layout on the way to an operand",
                    got=str(value.loc),
                    hint="choose the schedule pipelined",
                )
        for op in found.prepare:
            if op.kind is OpKind.UNSQUEEZE and op.output.dims in known:
                known[op.values[0].dims] = known[op.output.dims][0], AxisAttrs.of(op).axis
        self._operand_lanes = known
        yield
        self._operand_lanes = {}

    def result(self, value: Value) -> str:
        """The operand as the product takes it: its lanes are where they belong already."""
        text = self.as_dtype(value, value.type.dtype)
        return f"gl.convert_layout({text}, {self.operand_layout})"
