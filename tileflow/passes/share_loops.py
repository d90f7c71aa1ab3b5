"""Sharing: the turns of loops dealt out to the blocks of a cluster, which put together what each of them has.

Which loops can be: :mod:`cluster_loops`. What each block goes on with, all blocks get; what is left of the program
behind the last loop the first block does alone (:mod:`tileflow.emit.cluster_loops`).
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import InternalError, Location
from ..expr import Expr
from ..ir.attributes import (
    NO_ATTRS,
    Attrs,
    ClusterReduceAttrs,
    IfAttrs,
    LoopAttrs,
    PointwiseAttrs,
    ReduceAttrs,
    TileAttrs,
)
from ..ir.graph import Block, KernelIR, Op, Operand, Tile
from ..ir.kinds import OpKind
from ..ir.ops import neutral
from ..ir.types import TileType, Value
from .cluster_loops import Joined, SharedLoops, is_put_off, plan, read_by, seen_of
from .folds import COMBINE
from .rewrite import Fresh, rename
from .running import Running, running


def share_in_cluster(ir: KernelIR, name: str, blocks: int) -> KernelIR:
    """The region with the turns of its loops, of which the first is over tile ``name``, dealt to so many blocks of a
    cluster. Raises InternalError where :func:`~.cluster_loops.plan` says why not."""
    found = plan(ir)
    if isinstance(found, str) or found.tile != name:
        reason = found if isinstance(found, str) else f"the first loop is over {found.tile}"
        raise InternalError(
            "only loops of sums and the like are shared by the blocks of a cluster", got=f"{name}: {reason}"
        )
    axis = Tile(f"{name}.part", Expr.of(1), Expr.of(0), Expr.of(blocks), is_grid=False, in_cluster=True)
    dealt = {tile: replace(ir.tiles[tile], dealt=axis.name) for tile in found.tiles}
    return replace(ir, tiles={**ir.tiles, **dealt, axis.name: axis}, body=_Shared(found, axis).body())


class _Shared:
    """A region's ops with the loops' turns shared by the blocks along ``axis``."""

    def __init__(self, found: SharedLoops, axis: Tile) -> None:
        self._ir, self._axis, self._fresh = found.region, axis, Fresh(found.region)
        self._joined = {joined.value: joined for joined in found.joined}
        ops, joined = self._ir.body.ops, self._joined.keys()
        ends = (i for i, op in enumerate(ops) if op.kind is OpKind.FOR or not joined.isdisjoint(op.outputs))
        self._shared_ops = ops[: max(ends) + 1]
        self._rest = ops[len(self._shared_ops) :]
        self._put_off = [op for op in self._shared_ops if op.kind is not OpKind.FOR and seen_of(op)]
        assert all(map(is_put_off, self._put_off))
        self._early = {v for op in self._shared_ops if all(op is not o for o in self._put_off) for v in read_by(op)}
        self._ops, self._late = list[Op](), list[Op]()

    def body(self) -> Block:
        """What every block does, then the rest of the program in the first one."""
        for op in self._shared_ops:
            if op.kind is OpKind.FOR:
                self._loop(op)
            elif op.outputs and op.outputs[0] in self._joined:
                self._lanes(op, self._joined[op.output])
            elif all(op is not other for other in self._put_off):
                self._ops.append(op)
        rest = (*self._late, *self._put_off, *self._rest)
        if any(map(seen_of, rest)):
            self._in_first(rest)
        return Block((), tuple(self._ops), ())

    def _loop(self, loop: Op) -> None:
        """A loop that begins, in each block, with what changes nothing, and what it leaves put together."""
        bounds = LoopAttrs.of(loop).bounds
        tops = [its for its in running(loop) if loop.outputs[its.peak] in self._joined]  # else each lane has its own
        starts, parts, later = list[Operand](), list[Value](), list[tuple[Joined, Value, Operand, Operand]]()
        relative = {loop.outputs[place] for its in tops for place in (its.peak, *its.fades)}
        for entry, out in zip(loop.inputs[bounds:], loop.outputs, strict=True):
            joined = self._joined.get(out)
            start = entry if joined is None else self._start(entry, joined, loop)
            starts.append(start if start == entry or out not in relative else self._start_of_first(entry, start, loop))
            parts.append(out if joined is None else self._again(out))
            if joined is not None and out not in relative:
                later.append((joined, parts[-1], entry, start))
        regions = (self._finite(loop.regions[0], tops),)
        self._ops.append(loop.with_(inputs=(*loop.inputs[:bounds], *starts), outputs=tuple(parts), regions=regions))
        for its in tops:
            self._join_relative(loop, its, parts)
        for joined, part, entry, start in later:
            out = joined.value
            total = out if start == entry else self._again(out)
            self._join(joined, part, total, loop)
            if total != out:
                attrs = PointwiseAttrs(COMBINE[joined.fn], out.type.dtype)
                self._behind(out).append(Op(OpKind.POINTWISE, (total, entry), (out,), attrs, (), loop.loc))

    def _finite(self, body: Block, tops: list[Running]) -> Block:
        """A turn that takes 0 for a largest number of -inf, since a block may find nothing else in its first turns:
        ``exp(-inf - -inf)`` is NaN."""
        for its in tops:
            dtype, ops = its.raised.type.dtype, list[Op]()
            is_none = self._fresh.value(replace(its.raised.type, dtype="bool"), its.raised)
            finite = self._again(its.raised)
            for op in body.ops:
                reads = its.raised in op.values
                inputs = tuple(finite if v == its.raised else v for v in op.inputs) if reads else op.inputs
                ops.append(op.with_(inputs=inputs) if reads else op)
                if its.raised in op.outputs:
                    test, choice = PointwiseAttrs("eq", dtype), PointwiseAttrs("where", dtype)
                    ops.append(self._op(OpKind.POINTWISE, (its.raised, neutral("max", dtype)), is_none, op, test))
                    ops.append(self._op(OpKind.POINTWISE, (is_none, 0.0, its.raised), finite, op, choice))
            body = Block(body.params, tuple(ops), body.results)
        return body

    def _join_relative(self, loop: Op, its: Running, parts: list[Value]) -> None:
        """The largest number of all blocks, which all have, and what each block has relative to its own one, times the
        factor of a turn that would raise the one to the other."""
        largest = loop.outputs[its.peak]
        self._ops.append(
            self._op(OpKind.CLUSTER_REDUCE, (parts[its.peak],), largest, loop, ClusterReduceAttrs("max", to_all=True))
        )
        renamed: dict[Value, Operand] = {loop.regions[0].params[its.peak]: parts[its.peak], its.raised: largest}
        for place, fade in its.fades.items():
            for op in its.fading(loop, place):
                if op.output not in renamed:
                    inputs = tuple(rename(v, renamed) for v in op.inputs)
                    again = self._again(op.output)
                    renamed[op.output] = again
                    self._ops.append(op.with_(inputs=inputs, outputs=(again,)))
            out, scaled = loop.outputs[place], self._again(loop.outputs[place])
            times = PointwiseAttrs("mul", out.type.dtype)
            factors = parts[place], rename(fade, renamed)
            self._ops.append(self._op(OpKind.POINTWISE, factors, scaled, loop, times))
            self._join(self._joined[out], scaled, out, loop)

    def _start_of_first(self, entry: Operand, start: Operand, loop: Op) -> Value:
        """What the first block begins with, which has what the author's loop does."""
        assert isinstance(entry, Value)
        out, choice = self._again(entry), PointwiseAttrs("where", entry.type.dtype)
        self._ops.append(self._op(OpKind.POINTWISE, (self._is_first(loop.loc), entry, start), out, loop, choice))
        return out

    def _is_first(self, loc: Location | None) -> Value:
        """Whether the block is the first one of its cluster."""
        number = self._fresh.value(TileType(self._axis.index_dtype, ()))
        is_first = self._fresh.value(TileType("bool", ()))
        self._ops.append(Op(OpKind.TILE_BEGIN, (), (number,), TileAttrs(self._axis.name), (), loc))
        self._ops.append(Op(OpKind.POINTWISE, (number, 0), (is_first,), PointwiseAttrs("eq", number.type.dtype), ()))
        return is_first

    def _lanes(self, op: Op, joined: Joined) -> None:
        """A reduction of each block's lanes, and what all of them give together."""
        out, dtype = op.output, joined.dtype
        is_wider = dtype == op.values[0].type.dtype  # half types, of which lanes are wider
        part = self._made(TileType(dtype if is_wider else out.type.dtype, out.dims), op)
        self._ops.append(op.with_(outputs=(part,)))
        for kind, type_ in ((OpKind.CAST, TileType(dtype, out.dims)), (OpKind.FULL, TileType(dtype, joined.dims))):
            if part.type != type_:
                part, given = self._made(type_, op), part
                self._ops.append(self._op(kind, (given,), part, op))
        total = out if out.type == part.type else self._made(part.type, op)
        self._join(joined, part, total, op)
        if total.dims != out.dims:
            one, total = total, out if out.type.dtype == dtype else self._made(TileType(dtype, ()), op)
            self._behind(out).append(self._op(OpKind.REDUCE, (one,), total, op, ReduceAttrs(0, joined.fn, "")))
        if total != out:
            self._behind(out).append(self._op(OpKind.CAST, (total,), out, op))

    def _join(self, joined: Joined, part: Value, total: Value, like: Op) -> None:
        attrs = ClusterReduceAttrs(joined.fn, joined.value in self._early)
        self._ops.append(self._op(OpKind.CLUSTER_REDUCE, (part,), total, like, attrs))

    def _behind(self, value: Value) -> list[Op]:
        """Where ops that make ``value`` go: to what every block does, if anything there reads it."""
        return self._ops if value in self._early else self._late

    def _start(self, entry: Operand, joined: Joined, loop: Op) -> Operand:
        """What leaves a reduction unchanged, in the place of what a loop begins with."""
        assert isinstance(entry, Value)  # a tile, as what the loop carries is
        maker = self._ir.definitions.get(entry)
        while maker is not None and maker.kind is OpKind.EXPAND:
            maker = self._ir.definitions.get(maker.values[0])
        nothing = neutral(joined.fn, entry.type.dtype)
        if maker is not None and maker.kind is OpKind.FULL and maker.inputs[0] == nothing:
            return entry
        start = self._again(entry)
        self._ops.append(self._op(OpKind.FULL, (nothing,), start, loop))
        return start

    def _in_first(self, rest: tuple[Op, ...]) -> None:
        """The branch that a cluster's first block takes."""
        loc = next(op.loc for op in self._shared_ops if op.kind is OpKind.FOR)
        sides = Block((), rest, ()), Block((), (), ())
        self._ops.append(Op(OpKind.IF, (self._is_first(loc),), (), IfAttrs(), sides, loc))

    def _op(self, kind: OpKind, inputs: tuple[Operand, ...], out: Value, like: Op, attrs: Attrs = NO_ATTRS) -> Op:
        return Op(kind, inputs, (out,), attrs, (), like.loc)

    def _made(self, type_: TileType, like: Op) -> Value:
        return self._fresh.value(type_, like.output)

    def _again(self, value: Value) -> Value:
        return self._fresh.value(value.type, value)
