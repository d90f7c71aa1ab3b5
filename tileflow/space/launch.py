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
from .knobs import CUTLASS_NAME, KPACK, MATRIX_INSTR_NONKDIM, MAXNREG, NUM_STAGES, NUM_WARPS, WAVES_PER_EU
from .loops import Loop, grouped, is_specialised
from .names import powers

_SIMDS = 4  # of a compute unit, among which a block's waves are dealt out


def launch_knobs(
    ir: KernelIR, loops: list[Loop], extents: Extents, known: Mapping[str, Knob], target: Target
) -> Iterator[Knob]:
    """Warps, stages of a software pipeline where there is a loop, and the vendor's own."""
    most = 1024 // target.warp_size
    yield NUM_WARPS.of(ir, choices=powers(1, most))
    has_loop = any(op.kind is OpKind.FOR for op in ir.walk())
    active = TRUE if has_loop else any_of(loop.present for loop in loops)
    yield NUM_STAGES.of(ir, active, NUM_STAGES.on(target))
    yield from _amd(ir, extents, target) if target.vendor == "amd" else _nvidia(ir, loops, extents, known, target)


def _products(ir: KernelIR) -> list[Op]:
    return [op for op in ir.walk() if op.kind is OpKind.DOT]


def _keeps_tiles(ir: KernelIR) -> bool:
    """Whether registers are what may run short: elsewhere a thread needs few, and a bound changes nothing."""
    return any(Trait.COLLECTIVE in OPS[op.kind].traits for op in ir.walk())


def _nvidia(
    ir: KernelIR, loops: list[Loop], extents: Extents, known: Mapping[str, Knob], target: Target
) -> Iterator[Knob]:
    warps = NUM_WARPS.symbol(ir)
    if _keeps_tiles(ir):
        # the block's own size bounds registers already; warps of a specialised loop are given theirs by the compiler
        binds = (MAXNREG.symbol(ir) * warps * target.warp_size).lt(target.regs_per_sm)
        active = binds.and_(is_specialised(loops, known).eq(0))
        yield MAXNREG.of(ir, active)
    scalar = _without_warp_groups(ir, extents, target)
    if scalar != FALSE:
        yield CUTLASS_NAME.of(ir, scalar)


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
    warps = NUM_WARPS.symbol(ir)
    if _keeps_tiles(ir):
        # fewer than one block brings are no bound
        yield WAVES_PER_EU.of(ir, warps.le(WAVES_PER_EU.symbol(ir) * _SIMDS))
    if not _products(ir):
        return
    sides = []
    for op in _products(ir):
        a, b = op.inputs[:2]
        assert isinstance(a, Value) and isinstance(b, Value)
        sides.append(Expr.of(32).le(extents.of(a.dims[-2]).min(extents.of(b.dims[-1]))))
    # 32 is what the compiler takes where it fits, and 16 elsewhere
    yield MATRIX_INSTR_NONKDIM.of(ir, any_of(sides))
    if target.has_kpack:
        yield KPACK.of(ir)
