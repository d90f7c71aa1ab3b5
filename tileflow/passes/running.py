"""Running maxima: what a loop carries of a softmax that its author makes block by block.

A turn raises the largest number so far, ``new = maximum(top, score.amax())``, and what it carries besides is relative
to it: ``total = total * exp(top - new) + exp(score - new).sum()``, and products of the same exponentials (Milakov and
Gimelshein, 2018, arXiv:1805.02867; Dao and others, 2022, arXiv:2205.14135). Whoever has several parts of such a loop
puts them together by the same factor: the largest of all tops, and each part's total times ``exp(top - largest)``.

That is right where ``u`` of ``total = total * fade + u`` is a multiple of ``exp(-c * new)`` and ``fade`` is
``exp(c * (top - new))`` of the same ``c``: then the sum is ``exp(-c * top)`` times a number that no top is in, whatever
the tops on the way were. So each op between is looked at: what is linear in the tops, what is an exponential of it, and
what is linear in those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..ir.attributes import PointwiseAttrs, ReduceAttrs
from ..ir.graph import Block, Op, Operand, uses, walk
from ..ir.kinds import OpKind
from ..ir.types import Value, is_float
from .exponents import LEAST
from .makers import Makers, function_of

_MOVED = (OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.PERMUTE, OpKind.CAST)
_EXPONENTIALS = {"exp": math.log2(math.e), "exp_gradual": math.log2(math.e), "exp2": 1.0}  # of 2
_LOWEST = float("-inf")


@dataclass(frozen=True, slots=True)
class Running:
    """``peak``: the place of the largest number so far among what the loop carries. ``fades``: by the places of what is
    relative to it, that by which a turn multiplies what it found there. ``raised``: the largest number behind a turn's
    own."""

    peak: int
    raised: Value
    fades: Mapping[int, Value]

    def fading(self, loop: Op, place: int) -> list[Op]:
        """The ops by which a turn makes the factor of what is at a place, of the top that it found and the raised
        one."""
        (body,) = loop.regions
        wanted, found = {self.fades[place]}, list[Op]()
        for op in reversed(body.ops):
            if self.raised not in op.outputs and not wanted.isdisjoint(op.outputs):
                found.append(op)
                wanted.update(op.values)
        return found[::-1]


def running(loop: Op) -> list[Running]:
    """The running maxima of a loop, each with all that is relative to it."""
    (body,) = loop.regions
    made = made_of_carried(body)
    found = []
    for place, (param, raised) in enumerate(zip(body.params, body.results, strict=True)):
        if isinstance(raised, Value) and _raises(body, made, param, raised):
            turn = _Turn(body, made, param, raised)
            fades = {n: fade for n in range(len(body.params)) if n != place and (fade := turn.fade_of(n)) is not None}
            if fades:
                found.append(Running(place, raised, fades))
    return found


def made_of_carried(body: Block) -> frozenset[Value]:
    """The values of a turn that are made of what it carries."""
    found = set(body.params)
    for op in body.ops:
        inside = {v for region in op.regions for v in uses(region)}
        if not found.isdisjoint({*op.values, *inside}):
            found.update(op.outputs)
    return frozenset(found)


def _raises(body: Block, made: frozenset[Value], param: Value, raised: Value) -> bool:
    """Whether a turn leaves in ``param`` the larger one of it and of what is not made of what it carries."""
    maker = next((op for op in body.ops if raised in op.outputs), None)
    if function_of(maker) != "maximum" or maker is None or raised.type != param.type or not is_float(param.type.dtype):
        return False
    others = [v for v in maker.inputs if v != param]
    return len(others) == 1 and others[0] not in made


_Coefficient = tuple[float, tuple[int, ...]]  # a number, and the scalars that it is multiplied by (below 0: divided)
_ONE: _Coefficient = (1.0, ())


@dataclass(frozen=True, slots=True)
class _Linear:
    """``top * (top as it was found) + raised * (top as it is left)``, with ``rest`` of other numbers."""

    top: _Coefficient | None = None
    raised: _Coefficient | None = None
    rest: bool = False

    def times(self, by: _Coefficient) -> _Linear:
        """The multiple."""
        return _Linear(_times(self.top, by), _times(self.raised, by), self.rest)

    def plus(self, other: _Linear) -> _Linear | None:
        """The sum; None where both have the same top."""
        if (self.top and other.top) or (self.raised and other.raised):
            return None
        return _Linear(self.top or other.top, self.raised or other.raised, self.rest or other.rest)


@dataclass(frozen=True, slots=True)
class _Fade:
    """``2 ** (c * (top - raised))``, of which ``c``."""

    by: _Coefficient


@dataclass(frozen=True, slots=True)
class _Relative:
    """A multiple of ``2 ** (-c * raised)`` by what no top is in."""

    by: _Coefficient


_Kind = _Linear | _Fade | _Relative


def _times(one: _Coefficient | None, by: _Coefficient) -> _Coefficient | None:
    return None if one is None else (one[0] * by[0], tuple(sorted((*one[1], *by[1]))))


def _rounded(coefficient: _Coefficient | None) -> _Coefficient | None:
    """Alike where the same factors were multiplied in another order (:mod:`exponents`)."""
    return None if coefficient is None else (float(f"{coefficient[0]:.12g}"), coefficient[1])


@dataclass(slots=True)
class _Turn:
    """What a turn makes of the largest number so far, which it finds in ``param`` and leaves in ``raised``."""

    body: Block
    made: frozenset[Value]
    param: Value
    raised: Value
    makers: Makers = field(init=False)
    _inside: frozenset[Value] = field(init=False)
    _known: dict[Value, _Kind | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.makers = {v: op for op in self.body.ops for v in op.outputs}
        self._inside = frozenset(v for op in walk(self.body) for v in op.outputs)
        self._known |= {self.param: _Linear(top=_ONE), self.raised: _Linear(raised=_ONE)}

    def fade_of(self, place: int) -> Value | None:
        """By what a turn multiplies what it carries at a place, before it adds what is relative to the same top; None
        where it does something else."""
        result, found = self.body.results[place], list[tuple[Value, _Fade]]()
        terms = self._faded(result, self.body.params[place], found) if isinstance(result, Value) else None
        if terms is None or len(found) != 1:
            return None
        (fade, kind), param = found[0], self.body.params[place]
        aligned = all(self._is_aligned(v) for v in (fade, param, *terms))
        return fade if aligned and all(self.kind(v) == _Relative(kind.by) for v in terms) else None

    def _faded(self, value: Value, param: Value, found: list[tuple[Value, _Fade]]) -> list[Value] | None:
        """The terms that are added to a multiple of ``param``; None where there is more to it. ``found``: gets the
        factor."""
        op = self.makers.get(value)
        if op is None or value.type.dtype != param.type.dtype:
            return None
        if op.kind is OpKind.EXPAND:
            return self._faded(op.values[0], param, found)
        if op.kind is OpKind.DOT and len(op.inputs) == 3:
            factor, total = self._product(op), op.inputs[2]
            rest = self._faded(total, param, found) if isinstance(total, Value) else None
            return None if rest is None or factor is None else [*rest, factor]
        fn = function_of(op)
        if fn == "mul":
            factors = [v for v in op.values if _base(v, self.makers) != param]
            if len(op.values) == 2 and len(factors) == 1 and isinstance(kind := self.kind(factors[0]), _Fade):
                found.append((factors[0], kind))
                return []
        for one, other in ((0, 1), (1, 0)) if fn == "add" else ((0, 1),) if fn == "sub" else ():
            term, inner = op.inputs[other], op.inputs[one]
            if isinstance(inner, Value) and isinstance(term, Value) and isinstance(self.kind(term), _Relative):
                rest = self._faded(inner, param, found)
                return None if rest is None else [*rest, term]
        return None

    def _is_aligned(self, value: Value) -> bool:
        """Whether each dimension of the tops is one of the value's, which it has once, so that no two are confused."""
        dims = [dim for dim in self.param.dims if dim.extent.constant != 1]
        return all(value.dims.count(dim) == 1 for dim in dims)

    def kind(self, value: Value) -> _Kind | None:
        """What a value is of the tops; None where it is nothing of them, or more than is understood."""
        if value not in self._known:
            op = self.makers.get(value)
            self._known[value] = self._kind_of(op) if op is not None and value in self.made else None
        return self._known[value]

    def _kind_of(self, op: Op) -> _Kind | None:
        if op.kind in _MOVED:
            kind = self.kind(op.values[0])
            kept = op.kind is not OpKind.CAST or (is_float(op.output.type.dtype) and not isinstance(kind, _Linear))
            return kind if kept else None
        if op.kind is OpKind.REDUCE and ReduceAttrs.of(op).fn == "sum":
            kind = self.kind(op.values[0])
            return kind if isinstance(kind, _Relative) and self._is_aligned(op.output) else None
        if op.kind is OpKind.DOT and len(op.inputs) == 2:
            factor = self._product(op)
            return self.kind(factor) if factor is not None and self._is_aligned(op.output) else None
        rule = _RULES.get(function_of(op))
        return rule(self, op) if rule is not None else None

    def _product(self, op: Op) -> Value | None:
        """The operand of a matrix product that is relative to the top, where the other is nothing of it."""
        left, right = op.values[:2]
        for one, other in ((left, right), (right, left)):
            if isinstance(self.kind(one), _Relative) and other not in self.made:
                return one
        return None

    def factor(self, operand: Operand) -> _Coefficient | None:
        """A number that is the same in each turn."""
        if not isinstance(operand, Value):
            return float(operand), ()
        is_scalar = not operand.dims and operand not in self._inside and operand not in self.made
        return (1.0, (operand.id,)) if is_scalar else None

    def is_other(self, operand: Operand) -> bool:
        """Whether an operand is nothing of the tops, nor of anything else that is carried."""
        return not isinstance(operand, Value) or operand not in self.made


