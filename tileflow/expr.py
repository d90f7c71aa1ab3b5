"""Expr: one small serialisable expression over launch symbols, knobs and Target fields.

Grids, guards, constraints and symbolic extents are all Exprs, so that a table can carry them as data and
the runtime can evaluate them without the compiler. An Expr is immutable and kept in a canonical form:
sums of products are expanded and sorted, so that two Exprs that are equal as polynomials over their atoms
are equal as Python values.

Booleans are ints here (0 and 1), as in C. Division is floor division, as in Python; a division by zero raises
ZeroDivisionError where the Expr is evaluated, never where it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, TypeAlias

from .lazy_dataclass import dataclass

ExprLike: TypeAlias = "Expr | int"

MIN_INT = -(1 << 63)  # 64 bits, signed or unsigned
MAX_INT = (1 << 64) - 1
_CHAIN = 64  # operands of ``and`` and ``or`` that text nests from the left

_BINARY: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "and": lambda a, b: int(bool(a) and bool(b)),
    "or": lambda a, b: int(bool(a) or bool(b)),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "not": lambda a: int(not a),
    "next_pow2": lambda a: 1 << max(a - 1, 0).bit_length(),
}
_TRUTHS = frozenset({"eq", "ne", "lt", "le", "and", "or", "not"})
DIVISIONS = frozenset({"floordiv", "mod", "cdiv"})
CHAINS = frozenset({"and", "or"})  # of two operands or more
OPERANDS = {**dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2)}  # how many an operator is written with
_PYTHON = {
    "floordiv": "({0} // {1})",
    "mod": "({0} % {1})",
    "cdiv": "(-(-{0} // {1}))",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "and": "({0} and {1})",
    "or": "({0} or {1})",
    "not": "(not {0})",
    "next_pow2": "(1 << max({0} - 1, 0).bit_length())",
}
_NAMES = {"min": min, "max": max, "__builtins__": {}}  # all that the text above may name


class _Kept:
    """What an Expr is asked for often, found once: it never changes. No part of its value."""

    __slots__ = ("_hash", "_place", "_symbols")

    _hash: int
    _place: str
    _symbols: frozenset[str]


@dataclass(frozen=True, slots=True)
class Expr(_Kept):
    """A node. ``op`` is ``const`` (args: the int), ``sym`` (args: the name), ``sum``, ``prod`` or an operator above.

    ``and`` and ``or`` take two operands or more: ``(a and b) and c`` is one node of three.
    """

    op: str
    args: tuple[Any, ...]

    # ---- building -------------------------------------------------------------------------------

    @staticmethod
    def of(value: ExprLike) -> Expr:
        """An Expr from an Expr or an int."""
        return value if isinstance(value, Expr) else Expr("const", (int(value),))

    @staticmethod
    def sym(name: str) -> Expr:
        """The symbol ``name``; its value is looked up when the Expr is evaluated."""
        return Expr("sym", (name,))

    def __add__(self, other: ExprLike) -> Expr:
        return _sum([self, Expr.of(other)])

    __radd__ = __add__

    def __sub__(self, other: ExprLike) -> Expr:
        return self + Expr.of(other) * -1

    def __rsub__(self, other: ExprLike) -> Expr:
        return Expr.of(other) - self

    def __neg__(self) -> Expr:
        return self * -1

    def __mul__(self, other: ExprLike) -> Expr:
        return _product(self, Expr.of(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: ExprLike) -> Expr:
        return _binary("floordiv", self, Expr.of(other))

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return _binary("floordiv", Expr.of(other), self)

    def __mod__(self, other: ExprLike) -> Expr:
        return _binary("mod", self, Expr.of(other))

    def __rmod__(self, other: ExprLike) -> Expr:
        return _binary("mod", Expr.of(other), self)

    def cdiv(self, other: ExprLike) -> Expr:
        """``ceil(self / other)``."""
        return _binary("cdiv", self, Expr.of(other))

    def min(self, other: ExprLike) -> Expr:
        """The smaller of both."""
        return _binary("min", self, Expr.of(other))

    def max(self, other: ExprLike) -> Expr:
        """The larger of both."""
        return _binary("max", self, Expr.of(other))

    def next_pow2(self) -> Expr:
        """The smallest power of two that is at least ``self``."""
        return _unary("next_pow2", self)

    # Comparisons are methods: ``==`` between Exprs is identity of canonical forms.
    def eq(self, other: ExprLike) -> Expr:
        """1 where both are equal, else 0. ``==`` compares the expressions themselves."""
        return _binary("eq", self, Expr.of(other))

    def ne(self, other: ExprLike) -> Expr:
        """1 where both differ, else 0. ``!=`` compares the expressions themselves."""
        return _binary("ne", self, Expr.of(other))

    def lt(self, other: ExprLike) -> Expr:
        """1 where this one is less than ``other``, else 0."""
        return _binary("lt", self, Expr.of(other))

    def le(self, other: ExprLike) -> Expr:
        """1 where this one is at most ``other``, else 0."""
        return _binary("le", self, Expr.of(other))

    def and_(self, other: ExprLike) -> Expr:
        """1 where both are true, else 0."""
        return _binary("and", self, Expr.of(other))

    def or_(self, other: ExprLike) -> Expr:
        """1 where one of both is true, else 0."""
        return _binary("or", self, Expr.of(other))

    def not_(self) -> Expr:
        """1 where this one is 0, else 0."""
        return _unary("not", self)

    # ---- asking ---------------------------------------------------------------------------------

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash((self.op, self.args)))
            return self._hash

    def quotient(self, other: ExprLike) -> Expr | None:
        """``self / other`` where the division is exact for all values of the symbols; None where that is not known."""
        divisor = Expr.of(other)
        if self == divisor:
            return TRUE
        coefficient, atoms = _monomial(divisor)
        terms = []
        for term in _terms(self):
            own, rest = _monomial(term)
            kept = list(rest)
            for atom in atoms:
                if atom not in kept:
                    return None
                kept.remove(atom)
            if coefficient == 0 or own % coefficient:
                return None
            terms.append(_from_monomial(own // coefficient, tuple(kept)))
        return _sum(terms)

    @property
    def constant(self) -> int | None:
        """The value, where it is known."""
        return self.args[0] if self.op == "const" else None

    @property
    def is_truth(self) -> bool:
        """Whether the value is the answer to a question: 0 or 1."""
        return self.op in _TRUTHS

    def symbols(self) -> frozenset[str]:
        """The names that :meth:`evaluate` needs."""
        try:
            return self._symbols
        except AttributeError:
            own = (self.args[0],) if self.op == "sym" else ()
            found = frozenset(own).union(*(a.symbols() for a in self.args if isinstance(a, Expr)))
            object.__setattr__(self, "_symbols", found)
            return found

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value under ``env``. ``KeyError`` names a missing symbol; ZeroDivisionError says what it does in Python.

        ``and`` and ``or`` stop where they are decided, as their text does.
        """
        if self.op == "const":
            return int(self.args[0])
        if self.op == "sym":
            return int(env[self.args[0]])
        if self.op in CHAINS:
            decided = all if self.op == "and" else any
            return int(decided(a.evaluate(env) for a in self.args))
        values = [a.evaluate(env) for a in self.args]
        if self.op == "sum":
            return sum(values)
        if self.op == "prod":
            result = 1
            for value in values:
                result *= value
            return result
        if self.op in _UNARY:
            return _UNARY[self.op](values[0])
        return _BINARY[self.op](values[0], values[1])

    def holds(self, env: Mapping[str, int]) -> bool:
        """Whether the condition is true under ``env``. One that divides by zero there is not."""
        try:
            return bool(self.evaluate(env))
        except ZeroDivisionError:
            return False

    def compiled(self) -> Callable[[Mapping[str, int]], int]:
        """:meth:`evaluate` as one function, for whoever asks it many times (ten times as fast; a ms to make)."""
        text = self.python(lambda name: f"env[{name!r}]")
        function: Callable[[Mapping[str, int]], int] = eval(f"lambda env: {text}", dict(_NAMES))
        return function

    def substitute(self, env: Mapping[str, ExprLike]) -> Expr:
        """The Expr with the symbols in ``env`` replaced, in canonical form again."""
        if self.op == "const":
            return self
        if self.op == "sym":
            return Expr.of(env[self.args[0]]) if self.args[0] in env else self
        return operation(self.op, [a.substitute(env) for a in self.args])

    def python(self, name: Callable[[str], str] = lambda s: s) -> str:
        """Python source text of the value; ``name`` spells a symbol."""
        if self.op == "const":
            return str(int(self.args[0]))
        if self.op == "sym":
            return name(self.args[0])
        parts = [a.python(name) for a in self.args]
        if self.op == "sum":
            return "(" + " + ".join(parts) + ")"
        if self.op == "prod":
            return "(" + " * ".join(parts) + ")"  # a product may be the right operand of // or %
        if self.op in CHAINS:
            return _chain_text(_PYTHON[self.op], parts)
        return _PYTHON[self.op].format(*parts)

    def brackets(self) -> int:
        """How many brackets :meth:`python` nests at most. Those of the outermost ``and`` do not count: a launch checks
        its guards one by one."""
        inner = max((_text_brackets(a) for a in self.args if isinstance(a, Expr)), default=0)
        return inner if self.op == "and" else inner + 2

    def __str__(self) -> str:
        return self.python()

    # ---- data -----------------------------------------------------------------------------------

    def to_json(self) -> Any:
        """An int, ``{"sym": name}`` or ``[op, arg, ...]``, which :mod:`tileflow.expr_reader` reads back."""
        if self.op == "const":
            return self.args[0]
        if self.op == "sym":
            return {"sym": self.args[0]}
        args = [a.to_json() for a in self.args]
        if self.op in CHAINS:
            return reduce(lambda left, right: [self.op, left, right], args)  # two by two, as they were always written
        return [self.op, *args]


