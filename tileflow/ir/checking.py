"""What the rules of the verifier ask: whether two sizes are one, and how an op that breaks a rule is refused."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NoReturn

from ..errors import InternalError
from ..expr import Expr
from .graph import KernelIR, Op, Operand
from .types import Dim, TileType, Value

_SMALLEST = 6  # the exponent of the number that stands for the first block symbol


class Checker:
    """One verification. ``after``: the pass that gave the region; empty for what was traced.

    Sizes are compared by numbers: launch symbols are those of the example, and each block symbol stands for a power of
    two of its own, so that two blocks never count as one.
    """

    def __init__(self, ir: KernelIR, after: str = "") -> None:
        self.ir, self.after = ir, after
        self.numbers: dict[str, int] = dict(ir.hints)
        self.tensors = {t.path: t for t in ir.tensors}
        self.scalars = {s.path for s in ir.scalars}

    def require(self, holds: bool, op: Op, constraint: str, *got: object) -> None:
        """Refuse ``op`` unless the constraint holds of it. ``got``: the values that it is about."""
        if not holds:
            self.refuse(op, constraint, *got)

    def refuse(self, op: Op, constraint: str, *got: object) -> NoReturn:
        """Raises InternalError for ``op``: the constraint, what was found, the place, and the op written out."""
        outputs = ", ".join(f"{v}: {v.type}" for v in op.outputs)
        inputs = ", ".join(f"{v}: {v.type}" if isinstance(v, Value) else repr(v) for v in op.inputs)
        raise InternalError(
            f"{op.kind}: {constraint}",
            got=", ".join(map(show, got)) or None,
            where=op.loc or self.place,
            hint=f"{outputs or 'nothing'} = {op.kind}({inputs}) {op.attrs}, {self.place}",
        )

    @property
    def place(self) -> str:
        """The region, and the pass that gave it."""
        return f"region {self.ir.region} of {self.ir.name}, " + (f"after {self.after}" if self.after else "as traced")

    def number(self, size: Expr) -> int:
        """A number that stands for a size."""
        for symbol in sorted(size.symbols() - self.numbers.keys()):
            blocks = len(self.numbers) - len(self.ir.hints)
            self.numbers[symbol] = 1 << (_SMALLEST + blocks)
        return size.evaluate(self.numbers)

    def same_size(self, a: Expr, b: Expr) -> bool:
        """Whether two sizes are one expression, or one number where each symbol stands for a number of its own."""
        return a == b or self.number(a) == self.number(b)

    def same_sizes(self, a: Iterable[Dim], b: Iterable[Dim]) -> bool:
        """Whether two shapes have the same sizes in the same order."""
        left, right = tuple(a), tuple(b)
        if left == right:
            return True
        if len(left) != len(right):
            return False
        return all(self.same_size(x.extent, y.extent) for x, y in zip(left, right, strict=True))

    def same_count(self, a: Iterable[Dim], b: Iterable[Dim]) -> bool:
        """Whether two shapes have as many elements."""
        return prod(self.number(d.extent) for d in a) == prod(self.number(d.extent) for d in b)

    def broadcasts(self, operand: Operand, dims: tuple[Dim, ...]) -> bool:
        """Whether an operand meets ``dims`` lane by lane: a number, a scalar, or of as many dimensions, each as long
        or 1."""
        if not isinstance(operand, Value) or not operand.dims:
            return True
        if len(operand.dims) != len(dims):
            return False
        pairs = zip(operand.dims, dims, strict=True)
        return all(self.same_size(own.extent, dim.extent) or self.number(own.extent) == 1 for own, dim in pairs)


def show(value: object) -> str:
    """A value in a message, short."""
    if isinstance(value, tuple) and value and all(isinstance(v, Dim) for v in value):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, Value):
        return f"{value}: {value.type}"
    text = str(value) if isinstance(value, (str, Expr, TileType, int)) else repr(value)
    return text if len(text) <= 200 else text[:200] + "..."
