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
        hint = f"choose in host code, by torch.version.hip, and give {target.vendor}'s its own"
        yield _never(f"assembly of {vendor}", reason, vendors[vendor], hint)
    dtypes = _first(_dtypes(ir))
    for dtype in sorted(dtypes):
        if dtype.endswith("fnuz") and not target.has_fnuz:
            reason = f"{dtype} is AMD's; {target.name} has float8_e4m3fn, float8_e5m2"
            hint = f"convert it in host code, x.float().to(torch.{dtype.removesuffix('uz').replace('e5m2fn', 'e5m2')})"
        elif dtype == "float8_e4m3fn" and not target.has_e4m3:
            reason = f"{dtype} needs sm_89 or newer; {target.name} is {target.arch}"
            hint = "hold it as float8_e5m2, or convert it in host code, x.to(torch.float16)"
        else:
            continue
        yield _never(f"{dtype} on {target.arch}", reason, dtypes[dtype], hint)
    products = _first(_products(ir))
    known = (
        ("float64", target.has_float64_products, "multiply and sum, (a[:, :, None] * b[None, :, :]).sum(1)"),
        ("scaled", target.has_scaled_products, "scale the operands before tfl.dot"),
    )
    for product, present, hint in known:
        if product in products and not present:
            reason = f"Triton's AMD backend has no {product} products for {target.arch}"
            yield _never(f"{product} products on {target.arch}", reason, products[product], hint)


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


def _never(name: str, reason: str, where: Location | None, hint: str) -> Constraint:
    return Constraint(name, FALSE, (), reason, where, hint=hint)


def _dtypes(ir: KernelIR) -> Iterator[tuple[str, Op]]:
    for op in ir.walk():
        yield from ((v.type.dtype, op) for v in (*op.inputs, *op.outputs) if isinstance(v, Value))
        if op.kind in ACCESSES:
            yield ir.tensor(AccessAttrs.of(op).tensor).dtype, op
