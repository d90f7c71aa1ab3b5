"""Expr: one small serialisable expression over launch symbols, knobs and Target fields.

Grids, guards, constraints and symbolic extents are all Exprs, so that a table can carry them as data and
the runtime can evaluate them without the compiler. An Expr is immutable and kept in a canonical form:
sums of products are expanded and sorted, so that two Exprs that are equal as polynomials over their atoms
are equal as Python values.

Booleans are ints here (0 and 1), as in C. Division is floor division, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from .errors import TableError

ExprLike: TypeAlias = "Expr | int"

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


@dataclass(frozen=True, slots=True)
class Expr:
    """A node. ``op`` is ``const`` (args: the int), ``sym`` (args: the name), ``sum``, ``prod`` or an operator above."""

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
        return _binary("min", self, Expr.of(other))

    def max(self, other: ExprLike) -> Expr:
        return _binary("max", self, Expr.of(other))

    def next_pow2(self) -> Expr:
        """The smallest power of two that is at least ``self``."""
        return _unary("next_pow2", self)

    # Comparisons are methods: ``==`` between Exprs is identity of canonical forms.
    def eq(self, other: ExprLike) -> Expr:
        return _binary("eq", self, Expr.of(other))

    def ne(self, other: ExprLike) -> Expr:
        return _binary("ne", self, Expr.of(other))

    def lt(self, other: ExprLike) -> Expr:
        return _binary("lt", self, Expr.of(other))

    def le(self, other: ExprLike) -> Expr:
        return _binary("le", self, Expr.of(other))

    def and_(self, other: ExprLike) -> Expr:
        return _binary("and", self, Expr.of(other))

    def or_(self, other: ExprLike) -> Expr:
        return _binary("or", self, Expr.of(other))

    def not_(self) -> Expr:
        return _unary("not", self)

    # ---- asking ---------------------------------------------------------------------------------

    def quotient(self, other: ExprLike) -> Expr | None:
        """``self / other`` where nothing is left over whatever the symbols are; None where that is not known."""
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
        if self.op == "sym":
            return frozenset((self.args[0],))
        return frozenset().union(*(a.symbols() for a in self.args if isinstance(a, Expr)))

    def evaluate(self, env: Mapping[str, int]) -> int:
        """The value under ``env``; ``KeyError`` names a missing symbol."""
        if self.op == "const":
            return int(self.args[0])
        if self.op == "sym":
            return int(env[self.args[0]])
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
        args = [a.substitute(env) for a in self.args]
        if self.op == "sum":
            return _sum(args)
        if self.op == "prod":
            result = Expr.of(1)
            for arg in args:
                result = result * arg
            return result
        if self.op in _UNARY:
            return _unary(self.op, args[0])
        return _binary(self.op, args[0], args[1])

    def python(self, name: Callable[[str], str] = lambda s: s) -> str:
        """Python source text of the value; ``name`` spells a symbol."""
        if self.op == "const":
            return str(self.args[0])
        if self.op == "sym":
            return name(self.args[0])
        parts = [a.python(name) for a in self.args]
        if self.op == "sum":
            return "(" + " + ".join(parts) + ")"
        if self.op == "prod":
            return "(" + " * ".join(parts) + ")"  # a product may be the right operand of // or %
        return _PYTHON[self.op].format(*parts)

    def __str__(self) -> str:
        return self.python()

    # ---- data -----------------------------------------------------------------------------------

    def to_json(self) -> Any:
        """An int, ``{"sym": name}`` or ``[op, arg, ...]``."""
        if self.op == "const":
            return self.args[0]
        if self.op == "sym":
            return {"sym": self.args[0]}
        return [self.op, *(a.to_json() for a in self.args)]

    @staticmethod
    def from_json(data: Any) -> Expr:
        """The inverse of :meth:`to_json`. Raises TableError on anything that is not an Expr."""
        match data:
            case bool():
                pass
            case int():
                return Expr.of(data)
            case {"sym": str() as name, **rest} if not rest:
                return Expr.sym(name)
            case ["sum", *args] if args:
                return _sum([Expr.from_json(a) for a in args])
            case ["prod", *args] if args:
                result = Expr.of(1)
                for arg in args:
                    result = result * Expr.from_json(arg)
                return result
            case [str() as op, arg] if op in _UNARY:
                return _unary(op, Expr.from_json(arg))
            case [str() as op, left, right] if op in _BINARY:
                return _binary(op, Expr.from_json(left), Expr.from_json(right))
        raise TableError(
            "an expression must be an int, {'sym': name} or [op, args...] with a known op",
            got=repr(data)[:200],
            hint="the file is damaged or was written by a newer tileflow",
        )


TRUE = Expr("const", (1,))
FALSE = Expr("const", (0,))


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


@lru_cache(maxsize=65536)
def _order(e: Expr) -> str:
    """A total order over Exprs, for canonical forms."""
    return f"{e.op}({','.join(_order(a) if isinstance(a, Expr) else repr(a) for a in e.args)})"


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


def _sum(parts: list[Expr]) -> Expr:
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
    if a is not None and b is not None:
        return Expr("const", (_BINARY[op](a, b),))
    if op in ("floordiv", "cdiv") and b == 1:
        return left
    if op == "mod" and b == 1:
        return Expr("const", (0,))
    if op in ("min", "max") and left == right:
        return left
    if op in ("eq", "le") and left == right:
        return TRUE
    if op in ("ne", "lt") and left == right:
        return FALSE
    if op in ("and", "or"):
        return _logical(op, left, right)
    if op in ("min", "max", "eq", "ne") and _order(right) < _order(left):
        left, right = right, left
    return Expr(op, (left, right))


def _logical(op: str, left: Expr, right: Expr) -> Expr:
    left, right = _truth(left), _truth(right)
    absorbing = 0 if op == "and" else 1
    for one, other in ((left, right), (right, left)):
        if one.constant is not None:
            return one if one.constant == absorbing else other
    if left == right:
        return left
    return Expr(op, (left, right))


def _truth(e: Expr) -> Expr:
    """``e`` as 0 or 1, so that Python's ``and`` and ``or``, which give an operand, give the same in text."""
    return e if e.op in _TRUTHS or e.constant in (0, 1) else _binary("ne", e, Expr.of(0))
