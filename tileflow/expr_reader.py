"""Expressions read out of data that nobody vouches for: in time and memory linear in its size."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from typing import Any

from .errors import TableError
from .expr import CHAINS, DIVISIONS, MAX_INT, MIN_INT, OPERANDS, Expr, operation

# what tileflow writes stays far below these
_MAX_NODES = 2048
_MAX_DEPTH = 32  # a conjunction of many conditions is one level
_MAX_OPERANDS = 400  # of one ``and`` or ``or``, which JSON nests
_MAX_TERMS = 256
_MAX_FACTORS = 32
_MAX_NAME = 512
_MAX_BRACKETS = 120  # Python reads 200 nested ones, and a chain may add 70


def read_expr(data: Any) -> Expr:
    """The inverse of :meth:`Expr.to_json`. Raises TableError on anything that is not an Expr within the limits above.

    A product of sums is refused: it is written expanded, and expanding one takes exponential time.
    """
    return _Reader().expression(data)


class _Reader:
    """Reads one expression, and counts its nodes."""

    def __init__(self) -> None:
        self._nodes = 0

    def expression(self, data: Any) -> Expr:
        expr = self._read(data, 0)
        if 2 * self._nodes > _MAX_BRACKETS and expr.brackets() > _MAX_BRACKETS:
            raise _too_much(f"an expression's text must nest at most {_MAX_BRACKETS} brackets", "more")
        return expr

    def _read(self, data: Any, depth: int) -> Expr:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise _too_much(f"an expression must have at most {_MAX_NODES} nodes", "more")
        if type(data) is int:
            return Expr.of(_bounded(data))
        if type(data) is dict:
            name = data.get("sym")
            if len(data) == 1 and type(name) is str and 0 < len(name) <= _MAX_NAME:
                return Expr.sym(name)
        elif type(data) is list and data and type(data[0]) is str:
            if depth == _MAX_DEPTH:
                raise _too_much(f"an expression must be at most {_MAX_DEPTH} levels deep", "more")
            if (expr := self._operation(data[0], data, depth + 1)) is not None:
                return expr
        raise TableError(
            "an expression must be an int, {'sym': name} or [op, args...] with a known op",
            got=reprlib.repr(data),
            hint=f"the file is damaged or was written by a newer tileflow; a sum has at most {_MAX_TERMS} terms, a "
            f"product {_MAX_FACTORS} factors, a name {_MAX_NAME} characters",
        )

    def _operation(self, op: str, data: list[Any], depth: int) -> Expr | None:
        operands = len(data) - 1
        if op in CHAINS and operands == 2:
            return self._chain(op, data, depth)
        if OPERANDS.get(op) == operands or (op == "sum" and 0 < operands <= _MAX_TERMS):
            return self._operator(op, [self._read(a, depth) for a in data[1:]])
        if op == "prod" and 0 < operands <= _MAX_FACTORS:
            return self._product([self._read(a, depth) for a in data[1:]])
        return None

    def _product(self, factors: list[Expr]) -> Expr:
        if any(f.op in ("sum", "prod") for f in factors):
            raise _too_much("a product's factors must be neither sums nor products", "one, where the file is expanded")
        result = Expr.of(1)
        for factor in factors:
            result = _checked(result * factor)
        return result

    def _chain(self, op: str, data: Any, depth: int) -> Expr:
        """``[op, [op, a, b], c]``, however long, without recursion."""
        operands: list[Any] = []
        while isinstance(data, list) and len(data) == 3 and data[0] == op:
            operands.append(data[2])
            data = data[1]
            if len(operands) >= _MAX_OPERANDS:
                raise _too_much(f"{op} must have at most {_MAX_OPERANDS} operands", "more")
        return operation(op, [self._read(a, depth) for a in (data, *reversed(operands))])

    def _operator(self, op: str, operands: list[Expr]) -> Expr:
        if op in DIVISIONS and operands[1].constant == 0:
            raise TableError(
                "an expression must not divide by zero",
                got=f"{op} by the constant 0",
                hint="the file is damaged; export it again",
            )
        return _checked(operation(op, operands))


def _checked(e: Expr) -> Expr:
    """``e``, where the numbers that reading it has computed are of 64 bits."""
    for number in _numbers(e):
        _bounded(number)
    return e


def _bounded(number: int) -> int:
    if not MIN_INT <= number <= MAX_INT:
        raise _too_much("an expression's numbers must be integers of 64 bits", "a larger one")
    return number


def _numbers(e: Expr) -> Iterator[int]:
    """The constants of one node: its own, or the coefficients of its terms."""
    for term in e.args if e.op == "sum" else (e,):
        factor = term.args[0] if term.op == "prod" else term
        if factor.constant is not None:
            yield factor.constant


def _too_much(constraint: str, got: object) -> TableError:
    return TableError(constraint, got=got, hint="the file is damaged or was not written by tileflow")
