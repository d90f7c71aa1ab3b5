"""The tiles of one float32 product in parts on torch values, for the executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .evaluate_product import ProductProgram
from .machine import Registers


class SplitProgram(ProductProgram):
    """One program of such a product as the :class:`~tileflow.schedule.machine.Body` of a schedule."""

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part writes: the sums, begun or added to, or the finish of a tile."""
        if part == "begin":
            return {"sums": torch.zeros(tuple(self._extent(d) for d in self._found.product.output.dims))}
        return added(part, registers) or super().compute(part, registers, turn, group)


def added(part: str, registers: Mapping[str, torch.Tensor]) -> Registers:
    """The sums with those of a turn, of which the small ones are zero where they are not a number; nothing where the
    part is another one."""
    if part == "add_small":
        return {"sums": registers["sums"] + registers["small"].nan_to_num(0.0, torch.inf, -torch.inf)}
    return {"sums": registers["sums"] + registers["large"]} if part == "add_large" else {}
