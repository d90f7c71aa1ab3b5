"""Sizes as device code sees them: ints that are expressions, which Python may ask for their numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..expr import Expr
from ..runtime.numpy_numbers import plain_number
from .size_checks import check_divisor, check_shift
from .syntax_registry import SYNTAX
from .traced import Operand

if TYPE_CHECKING:
    from .trace import Tracer

_NO_NUMBERS = (str, bytes, list, tuple, dict, set, type(None))  # what Python itself compares and repeats
_DIVISIONS = ("floordiv", "remainder")


class SymInt(Operand):
    """An int that is an expression over launch symbols and block sizes; asking for its number specialises it.

    A condition on block sizes is one too, 0 or 1: it has no answer before the config is chosen.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr, tracer: Tracer) -> None:
        self.expr = expr
        self.tracer = tracer

    if TYPE_CHECKING:  # what the loops below set
        __mul__ = __sub__ = __floordiv__ = __mod__ = lambda self, other: self
        __rfloordiv__ = __rmod__ = lambda self, other: self

    def _arithmetic(self, other: Any, op: str, fn: str, reflected: bool) -> Any:
        if isinstance(other, _NO_NUMBERS):
            return NotImplemented
        other = plain_number(other)
        size = _size(other)
        if size is not None:
            left, right = (size, self.expr) if reflected else (self.expr, size)
            if fn in _DIVISIONS:
                check_divisor(self.tracer, left, right)
            return self.tracer.size(getattr(left, op)(right))
        return self.tracer.pointwise(fn, other, self) if reflected else self.tracer.pointwise(fn, self, other)

    def _compare(self, other: Any, op: str, fn: str) -> Any:
        if isinstance(other, _NO_NUMBERS):
            return NotImplemented
        other = plain_number(other)
        size = _size(other)
        if size is None:
            return self.tracer.pointwise(fn, self, other)
        a, b = (size, self.expr) if op in ("gt", "ge") else (self.expr, size)
        return self.tracer.condition(getattr(a, {"gt": "lt", "ge": "le"}.get(op, op))(b))

    def __truediv__(self, other: Any) -> Any:
        check_divisor(self.tracer, self, other)
        return self.tracer.pointwise("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.tracer.pointwise("div", other, self)

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        exponent = plain_number(exponent)
        if modulus is not None:  # inverses and powers of residues, which Python alone computes
            return pow(int(self), int(exponent), int(modulus))
        if isinstance(exponent, int) and exponent >= 0:
            return self.tracer.size(math.prod([self.expr] * exponent, start=Expr.of(1)))
        return SYNTAX["binary"](self.tracer, "pow", self, float(exponent) if isinstance(exponent, int) else exponent)

    def __rpow__(self, base: Any) -> Any:
        return base ** int(self)

    def __lshift__(self, bits: Any) -> Any:
        bits = plain_number(bits)
        check_shift(self.tracer, self, bits)
        is_constant = isinstance(bits, int) and bits >= 0
        return self * (1 << bits) if is_constant else SYNTAX["binary"](self.tracer, "shift_left", self, bits)

    def __rshift__(self, bits: Any) -> Any:
        bits = plain_number(bits)
        check_shift(self.tracer, self, bits)
        is_constant = isinstance(bits, int) and bits >= 0
        return self // (1 << bits) if is_constant else SYNTAX["binary"](self.tracer, "shift_right", self, bits)

    def __rlshift__(self, number: Any) -> Any:
        return (
            number << int(self)
            if isinstance(number, int)
            else SYNTAX["binary"](self.tracer, "shift_left", number, self)
        )

    def __rrshift__(self, number: Any) -> Any:
        return (
            number >> int(self)
            if isinstance(number, int)
            else SYNTAX["binary"](self.tracer, "shift_right", number, self)
        )

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self.tracer.size(-self.expr)

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return -self - 1

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None else round(int(self), digits)

    def __abs__(self) -> Any:
        return self.tracer.pointwise("abs", self)

    def __int__(self) -> int:
        return self.tracer.specialize(self.expr)

    __index__ = __int__  # of Python's lists, and of its functions of ints

    def bit_length(self) -> int:
        """How many bits the number has, which becomes a constant."""
        return int(self).bit_length()

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        return bool(int(self))

    def __hash__(self) -> int:
        """That of the number, which becomes a constant: dictionaries and sets of Python find what is equal."""
        return hash(int(self))

    def __repr__(self) -> str:
        return str(self.expr)


def _size(value: Any) -> Expr | None:
    """An int or a size as an Expr; None for anything else."""
    if isinstance(value, SymInt):
        return value.expr
    return Expr.of(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _symint_operator(op: str, fn: str, reflected: bool) -> Any:
    return lambda self, other: self._arithmetic(other, op, fn, reflected)


def _by_kernel(fn: str, reflected: bool) -> Any:
    def apply(self: SymInt, other: Any) -> Any:
        a, b = (other, self) if reflected else (self, other)
        return SYNTAX["binary"](self.tracer, fn, a, b)

    return apply


def _symint_compare(op: str) -> Any:
    return lambda self, other: self._compare(other, op, op)


for _python, _fn in {"add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "remainder"}.items():
    setattr(SymInt, f"__{_python}__", _symint_operator(f"__{_python}__", _fn, reflected=False))
    setattr(SymInt, f"__r{_python}__", _symint_operator(f"__{_python}__", _fn, reflected=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SymInt, f"__{_name}__", _symint_compare(_name))
for _name in ("and", "or", "xor"):
    setattr(SymInt, f"__{_name}__", _by_kernel(f"bitwise_{_name}", reflected=False))
    setattr(SymInt, f"__r{_name}__", _by_kernel(f"bitwise_{_name}", reflected=True))
