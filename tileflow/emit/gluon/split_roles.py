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
TURNED = "gl.constexpr(gl.NVMMASharedLayout(128, 32, 2))"  # rows of 128 bytes of 32-bit numbers
# The high part is what the matrix units read of a number. The low one is rounded to what they will read of it. Of what
# is infinite it is none: 0x7fffffff, which the rounding makes a zero.
_LOW = """(numbers):
    whole = numbers.to(gl.int32, bitcast=True)
    rest = numbers - (whole & -8192).to(gl.float32, bitcast=True)
    return (rest.to(gl.int32, bitcast=True) + 4096).to(gl.float32, bitcast=True)
"""
_SPLIT = """(box, low):
    low.store({low_part}(box.load({layout})))
"""
_SPLIT_ACROSS = """(box, turned, low):  # turned: the same memory, written once all threads have read the box
    numbers = box.load({layout})
    turned.permute((1, 0)).store(numbers)
    low.permute((1, 0)).store({low_part}(numbers))
"""
# Two instructions a number: to choose between a sum and zero first takes four, while the matrix units wait.
_ADD_NUMBERS = '''(sums, small):
    # Infinity by zero is no number, and is left out: the large sums say what it is.
    asm: gl.constexpr = """
        {
        .reg .pred is_number;
        mov.f32 $0, $1;
        setp.num.f32 is_number, $2, $2;
        @is_number add.f32 $0, $0, $2;
        }
    """
    return gl.inline_asm_elementwise(asm, "=&f,f,f", [sums, small], gl.float32, is_pure=True, pack=1)
'''


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
        low_part = module.helper("low_part", _LOW)
        box = self._matrix(step.box)
        low = self._slot(step.low, step.box.slot)
        if not step.turns:
            text = _SPLIT.format(low_part=low_part, layout=module.constant("ALONG", _ALONG))
            line(f"{module.helper('split_box', text)}({box}, {low})")
        else:
            text = _SPLIT_ACROSS.format(low_part=low_part, layout=module.constant("ACROSS", _ACROSS))
            turned = self._turned(step.box)
            line(f"{module.helper('split_across', text)}({box}, {turned}, {low})")

    def _matrix(self, operand: Shared) -> str:
        if not operand.turned:
            return super()._matrix(operand)
        text = self._turned(operand)
        return f"{text}.permute((1, 0))" if operand.transposed else text

    def _turned(self, box: Shared) -> str:
        """A slot's memory with the dimensions of its box swapped."""
        rows, columns = self._schedule.buffer(box.buffer).shape[-2:]
        text, layout = self._slot(box.buffer, box.slot), self._e.module.constant("TURNED", TURNED)
        return f"{text}._reinterpret(gl.float32, [{columns}, {rows}], {layout})"

    def _compute(self, step: Compute) -> None:
        line = self._e.writer.line
        if step.part == "begin":
            line("sums = no_sums")
        elif step.part == "add_small":
            line(f"sums = {self._e.module.helper('add_numbers', _ADD_NUMBERS)}(sums, small)")
        elif step.part == "add_large":
            line("sums += large")
        else:
            super()._compute(step)
