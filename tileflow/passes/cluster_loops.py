"""Shared loops: which the blocks of a cluster may share, each of them some turns, and what they then put together.

A product of few rows and columns that sums over many has few programs, each with many turns: 200 x 1000 x 2048 fills
half of 132 multiprocessors, and they run through 2048. So have sums of a few tall columns, and what else is found in
one pass after the other: a variance, a softmax. Block ``p`` of ``n`` takes the turns ``p``, ``p + n``, ``p + 2n`` ...
of each loop. Where all that a loop hands from turn to turn are sums, products or extrema, or sums that are relative to
the largest number so far (:mod:`running`), the blocks put together what each of them has behind it; the lanes of a
whole dimension (:mod:`roll`), which the loop leaves for one reduction, are reduced in each block first, and what that
gives is put together.

So nothing may be written, or seen, before the last of them ends, but by turns that write each their own elements, in a
last loop. (Splitting a product's inner dimension, as CUTLASS does by clusters or in memory: "Stream-K", Osama et al.,
2023, arXiv:2301.03598.)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.attributes import PointwiseAttrs, ReduceAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, Op, Operand, once, uses, walk
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import effects_of
from ..ir.types import ONE, Dim, Value, is_float
from .folds import COMBINE, HALVES, folded
from .makers import function_of
from .roll import ROW, roll, rollable
from .running import made_of_carried, running
from .spread import meeting_turns

SHARED = ("float32", "float64", "int32", "int64")  # that one instruction stores and one puts together
EXTREMA = ("max", "min")  # for which float64 has no instruction that keeps a NaN
_BY_LANE = (OpKind.POINTWISE, OpKind.CAST, OpKind.UNSQUEEZE, OpKind.REDUCE)
_JOINED_AS = {"sum": "sum", "prod": "prod", "max": "max", "min": "min", "any": "max", "all": "min"}
# what a turn puts to what the one before it left, and the reduction by which blocks put theirs together
_REDUCED_BY = {put: fn for fn, put in COMBINE.items() if fn in ("sum", "prod", *EXTREMA)} | {"sub": "sum"}


@dataclass(frozen=True, slots=True)
class Joined:
    """What each block has a part of: what a loop carries, or a reduction of its lanes gives. ``fn``: the reduction by
    which blocks put theirs together. ``dtype``: in which they do. ``dims``: of the tile that they do it with."""

    value: Value
    fn: str
    dtype: str

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The value's, or of one element for a scalar."""
        return self.value.dims or (ONE,)


@dataclass(frozen=True, slots=True)
class SharedLoops:
    """Loops whose turns the blocks of a cluster may share. ``region``: which has the loops: the author's, or the one in
    which the reduction ``rolled`` is loops, which it is not else. ``joined``: in the order of the region."""

    region: KernelIR
    loops: tuple[Op, ...]
    joined: tuple[Joined, ...]
    rolled: str = ""

    @property
    def tiles(self) -> tuple[str, ...]:
        """The loops' tiles."""
        return tuple(TileAttrs.of(loop).tile for loop in self.loops)

    @property
    def tile(self) -> str:
        """The first loop's tile, by which the knob is called."""
        return self.tiles[0]


@once
def shared_loops(ir: KernelIR) -> SharedLoops | None:
    """The loops of a region whose turns the blocks of a cluster may share: all that it has, or those of its only
    reduction of a whole dimension, if that is rolled into loops."""
    rolled = [site for site in rollable(ir) if not site.startswith(ROW)]
    if any(op.kind is OpKind.FOR for op in ir.body.ops):
        found = plan(ir)
    elif len(rolled) == 1:
        found = plan(roll(ir, rolled[0]))
    else:
        return None
    return None if isinstance(found, str) else found


def plan(ir: KernelIR) -> SharedLoops | str:
    """What the blocks of a cluster share of a region, and put together; why they cannot share its loops, if so."""
    loops = tuple(op for op in ir.body.ops if op.kind is OpKind.FOR)
    reason = next((why for loop in loops if (why := _refusal(ir, loop))), "" if loops else "there is no loop")
    around = Block((), tuple(op for op in ir.body.ops if op.kind is not OpKind.FOR), ())
    turns = (op for loop in loops for op in walk(loop.regions[0]))
    if not reason and (any(op.kind in LOOPS for op in walk(around)) or any(op.kind is OpKind.WHILE for op in turns)):
        reason = "it has loops in branches, or of unknown turns"
    return reason or _Planned(ir, loops).result()


