"""Tensors that a launch combines numbers into, and nothing else: what was there before is nobody's business.

Programs may do so to copies, which are combined with the tensor afterwards: sums, least and greatest numbers are the
same in any order, floating point sums but for their rounding, as atomics leave it open anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..expr import Expr
from ..runtime.abi import Combination
from ..runtime.copies import room
from .attributes import AtomicAttrs, site_of
from .graph import KernelIR, Op, TensorParam, once
from .kinds import OpKind
from .op_table import effects_of

HOW: dict[str, Combination] = {"add": "add", "min": "min", "max": "max"}
_KINDS = frozenset({OpKind.ATOMIC, OpKind.HISTOGRAM})
# of tensors, and of their copies: memory swaps halves until nobody came between, and each sum of theirs is rounded
_HELD = {name: name for name in ("float32", "float64", "int32", "int64")} | dict.fromkeys(
    ("float16", "bfloat16"), "float32"
)


@dataclass(frozen=True, slots=True)
class Combined:
    """Such a tensor. ``how``: what all of its ``ops`` do with an element."""

    tensor: TensorParam
    how: Combination
    ops: tuple[Op, ...]

    @property
    def site(self) -> str:
        """The first of its atomics, which speaks for all."""
        return site_of(self.ops[0])

    @property
    def dtype(self) -> str:
        """Of its copies."""
        return _HELD[self.tensor.dtype]

    @property
    def elements(self) -> Expr:
        """How many the tensor has."""
        return prod(self.tensor.shape, start=Expr.of(1))

    @property
    def room(self) -> Expr:
        """From one copy with the tensor's strides to the next, in elements."""
        found: Expr = Expr.of(1) * room(self.tensor.shape, self.tensor.strides)
        return found


@once
def combined(ir: KernelIR) -> Mapping[str, Combined]:
    """The tensors of a region that are only combined into, by the sites of their first atomics."""
    touching: dict[str, list[Op]] = {}
    for op in ir.walk():
        for path in effects_of(op).tensors:
            touching.setdefault(path, []).append(op)
    found = (_combined(ir, path, ops) for path, ops in touching.items())
    return {each.site: each for each in found if each is not None}


def _combined(ir: KernelIR, path: str, ops: list[Op]) -> Combined | None:
    tensor = ir.tensor(path)
    if tensor.dtype not in _HELD or any(op.kind not in _KINDS for op in ops):
        return None
    ways = {(AtomicAttrs.of(op).fn, AtomicAttrs.of(op).sem) for op in ops}
    is_read = any(ir.uses.get(value, 0) for op in ops for value in op.outputs)
    (how, sem), *others = ways
    if others or how not in HOW or sem != "relaxed" or is_read:
        return None
    return Combined(tensor, HOW[how], tuple(ops))
