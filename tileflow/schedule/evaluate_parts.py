"""The tiles of a product whose inner dimension is in parts, on torch values, for the executor."""

from __future__ import annotations

from .evaluate import NO_TURN
from .evaluate_product import ProductProgram


class PartsProgram(ProductProgram):
    """One program of such a product as the :class:`~tileflow.schedule.machine.Body` of a schedule. Every part has as
    many turns; boxes past the inner dimension are zeros."""

    @property
    def turns(self) -> int:
        """How many turns each part has."""
        parts = self._found.parts
        assert parts is not None
        return -(-self._size(parts.length) // self._size(self._ir.tiles[self._keys].block))

    def _enter(self, turn: int) -> None:
        super()._enter(turn)
        self._scalars_outside = self._run(self._found.before, {}, NO_TURN, 0)
