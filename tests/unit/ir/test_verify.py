"""The verifier refuses each planted mistake for its own reason, and the passes run it where the environment says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import passes
from tileflow.emit import kernel as emitter  # noqa: F401  registers the text of every kind
from tileflow.emit.table import TRITON
from tileflow.errors import InternalError
from tileflow.expr import Expr
from tileflow.ir.attributes import (
    NO_ATTRS,
    AxisAttrs,
    DotAttrs,
    LoadAttrs,
    LoopAttrs,
    PermuteAttrs,
    PointwiseAttrs,
    ReshapeAttrs,
    StoreAttrs,
    TileAttrs,
    WhereMaskAttrs,
)
from tileflow.ir.graph import Block, KernelIR, Op, TileIndex, ValueIndex
from tileflow.ir.kinds import OpKind
from tileflow.ir.op_table import OPS
from tileflow.ir.types import ONE, Dim, TileType, Value
from tileflow.ir.verify import verify
from tileflow.target import target

K = OpKind


def product(a, b, bias):
    m, k = a.shape
    n = b.size(1)
    out = a.new_empty(m, n)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, a[tile_m, tile_k], b[tile_k, tile_n])
        out[tile_m, tile_n] = (acc + bias[tile_n]).to(out.dtype)
    return out


def rows(x, flag):
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :].float()
        if flag[0] > 0:
            row = row.exp()
        total = tfl.associative_scan(lambda a, b: a + b, row, 1)
        out[tile] = (total.t().sum(0) + tile.index).to(x.dtype)
    return out


def region(function: Callable[..., Any], *args: Any) -> KernelIR:
    (ir,) = tileflow.kernel(function).lower(args, target("nvidia-h200"), mode="static").regions
    return ir


def meta(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.fixture(scope="module")
def regions() -> dict[str, KernelIR]:
    flag = torch.empty(1, dtype=torch.int32, device="meta")
    return {"product": region(product, meta(100, 70), meta(70, 90), meta(90)), "rows": region(rows, meta(50, 30), flag)}


# ---- planting -----------------------------------------------------------------------------------

Change = Callable[[KernelIR, Op], Op | tuple[Op, ...]]


def planted(ir: KernelIR, kind: OpKind, change: Change) -> KernelIR:
    """The region with its first op of a kind changed."""
    first = next(op for op in ir.walk() if op.kind is kind)

    def visit(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            if op is first:
                changed = change(ir, op)
                ops += changed if isinstance(changed, tuple) else (changed,)
            else:
                ops.append(op.with_(regions=tuple(map(visit, op.regions))))
        return Block(block.params, tuple(ops), block.results)

    return replace(ir, body=visit(ir.body))


def attrs(**changes: Any) -> Change:
    return lambda ir, op: op.with_(attrs=replace(op.attrs, **changes))


def inputs(*positions: int) -> Change:
    return lambda ir, op: op.with_(inputs=tuple(op.inputs[p] for p in positions))


def typed(dtype: str = "", dims: tuple[Dim, ...] | None = None) -> Change:
    """The op with an output of another type, and nobody who reads it told."""

    def change(ir: KernelIR, op: Op) -> Op:
        out = op.output
        return op.with_(outputs=(Value(out.id, TileType(dtype or out.type.dtype, out.dims if dims is None else dims)),))

    return change


def block(**changes: Any) -> Change:
    """The op with its first region changed."""

    def change(ir: KernelIR, op: Op) -> Op:
        first, *others = op.regions
        return op.with_(regions=(replace(first, **{n: f(first) for n, f in changes.items()}), *others))

    return change


def fresh(ir: KernelIR, like: Value) -> Value:
    return Value(ir.next_id, like.type)


def indices(name: str) -> Change:
    """The indices of a tile in front of the op."""

    def change(ir: KernelIR, op: Op) -> tuple[Op, ...]:
        out = Value(ir.next_id, TileType("int32", (ir.tiles[name].dim,)))
        return Op(K.TILE_INDEX, (), (out,), TileAttrs(name)), op

    return change


def of_row(ir: KernelIR, op: Op) -> Op:
    return typed(dims=(replace(op.output.dims[0], tile="row"),))(ir, op)


def swapped(ir: KernelIR, op: Op) -> Op:
    """A load by a tile and a value that is no index."""
    index = LoadAttrs.of(op).index
    return op.with_(attrs=replace(op.attrs, index=(ValueIndex(3, ()), *index[1:])))


def inside_first(ir: KernelIR, op: Op) -> tuple[Op, ...]:
    """What a loop's body loads, used after the loop."""
    value = op.regions[0].ops[0].output
    return op, Op(K.CAST, (value,), (fresh(ir, value),))


@dataclass(frozen=True)
class Mistake:
    kernel: str
    kind: OpKind
    change: Change
    rule: str


