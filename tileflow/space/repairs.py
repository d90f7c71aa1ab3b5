"""Constraints of warp-specialised schedules, and how a search mends them."""

from __future__ import annotations

from ..config import Constraint, Direction
from ..expr import Expr


def constraint(name: str, check: Expr, repair: tuple[tuple[str, Direction], ...], reason: str) -> Constraint:
    """One that holds where a config asks for such a schedule."""
    return Constraint(f"warp_specialised: {name}", check, repair, reason)


def steps(size: Expr, direction: Direction) -> tuple[tuple[str, Direction], ...]:
    """The blocks that a size follows from, each a step up or down."""
    return tuple((name, direction) for name in sorted(size.symbols()) if name.startswith("block:"))
