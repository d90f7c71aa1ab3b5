"""Ints that know where they come from, for the host code of a kernel while it is lowered.

They are ints in every respect, so that allocations and asserts run natively; arithmetic that can be written down keeps
the expression, and where it is lost (``math.ceil(n / b)``) the plain number becomes a guard.
"""

from __future__ import annotations

from typing import Any

from ..expr import Expr


class SymbolicInt(int):
    """An int with the expression that gave it: over a kernel argument's path, or over block sizes and tunables."""

    expr: Expr

    def __new__(cls, value: int, expr: Expr) -> SymbolicInt:
        """``value`` in this call, and the expression that gives it in any."""
        self = super().__new__(cls, value)
        self.expr = expr
        return self

    def __neg__(self) -> SymbolicInt:
        return SymbolicInt(-int(self), -self.expr)

    def __reduce__(self) -> tuple[Any, ...]:
        return SymbolicInt, (int(self), self.expr)


class ConstantInt(int):
    """What is passed for a parameter annotated ``constexpr``: a constant of the kernel in either shape mode.

    Arithmetic with it gives plain numbers.
    """


class ConstantFloat(float):
    """A float passed for a parameter annotated ``constexpr``, as :class:`ConstantInt` is an int."""


def constant(value: Any) -> Any:
    """An argument annotated ``constexpr``, as host code gets it while it is lowered."""
    if type(value) is int:
        return ConstantInt(value)
    if type(value) is float:
        return ConstantFloat(value)
    return type(value)(map(constant, value)) if type(value) in (tuple, list) else value


def expr_of(value: int) -> Expr | None:
    """The expression of a symbolic int; None for a plain one."""
    return value.expr if isinstance(value, SymbolicInt) else None


def _operator(name: str, reflected: bool) -> Any:
    plain = getattr(int, name)
    forward = name.replace("__r", "__") if reflected else name

    def apply(self: SymbolicInt, other: Any) -> Any:
        value = plain(self, other)
        if value is NotImplemented or not isinstance(other, int) or isinstance(other, bool):
            return value
        theirs = expr_of(other) or Expr.of(int(other))
        left, right = (theirs, self.expr) if reflected else (self.expr, theirs)
        return SymbolicInt(value, getattr(left, forward)(right))

    return apply


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(SymbolicInt, f"__{_name}__", _operator(f"__{_name}__", reflected=False))
    setattr(SymbolicInt, f"__r{_name}__", _operator(f"__r{_name}__", reflected=True))