def _base(value: Value, makers: Makers) -> Value:
    while value in makers and makers[value].kind is OpKind.EXPAND:
        value = makers[value].values[0]
    return value


def _kinds(turn: _Turn, op: Op) -> Iterator[_Kind | None]:
    for operand in op.inputs:
        yield turn.kind(operand) if isinstance(operand, Value) else None


def _sum(turn: _Turn, op: Op) -> _Kind | None:
    one, other = _kinds(turn, op)
    if function_of(op) == "sub" and isinstance(other, _Linear):
        other = other.times((-1.0, ()))
    if isinstance(one, _Linear) and isinstance(other, _Linear):
        return one.plus(other)
    if isinstance(one, _Relative) and one == other:
        return one
    for kind, rest in ((one, op.inputs[1]), (other, op.inputs[0])):
        if isinstance(kind, _Linear) and turn.is_other(rest):
            return kind.plus(_Linear(rest=True))
    return None


def _multiple(turn: _Turn, op: Op) -> _Kind | None:
    places = ((0, 1), (1, 0)) if function_of(op) == "mul" else ((0, 1),)
    for one, other in places:
        value, by = op.inputs[one], op.inputs[other]
        kind = turn.kind(value) if isinstance(value, Value) else None
        if isinstance(kind, _Relative) and turn.is_other(by):
            return kind
        if isinstance(kind, _Linear) and (factor := turn.factor(by)) is not None:
            if function_of(op) == "mul":
                return kind.times(factor)
            return kind.times((1.0 / factor[0], tuple(-n - 1 for n in factor[1]))) if factor[0] else None
    return None


