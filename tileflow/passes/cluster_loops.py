"""Shared loops: the turns of a loop dealt out to the blocks of a cluster, which put together what each of them has.

A product of few rows and columns that sums over many has few programs, each with many turns: 200 x 1000 x 2048 fills
half of 132 multiprocessors, and they run through 2048. So have the largest numbers of a few tall columns. Where all
that a loop hands from turn to turn are sums, products or extrema, block ``p`` of ``n`` takes the turns ``p``,
``p + n``, ``p + 2n`` ..., from what changes nothing each; behind the loop the first block puts all together
(:mod:`tileflow.emit.cluster_loops`), and does what is left of the program alone.

So nothing may be written, or seen, before the loop ends, and the loop is the only one: another one would be done by
every block, or by one while the others are done. (Splitting a product's inner dimension, as CUTLASS does by clusters or
in memory: "Stream-K", Osama et al., 2023, arXiv:2301.03598.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import InternalError
from ..expr import Expr
from ..ir.attributes import NO_ATTRS, Attrs, ClusterReduceAttrs, IfAttrs, LoopAttrs, PointwiseAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, Tile, once, uses, walk
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.ops import neutral
from ..ir.types import TileType, Value
from .folds import COMBINE
from .makers import function_of
from .rewrite import Fresh
from .roll import ROW, roll, rollable

SHARED = ("float32", "float64", "int32", "int64")  # that one instruction stores and one puts together
EXTREMA = ("max", "min")  # for which float64 has no instruction that keeps a NaN
_LOOPS = (OpKind.FOR, OpKind.WHILE)
# what a turn puts to what the one before it left, and the reduction by which blocks put theirs together
_REDUCED_BY = {put: fn for fn, put in COMBINE.items() if fn in ("sum", "prod", *EXTREMA)} | {"sub": "sum"}


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """A loop whose turns the blocks of a cluster may share. ``region``: which has the loop: the author's, or the one in
    which the reduction ``rolled`` is a loop, which it is not else."""

    region: KernelIR
    loop: Op
    rolled: str = ""

    @property
    def tile(self) -> str:
        """The loop's tile."""
        return TileAttrs.of(self.loop).tile


@once
def shared_loop(ir: KernelIR) -> SharedLoop | None:
    """The loop of a region whose turns the blocks of a cluster may share: its only one, or that of its only reduction,
    if that is rolled into one loop."""
    rolled = [site for site in rollable(ir) if not site.startswith(ROW)]
    loop = _loop(ir)
    if loop is not None:
        return None if refusal(ir, loop) else SharedLoop(ir, loop)
    if len(rolled) != 1:
        return None
    (site,) = rolled
    region = roll(ir, site)
    loop = _loop(region)
    return None if loop is None or refusal(region, loop) else SharedLoop(region, loop, site)


def share_in_cluster(ir: KernelIR, name: str, blocks: int) -> KernelIR:
    """The region with the turns of the loop over tile ``name`` dealt to so many blocks of a cluster. Raises
    InternalError where :func:`refusal` says why not."""
    loop = _loop(ir)
    reason = "there is no such loop" if loop is None or TileAttrs.of(loop).tile != name else refusal(ir, loop)
    if loop is None or reason:
        raise InternalError(
            "only a loop of sums and the like is shared by the blocks of a cluster", got=f"{name}: {reason}"
        )
    axis = Tile(f"{name}.part", Expr.of(1), Expr.of(0), Expr.of(blocks), is_grid=False, in_cluster=True)
    tiles = {**ir.tiles, name: replace(ir.tiles[name], dealt=axis.name), axis.name: axis}
    return replace(ir, tiles=tiles, body=_Shared(ir, loop, axis).body())


def refusal(ir: KernelIR, loop: Op) -> str:
    """Why the blocks of a cluster cannot share a loop's turns; empty where they can."""
    if ir.tiles[TileAttrs.of(loop).tile].lengths is not None:
        return "it is a jagged loop"
    if any(op.kind in _LOOPS for op in ir.walk() if op is not loop):
        return "it is not the launch's only loop"
    before = Block((), ir.body.ops[: ir.body.ops.index(loop)], ())
    for op in (*walk(before), *walk(loop.regions[0])):
        effects = effects_of(op)
        if effects.writes or effects.is_seen:
            return f"{op.kind} before its end would be done by every block"
    (body,) = loop.regions
    if not body.params:
        return "it carries nothing"
    for param, fn in zip(body.params, reductions(loop), strict=True):
        if param.type.dtype not in SHARED or not param.dims:
            return f"it carries {param.type}, which is no tile of {', '.join(SHARED)}"
        if not fn:
            return "a turn does more than add to what the one before it left, or multiply or bound it"
        if fn in EXTREMA and param.type.dtype == "float64":
            return f"it carries a {fn} of float64, for which no instruction keeps a NaN"
    return ""


