"""The roles of one product in a loop: its tiles, the boxes of a turn, the epilogue and what is stored of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.graph import Block
from ...schedule.types import (
    ArriveCluster,
    Compute,
    Copy,
    Cut,
    EachTile,
    Give,
    Join,
    OfBlock,
    Piece,
    Put,
    Save,
    Schedule,
    Shared,
    Step,
    Turn,
    WaitCluster,
)
from .. import grid
from ..plan import PART
from .exchange import Exchange
from .steps import Steps

if TYPE_CHECKING:
    from .product_kernel import ProductKernel


_SUMS = ("sums", "sums_beside")  # of each product, as the author's epilogue takes them


class ProductRoles(Steps):
    """Writes the roles of one schedule of a product."""

    under_way = ""  # the sums' name stays, so that a loop carries one value

    def __init__(self, e: ProductKernel, schedule: Schedule, turns: str) -> None:
        super().__init__(e, schedule, turns, always=True, walks=schedule.blocks == 1)
        self._kernel, self._found = e, e.single
        self._blocks = schedule.blocks
        count = e.sums // self._blocks
        self._exchange = Exchange(e.module, self._blocks, count, schedule.consumer.groups)

    # ---- tiles and turns ------------------------------------------------------------------------

    def _each_tile(self, step: EachTile) -> None:
        e = self._kernel
        if any(isinstance(s, Compute) for s in step.steps):
            e.writer.line(f"no_sums = {self._no_sums()}")
        if self._blocks > 1:
            self._tile_of_cluster(step.steps)
            return
        self._each_tile_of("who, tiles, GROUPS" if step.dealt else "0, tiles", self._found.before, step.steps)

    def _tile_of_cluster(self, steps: tuple[Step, ...]) -> None:
        """The one tile of all blocks of a cluster."""
        line = self._e.writer.line
        line(f"{PART} = tl.program_id(0) % {self._blocks}")
        line(f"pid = tl.program_id(0) // {self._blocks}")
        self._one_tile(grid.Counts(self._e), self._found.before, steps)

    def _no_sums(self) -> str:
        """Zeros for the sums of all products."""
        e, dims = self._kernel, self._found.product.output.dims
        if len(self._found.products) == 1:
            return e.full(dims, "0.0", "gl.float32")
        return f"gl.full([{e.rows_text}, {e.all_columns}], 0.0, gl.float32, {e.by(e.all_columns)})"

    def _begin_turn(self, steps: tuple[Step, ...], turn: Turn) -> None:
        """Where the boxes of this turn begin along the inner dimension."""
        if any(isinstance(s, Copy) for s in steps):
            self._e.writer.line(f"{self._e.tile(self._found.keys)}_begin = {self._begin_text(turn)}")
            self._e.block(Block((), self._found.inside, ()))

    def _begin_text(self, turn: Turn) -> str:
        """Where the loop's tile begins in a turn."""
        tile = self._e.plan.ir.tiles[self._found.keys]
        begin, step = self._e.bound(tile, tile.begin), self._e.plan.step_text(tile.block)
        if turn.base == "first":
            number = "" if self.walks else PART
        else:
            number = "(turn - start)" if self.walks else f"(turn * {self._blocks} + {PART})"
        terms = [begin] if begin != "0" or not number else []
        return " + ".join([*terms, *([f"{number} * {step}"] if number else [])])

    # ---- blocks of a cluster --------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        line = self._e.writer.line
        match step:
            case ArriveCluster():
                line(f"{self._exchange.arrive}()")
            case WaitCluster():
                line(f"{self._exchange.wait}()")
            case Give(pieces):
                line(f"threads = {self._threads(len(pieces))}(who)")
                line(f"{self._exchange.give}({', '.join(pieces)}, threads)")
            case Join(pieces, into):
                line(f"{into} = {self._exchange.join}({', '.join(pieces)}, threads)")
            case _:
                super()._step(step)

    def _threads(self, pieces: int) -> str:
        """The function that numbers the threads of one of so many pieces of the sums."""
        columns = self._kernel.all_columns // pieces
        return self._exchange.threads(self._kernel.group_rows, columns, self._kernel.by(columns))

    # ---- the epilogue ---------------------------------------------------------------------------

    def _compute(self, step: Compute) -> None:
        """What is done to the sums: the author's operations behind the loop, of a piece of columns where it has one."""
        e, found = self._kernel, self._found
        made = self._function(step.part)
        if made is None:
            with e.cut(1 if step.piece is None else e.pieces):
                for value, name in zip(found.totals, _SUMS, strict=False):
                    e.bind(value, name, "float32")
                made = self._finished(found.after)
        given = dict(zip(_SUMS, step.reads, strict=False))
        if step.piece:
            begin = f"{e.tile(found.columns.tile or '')}_begin"
            given[begin] = f"{begin} + {self._first_column(step.piece)}"
        call = made.call(**given)
        e.writer.line(call if found.saved is None else f"{step.writes[0]} = {call}")

    def _first_column(self, piece: Piece) -> str:
        """Of a piece, counted from the tile's first one."""
        return f"{PART} * {self._width}" if isinstance(piece, OfBlock) else str(piece * self._width)

    @property
    def _width(self) -> int:
        """Columns of a piece."""
        return self._kernel.extent(self._found.columns) // self._kernel.pieces

    def _store(self, step: Save | Put) -> None:
        assert isinstance(step, Put) and self._found.saved is not None
        line = self._e.writer.line
        if not step.piece or isinstance(step.piece, OfBlock):
            self._scalars(self._found.saved.inputs[1:], self._found.after)
        box = self._kernel.box_of_result()
        places = self._places(self._found.saved, "" if self._kernel.is_dealt else "who")
        if step.piece:
            places[self._kernel.cut_of_result] += f" + {self._first_column(step.piece)}"
        into = Shared(step.buffer, step.slot, self._kernel.is_result_turned)
        line(f"{self._matrix(into)}.store({step.value})")
        line("fence_async_shared()")
        line(
            f"tma.async_copy_shared_to_global({box.name}, [{', '.join(places)}], {self._slot(step.buffer, step.slot)})"
        )

    def _cut(self, step: Cut) -> None:
        """Halves of halves of the columns, in the layout of a product as wide."""
        e, parts = self._kernel, [step.value]
        width = e.all_columns if step.value == "sums" else e.extent(self._found.columns)
        while len(parts) < len(step.pieces):
            width //= 2
            halves: list[str] = []
            for n, part in enumerate(parts):
                names = (
                    [f"{part}_l", f"{part}_r"] if 2 * len(parts) < len(step.pieces) else step.pieces[2 * n : 2 * n + 2]
                )
                cut = f"{part}.reshape([{e.group_rows}, 2, {width}]).permute((0, 2, 1)).split()"
                e.writer.line(f"{', '.join(names)} = {cut}")
                halves += names
            parts = halves
        for part in parts:
            e.writer.line(f"{part} = gl.convert_layout({part}, {e.by(width)})")
