"""The roles of one product whose left operand is computed: the operand, and boxes at places that a turn computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.access import box_order
from ...ir.graph import Block, Op
from ...schedule.chained import read_by
from ...schedule.types import Compute
from ..descriptors import offsets
from .product_roles import ProductRoles

if TYPE_CHECKING:
    from .computed_kernel import ComputedKernel
    from .functions import Function


class ComputedRoles(ProductRoles):
    """Writes the roles of one schedule of such a product."""

    _kernel: ComputedKernel

    def _offsets(self, op: Op) -> list[str]:
        texts, start = offsets(self._e, op), self._kernel.computed.right_start
        if start is not None and op == self._kernel.computed.right:
            at, number = start
            order = box_order(self._e.plan.ir, op)
            assert order is not None
            texts[order.index(at)] = self._e.as_dtype(number, "int32")
        return texts

    def _compute(self, step: Compute) -> None:
        if step.part != "prepare":
            super()._compute(step)
            return
        e = self._kernel
        assert step.box is not None and step.turn is not None
        made = self._function("prepare") or self._prepare()
        begin = f"{e.tile(self._found.keys)}_begin"
        call = made.call(box=self._matrix(step.box), **{begin: self._begin_text(step.turn)})
        e.writer.line(f"{step.writes[0]} = {call}")

    def _prepare(self) -> Function:
        """The function that computes an operand from its box."""
        e, found = self._kernel, self._kernel.computed
        with e.lines() as writer, e.of_operand():
            self._scalars(read_by(found.prepare), found.inside)
            box = found.left.output
            e.writer.at(found.left.loc)
            e.define(box, f"box.load({e.layout(box.dims)})", box.type.dtype)
            operand = found.product.values[0]
            e.block(Block((), found.prepare, ()))
            writer.line(f"return {e.result(operand)}")
            first = ("box", "who") if "who" in writer.text else ("box",)
            return e.define_function("prepare", "This turn's operand, where its product reads it.", writer, first)