def reductions(loop: Op) -> tuple[str, ...]:
    """By which reduction all turns of a loop make each number that it carries; empty where by none."""
    (body,) = loop.regions
    counts, readers = uses(body), {v: op for op in walk(body) for v in op.values}
    return tuple(_reduction(p, r, body, counts, readers) for p, r in zip(body.params, body.results, strict=True))


def _loop(ir: KernelIR) -> Op | None:
    """The first loop of a region, where it stands in no branch."""
    return next((op for op in ir.body.ops if op.kind is OpKind.FOR), None)


def _reduction(param: Value, result: Operand, body: Block, counts: dict[Value, int], readers: dict[Value, Op]) -> str:
    """The reduction of which a turn is a step, where nothing else happens to a carried value in it: a sum where nothing
    at all does; empty where more does."""
    value, own, found = param, {id(op) for op in body.ops}, set[str]()
    while value != result:
        op = readers.get(value)
        if op is None or counts.get(value) != 1 or id(op) not in own or len(op.outputs) != 1:
            return ""
        if op.kind is not OpKind.EXPAND or op.output.type.dtype != value.type.dtype:
            found.add(_put_by(op, value))
        value = op.output
    return (found or {"sum"}).pop() if len(found) <= 1 and counts.get(value) == 1 else ""


def _put_by(op: Op, value: Value) -> str:
    """The reduction by which an op gives ``value`` with something put to it, in the same dtype; empty for others."""
    if op.kind is OpKind.DOT:
        return "sum" if op.inputs[2:] == (value,) and op.output.type == value.type else ""
    if op.output.type != value.type or not isinstance(op.attrs, PointwiseAttrs) or op.attrs.operand != value.type.dtype:
        return ""
    fn = function_of(op)
    return "" if fn == "sub" and op.inputs[0] != value else _REDUCED_BY.get(fn, "")


class _Shared:
    """A region's ops with the loop's turns shared by the blocks along ``axis``."""

    def __init__(self, ir: KernelIR, loop: Op, axis: Tile) -> None:
        self._ir, self._loop, self._axis, self._fresh = ir, loop, axis, Fresh(ir)

    def body(self) -> Block:
        """What every block does, then the rest of the program in the first one."""
        ops, bounds = self._ir.body.ops, LoopAttrs.of(self._loop).bounds
        place = ops.index(self._loop)
        shared = list(ops[:place])
        entries = self._loop.inputs[bounds:]
        functions = reductions(self._loop)
        starts = tuple(self._start(shared, entry, fn) for entry, fn in zip(entries, functions, strict=True))
        parts = tuple(self._again(v) for v in self._loop.outputs)
        shared.append(self._loop.with_(inputs=(*self._loop.inputs[:bounds], *starts), outputs=parts))
        rest = list[Op]()
        for entry, start, part, out, fn in zip(entries, starts, parts, self._loop.outputs, functions, strict=True):
            total = out if start == entry else self._again(out)
            shared.append(self._op(OpKind.CLUSTER_REDUCE, (part,), total, ClusterReduceAttrs(fn)))
            if total != out:
                attrs = PointwiseAttrs(COMBINE[fn], out.type.dtype)
                rest.append(Op(OpKind.POINTWISE, (total, entry), (out,), attrs, (), self._loop.loc))
        rest += ops[place + 1 :]
        shared.append(self._in_first(shared, rest))
        return Block((), tuple(shared), ())

    def _start(self, ops: list[Op], entry: Operand, fn: str) -> Operand:
        """What leaves a reduction unchanged, in the place of what a loop begins with."""
        assert isinstance(entry, Value)  # a tile, as what the loop carries is
        maker = self._ir.definitions.get(entry)
        while maker is not None and maker.kind is OpKind.EXPAND:
            maker = self._ir.definitions.get(maker.values[0])
        nothing = neutral(fn, entry.type.dtype)
        if maker is not None and maker.kind is OpKind.FULL and maker.inputs[0] == nothing:
            return entry
        start = self._again(entry)
        ops.append(self._op(OpKind.FULL, (nothing,), start))
        return start

    def _in_first(self, ops: list[Op], rest: list[Op]) -> Op:
        """The branch that a cluster's first block takes."""
        number = self._fresh.value(TileType(self._axis.index_dtype, ()))
        is_first = self._fresh.value(TileType("bool", ()))
        ops.append(Op(OpKind.TILE_BEGIN, (), (number,), TileAttrs(self._axis.name), (), self._loop.loc))
        ops.append(Op(OpKind.POINTWISE, (number, 0), (is_first,), PointwiseAttrs("eq", number.type.dtype), ()))
        sides = Block((), tuple(rest), ()), Block((), (), ())
        return Op(OpKind.IF, (is_first,), (), IfAttrs(), sides, self._loop.loc)

    def _op(self, kind: OpKind, inputs: tuple[Operand, ...], out: Value, attrs: Attrs = NO_ATTRS) -> Op:
        return Op(kind, inputs, (out,), attrs, (), self._loop.loc)

    def _again(self, value: Value) -> Value:
        return self._fresh.value(value.type, value)
