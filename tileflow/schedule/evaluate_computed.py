"""The tiles of one product whose left operand is computed, on torch values, for the executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..ir.attributes import AccessAttrs, NibblesAttrs, PermuteAttrs
from ..ir.graph import Op, SliceIndex
from ..ir.kinds import OpKind
from ..ir.types import Dim
from .computed import Computed
from .evaluate import Environment
from .evaluate_product import ProductProgram
from .machine import Registers
from .product import Shape
from .single import Single, is_turned

K = OpKind


class ComputedProgram(ProductProgram):
    """One program of such a product as the :class:`~tileflow.schedule.machine.Body` of a schedule."""

    @property
    def _computed(self) -> Computed:
        assert isinstance(self._found, Computed)
        return self._found

    def _rows_of_group(self, found: Single, shape: Shape) -> int:
        """Of the box that a group's operand is computed from, the side that is along the result's rows."""
        axis = [d.tile for d in found.left.output.dims].index(found.rows)
        return shape.left[-2:][1 - axis if shape.left_transposed else axis]

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        """What the copy engine brings of an operand in a turn, from the place that the turn computes."""
        assert turn is not None
        env, start = self._turn(turn), self._computed.right_start
        if buffer == "left" or start is None:
            return super().box(buffer, turn, group)
        right = self._computed.right
        tensor = self._tensors[AccessAttrs.of(right).tensor]
        at, number = start
        item = AccessAttrs.of(right).index[at]
        assert isinstance(item, SliceIndex)
        kept = self._tensors
        moved = _moved(tensor, at, int(self._value(number, env)), self._extent(item.dim))
        self._tensors = {**kept, AccessAttrs.of(right).tensor: moved}
        try:
            found = self._load(right, env, self._of_tile(turn), 0, by_engine=True)
        finally:
            self._tensors = kept
        return found.mT if is_turned(self._ir, right) else found

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part writes: a turn's operand, or the finish of a tile."""
        if part != "prepare":
            return super().compute(part, registers, turn, group)
        assert turn is not None
        found, part_ = self._computed, self._part(group)
        env = {**self._turn(turn), found.left.output: registers["left"]}
        env = self._run(found.prepare, env, self._of_tile(turn), part_)
        return {"computed": env[found.product.values[0]].clone()}

    def _turn(self, turn: int) -> Environment:
        """The numbers of a turn."""
        self._enter(turn)
        self._scalars_outside = self._numbers(turn)
        return self._run(self._found.inside, self._scalars_outside, self._of_tile(turn), 0)

    def _run(self, ops: Any, env: Environment, turn: int, group: int) -> Environment:
        for op in ops:
            if op.kind is K.NIBBLES:
                env = {**env, **dict(zip(op.outputs, _nibbles(op, env[op.values[0]]), strict=True))}
            else:
                env = super()._run((op,), env, turn, group)
        return env

    def _mask(self, dim: Dim, env: Environment, turn: int, group: int) -> torch.Tensor:
        """Of a dimension in which a reshape merged a tile's lanes with others, each lane counts as its tile's."""
        tile = None if dim.tile is None else self._ir.tiles[dim.tile]
        if tile is None or dim == tile.dim:
            return super()._mask(dim, env, turn, group)
        lanes = torch.arange(self._extent(dim)) // self._size(dim.step) % self._size(tile.block)
        return super()._mask(tile.dim, env, turn, group)[lanes]

    def _one(self, op: Op, env: Environment, turn: int, group: int) -> Any:
        if op.kind is K.JOIN:
            return torch.stack([env[v] for v in op.values], dim=-1)
        if op.kind is K.PERMUTE:
            return env[op.values[0]].permute(PermuteAttrs.of(op).order)
        if op.kind is K.RESHAPE:
            return env[op.values[0]].reshape(self._shape(op.output.dims))
        return super()._one(op, env, turn, group)


def _nibbles(op: Op, packed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The low and the high four bits of bytes, in float32 as all halves."""
    low, high = packed.int() & 15, (packed.int() >> 4) & 15
    if NibblesAttrs.of(op).signed:
        low, high = ((n ^ 8) - 8 for n in (low, high))
    return low.float(), high.float()


def _moved(tensor: torch.Tensor, dim: int, start: int, length: int) -> torch.Tensor:
    """The lanes of a dimension from ``start`` on, zero outside the tensor."""
    index = start + torch.arange(length)
    inside = (index >= 0) & (index < tensor.shape[dim])
    found = tensor.index_select(dim, index.clamp(0, tensor.shape[dim] - 1))
    return found * inside.reshape([-1 if n == dim else 1 for n in range(tensor.ndim)])
