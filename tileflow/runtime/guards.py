"""Guards taken apart: what of them a launcher checks together, and which one a call does not meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..expr import Expr
from .paths import Path, Symbol

# what reading a symbol raises where a call captures something else
UNREADABLE = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)


def conjuncts(guards: Expr) -> Iterator[Expr]:
    """The conditions that must all hold."""
    if guards.op == "and":
        for side in guards.args:
            yield from conjuncts(side)
    else:
        yield guards


def fixed_axis(condition: Expr) -> tuple[Symbol, int] | None:
    """``4096 == x.shape.1`` as (symbol, 4096)."""
    if condition.op != "eq":
        return None
    number, symbol = sorted(condition.args, key=lambda side: side.op != "const")
    if number.constant is None or symbol.op != "sym":
        return None
    found = Symbol.parse(symbol.args[0])
    return (found, number.constant) if found.field in ("shape", "stride") else None


def aligned_path(condition: Expr) -> Path | None:
    """The path of ``1 == x.align``."""
    if condition.op != "eq" or condition.args[0].constant != 1 or condition.args[1].op != "sym":
        return None
    symbol = Symbol.parse(condition.args[1].args[0])
    return symbol.path if symbol.field == "align" else None


def pair_of(condition: Expr) -> Symbol | None:
    """The symbol of ``1 == x.apart.out`` and ``1 == x.in_step.out``."""
    if condition.op != "eq" or condition.args[0].constant != 1 or condition.args[1].op != "sym":
        return None
    symbol = Symbol.parse(condition.args[1].args[0])
    return symbol if symbol.other is not None else None


def failing(guards: Expr, read: Callable[[str], int]) -> Iterator[Expr]:
    """The conditions that do not hold. ``read``: the value of a symbol. Those that cannot be read are left out."""
    for condition in conjuncts(guards):
        try:
            held = condition.holds({name: read(name) for name in condition.symbols()})
        except UNREADABLE:
            continue
        if not held:
            yield condition


def explain_guards(guards: Expr, read: Callable[[str], int]) -> str | None:
    """The first condition that does not hold and what it got; None where all do. ``read``: the value of a symbol."""
    for condition in conjuncts(guards):
        values: dict[str, int] = {}
        try:
            values = {name: read(name) for name in sorted(condition.symbols())}
            held = bool(condition.evaluate(values))
        except UNREADABLE as error:
            return f"{condition} could not be read ({type(error).__name__}: {error})"
        if not held:
            got = ", ".join(f"{name} = {value}" for name, value in values.items())
            return f"{condition} with {got}" if got else str(condition)
    return None
