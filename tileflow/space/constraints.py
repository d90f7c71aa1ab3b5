"""What every config of a region must satisfy, as objects: a check, a repair, a reason."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Constraint, Direction, Knob
from ..expr import Expr
from ..ir.graph import Block, KernelIR, Op
from ..ir.types import Value, itemsize
from ..target import Target
from .dtypes import unsupported
from .extents import Extents
from .loops import stages_of
from .names import loop_site, rolled_site, suffixed, transposed_knob

# 32-bit registers a thread may spend on one tile; two of them are live at a time as a rule
REGISTERS_PER_TILE = 128
# multiply-adds of a product that no matrix unit does: Triton writes out all of a thread's, which are slow to assemble
UNROLLED_FMAS = 1 << 13


def constraints(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """The constraints of one region."""
    warps = suffixed(ir, "num_warps")
    found = [_tile_fits(e, knobs, target, warps) for e in extents.tiles() if e.symbols()]
    found += _products_fit(ir, extents, knobs, target)
    found += _streams_fit(ir, extents, knobs, target)
    found += _unrolled_fits(ir, extents, knobs, target, warps)
    found += unsupported(ir, target)
    if target.vendor == "amd":
        limit = 1024 // target.warp_size
        found.append(Constraint(f"warps<={limit}", Expr.sym(warps).le(limit), ((warps, "down"),),
                                f"a block of {target.name} has at most 1024 threads"))  # fmt: skip
    return found


def _shrink(e: Expr, knobs: dict[str, Knob]) -> list[tuple[str, Direction]]:
    """Steps that make ``e`` smaller; a reduction in one piece (0) becomes one with the largest block."""
    steps: list[tuple[str, Direction]] = []
    for symbol in sorted(e.symbols() & knobs.keys()):
        steps.append((symbol, "up" if knobs[symbol].role == "reduction" and knobs[symbol].default == 0 else "down"))
    return steps


def _tile_fits(e: Expr, knobs: dict[str, Knob], target: Target, warps: str) -> Constraint:
    threads = Expr.sym(warps) * target.warp_size
    fits = e.le(threads * REGISTERS_PER_TILE).and_(e.le(target.regs_per_sm))
    steps: list[tuple[str, Direction]] = [(warps, "up"), *_shrink(e, knobs)]
    return Constraint(f"tile {e} fits registers", fits, tuple(steps),
                      f"a tile of {e} elements needs at most {REGISTERS_PER_TILE} registers a thread, and "
                      f"{target.regs_per_sm} in all")  # fmt: skip


def _products_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """The operands of a pipelined product wait in shared memory, once a stage."""
    found = []
    for op, site in _products(ir, ir.body, ""):
        size = Expr.of(0)
        for operand in op.values[:2]:
            size = size + extents.elements(operand.dims) * itemsize(operand.type.dtype)
        turned = transposed_knob(op.attrs["site"])
        if turned in knobs:  # the right operand stays in registers
            left = op.values[0]
            size = (extents.elements(left.dims) * itemsize(left.type.dtype)).max(size * Expr.sym(turned).eq(0))
        # AMD's pipeline keeps one stage in registers
        count = stages_of(ir, site, knobs) - (1 if target.vendor == "amd" else 0)
        stored, halved = _stored(ir, extents, knobs)
        needed = size * count.max(1) + stored
        steps = [*halved, *_fewer_stages(ir, site, knobs), *_shrink(size, knobs)]
        found.append(Constraint(
            f"{op.attrs['site']} fits shared memory", needed.le(target.smem_per_block), tuple(steps),
            f"the staged operands of a product fit the {target.smem_per_block} bytes that a block of {target.name} has",
        ))  # fmt: skip
    return found


def _stored(ir: KernelIR, extents: Extents, knobs: dict[str, Knob]) -> tuple[Expr, list[tuple[str, Direction]]]:
    """The bytes by which a persistent program's largest store by descriptor waits beside the next tile's operands, and
    the steps by which it becomes smaller."""
    most, steps = Expr.of(0), list[tuple[str, Direction]]()
    for op in ir.body.ops:
        access = f"{op.attrs.get('site')}.access"
        if op.kind != "store" or access not in knobs:
            continue
        value, half = op.inputs[0], f"{op.attrs['site']}.subtile"
        assert isinstance(value, Value)
        size = extents.elements(value.dims) * itemsize(ir.tensor(op.attrs["tensor"]).dtype) * Expr.sym(access).ne(0)
        if half in knobs:
            size = size // Expr.sym(half)
            steps.append((half, "up"))
        most = most.max(size)
    return most * Expr.sym(suffixed(ir, "persistent")).ne(0), steps


def _products(ir: KernelIR, block: Block, loop: str) -> Iterator[tuple[Op, str]]:
    """Each product with the site of the loop right around it."""
    for op in block.ops:
        if op.kind in ("dot", "dot_scaled"):
            yield op, loop
        inner = loop_site(ir, op.attrs["tile"]) if op.kind == "for" else loop
        for region in op.regions:
            yield from _products(ir, region, inner)


def _fewer_stages(ir: KernelIR, site: str, knobs: dict[str, Knob]) -> list[tuple[str, Direction]]:
    """Where a loop has a choice of its own, the step below one stage is the launch's number."""
    own = f"{site}.stages"
    launch: list[tuple[str, Direction]] = [(suffixed(ir, "num_stages"), "down")]
    return [(own, "down"), *launch] if own in knobs else launch