MISTAKES = {
    # SSA and dominance
    "undefined": Mistake("product", K.CAST, lambda ir, op: op.with_(inputs=(Value(9999, op.output.type),)),
                         "an operand is defined before it and around it, but got %9999"),
    "from inside": Mistake("product", K.FOR, inside_first, "that is defined elsewhere"),
    "twice": Mistake("product", K.CAST, lambda ir, op: (op, op), "a value is defined once"),
    "later": Mistake("product", K.LOAD, lambda ir, op: (Op(K.CAST, (op.output,), (fresh(ir, op.output),)), op),
                     "is defined before it and around it"),
    "stale type": Mistake("product", K.LOAD, lambda ir, op: typed("int8")(ir, op), "gives the tensor's dtype"),
    "stale use": Mistake("rows", K.CAST, typed("float64"), "has the type of its definition"),
    "text": Mistake("product", K.FULL, lambda ir, op: op.with_(inputs=("0",)), "is a value or a number"),
    # the table's columns
    "kind": Mistake("product", K.CAST, lambda ir, op: replace(op, kind="cast"), "kind is an OpKind, but got str"),
    "attributes": Mistake("product", K.DOT, lambda ir, op: op.with_(attrs=NO_ATTRS), "its attributes are DotAttrs"),
    "inputs": Mistake("product", K.DOT, inputs(0), "it takes a, b, an optional acc, but got 1 inputs"),
    "outputs": Mistake("product", K.CAST, lambda ir, op: op.with_(outputs=()), "it has 1 outputs, but got 0"),
    "regions": Mistake("product", K.FOR, lambda ir, op: op.with_(regions=()), "it has (1,) regions, but got 0"),
    # signatures
    "tensor": Mistake("product", K.LOAD, attrs(tensor="c"), "an access names a tensor of the region, but got c"),
    "rank": Mistake("product", K.LOAD, attrs(index=()), "an item for each dimension of the tensor"),
    "lanes": Mistake("product", K.LOAD, attrs(index=(TileIndex("tile_m", 1), TileIndex("tile_k", 0))),
                     "a tile has the lanes of its axis"),
    "index value": Mistake("product", K.LOAD, swapped, "an index value is an input after the written ones, but got 3"),
    "mask": Mistake("product", K.STORE, attrs(has_mask=True), "a mask is of bools"),
    "function": Mistake("product", K.POINTWISE, attrs(fn="plus"), "a row of POINTWISE, but got plus"),
    "arity": Mistake("product", K.POINTWISE, attrs(fn="exp"), "exp takes 1 operands, but got 2"),
    "lanes that meet": Mistake("product", K.POINTWISE, typed(dims=(Dim(Expr.of(7)), Dim(Expr.of(9)))),
                               "operands broadcast to the output's dimensions"),
    "bools": Mistake("product", K.POINTWISE, attrs(fn="lt"), "lt gives bools"),
    "cast": Mistake("product", K.CAST, typed(dims=(ONE,)), "the output has the input's dimensions"),
    "product": Mistake("product", K.DOT, lambda ir, op: op.with_(inputs=(op.inputs[1], op.inputs[0], op.inputs[2])),
                       "a's columns are as many as b's rows"),
    "accumulator": Mistake("product", K.DOT, typed("float64"), "the accumulator has the product's type"),
    "sum's dtype": Mistake("product", K.DOT, lambda ir, op: op.with_(attrs=replace(DotAttrs.of(op), acc="half")),
                           "a product is summed in a dtype, but got half"),
    "inserted": Mistake("product", K.UNSQUEEZE, attrs(axis=1), "the inserted dimension has the extent 1"),
    "axis": Mistake("rows", K.REDUCE, attrs(axis=2), "the axis is one of the dimensions, but got 2"),
    "reduction": Mistake("rows", K.REDUCE, attrs(fn="mean"), "a row of NEUTRAL, but got mean"),
    "reduced": Mistake("rows", K.REDUCE, attrs(axis=1), "the dimensions but the reduced one"),
    "sum of bools": Mistake("rows", K.REDUCE, typed("bool"), "sums and products are of numbers"),
    "order": Mistake("rows", K.PERMUTE, attrs(order=(0, 0)), "an order names each dimension once"),
    "permuted": Mistake("rows", K.PERMUTE, lambda ir, op: op.with_(attrs=PermuteAttrs((0, 1))), "in that order"),
    "masked axes": Mistake("rows", K.LOAD, lambda ir, op: (op, Op(
        K.WHERE_MASK, (op.output, 0), (fresh(ir, op.output),), WhereMaskAttrs((2,)))), "the axes are among the dim"),
    "reshape": Mistake("rows", K.LOAD, lambda ir, op: (op, Op(
        K.RESHAPE, (op.output,), (Value(ir.next_id, TileType("float16", (Dim(Expr.of(7)),))),), ReshapeAttrs())),
        "a reshape keeps the number of elements"),
    "tile's dtype": Mistake("rows", K.TILE_INDEX, typed("int64"), "of its index dtype, but got int64"),
    # regions
    "carried": Mistake("product", K.FOR, inputs(), "carries as many values in, around and out, but got 0, 1, 1"),
    "bounds": Mistake("product", K.FOR, attrs(bounds=1), "a loop reads its tile's bounds first"),
    "grid": Mistake("product", K.FOR, attrs(tile="tile_m"), "a loop's tile is none of the grid's, but got tile_m"),
    "no result": Mistake("product", K.FOR, block(results=lambda b: ()), "gives a value for each result, but got 0, 1"),
    "wrong result": Mistake("product", K.FOR, block(results=lambda b: (b.ops[0].output,)),
                            "what a region gives has the result's type"),
    "arguments": Mistake("rows", K.IF, block(params=lambda b: (Value(999, TileType("int32")),)),
                         "a branch's sides take no arguments"),
    "nobody answers": Mistake("rows", K.IF, inputs(), "the kernel or the config answers a branch"),
    "combined": Mistake("rows", K.COMBINE_SCAN, block(params=lambda b: b.params[:1]),
                        "the region takes two scalars of each input's dtype"),
    # tiles and effects
    "closed loop": Mistake("product", K.STORE, indices("tile_k"), "a tile is read inside its loop, but got tile_k"),
    "unknown tile": Mistake("rows", K.TILE_INDEX, attrs(tile="row"), "names one of the region, but got row"),
    "unknown dim": Mistake("rows", K.REDUCE, of_row, "a dimension's tile is one of the region's, but got row"),
    "effect": Mistake("rows", K.COMBINE_SCAN, block(ops=lambda b: (*b.ops, Op(
        K.STORE, (0.0,), (), StoreAttrs("out", (), "", False)))), "in the region of combine_scan has no effect"),
    "no scalar": Mistake("rows", K.COMBINE_SCAN, block(ops=lambda b: (*b.ops, Op(
        K.ARANGE, (), (Value(998, TileType("int32", (Dim(Expr.of(4)),))),)))), "computes with scalars"),
    "from outside": Mistake("rows", K.COMBINE_SCAN, block(ops=lambda b: (*b.ops, Op(
        K.CAST, (Value(0, b.params[0].type),), (Value(997, TileType("float16")),)))), "before it and around it"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_refused_for_its_own_reason(name: str, regions: dict[str, KernelIR]) -> None:
    its = MISTAKES[name]
    ir = regions[its.kernel]
    verify(ir)
    with pytest.raises(InternalError) as refused:
        verify(planted(ir, its.kind, its.change), "planting")
    error = refused.value
    assert its.rule in str(error)
    assert "region 0" in str(error) and "after planting" in str(error), "the place"
    assert error.constraint.partition(":")[0] in set(OpKind) or "region" in error.constraint, "the op"


def test_a_region_is_checked_as_a_whole(regions: dict[str, KernelIR]) -> None:
    ir = regions["product"]
    tile = ir.tiles["tile_m"]
    broken = {
        "the grid is of tiles of the region, but got ('tile_m', 'tile_x')": replace(ir, grid=("tile_m", "tile_x")),
        "a captured tensor is one parameter": replace(ir, tensors=(*ir.tensors, ir.tensors[0])),
        "a tile is found by its name, but got tile_m, x": replace(
            ir, tiles={**ir.tiles, "tile_m": replace(tile, name="x")}
        ),
        "the grid's tiles, and no others, say so": replace(
            ir, tiles={**ir.tiles, "tile_m": replace(tile, is_grid=False)}
        ),
        "a stride for each dimension": replace(ir, tensors=tuple(replace(t, strides=()) for t in ir.tensors)),
        "a region takes and gives nothing": replace(ir, body=replace(ir.body, params=(Value(999, TileType("int32")),))),
    }
    for rule, region in broken.items():
        with pytest.raises(InternalError) as refused:
            verify(region)
        assert rule in str(refused.value) and "as traced" in str(refused.value)


# ---- the passes and the table -------------------------------------------------------------------


def test_each_pass_is_followed_by_the_verifier(monkeypatch: pytest.MonkeyPatch, regions: dict[str, KernelIR]) -> None:
    """The first pass that gives a region which does not hold is named; in production nobody looks."""

    def careless(ir: KernelIR) -> KernelIR:
        return planted(ir, K.DOT, attrs(acc="half"))

    monkeypatch.setattr(passes, "PREPARE", (*passes.PREPARE[:2], careless, *passes.PREPARE[2:]))
    with pytest.raises(InternalError, match="after careless"):
        passes.prepare(regions["product"])
    monkeypatch.delenv(passes.VERIFY)
    passes.prepare(regions["product"])


def test_each_kind_is_one_row() -> None:
    assert list(OPS) == list(OpKind), "rows in the order of the kinds"
    assert TRITON.kinds == set(OpKind), "and a text for each"
    assert not set(OPS) - {row.kind for row in OPS.values()}


def test_attributes_say_which_op_has_others(regions: dict[str, KernelIR]) -> None:
    load = next(op for op in regions["rows"].walk() if op.kind is K.LOAD)
    assert LoadAttrs.of(load) is load.attrs
    with pytest.raises(InternalError, match="an op of kind load has PointwiseAttrs, but got LoadAttrs"):
        PointwiseAttrs.of(load)
    for wrong in (AxisAttrs, LoopAttrs):
        with pytest.raises(InternalError):
            wrong.of(load)
