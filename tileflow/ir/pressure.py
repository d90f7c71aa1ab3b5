"""Register pressure: how many tiles of the largest rank are alive at once, and which are while a product is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .graph import Block, KernelIR, Op, once, walk
from .kinds import OpKind
from .reach import readers
from .types import Dim, Value


@once
def on_the_way(ir: KernelIR) -> frozenset[Value]:
    """The tiles that are loaded to be split, and those that are joined to be stored: registers hold their parts, of
    which none has all the elements."""
    loaded, joined = set[Value](), set[Value]()
    for op in ir.walk():
        if op.kind is OpKind.LOAD or (op.kind in (OpKind.RESHAPE, OpKind.SPLIT) and op.inputs[0] in loaded):
            loaded.update(v for v in op.outputs if _is_only_for(readers(ir), v, OpKind.SPLIT))
        if op.kind is OpKind.JOIN or (op.kind is OpKind.RESHAPE and op.inputs[0] in joined):
            joined.update(v for v in op.outputs if _is_only_for(readers(ir), v, OpKind.STORE))
    return frozenset(loaded | joined)


def _is_only_for(ops: Mapping[Value, Sequence[Op]], value: Value, kind: OpKind) -> bool:
    """Whether all that is made of a tile, by way of reshapes and joins, is for ops of a kind."""
    through = (OpKind.RESHAPE,) if kind is OpKind.SPLIT else (OpKind.RESHAPE, OpKind.JOIN)
    found = ops.get(value, ())
    return bool(found) and all(
        op.kind is kind or (op.kind in through and _is_only_for(ops, op.output, kind)) for op in found
    )


def live_tiles(ir: KernelIR) -> int:
    """The most values of the region's largest rank that are alive between two ops, whatever the config; the most lanes
    that a loop carries where those are more (:mod:`tileflow.passes.lane_sums`).

    Scheduling and what the assembler computes anew change the number; it is a guide for a first choice of block sizes.
    """
    values = [v for op in walk(ir.body) for v in op.outputs if v not in on_the_way(ir)]
    rank = max((len(v.dims) for v in values), default=0)
    lanes = _lanes(ir) | on_the_way(ir)
    carried = (len(_lanes(ir) & {*region.params}) for op in walk(ir.body) for region in op.regions)
    return max(_most(ir.body, rank, set(), lanes), max(carried, default=0)) if rank else 0


def live_rows(ir: KernelIR, dim: Dim) -> int:
    """The most values that have the dimension, whatever others they have, that are alive at once."""
    return _rows(ir.body, dim, set())


def _rows(block: Block, dim: Dim, outer: set[Value]) -> int:
    last = {v: n for n, op in enumerate(block.ops) for v in _reads(op)}
    last |= {v: len(block.ops) for v in block.results if isinstance(v, Value)}
    alive = outer | {p for p in block.params if dim in p.dims}
    most = len(alive)
    for n, op in enumerate(block.ops):
        most = max(most, *(_rows(region, dim, alive) for region in op.regions), 0)
        alive = alive | {v for v in op.outputs if dim in v.dims and v in last}
        most = max(most, len(alive))
        alive = {v for v in alive if v in outer or last.get(v, -1) > n}
    return most


def _lanes(ir: KernelIR) -> set[Value]:
    """The values that have lanes of an author's block outside the loop that these are of."""
    blocks = {block.name for block in ir.blocks}
    regions = [ir.body, *(region for op in walk(ir.body) for region in op.regions)]
    values = (v for region in regions for v in (*region.params, *(v for op in region.ops for v in op.outputs)))
    return {v for v in values if any(d.tile is None and d.extent.symbols() & blocks for d in v.dims)}


def beside_products(ir: KernelIR) -> list[tuple[Value, ...]]:
    """The tiles alive with each product: itself and the others of two dimensions or more. Loaded ones are left out:
    operands wait in shared memory."""
    loaded = {op.output for op in walk(ir.body) if op.kind is OpKind.LOAD}
    for op in walk(ir.body):
        if op.kind is OpKind.PERMUTE and op.inputs[0] in loaded:
            loaded.add(op.output)
    return [tuple(v for v in alive if len(v.dims) > 1 and v not in loaded) for alive in _alive(ir.body, set())]


def _alive(block: Block, outer: set[Value]) -> Iterator[set[Value]]:
    last = {v: n for n, op in enumerate(block.ops) for v in _reads(op)}
    last |= {v: len(block.ops) for v in block.results if isinstance(v, Value)}
    alive = set(block.params)
    for n, op in enumerate(block.ops):
        alive = {v for v in alive if last.get(v, -1) > n}
        for region in op.regions:
            yield from _alive(region, outer | alive)
        alive |= set(op.outputs)
        if op.kind is OpKind.DOT:
            yield outer | alive


def _most(block: Block, rank: int, outer: set[Value], lanes: set[Value]) -> int:
    last = {v: n for n, op in enumerate(block.ops) for v in _reads(op)}
    last |= {v: len(block.ops) for v in block.results if isinstance(v, Value)}
    alive = outer | {p for p in block.params if len(p.dims) == rank and p not in lanes}
    most = len(alive)
    for n, op in enumerate(block.ops):
        for region in op.regions:
            most = max(most, _most(region, rank, alive, lanes))
        alive |= {v for v in op.outputs if len(v.dims) == rank and v in last and v not in lanes}
        most = max(most, len(alive))
        alive = {v for v in alive if v in outer or last.get(v, -1) > n}
    return most


def _reads(op: Op) -> list[Value]:
    inner = [v for region in op.regions for o in walk(region) for v in o.values]
    results = [v for region in op.regions for v in region.results if isinstance(v, Value)]
    return [*op.values, *inner, *results]