def reductions(loop: Op) -> tuple[str, ...]:
    """By which reduction all turns of a loop make each number that it carries; empty where by none."""
    (body,) = loop.regions
    counts, readers = uses(body), {v: op for op in walk(body) for v in op.values}
    made = made_of_carried(body)
    return tuple(_reduction(p, r, body, counts, readers, made) for p, r in zip(body.params, body.results, strict=True))


def put_together(loop: Op) -> tuple[str, ...]:
    """By which reduction blocks put together each number that a loop carries: what is relative to a running maximum,
    once it is relative to the largest one. Empty where by none."""
    found = list(reductions(loop))
    for its in running(loop):
        found[its.peak] = "max"
        for place in its.fades:
            found[place] = "sum"
    return tuple(found)


def is_put_off(op: Op) -> bool:
    """Whether an op between loops can be done behind the last one, by the first block: a store of what is known."""
    return op.kind is OpKind.STORE


def read_by(op: Op) -> set[Value]:
    """The values that an op, or what is inside of it, reads."""
    return {*op.values, *(v for region in op.regions for v in uses(region))}


def _refusal(ir: KernelIR, loop: Op) -> str:
    """Why blocks cannot share the turns of a loop, whatever it carries; empty where they can."""
    name, (body,) = TileAttrs.of(loop).tile, loop.regions
    if ir.tiles[name].lengths is not None:
        return "it is a jagged loop"
    if any(effects_of(op).is_seen for op in walk(body)):
        return "what a turn does is seen outside"
    writes = any(effects_of(op).writes for op in walk(body))
    if not body.params and not writes:
        return "it carries nothing"
    if not writes:
        return ""
    if body.params or loop is not [op for op in ir.body.ops if op.kind is OpKind.FOR][-1]:
        return f"{seen_of(loop)} before its end would be done by every block"
    return meeting_turns(ir, loop, name) or _written_behind(ir, loop)


def _written_behind(ir: KernelIR, loop: Op) -> str:
    """What the first block would write behind a loop that writes, for which no block waits."""
    read = {path for op in walk(loop.regions[0]) for path in effects_of(op).reads}
    behind = Block((), ir.body.ops[ir.body.ops.index(loop) + 1 :], ())
    for op in walk(behind):
        if any(not read.isdisjoint(ir.sharing(path)) for path in effects_of(op).writes):
            return f"{op.kind} behind it, of what other blocks' turns may still read"
    return ""


def _read_behind(ir: KernelIR, store: Op) -> bool:
    """Whether what a store writes is read behind it, which could then not be put off."""
    written = {path for its in effects_of(store).writes for path in ir.sharing(its)}
    behind = Block((), ir.body.ops[ir.body.ops.index(store) + 1 :], ())
    return any(not written.isdisjoint(effects_of(op).reads) for op in walk(behind))


