"""The Gluon kernel of one product in a loop: persistent programs that walk over the tiles of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...config import Config
from ...errors import ConfigError
from ...expr import Expr
from ...ir.access import copied_order, scattered_along
from ...ir.attributes import AccessAttrs
from ...ir.graph import KernelIR, Op, Tile
from ...ir.types import Dim, itemsize
from ...schedule.memory import shared_bytes
from ...schedule.product import NAMES, Shape, product
from ...schedule.single import Single, all_copied, is_turned, scattered_element
from ...schedule.types import WARPS_OF_A_GROUP, Buffer, Schedule
from ...space.knobs import CONSUMERS, LOOP_CTAS, NUM_STAGES, PING_PONG
from ...space.names import loop_site
from ...space.product_schedules import HEIGHTS, programs
from ...target import Target
from .. import grid
from ..clusters import guard_few
from ..descriptors import block_of, box_of
from ..parameters import Box, Divisible
from .kernel import GluonKernel
from .product_roles import ProductRoles

_REGISTER_STEP = 8  # registers come in so many
_MOST_REGISTERS = 255  # a thread's


class ProductKernel(GluonKernel):
    """One emission. Its roles look for their tiles themselves: the entry starts them."""

    own_names = NAMES
    _cut = 1

    def __init__(self, ir: KernelIR, config: Config, target: Target, divisible: Divisible) -> None:
        super().__init__(ir, config, target, divisible)
        if self._is_any:
            self.structure = all_copied(self.single)
        self.plan.cluster = LOOP_CTAS.chosen(config, loop_site(ir, self.single.keys))

    @property
    def _is_any(self) -> bool:
        """Whether the rows of all tensors may begin at any element."""
        return self.divisible == "copied"

    @property
    def single(self) -> Single:
        """The structure of the kernel."""
        assert isinstance(self.structure, Single)
        return self.structure

    @property
    def boxes(self) -> Mapping[str, Op]:
        """The operands of the product, by the buffer that they fill, several right ones by its parts as well."""
        found, rights = self.single, self.single.rights
        parts = {f"right_{n}": op for n, op in enumerate(rights)} if len(rights) > 1 else {}
        return {"left": found.left, "right": found.right} | parts

    @property
    def saves(self) -> Mapping[str, Op]:
        """The store of the result, where the copy engine can do it."""
        return {} if self.single.saved is None else {"result": self.single.saved}

    @property
    def groups(self) -> int:
        """How many consumer groups there are."""
        return self.plan.launch(CONSUMERS)

    @property
    def walks(self) -> bool:
        """Always true: a program of a product is persistent."""
        return True

    @property
    def is_dealt(self) -> bool:
        """Whether groups have tiles of their own."""
        return self.groups > 1 and self.plan.launch(PING_PONG)

    @property
    def group_rows(self) -> int:
        """Rows of a tile in one consumer group: all where groups have tiles of their own, else its share."""
        rows = self.plan.block(self.plan.ir.tiles[self.structure.rows].block)
        return rows if self.is_dealt else rows // self.groups

    @property
    def depth(self) -> int:
        """What one instruction of the matrix units sums over: 32 bytes of numbers."""
        return 32 // itemsize(self.single.product.values[0].type.dtype)

    @property
    def lanes_of_rows(self) -> str:
        """The rows of a group, counted from the tile's first one; from 0 where the group has the whole tile."""
        return f"gl.arange(0, {self.rows_text})" if self.is_dealt else super().lanes_of_rows

    # ---- pieces of columns ----------------------------------------------------------------------

    @contextmanager
    def cut(self, pieces: int) -> Iterator[None]:
        """Write for one of so many pieces of the columns."""
        self._cut = pieces
        yield
        self._cut = 1

    def extent(self, dim: Dim) -> int:
        """How many lanes a dimension has; of columns, those of one piece while the result is written in pieces."""
        return super().extent(dim) // (self._cut if self._is_columns(dim) else 1)

    def shape(self, dims: tuple[Dim, ...]) -> str:
        """The extents of ``dims`` as a list in the generated text; of columns, those of one piece."""
        if self._cut == 1 or not any(map(self._is_columns, dims)):
            return super().shape(dims)
        texts = (self._columns_text(d) if self._is_columns(d) else super(ProductKernel, self).shape((d,)) for d in dims)
        return f"[{', '.join(text.strip('[]') for text in texts)}]"

    def _lane_text(self, tile: Tile) -> str:
        if self._cut > 1 and tile.name == self.structure.columns.tile:
            return f"gl.arange(0, {self._columns_text(tile.dim)})"
        return super()._lane_text(tile)

    def _is_columns(self, dim: Dim) -> bool:
        return dim.tile is not None and dim.tile == self.structure.columns.tile

    def _columns_text(self, dim: Dim) -> str:
        return self.module.constant("COLUMNS", f"gl.constexpr({self.extent(dim)})")

    # ---- where operands and results lie ---------------------------------------------------------

    def box_order(self, op: Op) -> tuple[int, ...] | None:
        """The order of a box of the tensor, or of the copy that a launch makes of an operand."""
        return super().box_order(op) or (copied_order(self.plan.ir, op) if self.is_copied(op) else None)

    def is_copied(self, op: Op) -> bool:
        """Whether a load is of a copy whose rows begin at aligned bytes."""
        return op in self.single.copied

    def storing_layout(self, op: Op) -> str | None:
        """A row of neighbours a warp, where rows begin at any element: in a product's layout, each warp writes a few of
        many rows."""
        along = scattered_along(self.plan.ir, op, self._is_any)
        if along is None:
            return None
        lanes, warps, order = ([1, 32], [4, 1], [1, 0]) if along == 1 else ([32, 1], [1, 4], [0, 1])
        text = f"gl.constexpr(gl.BlockedLayout([1, 1], {lanes}, {warps}, {order}))"
        return self.module.constant("BY_ROWS" if along == 1 else "BY_COLUMNS", text)

    # ---- the schedule ---------------------------------------------------------------------------

    def _check(self) -> None:
        if self.group_rows not in HEIGHTS:
            raise ConfigError(
                f"consumer groups have {' or '.join(map(str, HEIGHTS))} rows each",
                got=self.group_rows,
                where=self.structure.rows,
            )

    def _schedule(self) -> Schedule:
        self.scheduled = self._shape()
        self.pieces = self.scheduled.pieces
        return product(self.scheduled, self.groups, self.plan.launch(NUM_STAGES), self.is_dealt)

    def _shape(self) -> Shape:
        """What the schedule is made of."""
        found, saved = self.single, self.single.saved
        size = itemsize(found.product.values[0].type.dtype)
        left, right = self._operand_shapes()
        out, out_bytes = None, 0
        if saved is not None:
            out = block_of(self, saved)
            out_bytes = itemsize(self.plan.ir.tensor(AccessAttrs.of(saved).tensor).dtype)
        return Shape(
            left,
            right,
            size,
            out,
            out_bytes,
            found.left_transposed,
            found.right_transposed,
            self.sums,
            found.by_columns,
            itemsize(found.left.output.type.dtype),
            self.is_result_turned,
            products=len(found.products),
            scattered_bytes=self.group_rows * self.extent(found.columns) * self._scattered_element(),
            blocks=self.plan.cluster,
        )

    def _scattered_element(self) -> int:
        return scattered_element(self.plan.ir, self.single, self._is_any)

    def _operand_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the left and the right operand's boxes."""
        return box_of(self, self.single.left).block, box_of(self, self.single.right).block

    def _programs(self) -> int:
        """Programs on one multiprocessor."""
        return programs(self.groups, self._registers_held(), shared_bytes(self.specialised), self.target)

    def _registers_held(self) -> int:
        """A thread's registers for what it holds throughout a turn."""
        return self.sums

    @property
    def sums(self) -> int:
        """A thread's registers for the sums of all products."""
        return self.group_rows * self.all_columns // (WARPS_OF_A_GROUP * self.target.warp_size)

    @property
    def all_columns(self) -> int:
        """Columns of what one instruction multiplies by: of all right operands, beside each other."""
        return self.extent(self.single.columns) * len(self.single.products)

    def _most_registers(self) -> int:
        most = self.target.regs_per_sm // (self._programs() * self.specialised.warps * self.target.warp_size)
        most = min(most, _MOST_REGISTERS)
        return most - most % _REGISTER_STEP

    # ---- the entry ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A cluster has one tile, and is for few of them."""
        if self.plan.cluster == 1:
            super()._begin()
            return
        turns = self._turn_count()
        self.plan.guard(Expr.of(1).le(turns))
        guard_few(self, grid.total(self), (self.plan.ir.tiles[self.single.keys],))
        self._walk()

    def _walk(self) -> None:
        turns, _ = self._turns()  # which the schedule takes to be one at least
        self._start(self._roles(turns))

    def _turn_count(self) -> Expr:
        """Of a cluster, the turns of each block."""
        count = self._turns_of_tile()
        return count if self.plan.cluster == 1 else count.cdiv(self.plan.cluster)

    def _turns_of_tile(self) -> Expr:
        return super()._turn_count()

    def _turns(self) -> tuple[str, bool]:
        return super()._turns() if self.plan.cluster == 1 else self._turns_of_each()

    def _turns_of_each(self) -> tuple[str, bool]:
        """The turns of a part, or of a block of a cluster, of which each has as many."""
        count = self.plan.number(self._turn_count())
        if count is not None:
            return str(count), True
        self.writer.line(f"turns = {self.plan.text(self._turn_count())}")
        return "turns", True

    def _launch_grid(self) -> tuple[Expr, Expr, Expr]:
        if self.plan.cluster == 1:
            return super()._launch_grid()
        return grid.total(self), Expr.of(1), Expr.of(1)

    def _roles(self, turns: str) -> ProductRoles:
        return ProductRoles(self, self.specialised, turns)

    def _box_of(self, buffer: Buffer) -> Box:
        return self.box_of_result() if buffer.name == "out" else box_of(self, self.owner(buffer.name))

    # ---- the result -----------------------------------------------------------------------------

    @property
    def is_result_turned(self) -> bool:
        """Whether columns of the result are rows of its box."""
        return self.single.saved is not None and is_turned(self.plan.ir, self.single.saved)

    @property
    def cut_of_result(self) -> int:
        """The dimension of the result's box that its columns are, from the last."""
        return -2 if self.is_result_turned else -1

    def box_of_result(self) -> Box:
        """The descriptor by which a piece of the result is stored."""
        assert self.single.saved is not None
        return box_of(self, self.single.saved, self.pieces, self.cut_of_result)
