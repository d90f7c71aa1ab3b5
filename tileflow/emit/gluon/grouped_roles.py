"""The roles of a product of ragged groups: a walk over blocks of rows, and what is stored of blocks that are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.graph import Block
from ...ir.types import Value
from ...schedule.types import Compute, EachTile, IfWhole, Multiply, Scatter, Schedule, Step, Turn
from .. import grid
from ..memory import store_by_pointers
from .product_roles import ProductRoles

if TYPE_CHECKING:
    from .grouped_kernel import GroupedKernel

# Turns are counted from bounds that a program loads, of which the assembler does not know that all lanes have the same:
# it counts in every lane, and moves the number of each slot and barrier to where a warp has one (16 moves in a turn of
# four products). What a shuffle gives from the first lane it keeps once a warp.
_UNIFORM = """(number):
    return gl.inline_asm_elementwise(
        "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;", "=r,r", [number], dtype=gl.int32, is_pure=True, pack=1
    )
"""


class GroupedRoles(ProductRoles):
    """Writes the roles of one schedule of a grouped product."""

    def __init__(self, e: GroupedKernel, schedule: Schedule, turns: str) -> None:
        super().__init__(e, schedule, turns)
        self._grouped = e

    def _step(self, step: Step) -> None:
        match step:
            case IfWhole():
                self._if_whole(step)
            case Scatter():
                self._scatter(step)
            case _:
                super()._step(step)

    # ---- tiles ----------------------------------------------------------------------------------

    def _each_tile(self, step: EachTile) -> None:
        """Every block of rows of the group of every tile of the grid. ``tile`` counts the blocks of all groups, also
        those that are dealt to others."""
        e, line = self._grouped, self._e.writer.line
        if any(isinstance(s, Compute) for s in step.steps):
            line(f"no_sums = {e.full(self._found.product.output.dims, '0.0', 'gl.float32')}")
        counts = grid.Counts(e)
        counts.total()  # the counts stand in front of the loop
        line("tile = 0")
        line("for grid_tile in range(0, tiles):")
        with e.writer.indented():
            line("pid = tl.program_id(0) + grid_tile * tl.num_programs(0)")
            grid.emit_tiles(e, counts)
            with e.numbers():
                e.block(Block((), self._found.frame.numbers, ()))
            rows = e.plan.ir.tiles[self._found.rows]
            line(f"{e.rows_end} = {e.bound(rows, rows.end)}")
            walked = f"{e.bound(rows, rows.begin)}, {e.rows_end}, {e.plan.step_text(rows.block)}"
            line(f"for {e.tile(rows.name)}_begin in range({walked}):")
            with e.writer.indented():
                self._block_of_rows(step)
                line("tile += 1")

    def _block_of_rows(self, step: EachTile) -> None:
        if not step.dealt:
            self._tile(step.steps)
            return
        self._e.writer.line("if tile % GROUPS == who:")
        with self._e.writer.indented():
            self._tile(step.steps)

    def _tile(self, steps: tuple[Step, ...]) -> None:
        self._e.block(Block((), self._found.before, ()))
        uniform = self._e.module.helper("uniform", _UNIFORM)
        self._e.writer.line(f"start = {uniform}(tile * {self._turns})")
        if any(isinstance(s, Multiply) for s in steps):
            self._begin_turn(steps, Turn("first"))
        self._steps(steps)

    # ---- what is stored -------------------------------------------------------------------------

    def _if_whole(self, step: IfWhole) -> None:
        e, line = self._grouped, self._e.writer.line
        rows = "ROWS" if e.is_dealt else "(who + 1) * ROWS"
        line(f"if {e.tile(self._found.rows)}_begin + {rows} <= {e.rows_end}:")
        with e.writer.indented():
            self._steps(step.steps)
        line("else:")
        with e.writer.indented():
            self._steps(step.others)

    def _scatter(self, step: Scatter) -> None:
        """The author's store by pointers, of a piece of the columns."""
        e, saved = self._grouped, self._found.saved
        assert saved is not None and isinstance(saved.inputs[0], Value)
        made = self._function("scatter")
        if made is None:
            with e.cut(e.pieces), e.lines() as writer:
                tensor = e.plan.ir.tensor(saved.attrs.tensor)  # type: ignore[attr-defined]
                e.bind(saved.inputs[0], "result", tensor.dtype)
                store_by_pointers(e, saved)
            with e.cut(e.pieces):
                first = ("who",) if "who" in e.lanes_of_rows else ()
                made = e.define_function(
                    "scatter", "Rows of the group, in a block that others have rows of.", writer, first
                )
        given = {"result": step.value}
        if step.piece:
            begin = f"{e.tile(self._found.columns.tile or '')}_begin"
            given[begin] = f"{begin} + {self._first_column(step.piece)}"
        e.writer.line(made.call(**given))
