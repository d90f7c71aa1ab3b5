"""What a forward pass may save for its backward: row statistics, and values that its results already hold.

A *statistic* is a value that reductions give and that has no other dimensions than the launch's programs. One is worth
saving where lines read it that compute no statistic: with it in memory, the reductions before it have no reader. A
result stands for a value where it has the value's own dtype, so that nothing is narrowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, SliceIndex, TileIndex
from ..ir.kinds import OpKind
from ..ir.types import ONE, Value
from .forward import Env, Speller
from .observe import Call, Launch
from .program import Statement, facts, walk
from .sums import Reversed


@dataclass(frozen=True, slots=True)
class Saved:
    """A value of launch number ``launch``. ``result``: which of the forward kernel's results holds it; None for a
    statistic. ``store``: of a result, the op that writes it. ``shape``: of a statistic, as text. ``index``: its tiles,
    and what follows the variable of each."""

    launch: int
    value: Value
    result: int | None = None
    store: Op | None = None
    shape: str = ""
    index: tuple[tuple[str, str], ...] = ()

    def loaded(self, tensor: str, speller: Speller, env: Env) -> str:
        """The text of the load from ``tensor``."""
        if self.store is not None:
            return speller.load(tensor, *speller.access(self.store, env))
        ones = (axis for axis, dim in enumerate(self.value.dims) if dim == ONE)
        return f"{tensor}[{self._items(env)}]" + "".join(f".unsqueeze({axis})" for axis in ones)

    def stored(self, tensor: str, env: Env) -> str:
        """The line that stores a statistic."""
        ones = [axis for axis, dim in enumerate(self.value.dims) if dim == ONE]
        narrow = "".join(f".squeeze({axis})" for axis in reversed(ones))
        return f"{tensor}[{self._items(env)}] = {env.names[self.value]}{narrow}"

    def _items(self, env: Env) -> str:
        return ", ".join(env.tiles[tile].variable + rest for tile, rest in self.index)


def statistics(number: int, done: Reversed) -> tuple[Saved, ...]:
    """The statistics that the lines of a backward pass read, each once."""
    known = {done.env.names[v]: v for v in _reduced(done.launch.ir) if v in done.env.names}
    found = {name: place for name, v in known.items() if (place := _place(number, done, v)) is not None}
    read: set[str] = set()
    for statement in done.lines:
        lines = [s for s in walk([statement]) if isinstance(s, str)]
        assigns = {name for line in lines for name in facts(line).assigns}
        if not assigns & found.keys():
            read |= {name for s in walk([statement]) for name in _reads(s)}
    return tuple(place for name, place in found.items() if name in read)


def _reads(statement: Statement) -> frozenset[str]:
    return facts(statement).reads if isinstance(statement, str) else getattr(statement, "reads", frozenset())


def _reduced(ir: KernelIR) -> list[Value]:
    """The values of a region's body that follow from a reduction or a loop."""
    found: dict[Value, None] = {}
    for op in ir.body.ops:
        if op.kind in (OpKind.REDUCE, OpKind.FOR) or any(v in found for v in op.values):
            found.update(dict.fromkeys(op.outputs))
    return list(found)


def _place(number: int, done: Reversed, value: Value) -> Saved | None:
    """Where a statistic is kept; None for a value that has a dimension of its own, or that several programs have."""
    dims = [d for d in value.dims if d != ONE]
    items, sizes = [], []
    for axis, tile in enumerate(done.launch.ir.grid):
        name = done.env.tiles[tile]
        if dims and dims[0].tile == tile and dims[0].extent == done.launch.ir.tiles[tile].block:
            dims.pop(0)
            items.append((tile, ""))
        elif name.is_index and done.header.block_size(axis) is None:
            items.append((tile, ""))
        elif done.header.block_size(axis) == "1":
            items.append((tile, ".begin"))
        else:
            return None
        sizes.append(done.header.bound("end", axis))
    if dims or not done.header.begins_at_0:
        return None
    return Saved(number, value, shape=", ".join(sizes), index=tuple(items))


def held_by_results(call: Call) -> tuple[Saved, ...]:
    """The values that are results as they are, element by element and in their own dtype."""
    ids = {id(result): i for i, result in enumerate(call.results)}
    return tuple(
        Saved(number, op.inputs[0], ids[id(launch.tensors[AccessAttrs.of(op).tensor])], op)
        for number, launch in enumerate(call.launches)
        for op in launch.ir.body.ops
        if op.kind is OpKind.STORE and _holds(launch, op, ids) and isinstance(op.inputs[0], Value)
    )


def _holds(launch: Launch, op: Op, results: dict[int, int]) -> bool:
    attrs, value = AccessAttrs.of(op), op.inputs[0]
    if id(launch.tensors[attrs.tensor]) not in results or not isinstance(value, Value) or attrs.has_mask:
        return False
    plain = all(isinstance(item, TileIndex | SliceIndex) for item in attrs.index)
    is_as_wide = len(value.dims) == len(attrs.index) and ONE not in value.dims
    return plain and is_as_wide and value.type.dtype == launch.ir.tensor(attrs.tensor).dtype