TRUE = Expr("const", (1,))
FALSE = Expr("const", (0,))


def is_knob(symbol: str) -> bool:
    """Whether a symbol is a knob's of some site, ``block:tile``. The path of an argument has its colons after a dot:
    ``points.attr:x.shape.1``."""
    kind, colon, _ = symbol.partition(":")
    return bool(colon) and "." not in kind


def all_of(conditions: Iterable[ExprLike]) -> Expr:
    """The conjunction; true when there are none."""
    result: Expr = TRUE
    for condition in conditions:
        result = result.and_(condition)
    return result


def any_of(conditions: Iterable[ExprLike]) -> Expr:
    """The disjunction; false when there are none."""
    result: Expr = FALSE
    for condition in conditions:
        result = result.or_(condition)
    return result


def operation(op: str, operands: Sequence[Expr]) -> Expr:
    """An operator over its operands, in canonical form; ``and`` and ``or`` over any number, from the left."""
    if op == "sum":
        return _sum(operands)
    if op == "prod":
        return reduce(_product, operands, TRUE)
    if op in _UNARY:
        return _unary(op, operands[0])
    return reduce(partial(_binary, op), operands)


def _order(e: Expr) -> str:
    """A total order over Exprs, for canonical forms. Tables hold what it sorted, so that it never changes."""
    try:
        return e._place
    except AttributeError:
        args = [_order(a) if isinstance(a, Expr) else repr(a) for a in e.args]
        is_chain = e.op in CHAINS
        text = reduce(lambda a, b: f"{e.op}({a},{b})", args) if is_chain else f"{e.op}({','.join(args)})"
        object.__setattr__(e, "_place", text)
        return text


