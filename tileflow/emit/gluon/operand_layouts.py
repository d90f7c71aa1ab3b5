"""Where the lanes of an operand are while it is computed: the layout of a product's operand, followed back.

A product of warp groups takes its left operand from registers in one layout. Each operation on the way to it that is a
view (a permutation, a reshape, two tiles joined) has its lanes in another one before than behind, and none of them
moves: the box is read from shared memory straight into the registers that the operand's lanes will be in. For packed
4-bit numbers a byte lands in the thread, and for the register, that its two numbers belong to.

A layout is linear (Triton's ``DistributedLinearLayout``): for each bit of a register's, a lane's and a warp's number
the element that it leads to. All are powers of two along one dimension, kept here as offsets in a tile read row by
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from ...errors import ConfigError
from ...ir.attributes import PermuteAttrs
from ...ir.graph import Op
from ...ir.kinds import OpKind
from ...ir.types import Value
from ...schedule.types import ROWS_OF_A_GROUP

K = OpKind
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lanes:
    """A linear layout of a tile. ``registers``, ``threads``, ``warps``: offsets in the tile, one a bit."""

    shape: Shape
    registers: tuple[int, ...]
    threads: tuple[int, ...]
    warps: tuple[int, ...]

    def places(self, offsets: Iterable[int]) -> list[list[int]]:
        """Offsets as indices into the tile."""
        return [_unravelled(offset, self.shape) for offset in offsets]

    @property
    def text(self) -> str:
        """The layout as Gluon has it."""
        parts = (self.places(p) for p in (self.registers, self.threads, self.warps))
        return f"gl.DistributedLinearLayout({', '.join(map(str, parts))}, [], {list(self.shape)})"

    def permuted(self, order: tuple[int, ...]) -> Lanes:
        """The lanes before a permutation, of what is here behind it."""
        shape = tuple(self.shape[order.index(n)] for n in range(len(order)))

        def before(offset: int) -> int:
            place = _unravelled(offset, self.shape)
            return _ravelled([place[order.index(n)] for n in range(len(order))], shape)

        return self._mapped(shape, before)

    def reshaped(self, shape: Shape) -> Lanes:
        """The lanes before a reshape: the offsets are the same."""
        return Lanes(shape, self.registers, self.threads, self.warps)

    def halved(self) -> Lanes | None:
        """The lanes of either half before a join; None where the halves lie in different threads."""
        if not all(offset % 2 == 0 for offset in (*self.threads, *self.warps)):
            return None
        kept = tuple(offset // 2 for offset in self.registers if offset % 2 == 0)
        halves = (tuple(offset // 2 for offset in part) for part in (self.threads, self.warps))
        return Lanes(self.shape[:-1], kept, *halves)

    def _mapped(self, shape: Shape, change: Callable[[int], int]) -> Lanes:
        parts = (tuple(map(change, part)) for part in (self.registers, self.threads, self.warps))
        return Lanes(shape, *parts)


def of_operand(rows: int, inner: int) -> Lanes:
    """The left operand of 16-bit numbers of a product of one warp group (PTX ISA 9.7.15.5.1, register fragments)."""

    def at(row: int, column: int) -> int:
        return row * inner + column

    blocks = [at(0, 16 << n) for n in range((inner // 16).bit_length() - 1)]
    more = [at(ROWS_OF_A_GROUP << n, 0) for n in range((rows // ROWS_OF_A_GROUP).bit_length() - 1)]
    registers = (at(0, 1), at(8, 0), at(0, 8), *blocks, *more)
    threads = (at(0, 2), at(0, 4), at(1, 0), at(2, 0), at(4, 0))
    return Lanes((rows, inner), registers, threads, (at(16, 0), at(32, 0)))


def followed_back(ops: Iterable[Op], operand: Value, lanes: Lanes, shapes: dict[Value, Shape]) -> dict[Value, Lanes]:
    """The layouts of all tiles that an operand is made of, by the ``ops`` in order. ``shapes``: of each tile.

    Raises ConfigError where halves that are joined lie in different threads.
    """
    found = {operand: lanes}
    for op in reversed([*ops]):
        known = next((found[v] for v in op.outputs if v in found), None)
        if known is not None:
            found |= {v: before for v, before in _before(op, known, shapes) if len(before.shape) > 1}
            found |= dict.fromkeys(op.outputs, known)
    return found


def _before(op: Op, lanes: Lanes, shapes: dict[Value, Shape]) -> Iterator[tuple[Value, Lanes]]:
    """The tiles that an operation reads, with their layouts. Those of one row or column have the tile's own."""
    for value in op.values:
        if len(value.dims) < 2:
            continue
        if op.kind is K.PERMUTE:
            yield value, lanes.permuted(PermuteAttrs.of(op).order)
        elif op.kind is K.RESHAPE:
            yield value, lanes.reshaped(shapes[value])
        elif op.kind is K.JOIN:
            halves = lanes.halved()
            if halves is None:
                raise ConfigError(
                    "numbers that are packed together lie in one thread of the operand: neighbours, or a block apart",
                    got=str(op.loc),
                    hint="choose the schedule pipelined",
                )
            yield value, halves
        elif op.kind is not K.LOAD or value.dims == op.output.dims:  # the places of a gather's elements lie as these do
            yield value, lanes


def _unravelled(offset: int, shape: Shape) -> list[int]:
    place = []
    for n in range(len(shape)):
        stride = prod(shape[n + 1 :])
        place.append(offset // stride % shape[n])
    return place


def _ravelled(place: list[int], shape: Shape) -> int:
    return sum(at * prod(shape[n + 1 :]) for n, at in enumerate(place))
