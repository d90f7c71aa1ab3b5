"""Knobs of the launch: warps, stages, and what the vendor's assembler is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Knob
from ..expr import FALSE, TRUE, Expr, any_of
from ..ir.analysis import in_full_precision
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from ..ir.types import Value
from ..target import Target
from .extents import Extents
from .loops import Loop, depths, grouped, is_specialised
from .names import powers, suffixed

MAXNREG = (0, 64, 96, 128, 168)
WAVES = (0, 1, 2, 4)
# Triton's options that only one vendor's backend has, and the choice that leaves them unset
VENDOR_OPTIONS = {"maxnreg": 0, "waves_per_eu": 0, "matrix_instr_nonkdim": 0, "kpack": 1}
_SIMDS = 4  # of a compute unit, among which a block's waves are dealt out


def launch_knobs(
    ir: KernelIR, loops: list[Loop], extents: Extents, known: Mapping[str, Knob], target: Target
) -> Iterator[Knob]:
    """Warps, stages of a software pipeline where there is a loop, and the vendor's own."""
    most = 1024 // target.warp_size
    yield Knob(suffixed(ir, "num_warps"), "launch", powers(1, most), "launch", 4)
    has_loop = any(op.kind is OpKind.FOR for op in ir.walk())
    active = TRUE if has_loop else any_of(loop.present for loop in loops)
    yield Knob(suffixed(ir, "num_stages"), "launch", depths(target), "launch", 2, active)
    yield from _amd(ir, extents, target) if target.vendor == "amd" else _nvidia(ir, loops, extents, known, target)


def _products(ir: KernelIR) -> list[Op]:
    return [op for op in ir.walk() if op.kind is OpKind.DOT]


def _keeps_tiles(ir: KernelIR) -> bool:
    """Whether registers are what may run short: elsewhere a thread needs few, and a bound changes nothing."""
    return any(Trait.COLLECTIVE in OPS[op.kind].traits for op in ir.walk())


def _nvidia(
    ir: KernelIR, loops: list[Loop], extents: Extents, known: Mapping[str, Knob], target: Target
) -> Iterator[Knob]:
    warps = Expr.sym(suffixed(ir, "num_warps"))
    if _keeps_tiles(ir):
        name = suffixed(ir, "maxnreg")
        # the block's own size bounds registers already; warps of a specialised loop are given theirs by the compiler
        binds = (Expr.sym(name) * warps * target.warp_size).lt(target.regs_per_sm)
        active = binds.and_(is_specialised(loops, known).eq(0))
        yield Knob(name, "launch", MAXNREG, "launch", 0, active)
    scalar = _without_warp_groups(ir, extents, target)
    if scalar != FALSE:
        yield Knob(suffixed(ir, "cutlass_name"), "launch", (False, True), "launch", False, scalar)


def _without_warp_groups(ir: KernelIR, extents: Extents, target: Target) -> Expr:
    """Whether a product is one of single warps (``mma.sync``) or a loop of fused multiply-adds."""
    found = []
    for op in _products(ir):
        if in_full_precision(op) or not target.has_warp_groups:
            return TRUE
        found.append(grouped(ir, op, extents).eq(0))
    return any_of(found) if found else FALSE


def _amd(ir: KernelIR, extents: Extents, target: Target) -> Iterator[Knob]:
    """Waves that a SIMD shall hold, shape of the matrix instructions, how many of their operands are read together."""
    warps = Expr.sym(suffixed(ir, "num_warps"))
    if _keeps_tiles(ir):
        name = suffixed(ir, "waves_per_eu")
        # fewer than one block brings are no bound
        yield Knob(name, "launch", WAVES, "launch", 0, warps.le(Expr.sym(name) * _SIMDS))
    if not _products(ir):
        return
    sides = []
    for op in _products(ir):
        a, b = op.inputs[:2]
        assert isinstance(a, Value) and isinstance(b, Value)
        sides.append(Expr.of(32).le(extents.of(a.dims[-2]).min(extents.of(b.dims[-1]))))
    # 32 is what the compiler takes where it fits, and 16 elsewhere
    yield Knob(suffixed(ir, "matrix_instr_nonkdim"), "launch", (0, 16), "launch", 0, any_of(sides))
    if target.arch == "gfx942":  # later ones read whole operands at once
        yield Knob(suffixed(ir, "kpack"), "launch", (1, 2), "launch", 1)