class _Planned:
    """A region's ops in order: which values are lanes, of which each block has its own, and what is put together."""

    def __init__(self, ir: KernelIR, loops: tuple[Op, ...]) -> None:
        self._ir, self._loops = ir, loops
        self._site = rolled_site(ir, loops[0])
        self._lanes, self._joined = set[Value](), list[Joined]()

    def result(self) -> SharedLoops | str:
        """What is shared, or why nothing can be."""
        last, waiting = 0, list[tuple[int, OpKind]]()
        for place, op in enumerate(self._ir.body.ops):
            before = len(self._joined)
            reason = self._loop(op) if op.kind is OpKind.FOR else self._other(op)
            if reason:
                return reason
            if op.kind is OpKind.FOR or len(self._joined) > before:
                last = place
            elif (done := seen_of(op)) and not (self._site and self._joined and self._is_put_off(op)):
                waiting.append((place, done))
        for place, kind in waiting:
            if place < last:
                return f"{kind} before its end would be done by every block"
        if not self._joined:
            return "nothing is put together"
        return SharedLoops(self._ir, self._loops, tuple(self._joined), self._site)

    def _is_put_off(self, op: Op) -> bool:
        return is_put_off(op) and not _read_behind(self._ir, op)

    def _loop(self, loop: Op) -> str:
        if self._lanes & read_by(loop):
            return "a loop takes what each block has its own of"
        (body,) = loop.regions
        for out, param, fn in zip(loop.outputs, body.params, put_together(loop), strict=True):
            if self._site and lane_axis(param, self._site) is not None:
                self._lanes.add(out)
                continue
            reason = _carried(param, fn)
            if reason:
                return reason
            self._joined.append(Joined(out, fn, param.type.dtype))
        return ""

    def _other(self, op: Op) -> str:
        """An op between loops, or behind them all."""
        if not self._lanes & read_by(op):
            return ""
        if op.kind not in _BY_LANE or op.regions:
            return f"{op.kind} takes what each block has its own of"
        if op.kind is not OpKind.REDUCE or not _is_lanes(folded(op), self._site):
            self._lanes.update(op.outputs)
            return ""
        fn, dtype = _JOINED_AS.get(ReduceAttrs.of(op).fn, ""), joined_dtype(op)
        reason = _puts_together(op.output, fn, dtype)
        if not reason:
            self._joined.append(Joined(op.output, fn, dtype))
        return reason


def rolled_site(ir: KernelIR, loop: Op) -> str:
    """The site of the whole dimension that a loop is over blocks of (:mod:`roll`); empty for an author's loop."""
    tile = ir.tiles[TileAttrs.of(loop).tile]
    site = str(tile.block.args[0]) if tile.block.op == "sym" else ""
    return site if tile.name.startswith(f"{site}.") else ""


def lane_axis(value: Value, site: str) -> int | None:
    """The axis along which a loop over the dimension ``site`` carries lanes; None where there is none."""
    found = [axis for axis, dim in enumerate(value.dims) if _is_lanes(dim, site)]
    return found[0] if len(found) == 1 else None


def joined_dtype(op: Op) -> str:
    """In which dtype blocks put together what a reduction of lanes gives: half types as the lanes are, ints of few bits
    and bools as int32."""
    own, lanes = op.output.type.dtype, op.values[0].type.dtype
    if own in HALVES:
        return lanes
    return own if own in SHARED or is_float(own) else "int32"


def _is_lanes(dim: Dim | None, site: str) -> bool:
    return dim is not None and dim.tile is None and site in dim.extent.symbols()


def _carried(param: Value, fn: str) -> str:
    """Why blocks cannot put together what a loop carries; empty where they can."""
    if param.type.dtype not in SHARED or not param.dims:
        return f"it carries {param.type}, which is no tile of {', '.join(SHARED)}"
    if not fn:
        return (
            "a turn does more than add to what the one before it left, or multiply or bound it, or raise a maximum "
            "with what is relative to it"
        )
    return _puts_together(param, fn, param.type.dtype)


def _puts_together(value: Value, fn: str, dtype: str) -> str:
    if not fn or dtype not in SHARED:
        return f"blocks do not put together {value.type}"
    if fn in EXTREMA and dtype == "float64":
        return f"it carries a {fn} of float64, for which no instruction keeps a NaN"
    return ""


def seen_of(op: Op) -> OpKind | None:
    """What of an op, itself or inside of it, writes or is seen; None where nothing does."""
    inside = walk(Block((), (op,), ()))
    return next((o.kind for o in inside if effects_of(o).writes or effects_of(o).is_seen), None)


def _reduction(
    param: Value,
    result: Operand,
    body: Block,
    counts: dict[Value, int],
    readers: dict[Value, Op],
    made: frozenset[Value],
) -> str:
    """The reduction of which a turn is a step, where nothing else happens to a carried value in it: a sum where nothing
    at all does; empty where more does, or where what is put to it is ``made`` of what the loop carries."""
    value, own, found = param, {id(op) for op in body.ops}, set[str]()
    while value != result:
        op = readers.get(value)
        if op is None or counts.get(value) != 1 or id(op) not in own or len(op.outputs) != 1:
            return ""
        if any(v in made for v in op.values if v != value):
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
