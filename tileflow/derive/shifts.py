"""Peaks that are subtracted for range alone: no gradient flows through them.

``exp(x - max(x))`` divided by its sum is the same whatever number stands in the place of ``max(x)``. To see that, each
value is followed while a peak is moved by c: it may move by ``a c``, or be multiplied by ``exp(k c)``. Where neither
happens to anything that a region writes, the peak counts as a constant.

A loop may keep sums relative to a running peak (Milakov and Gimelshein, 2018, arXiv:1805.02867): each turn multiplies
them by ``exp(old - new)``. They are what they would be had each turn known the last peak, and are differentiated so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ir.attributes import FoldAttrs, LoopAttrs, PointwiseAttrs
from ..ir.graph import Block, KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Value


class _Unknown(Exception):
    """A value moves in a way that is not followed."""


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of a value when the peak moves by c: ``value * exp(times * c) + plus * c``."""

    plus: float = 0.0
    times: float = 0.0


STILL = Move()
Moves = dict[Value, Move]
_SAME = (
    OpKind.UNSQUEEZE,
    OpKind.SQUEEZE,
    OpKind.PERMUTE,
    OpKind.EXPAND,
    OpKind.RESHAPE,
    OpKind.FULL,
    OpKind.CAST,
    OpKind.WHERE_MASK,
    OpKind.JOIN,
    OpKind.SPLIT,
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """``constant``: values through which no gradient flows. ``running``: of loops that keep sums relative to a peak,
    the values in a turn that are the new peak. ``rescaled``: the products by which those sums follow the peak, with
    the sum in each."""

    constant: frozenset[Value]
    running: Mapping[Value, tuple[Value, ...]]
    rescaled: Mapping[Value, Value]


@dataclass(slots=True)
class _Found:
    constant: set[Value] = field(default_factory=set)
    running: dict[Value, tuple[Value, ...]] = field(default_factory=dict)
    rescaled: dict[Value, Value] = field(default_factory=dict)


def peaks(ir: KernelIR) -> Peaks:
    """The peaks of a region that count as constants."""
    found = _Found()
    for op in ir.walk():
        if op.kind is OpKind.REDUCE and FoldAttrs.of(op).fn in ("max", "min"):
            if _leaves_still(ir, {op.output: Move(plus=1.0)}):
                found.constant.add(op.output)
        elif op.kind is OpKind.FOR:
            _running(ir, op, found)
    return Peaks(frozenset(found.constant), found.running, found.rescaled)


def _leaves_still(ir: KernelIR, roots: Moves) -> bool:
    """Whether nothing that the region writes moves when ``roots`` do."""
    try:
        _block(ir.body, dict(roots), frozenset(roots))
    except _Unknown:
        return False
    return True


def _running(ir: KernelIR, op: Op, found: _Found) -> None:
    """Whether a loop keeps sums relative to a running peak, and nothing outside depends on that peak."""
    (body,) = op.regions
    for n, (param, result) in enumerate(zip(body.params, body.results, strict=True)):
        made, same = _made(ir, result)
        if made is None or PointwiseAttrs.of(made).fn != "maximum":
            continue
        if param not in made.inputs:
            continue
        sums = _relative(ir, body, n, made.output)
        if sums is None:
            continue
        after = {op.outputs[n]: Move(plus=1.0)} | {op.outputs[i]: Move(times=k) for i, (k, _) in sums.items()}
        if _leaves_still(ir, after):
            found.constant |= {op.outputs[n], param, *same}
            found.running[op.outputs[n]] = same
            found.rescaled.update({product: body.params[i] for i, (_, product) in sums.items()})


def _made(ir: KernelIR, x: Operand) -> tuple[Op | None, tuple[Value, ...]]:
    """The pointwise op that gives a value, and the values that are its result, detached or not."""
    same: list[Value] = []
    while isinstance(x, Value) and (op := ir.definitions.get(x)) is not None and op.kind is OpKind.POINTWISE:
        same.append(x)
        if PointwiseAttrs.of(op).fn != "positive":
            return op, tuple(same)
        (x,) = op.inputs
    return None, ()


def _relative(ir: KernelIR, body: Block, n: int, new: Value) -> dict[int, tuple[float, Value]] | None:
    """The carried sums that are relative to the peak ``new``: how each is multiplied when the peak moves, and the
    product by which it follows. None where a value depends on the peak in another way."""
    moves: Moves = {new: Move(plus=1.0)}
    try:
        _block(body, moves, frozenset((new,)))
        ends = {i: _of(r, moves) for i, r in enumerate(body.results) if i != n}
        if any(move.plus for move in ends.values()):
            return None
        before = {body.params[i]: move for i, move in ends.items() if move.times}
        old: Moves = {body.params[n]: Move(plus=1.0), new: STILL, **before}
        _block(body, old, frozenset((new,)))
        if any(_of(r, old) != STILL for r in body.results):
            return None
    except _Unknown:
        return None
    found = {}
    for i, move in ends.items():
        if move.times:
            products = [
                o.output
                for o in body.ops
                if o.kind is OpKind.POINTWISE and body.params[i] in o.inputs and PointwiseAttrs.of(o).fn == "mul"
            ]
            if len(products) != 1 or ir.uses.get(body.params[i]) != 1:
                return None
            found[i] = move.times, products[0]
    return found


# ---- how values move ----------------------------------------------------------------------------


def _of(x: Operand, moves: Moves) -> Move:
    return moves.get(x, STILL) if isinstance(x, Value) else STILL


def _block(block: Block, moves: Moves, fixed: frozenset[Value]) -> None:
    """Follow the values of a block; those that are ``fixed`` move as they do. Raises _Unknown."""
    for op in block.ops:
        if any(v in fixed for v in op.outputs):
            continue
        if op.kind is OpKind.FOR:
            _loop(op, moves, fixed)
            continue
        given = [_of(x, moves) for x in op.inputs]
        for inner in op.regions:
            _block(inner, moves, fixed)
            given += [_of(r, moves) for r in inner.results]
        if all(move == STILL for move in given):
            continue
        move = _op(op, given)
        moves.update(dict.fromkeys(op.outputs, move))


def _loop(op: Op, moves: Moves, fixed: frozenset[Value]) -> None:
    (body,), bounds = op.regions, LoopAttrs.of(op).bounds
    if any(_of(b, moves) != STILL for b in op.inputs[:bounds]):
        raise _Unknown
    for param, entry in zip(body.params, op.inputs[bounds:], strict=True):
        if param not in fixed:
            moves.setdefault(param, _of(entry, moves))
    _block(body, moves, fixed)
    for param, result, output in zip(body.params, body.results, op.outputs, strict=True):
        if output in fixed:
            continue
        if not _equal(_of(result, moves), _of(param, moves)):
            raise _Unknown
        moves[output] = _of(result, moves)


def _equal(a: Move, b: Move) -> bool:
    return math.isclose(a.plus, b.plus, abs_tol=1e-9) and math.isclose(a.times, b.times, abs_tol=1e-9)


def _op(op: Op, given: list[Move]) -> Move:
    """How the result of an op moves. Raises _Unknown."""
    if op.kind is OpKind.POINTWISE:
        return _pointwise(op, given)
    if op.kind in _SAME and all(_equal(move, given[0]) for move in given):
        return given[0]
    if op.kind is OpKind.REDUCE:
        fn, (move,) = FoldAttrs.of(op).fn, given
        if fn in ("max", "min") or (fn == "sum" and not move.plus):
            return move
    if op.kind is OpKind.DOT and not any(move.plus for move in given):
        product = Move(times=given[0].times + given[1].times)
        if len(given) == 2 or _equal(product, given[2]):
            return product
    raise _Unknown


def _pointwise(op: Op, given: list[Move]) -> Move:
    fn = PointwiseAttrs.of(op).fn
    if POINTWISE[fn].boolean:
        return _comparison(op, given)
    if fn == "where":
        return _chosen(op, given)
    if fn in ("add", "sub", "maximum", "minimum"):
        return _sum(fn, op, given)
    if fn in ("mul", "div"):
        return _product(fn, op, given)
    if len(given) != 1:  # a power, a remainder, what masks have in common: no rule says how these move
        raise _Unknown
    (move,) = given
    rules = {
        "exp": Move(times=move.plus),
        "exp2": Move(times=move.plus * math.log(2)),
        "neg": Move(-move.plus, move.times),
        "positive": move,
    }
    if fn in rules and (fn in ("neg", "positive") or not move.times):
        return rules[fn]
    if not move.plus:
        scaled = {
            "log": Move(plus=move.times),
            "log2": Move(plus=move.times / math.log(2)),
            "abs": move,
            "relu": move,
            "reciprocal": Move(times=-move.times),
            "sqrt": Move(times=move.times / 2),
            "rsqrt": Move(times=-move.times / 2),
            "sign": STILL,
        }
        if fn in scaled:
            return scaled[fn]
    raise _Unknown


def _comparison(op: Op, given: list[Move]) -> Move:
    """Whether a number is finite, and how it stands to an infinity, does not change; nor what of two that move alike is
    larger."""
    if PointwiseAttrs.of(op).fn in ("isnan", "isinf", "isfinite") or (len(given) == 2 and _equal(*given)):
        return STILL
    if any(isinstance(number, float) and math.isinf(number) for number in op.inputs):
        return STILL
    raise _Unknown


def _sum(fn: str, op: Op, given: list[Move]) -> Move:
    a, b = given
    if _equal(a, b) and (a.times or fn in ("maximum", "minimum")):
        return a
    if not a.times and not b.times and fn in ("add", "sub"):
        return Move(plus=a.plus + (b.plus if fn == "add" else -b.plus))
    raise _Unknown


def _product(fn: str, op: Op, given: list[Move]) -> Move:
    a, b = given
    if not a.plus and not b.plus:
        return Move(times=a.times + (b.times if fn == "mul" else -b.times))
    for move, other, number in ((a, b, op.inputs[1]), (b, a, op.inputs[0])):
        if isinstance(number, (int, float)) and move.plus and other == STILL and not (fn == "div" and move is b):
            return Move(plus=move.plus * number if fn == "mul" else move.plus / number)
    raise _Unknown


def _chosen(op: Op, given: list[Move]) -> Move:
    """A zero is a multiple of anything, an infinity stays where it is; what replaces an infinite peak is no peak."""
    condition, a, b = given
    if condition != STILL:
        raise _Unknown
    if _equal(a, b):
        return a
    for move, number in ((a, op.inputs[2]), (b, op.inputs[1])):
        if not isinstance(number, Value) and move != STILL and (number == 0 or (math.isinf(number) and not move.times)):
            return move
    raise _Unknown