def _monomial(e: Expr) -> tuple[int, tuple[Expr, ...]]:
    """``e`` as (coefficient, sorted atoms); e is not a sum."""
    if e.op == "const":
        return e.args[0], ()
    if e.op == "prod":
        if e.args[0].op == "const":
            return e.args[0].args[0], e.args[1:]
        return 1, e.args
    return 1, (e,)


def _terms(e: Expr) -> tuple[Expr, ...]:
    return e.args if e.op == "sum" else (e,)


def _from_monomial(coefficient: int, atoms: tuple[Expr, ...]) -> Expr:
    if not atoms or coefficient == 0:
        return Expr("const", (coefficient,))
    if coefficient == 1:
        return atoms[0] if len(atoms) == 1 else Expr("prod", atoms)
    return Expr("prod", (Expr("const", (coefficient,)), *atoms))


def _sum(parts: Iterable[Expr]) -> Expr:
    collected: dict[tuple[Expr, ...], int] = {}
    for part in parts:
        for term in _terms(part):
            coefficient, atoms = _monomial(term)
            collected[atoms] = collected.get(atoms, 0) + coefficient
    terms = [_from_monomial(c, atoms) for atoms, c in collected.items() if c]
    if not terms:
        return Expr("const", (0,))
    if len(terms) == 1:
        return terms[0]
    # constants last, so that printed forms read as one writes them
    return Expr("sum", tuple(sorted(terms, key=lambda t: (t.op == "const", _order(t)))))


