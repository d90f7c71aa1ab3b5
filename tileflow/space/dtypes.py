"""Dtypes and assembly that a device lacks: a constraint that no config satisfies, with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Constraint
from ..expr import FALSE
from ..ir.attributes import AccessAttrs, DotAttrs, InlineAsmAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.types import Value
from ..target import Target


def unsupported(ir: KernelIR, target: Target) -> Iterator[Constraint]:
    """One constraint for each thing that no config of this region can have on ``target``."""
    for vendor in sorted(
        {InlineAsmAttrs.of(op).vendor for op in ir.walk() if op.kind is OpKind.INLINE_ASM} - {target.vendor}
    ):
        yield _never(f"assembly of {vendor}", f"the inline assembly is {vendor}'s; {target.name} is {target.vendor}'s")
    for dtype in sorted(_dtypes(ir)):
        if dtype.endswith("fnuz") and not target.has_fnuz:
            yield _never(f"{dtype} on {target.arch}", f"{dtype} is AMD's; {target.name} has float8_e4m3fn, float8_e5m2")
        elif dtype == "float8_e4m3fn" and not target.has_e4m3:
            yield _never(f"{dtype} on {target.arch}", f"{dtype} needs sm_89 or newer; {target.name} is {target.arch}")
    for product, present in (("float64", target.has_float64_products), ("scaled", target.has_scaled_products)):
        if product in _products(ir) and not present:
            yield _never(
                f"{product} products on {target.arch}",
                f"Triton's AMD backend has no {product} products for {target.arch}",
            )


def _products(ir: KernelIR) -> set[str]:
    """The accumulators' dtypes of products, and ``scaled``."""
    plain = {DotAttrs.of(op).acc for op in ir.walk() if op.kind is OpKind.DOT}
    return plain | {"scaled" for op in ir.walk() if op.kind is OpKind.DOT_SCALED}


def _never(name: str, reason: str) -> Constraint:
    return Constraint(name, FALSE, (), reason)


def _dtypes(ir: KernelIR) -> set[str]:
    values = {v.type.dtype for op in ir.walk() for v in (*op.inputs, *op.outputs) if isinstance(v, Value)}
    stored = {ir.tensor(AccessAttrs.of(op).tensor).dtype for op in ir.walk() if op.kind in ACCESSES}
    return values | stored