def _streams_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """A pipelined loop without products keeps what it loads ahead in shared memory: all stages but the one at work."""
    found = []
    for site, size in _streams(ir, extents):
        needed = size * (stages_of(ir, site, knobs) - 1)
        steps = [*_fewer_stages(ir, site, knobs), *_shrink(size, knobs)]
        found.append(Constraint(
            f"{site} fits shared memory", needed.le(target.smem_per_block), tuple(steps),
            f"what a loop loads ahead fits the {target.smem_per_block} bytes that a block of {target.name} has",
        ))  # fmt: skip
    return found


def _streams(ir: KernelIR, extents: Extents) -> list[tuple[str, Expr]]:
    """Bytes that an iteration loads: of each loop without products, and of each reduction that may be looped."""
    found = []
    for op in ir.walk():
        if op.kind == "for" and not any(inner.kind in ("dot", "dot_scaled", "for") for inner in op.regions[0].ops):
            loads = [inner.output for inner in op.regions[0].ops if inner.kind == "load"]
            found.append((loop_site(ir, op.attrs["tile"]), _bytes(loads, extents)))
    for extent, site in extents.sites.items():
        whole = [op.output for op in ir.walk() if op.kind == "load" and any(d.extent == extent for d in op.output.dims)]
        # in one piece there is no loop
        found.append((rolled_site(site), _bytes(whole, extents) * Expr.sym(site).ne(0)))
    return [(site, size) for site, size in found if size != Expr.of(0)]


def _bytes(values: list[Value], extents: Extents) -> Expr:
    total = Expr.of(0)
    for value in values:
        total = total + extents.elements(value.dims) * itemsize(value.type.dtype)
    return total


def _unrolled_fits(
    ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target, warps: str
) -> Iterator[Constraint]:
    """Products of full-precision operands are written out as multiply-adds of each thread."""
    if target.vendor != "nvidia":
        return
    count = Expr.of(0)
    for op in ir.walk():
        if op.kind != "dot" or op.attrs["precision"] != "ieee":
            continue
        a, b = op.inputs[:2]
        assert isinstance(a, Value) and isinstance(b, Value)
        if a.type.dtype in ("float32", "float64"):
            count = count + extents.elements((*a.dims, b.dims[-1]))
    fits = count.le(Expr.sym(warps) * target.warp_size * UNROLLED_FMAS)
    if count != Expr.of(0) and fits.constant is None:
        steps: list[tuple[str, Direction]] = [(warps, "up"), *_shrink(count, knobs)]
        reason = f"products without matrix units are at most {UNROLLED_FMAS} multiply-adds a thread together"
        yield Constraint("products without matrix units are not too long", fits, tuple(steps), reason)
