"""Nibbles: packed 4-bit integers become halves by setting bits of both at once, without shifts of single bytes.

A half whose exponent makes its last bit worth 1 holds an integer in its low bits, so that a nibble placed there is a
number less a constant (Kim et al., 2022, arXiv:2211.10017). The two nibbles of a byte go into the two halves of a
register together. Four bits of two's complement with the first one flipped are the number plus 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..ir.attributes import NibblesAttrs, PointwiseAttrs
from ..ir.graph import KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.op_table import having
from ..ir.opdef import Trait
from ..ir.types import Value
from .rewrite import Fresh, map_ops, with_body

HALVES = ("float16", "bfloat16")
_BYTES = ("int8", "uint8")
_VIEWS = having(Trait.REARRANGES)


def convert_nibbles(ir: KernelIR) -> KernelIR:
    """Casts to a half type of nibbles, or of views of them, as views of ``nibbles``."""
    makers = ir.definitions
    fresh = Fresh(ir)
    renamed: dict[Value, Operand] = {}

    def rewrite(op: Op) -> list[Op]:
        if op.kind is not OpKind.CAST or op.output.type.dtype not in HALVES:
            return [op]
        ops: list[Op] = []
        (source,) = op.inputs
        if not isinstance(source, Value) or not _is_nibbles(source, makers):
            return [op]
        renamed[op.output] = _Converter(makers, fresh, op.output.type.dtype, ops).value(source)
        return ops

    return with_body(ir, map_ops(ir.body, rewrite, renamed))


def _is_nibbles(value: Value, makers: Mapping[Value, Op]) -> bool:
    """Whether all that a value shows are nibbles."""
    op = makers.get(value)
    if op is not None and op.kind in _VIEWS:
        return all(_is_nibbles(v, makers) for v in op.values)
    return _nibble(value, makers) is not None


def _nibble(value: Value, makers: Mapping[Value, Op]) -> tuple[Value, int, bool] | None:
    """The bytes that a value is one nibble of, which one (1: the high one), and whether it has a sign."""
    match _by_constant(value, makers):
        case ("shift_right", 4, Value() as source, "int8"):
            inner = _by_constant(source, makers)
            if inner is not None and inner[:2] == ("shift_left", 4):
                return inner[2], 0, True
            return source, 1, True
        case ("shift_right", 4, Value() as source, "uint8"):
            return source, 1, False
        case ("bitwise_and", 15, Value() as source, _):
            inner = _by_constant(source, makers)
            if inner is not None and inner[:2] == ("shift_right", 4):
                return inner[2], 1, False
            return source, 0, False
    return None


def _by_constant(value: Value, makers: Mapping[Value, Op]) -> tuple[str, int, Value, str] | None:
    """Function, constant, other operand and dtype of what is computed of bytes and one constant."""
    op = makers.get(value)
    if op is None or not isinstance(op.attrs, PointwiseAttrs) or op.attrs.operand not in _BYTES or len(op.inputs) != 2:
        return None
    source, constant = op.inputs
    if not isinstance(source, Value) or source.type.dtype != op.attrs.operand or not isinstance(constant, int):
        return None
    return op.attrs.fn, constant, source, op.attrs.operand


class _Converter:
    """Views of nibbles, with the nibbles in ``dtype``. Appends to ``ops``."""

    def __init__(self, makers: Mapping[Value, Op], fresh: Fresh, dtype: str, ops: list[Op]) -> None:
        self.makers, self.fresh, self.dtype, self.ops = makers, fresh, dtype, ops
        self.done: dict[Value, Value] = {}
        self.pairs: dict[tuple[Value, bool], tuple[Value, ...]] = {}

    def value(self, value: Value) -> Value:
        if value not in self.done:
            found = _nibble(value, self.makers)
            self.done[value] = self._view(value) if found is None else self._pair(found[0], found[2])[found[1]]
        return self.done[value]

    def _view(self, value: Value) -> Value:
        op = self.makers[value]
        out = self._typed(value)
        self.ops.append(op.with_(inputs=tuple(self.value(v) for v in op.values), outputs=(out,)))
        return out

    def _pair(self, source: Value, signed: bool) -> tuple[Value, ...]:
        if (source, signed) not in self.pairs:
            both = self._typed(source), self._typed(source)
            self.ops.append(Op(OpKind.NIBBLES, (source,), both, NibblesAttrs(signed), (), source.loc))
            self.pairs[source, signed] = both
        return self.pairs[source, signed]

    def _typed(self, like: Value) -> Value:
        return self.fresh.value(replace(like.type, dtype=self.dtype), like)
