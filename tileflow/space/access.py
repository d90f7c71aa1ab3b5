"""Knobs of each load and store: by pointers or by descriptor, and what the caches shall do with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..config import Choice, Constraint, Knob
from ..expr import Expr
from ..ir.access import ALIGNMENT, boxed, describable
from ..ir.graph import ExprIndex, KernelIR, Op, ValueIndex
from ..ir.types import itemsize
from ..target import Target
from .extents import Extents

EVICTION: tuple[Choice, ...] = ("", "evict_first", "evict_last")
ACCESS: tuple[Choice, ...] = ("pointer", "descriptor")
_FIRST_WITH_COPY_ENGINE = 90  # compute capability


def access_knobs(ir: KernelIR, target: Target) -> Iterator[Knob]:
    """The eviction policy of each load that reads a tile and that the author left open; the kind of access of loads and
    stores that a copy engine could do."""
    for op in ir.walk():
        site = op.attrs.get("site", "")
        if op.kind == "load" and op.output.dims and op.attrs["eviction"] is None:
            active = Expr.sym(f"{site}.access").eq(0) if _has_choice(ir, op, target) else Expr.of(1)
            yield Knob(f"{site}.eviction", site, EVICTION, "access", "", active)
        if _has_choice(ir, op, target):
            yield Knob(f"{site}.access", site, ACCESS, "access", "pointer")


def access_constraints(ir: KernelIR, extents: Extents, target: Target) -> Iterable[Constraint]:
    """A box is at least 16 bytes wide."""
    for op in ir.walk():
        if not _has_choice(ir, op, target):
            continue
        site, tensor = op.attrs["site"], ir.tensor(op.attrs["tensor"])
        last = op.attrs["index"][-1]
        assert not isinstance(last, ExprIndex | ValueIndex)
        width = extents.of(boxed(op)[last.axis]) * itemsize(tensor.dtype)
        if width.constant is not None and width.constant >= ALIGNMENT:
            continue
        knob = f"{site}.access"
        check = Expr.sym(knob).eq(ACCESS.index("pointer")).or_(Expr.of(ALIGNMENT).le(width))
        reason = f"the copy engine of {target.name} moves at least {ALIGNMENT} bytes of a row"
        yield Constraint(f"{site} is wide enough", check, ((knob, "down"),), reason)


def _has_choice(ir: KernelIR, op: Op, target: Target) -> bool:
    return target.vendor == "nvidia" and target.capability >= _FIRST_WITH_COPY_ENGINE and describable(ir, op)