def _negative(turn: _Turn, op: Op) -> _Kind | None:
    (kind,) = _kinds(turn, op)
    return kind.times((-1.0, ())) if isinstance(kind, _Linear) else kind if isinstance(kind, _Relative) else None


def _exponential(turn: _Turn, op: Op) -> _Kind | None:
    (kind,) = _kinds(turn, op)
    if not isinstance(kind, _Linear) or kind.raised is None:
        return None
    base = _EXPONENTIALS[PointwiseAttrs.of(op).fn]
    fallen, risen = (None if c is None else _rounded(_times(c, (base, ()))) for c in (kind.raised, kind.top))
    assert fallen is not None
    by = -fallen[0], fallen[1]
    if risen is None:
        return _Relative(by)
    return _Fade(by) if risen == by and not kind.rest else None


def _bounded(turn: _Turn, op: Op) -> _Kind | None:
    """The top, or the least finite number where that is -inf."""
    kinds = list(_kinds(turn, op))
    found = [kind for kind in kinds if isinstance(kind, _Linear)]
    least = [v for v in op.inputs if not isinstance(v, Value) and v <= LEAST]
    return found[0] if len(found) == 1 and len(least) == 1 else None


def _choice(turn: _Turn, op: Op) -> _Kind | None:
    """What is relative or else 0; what is made of a finite top, and where that is infinite something else."""
    test, *sides = op.inputs
    kinds = [turn.kind(v) if isinstance(v, Value) else None for v in sides]
    if turn.is_other(test):
        found = {kind for kind, v in zip(kinds, sides, strict=True) if isinstance(v, Value) or v != 0}
        (kind,) = found if len(found) == 1 else (None,)
        return kind if isinstance(kind, _Relative) else None
    infinite = _says_infinite(turn, test) if isinstance(test, Value) else None
    if infinite is None:
        return None
    instead, kind = (sides[0], kinds[1]) if infinite else (sides[1], kinds[0])
    is_known = not isinstance(instead, Value) or isinstance(turn.kind(instead), _Linear)
    return kind if is_known and isinstance(kind, _Linear) else None


def _says_infinite(turn: _Turn, test: Value) -> bool | None:
    """Whether the raised top is infinite where a test holds (True), or where it does not (False); None of others."""
    op = turn.makers.get(test)
    if op is None:
        return None
    fn = function_of(op)
    if fn == "logical_not":
        inner = _says_infinite(turn, op.values[0])
        return None if inner is None else not inner
    bounds = [v for v in op.inputs if not isinstance(v, Value)]
    if turn.kind(op.values[0]) != _Linear(raised=_ONE) or any(v != _LOWEST for v in bounds):
        return None
    return {"isinf": True, "eq": True, "isfinite": False, "ne": False}.get(fn)


_RULES: Mapping[str, Callable[[_Turn, Op], _Kind | None]] = {
    "add": _sum,
    "sub": _sum,
    "mul": _multiple,
    "div": _multiple,
    "neg": _negative,
    "maximum": _bounded,
    "where": _choice,
    **dict.fromkeys(_EXPONENTIALS, _exponential),
}
