"""Dtypes and assembly that a device lacks: a constraint that no config satisfies, with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..config import Constraint
from ..errors import Location
from ..expr import FALSE
from ..ir.attributes import AccessAttrs, DotAttrs, InlineAsmAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.types import Value
from ..target import Target


def unsupported(ir: KernelIR, target: Target) -> Iterator[Constraint]:
    """One constraint for each thing that no config of this region can have on ``target``."""
    vendors = _first((InlineAsmAttrs.of(op).vendor, op) for op in ir.walk() if op.kind is OpKind.INLINE_ASM)
    for vendor in sorted(vendors.keys() - {target.vendor}):
        reason = f"the inline assembly is {vendor}'s; {target.name} is {target.vendor}'s"
        yield _never(f"assembly of {vendor}", reason, vendors[vendor])
    dtypes = _first(_dtypes(ir))
    for dtype in sorted(dtypes):
        if dtype.endswith("fnuz") and not target.has_fnuz:
            reason = f"{dtype} is AMD's; {target.name} has float8_e4m3fn, float8_e5m2"
        elif dtype == "float8_e4m3fn" and not target.has_e4m3:
            reason = f"{dtype} needs sm_89 or newer; {target.name} is {target.arch}"
        else:
            continue
        yield _never(f"{dtype} on {target.arch}", reason, dtypes[dtype])
    products = _first(_products(ir))
    for product, present in (("float64", target.has_float64_products), ("scaled", target.has_scaled_products)):
        if product in products and not present:
            reason = f"Triton's AMD backend has no {product} products for {target.arch}"
            yield _never(f"{product} products on {target.arch}", reason, products[product])


def _first(found: Iterable[tuple[str, Op]]) -> dict[str, Location | None]:
    """The author's line that each name comes from first."""
    lines: dict[str, Location | None] = {}
    for name, op in found:
        lines.setdefault(name, op.loc)
    return lines


def _products(ir: KernelIR) -> Iterator[tuple[str, Op]]:
    """The accumulators' dtypes of products, and ``scaled``."""
    for op in ir.walk():
        if op.kind is OpKind.DOT:
            yield DotAttrs.of(op).acc, op
        elif op.kind is OpKind.DOT_SCALED:
            yield "scaled", op


def _never(name: str, reason: str, where: Location | None) -> Constraint:
    return Constraint(name, FALSE, (), reason, where)


def _dtypes(ir: KernelIR) -> Iterator[tuple[str, Op]]:
    for op in ir.walk():
        yield from ((v.type.dtype, op) for v in (*op.inputs, *op.outputs) if isinstance(v, Value))
        if op.kind in ACCESSES:
            yield ir.tensor(AccessAttrs.of(op).tensor).dtype, op
