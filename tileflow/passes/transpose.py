"""Transposed products: ``(b.T @ a.T).T`` for ``a @ b`` where ``b`` is computed and ``a`` as it was loaded.

Hopper's warp groups read the left operand from registers or from shared memory, the right one from shared memory only.
What was made in registers is then best the left operand; what a copy brought into shared memory does as the right one.
The accumulator is carried transposed, and turned back once after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ..ir.attributes import LoopAttrs, PermuteAttrs, site_of
from ..ir.graph import Block, KernelIR, Op, once
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import TileType, Value, itemsize
from .rewrite import Fresh, with_body

_Item = TypeVar("_Item")
_SWAPPED = PermuteAttrs((1, 0))
_AS_LOADED = having(Trait.AS_LOADED)


@once
def transposable(ir: KernelIR) -> dict[str, Op]:
    """The products that can be transposed, by site. They are of two dimensions and of halves, and are added up over a
    loop that does nothing else with the sum; the left operand is as it was loaded, and the right one is not."""
    makers = ir.definitions
    counts = ir.uses
    return {
        site_of(op): op
        for loop in ir.walk()
        if loop.kind is OpKind.FOR
        for op in loop.regions[0].ops
        if op.kind is OpKind.DOT and _place(loop, op) is not None and _is_plain(op, counts) and _gains(op, makers)
    }


def transpose(ir: KernelIR, site: str) -> KernelIR:
    """The region with the product ``site`` (one of :func:`transposable`) transposed."""
    product = transposable(ir)[site]
    fresh = Fresh(ir)

    def visit(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if op.kind is OpKind.FOR and any(inner is product for inner in op.regions[0].ops):
                ops += _transposed(op, product, fresh)
            else:
                ops.append(op.with_(regions=tuple(visit(r) for r in op.regions)) if op.regions else op)
        return Block(block.params, tuple(ops), block.results)

    return with_body(ir, visit(ir.body))


def is_loaded(operand: Value, makers: Mapping[Value, Op]) -> bool:
    """Whether an operand comes from memory as it is, and not by way of arithmetic in registers."""
    while operand in makers and makers[operand].kind in _AS_LOADED:
        (operand, *_) = makers[operand].values
    return operand in makers and makers[operand].kind is OpKind.LOAD


def _place(loop: Op, product: Op) -> int | None:
    """Which of a loop's carried values a product adds to and nothing else."""
    body = loop.regions[0]
    found = [n for n, p in enumerate(body.params) if product.inputs[2:] == (p,) and body.results[n] == product.output]
    return found[0] if len(found) == 1 else None


def _is_plain(product: Op, counts: Mapping[Value, int]) -> bool:
    once = all(counts[v] == 1 for v in (*product.values[2:], product.output))
    return once and all(len(v.dims) == 2 and itemsize(v.type.dtype) == 2 for v in product.values[:2])


def _gains(product: Op, makers: Mapping[Value, Op]) -> bool:
    left, right = product.values[:2]
    return is_loaded(left, makers) and not is_loaded(right, makers)


def _transposed(loop: Op, product: Op, fresh: Fresh) -> list[Op]:
    (body,) = loop.regions
    place = _place(loop, product)
    assert place is not None

    def turned(value: Value) -> Value:
        return fresh.value(TileType(value.type.dtype, value.dims[::-1]), value)

    def permute(value: Value, out: Value) -> Op:
        return Op(OpKind.PERMUTE, (value,), (out,), _SWAPPED, (), loop.loc)

    start = loop.inputs[LoopAttrs.of(loop).bounds + place]
    assert isinstance(start, Value)
    entry, total, result, param = (turned(v) for v in (start, product.output, loop.outputs[place], body.params[place]))
    left, right = (turned(v) for v in product.values[1::-1])
    inner: list[Op] = []
    for op in body.ops:
        if op is product:
            inner += [permute(product.values[1], left), permute(product.values[0], right)]
            op = op.with_(inputs=(left, right, param), outputs=(total,))
        inner.append(op)
    inside = Block(_with(body.params, place, param), tuple(inner), _with(body.results, place, total))
    inputs = _with(loop.inputs, LoopAttrs.of(loop).bounds + place, entry)
    outputs = _with(loop.outputs, place, result)
    return [
        permute(start, entry),
        loop.with_(inputs=inputs, outputs=outputs, regions=(inside,)),
        permute(result, loop.outputs[place]),
    ]


def _with(items: tuple[_Item, ...], place: int, item: _Item) -> tuple[_Item, ...]:
    return (*items[:place], item, *items[place + 1 :])