def _product(left: Expr, right: Expr) -> Expr:
    terms = []
    for a in _terms(left):
        for b in _terms(right):
            (ca, xa), (cb, xb) = _monomial(a), _monomial(b)
            terms.append(_from_monomial(ca * cb, tuple(sorted(xa + xb, key=_order))))
    return _sum(terms)


def _unary(op: str, arg: Expr) -> Expr:
    if arg.constant is not None:
        return Expr("const", (_UNARY[op](arg.constant),))
    return Expr(op, (arg,))


def _binary(op: str, left: Expr, right: Expr) -> Expr:
    a, b = left.constant, right.constant
    if a is not None and b is not None and not (b == 0 and op in DIVISIONS):
        return Expr("const", (_BINARY[op](a, b),))
    if op in DIVISIONS and b is not None and b > 0 and (whole := _whole_part(left, b)) is not None:
        k, rest = whole
        return Expr("const", (rest,)) if op == "mod" else _sum([k, Expr("const", (_BINARY[op](rest, b),))])
    if op in ("min", "max") and left == right:
        return left
    if op in ("eq", "le") and left == right:
        return TRUE
    if op in ("ne", "lt") and left == right:
        return FALSE
    if op in CHAINS:
        return _logical(op, left, right)
    if op in ("min", "max", "eq", "ne") and _order(right) < _order(left):
        left, right = right, left
    return Expr(op, (left, right))


def _whole_part(e: Expr, divisor: int) -> tuple[Expr, int] | None:
    """``k`` and the constant ``rest`` of ``e = divisor * k + rest``, from 0 up and below the divisor; None where other
    symbols than those of ``k`` are left."""
    terms, rest = [], 0
    for term in _terms(e):
        coefficient, atoms = _monomial(term)
        if not atoms:
            terms.append(_from_monomial(coefficient // divisor, ()))
            rest = coefficient % divisor
        elif coefficient % divisor:
            return None
        else:
            terms.append(_from_monomial(coefficient // divisor, atoms))
    return _sum(terms), rest


def _logical(op: str, left: Expr, right: Expr) -> Expr:
    left, right = _truth(left), _truth(right)
    absorbing = 0 if op == "and" else 1
    for one, other in ((left, right), (right, left)):
        if one.constant is not None:
            return one if one.constant == absorbing else other
    if left == right:
        return left
    return Expr(op, (*left.args, right) if left.op == op else (left, right))


def _truth(e: Expr) -> Expr:
    """``e`` as 0 or 1, so that Python's ``and`` and ``or``, which give an operand, give the same in text."""
    return e if e.op in _TRUTHS or e.constant in (0, 1) else _binary("ne", e, Expr.of(0))


def _chain_text(form: str, parts: Sequence[str]) -> str:
    """Two operands at a time, as Triton wants. A long chain is halved, for Python reads few nested brackets."""
    if len(parts) > _CHAIN:
        middle = len(parts) // 2
        return form.format(_chain_text(form, parts[:middle]), _chain_text(form, parts[middle:]))
    return reduce(form.format, parts)


def _text_brackets(e: Expr) -> int:
    inner = max((_text_brackets(a) for a in e.args if isinstance(a, Expr)), default=0)
    return inner + (min(len(e.args), _CHAIN) + 4 if e.op in CHAINS else 2)
