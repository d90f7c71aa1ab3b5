"""The roles of one float32 product in parts: the splitter, and the sums of a turn that are added to those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...schedule.types import Arrive, Compute, EachTile, Repeat, Shared, Split, Step
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


class SplitRoles(ProductRoles):
    """Writes the roles of one schedule of such a product."""

    _kernel: SplitKernel

    def _each_tile(self, step: EachTile) -> None:
        line = self._e.writer.line
        if any(isinstance(s, Repeat) and any(isinstance(t, Split) for t in s.steps) for s in step.steps):
            if self._blocks > 1:
                self._steps(step.steps)
                return
            line("for tile in range(0, tiles):")  # where a tile is makes no difference to the splitter
            with self._e.writer.indented():
                line(f"start = tile * {self._turns}")
                self._steps(step.steps)
            return
        if any(isinstance(s, Compute) for s in step.steps):
            line(f"no_small = {self._no_sums()}")
            line("no_large = no_small")
        super()._each_tile(step)

    def _step(self, step: Step) -> None:
        if isinstance(step, Split):
            self._split(step)
            return
        if isinstance(step, Arrive) and step.barrier == "split":
            self._e.writer.line("fence_async_shared()")  # the matrix units read what threads wrote before it
        super()._step(step)

    def _split(self, step: Split) -> None:
        """The call of the function that writes the parts of a box."""
        module, line = self._e.module, self._e.writer.line
        parts = module.helper("two_parts", _PARTS)
        box = self._matrix(Shared(step.box.buffer, step.box.slot))
        low = self._slot(step.low, step.box.slot)
        if step.high is None:
            text = _SPLIT.format(parts=parts, layout=module.constant("ALONG", _ALONG))
            line(f"{module.helper('split_box', text)}({box}, {low})")
        else:
            text = _SPLIT_ACROSS.format(parts=parts, layout=module.constant("ACROSS", _ACROSS))
            high = self._slot(step.high, step.box.slot)
            line(f"{module.helper('split_across', text)}({box}, {high}, {low})")

    def _compute(self, step: Compute) -> None:
        line = self._e.writer.line
        if step.part == "begin":
            line("sums = no_sums")
        elif step.part == "add_small":
            line("sums += gl.where(small == small, small, 0.0)  # infinity by zero: the large sums say what it is")
        elif step.part == "add_large":
            line("sums += large")
        else:
            super()._compute(step)
