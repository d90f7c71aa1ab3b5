"""The roles of one float32 product in parts: the splitter, and the sums of a turn that are added to those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.graph import Block
from ...schedule.types import Arrive, Compute, EachTile, Split, Step, Turn, steps_of
from .product_roles import ProductRoles

if TYPE_CHECKING:
    from .split_kernel import SplitKernel

_ALONG = "gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))"
# a thread has four neighbours along the inner dimension, which it writes at once, and a warp reads 32 of the other one
_ACROSS = "gl.constexpr(gl.BlockedLayout([4, 1], [1, 32], [4, 1], [0, 1]))"
# The high part is what the matrix units read of a number. The low one is rounded to what they will read of it.
_PARTS = """(numbers):
    whole = numbers.to(gl.int32, bitcast=True)
    high = (whole & -8192).to(gl.float32, bitcast=True)
    rest = numbers - high
    rest = gl.where(rest == rest, rest, 0.0)  # of what is infinite there is a high part alone
    return high, (rest.to(gl.int32, bitcast=True) + 4096).to(gl.float32, bitcast=True)
"""
_SPLIT = """(box, low):
    high, rest = {parts}(box.load({layout}))
    low.store(rest)
"""
_SPLIT_ACROSS = """(box, high, low):
    whole, rest = {parts}(box.load({layout}))
    high.permute((1, 0)).store(whole)
    low.permute((1, 0)).store(rest)
"""


def _store(parts: str, swapped: bool) -> str:
    """The function that writes the parts of registers."""
    into = [f"{name}{'.permute((1, 0))' if swapped else ''}" for name in ("high", "low")]
    return (
        f"(numbers, high, low):\n    whole, rest = {parts}(numbers)\n"
        f"    {into[0]}.store(whole)\n    {into[1]}.store(rest)\n"
    )


class SplitRoles(ProductRoles):
    """Writes the roles of one schedule of such a product."""

    _kernel: SplitKernel

    def _each_tile(self, step: EachTile) -> None:
        line, splits = self._e.writer.line, [s for s in steps_of(step.steps) if isinstance(s, Split)]
        if not splits:
            if any(isinstance(s, Compute) for s in step.steps):
                line(f"no_small = {self._no_sums()}")
                line("no_large = no_small")
            super()._each_tile(step)
        elif any(isinstance(s, Compute) for s in step.steps):
            self._each_tile_of("0, tiles", self._found.before, step.steps)
        else:
            line("for tile in range(0, tiles):")  # where a tile is makes no difference to boxes that are there
            with self._e.writer.indented():
                line(f"start = tile * {self._turns}")
                self._steps(step.steps)

    def _step(self, step: Step) -> None:
        if isinstance(step, Split):
            self._split(step)
            return
        if isinstance(step, Arrive) and step.barrier == "split":
            self._e.writer.line("fence_async_shared()")  # the matrix units read what threads wrote before it
        super()._step(step)

    def _split(self, step: Split) -> None:
        """The call of the function that writes the parts of a box, or of registers."""
        module = self._e.module
        parts = module.helper("two_parts", _PARTS)
        low = self._slot(step.low, step.slot)
        high = "" if step.high is None else self._slot(step.high, step.slot)
        if isinstance(step.source, str):
            made = module.helper("store_swapped" if step.swapped else "store_parts", _store(parts, step.swapped))
            text = f"{made}({step.source}, {high}, {low})"
        elif step.high is None:
            alone = _SPLIT.format(parts=parts, layout=module.constant("ALONG", _ALONG))
            text = f"{module.helper('split_box', alone)}({self._matrix(step.source)}, {low})"
        else:
            both = _SPLIT_ACROSS.format(parts=parts, layout=module.constant("ACROSS", _ACROSS))
            text = f"{module.helper('split_across', both)}({self._matrix(step.source)}, {high}, {low})"
        self._e.writer.line(text)

    def _load(self, step: Compute) -> str:
        """The call of the function that loads an operand's tile of a turn."""
        e, turn = self._kernel, step.turn
        name, _, group = step.part.partition("_")[2].partition("_")
        op = self._found.left if name == "left" else self._found.right
        made = self._function(f"load_{name}")
        if made is None:
            with e.lines() as writer, e.loading(op):
                e.block(Block((), (op,), ()))
                writer.line(f"return {e.name(op.output)}")
                first = ("who",) if "who" in e.lanes_named(writer.text).text else ()
                made = e.define_function(f"load_{name}", "A turn's operand, which the copy engine takes none of.",
                                         writer, first)  # fmt: skip
        begin = f"{e.tile(self._found.keys)}_begin"
        assert turn is not None
        return made.call(**{begin: self._begin_of(turn)}, **({"who": group} if group else {}))

    def _begin_of(self, turn: Turn) -> str:
        """Where the loop's tile begins in the tile's first turn, or in the one that follows the running one. Behind the
        last one nothing is loaded: all lanes are masked."""
        tile = self._e.plan.ir.tiles[self._found.keys]
        begin, step = self._e.bound(tile, tile.begin), self._e.plan.step_text(tile.block)
        if turn.base == "first":
            return begin
        return f"{'' if begin == '0' else f'{begin} + '}(turn + 1 - start) * {step}"

    def _compute(self, step: Compute) -> None:
        line = self._e.writer.line
        if step.part == "begin":
            line("sums = no_sums")
        elif step.part == "add_small":
            line("sums += gl.where(small == small, small, 0.0)  # infinity by zero: the large sums say what it is")
        elif step.part == "add_large":
            line("sums += large")
        elif step.part.startswith("load_"):
            line(f"{step.writes[0]} = {self._load(step)}")
        else:
            super()._compute(step)
