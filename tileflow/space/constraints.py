"""What every config of a region must satisfy, as objects: a check, a repair, a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Constraint, Direction, Knob
from ..errors import Location
from ..expr import Expr
from ..ir.analysis import in_full_precision
from ..ir.attributes import ReshapeAttrs, TileAttrs, site_of
from ..ir.graph import KernelIR, Op
from ..ir.kinds import LOOPS, OpKind
from ..ir.op_table import PRODUCTS
from ..ir.types import Value, itemsize
from ..passes.roll import OPERAND, InOnePiece, apart, is_whole, kept_whole
from ..target import Target
from .cluster_loops import boxes
from .dtypes import unsupported
from .extents import Extents
from .knobs import CTAS, MAXNREG, NUM_STAGES, NUM_WARPS, PRECISION, STAGES, STATIC, UNROLL
from .loops import stages_of
from .names import loop_site, rolled_site
from .precisions import columns_fit, parts_agree
from .staging import blocks_of, stagings, written_out
from .warp_groups import warp_groups_share

# 32-bit registers a thread may spend on one tile; two of them are live at a time as a rule
REGISTERS_PER_TILE = 128
# multiply-adds of a product that no matrix unit does: Triton writes out all of a thread's, which are slow to assemble
UNROLLED_FMAS = 1 << 13
SORTED_OF_A_LANE = 4  # elements of a row, beside which the next lane has the next ones
_MOST_REGISTERS = 255  # that an NVIDIA thread may have
_REGISTER = 4  # bytes


def constraints(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """The constraints of one region."""
    warps = NUM_WARPS.name(ir)
    kept = _kept_whole(ir, target)
    found = [_tile_fits(e, loc, knobs, target, warps, kept) for e, loc in extents.tiles().items() if e.symbols()]
    found += _products_fit(ir, extents, knobs, target)
    found += _sums_fit(ir, extents, knobs, target, warps)
    found += _streams_fit(ir, extents, knobs, target)
    found += _sorted_fit(ir, extents, knobs, target)
    found += _unrolled_fits(ir, extents, knobs, target, warps)
    found += columns_fit(ir, extents, knobs)
    found += parts_agree(ir, knobs)
    found += _updates_fit(ir, extents, knobs, target)
    found += warp_groups_share(ir, extents, knobs, target)
    found += _reshapes_come_out(ir, knobs)
    found += _rolled_apart(ir)
    found += unsupported(ir, target)
    if target.vendor == "amd":
        limit = 1024 // target.warp_size
        found.append(
            Constraint(
                f"warps<={limit}",
                Expr.sym(warps).le(limit),
                ((warps, "down"),),
                f"a block of {target.name} has at most 1024 threads",
            )
        )
    return found


def _rolled_apart(ir: KernelIR) -> Iterator[Constraint]:
    for one, other in apart(ir):
        yield Constraint(
            f"{one} or {other} in one piece",
            Expr.sym(one).eq(0).or_(Expr.sym(other).eq(0)),
            ((other, "down"), (one, "down")),
            "each of the two dimensions is needed whole in the loops over the other",
        )


def _shrink(e: Expr, knobs: dict[str, Knob]) -> list[tuple[str, Direction]]:
    """Steps that make ``e`` smaller; a reduction in one piece (0) becomes one with the largest block."""
    steps: list[tuple[str, Direction]] = []
    for symbol in sorted(e.symbols() & knobs.keys()):
        if CTAS.matches(symbol):  # more blocks need one row a program: that is chosen, no repair
            continue
        steps.append((symbol, "up" if knobs[symbol].role == "reduction" and knobs[symbol].default == 0 else "down"))
    return steps


def _kept_whole(ir: KernelIR, target: Target) -> dict[int, InOnePiece]:
    """By the elements that registers have for it, why a dimension that no config holds is no loop."""
    found: dict[int, InOnePiece] = {}
    for dim in dict.fromkeys(d for op in ir.walk() for v in op.outputs for d in v.dims if is_whole(d)):
        lanes = 1 << max(ir.hint(dim.extent) - 1, 0).bit_length()
        reason = kept_whole(ir, dim) if lanes > target.regs_per_sm else None
        if reason is not None:
            found.setdefault(lanes, reason)
    return found


def _tile_fits(
    e: Expr,
    where: Location | None,
    knobs: dict[str, Knob],
    target: Target,
    warps: str,
    kept: Mapping[int, InOnePiece],
) -> Constraint:
    threads = Expr.sym(warps) * target.warp_size
    fits = e.le(threads * REGISTERS_PER_TILE).and_(e.le(target.regs_per_sm))
    steps: list[tuple[str, Direction]] = [(warps, "up"), *_shrink(e, knobs)]
    reason = f"a tile of {e} elements needs at most {REGISTERS_PER_TILE} registers a thread, and "
    reason += f"{target.regs_per_sm} in all"
    whole = next((its for lanes, its in kept.items() if e.quotient(Expr.of(lanes)) is not None), None)
    if whole is not None:
        where = whole.op.loc or where
        reason += f"; its longest dimension is no loop, since {whole}"
    return Constraint(f"tile {e} fits registers", fits, tuple(steps), reason, where)


def _products_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """The operands of products wait in shared memory."""
    found = []
    reason = f"the staged operands of products fit the {target.smem_per_block} bytes that a block of {target.name} has"
    for staging in stagings(ir, extents, knobs, target):
        needed = staging.size + staging.stored + boxes(ir, knobs)
        copies: list[tuple[str, Direction]] = [(k.name(staging.site), "down") for k in (UNROLL, STATIC)]
        steps = [
            *staging.steps,
            *(step for step in copies if step[0] in knobs),
            *(_fewer_stages(ir, staging.site, knobs) if staging.site else ()),
            *_shrink(staging.size, {n: k for n, k in knobs.items() if k.role in ("block", "reduction")}),
            *((name, "down") for name in boxes(ir, knobs).symbols()),
        ]
        name = f"products of {staging.site or 'no loop'} fit shared memory"
        whole = _whole_of(ir, staging.largest)
        why = f"; their longest dimension is no loop, since {whole}" if whole else ""
        where = (whole and whole.op.loc) or staging.largest.loc
        found.append(Constraint(name, needed.le(target.smem_per_block), tuple(steps), reason + why, where))
    return found


def _whole_of(ir: KernelIR, product: Op) -> InOnePiece | None:
    """Why a product takes its longest dimension whole; None where it is a loop or short, or nothing can be named."""
    dims = [dim for v in product.values[:2] for dim in v.dims if is_whole(dim) and ir.hint(dim.extent) > OPERAND]
    longest = max(dims, key=lambda dim: ir.hint(dim.extent), default=None)
    return None if longest is None else kept_whole(ir, longest)


def _sums_fit(
    ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target, warps: str
) -> Iterator[Constraint]:
    """What a loop carries and the largest product that adds to none of it are in registers at once. The matrix units
    hold an instruction's whole result in registers, which cannot be spilled meanwhile: the assembler fails."""
    if target.vendor != "nvidia":
        return
    threads, bound = Expr.sym(warps) * target.warp_size, MAXNREG.name(ir)
    for number, op in enumerate(ir.walk()):
        dots = [inner for region in op.regions for inner in region.ops if inner.kind in PRODUCTS]
        if op.kind not in LOOPS or not dots:
            continue
        tile = Expr.of(0)
        for dot in dots:
            tile = tile.max(_bytes([dot.output], extents) if len(dot.values) == 2 else Expr.of(0))
        needed = (_bytes([v for v in op.regions[0].params if v.dims], extents) + tile).cdiv(_REGISTER)
        fits = needed.lt(target.regs_per_sm).and_(needed.lt(threads * _MOST_REGISTERS))
        steps: list[tuple[str, Direction]] = [(warps, "up"), *_shrink(needed, knobs)]
        if bound in knobs:
            fits = fits.and_(Expr.sym(bound).eq(0).or_(needed.lt(threads * Expr.sym(bound))))
            steps.insert(0, (bound, "down"))
        site = loop_site(ir, TileAttrs.of(op).tile) if op.kind is OpKind.FOR else f"while#{number}"
        yield Constraint(
            f"sums of {site} fit registers",
            fits,
            tuple(steps),
            f"the sums of a loop and a product beside them take less than the {target.regs_per_sm} registers of all, "
            f"and than {_MOST_REGISTERS} or maxnreg a thread",
            dots[0].loc,
        )


def _updates_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> Iterator[Constraint]:
    """What a product is added to by atomics goes from one layout to another through AMD's shared memory, all at once,
    unless Triton knows the addresses to be aligned. Variants for any call do not."""
    if target.vendor != "amd" or not ir.shape_mode.is_wide or not any(op.kind in PRODUCTS for op in ir.walk()):
        return
    reason = f"what atomics add fits the {target.smem_per_block} bytes of shared memory that {target.name} has"
    for op in ir.walk():
        if op.kind is OpKind.ATOMIC and op.output.dims:
            size = _bytes([op.output], extents)
            fits = size.le(target.smem_per_block)
            if fits.constant is None:
                yield Constraint(
                    f"atomics of {size} bytes fit shared memory", fits, tuple(_shrink(size, knobs)), reason, op.loc
                )


def _reshapes_come_out(ir: KernelIR, knobs: dict[str, Knob]) -> Iterator[Constraint]:
    """Blocks that a reshape cuts into parts are whole numbers of them, and the loops of tiles that it cuts or merges
    have no shorter tile at the end."""
    for op in ir.walk():
        for need in (ReshapeAttrs.of(op).needs or ()) if op.kind is OpKind.RESHAPE else ():
            divided = need.symbols() & knobs.keys()
            is_part = any(a.op == "mod" and a.args[0].op == "sym" for a in need.args)
            steps: list[tuple[str, Direction]] = [(name, "up" if is_part else "down") for name in sorted(divided)]
            yield Constraint(
                f"{need}",
                need.substitute(ir.hints),
                tuple(steps),
                "a reshape that cuts or merges tiles has whole tiles only",
                op.loc,
            )


def _fewer_stages(ir: KernelIR, site: str, knobs: dict[str, Knob]) -> list[tuple[str, Direction]]:
    """Where a loop has a choice of its own, the step below one stage is the launch's number."""
    own = STAGES.name(site)
    launch: list[tuple[str, Direction]] = [(NUM_STAGES.name(ir), "down")]
    return [(own, "down"), *launch] if own in knobs else launch


def _streams_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> list[Constraint]:
    """A pipelined loop keeps what it loads ahead in shared memory: all stages but the one at work, and that one too
    where products read it there."""
    found = []
    for site, loads, size, at_work in _streams(ir, extents):
        needed = size * (stages_of(ir, site, knobs) - 1 + at_work) + boxes(ir, knobs)
        steps = [*_fewer_stages(ir, site, knobs), *_shrink(size, knobs)]
        found.append(
            Constraint(
                f"{site} fits shared memory",
                needed.le(target.smem_per_block),
                tuple(steps),
                f"what a loop loads ahead fits the {target.smem_per_block} bytes that a block of {target.name} has",
                loads[0].loc,
            )
        )
    return found


def _sorted_fit(ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target) -> Iterator[Constraint]:
    """The warps of a program exchange all elements of a tile at once whose rows they sort together. A row that the
    lanes of one hold needs no shared memory, as 256 rows of 64 numbers by eight warps. Of the least few elements they
    exchange fewer."""
    for op in ir.walk():
        if op.kind is OpKind.SORT and op.output.dims[-1].extent == op.values[0].dims[-1].extent:
            row = extents.elements(op.output.dims[-1:])
            together = Expr.of(target.warp_size * SORTED_OF_A_LANE).lt(row).and_(NUM_WARPS.symbol(ir).ne(1))
            tile = _bytes([op.output], extents)
            size = tile * together
            yield Constraint(
                f"a sorted tile of {size} bytes fits shared memory",
                size.le(target.smem_per_block),
                tuple(_shrink(tile, knobs)),
                f"a tile that is sorted, of {itemsize(op.output.type.dtype)} bytes an element, fits the "
                f"{target.smem_per_block} bytes of shared memory that a block of {target.name} has",
                op.loc,
                hint=_instead_of_sorting(op),
            )


def _instead_of_sorting(op: Op) -> str:
    """What to write where a row is too long to be sorted in one piece: with its indices it takes 8 bytes an element."""
    alone = "the values alone, in half of that: torch.sort(x, dim)[0]; " if itemsize(op.output.type.dtype) > 4 else ""
    return f"{alone}some of the largest: torch.topk(x, k, dim); or all of them before the loop, in host code"


def _streams(ir: KernelIR, extents: Extents) -> list[tuple[str, list[Op], Expr, int]]:
    """The loads of an iteration and their bytes: of each loop without products, and of each dimension that may be
    looped; 1 where products may read them from there."""
    found = []
    for op in ir.walk():
        if op.kind is OpKind.FOR and not any(inner.kind in (*PRODUCTS, OpKind.FOR) for inner in op.regions[0].ops):
            loads = [inner for inner in op.regions[0].ops if inner.kind is OpKind.LOAD]
            size = _bytes([load.output for load in loads], extents)
            found.append((loop_site(ir, TileAttrs.of(op).tile), loads, size, 0))
    for dim, site in extents.sites.items():
        whole = [op for op in ir.walk() if op.kind is OpKind.LOAD and dim in op.output.dims]
        size = _bytes([load.output for load in whole], extents)
        # in one piece there is no loop
        at_work = any(op.kind in PRODUCTS and any(dim in v.dims for v in op.values) for op in ir.walk())
        found.append((rolled_site(site), whole, size * Expr.sym(site).ne(0), int(at_work)))
    return [stream for stream in found if stream[2] != Expr.of(0)]


def _bytes(values: list[Value], extents: Extents) -> Expr:
    total = Expr.of(0)
    for value in values:
        total = total + extents.elements(value.dims) * itemsize(value.type.dtype)
    return total


def _unrolled_fits(
    ir: KernelIR, extents: Extents, knobs: dict[str, Knob], target: Target, warps: str
) -> Iterator[Constraint]:
    """Products of full-precision operands are written out as multiply-adds of each thread, in each turn of a loop that
    is written out, and once more for the turns that are left over."""
    if target.vendor != "nvidia":
        return
    count, where = Expr.of(0), None
    for block, site in blocks_of(ir, ir.body):
        turns = written_out(ir, site, knobs)
        for op in block.ops:
            if op.kind is OpKind.DOT and in_full_precision(op):
                a, b = op.values[:2]
                name = PRECISION.name(site_of(op))
                written = Expr.sym(name).eq(0) if name in knobs else Expr.of(1)
                count = count + extents.elements((*a.dims, b.dims[-1])) * (turns + turns.ne(1)) * written
                where = where or op.loc
    fits = count.le(Expr.sym(warps) * target.warp_size * UNROLLED_FMAS)
    if count != Expr.of(0) and fits.constant is None:
        loops = {name: knob for name, knob in knobs.items() if knob.role == "loop"}
        rest = {name: knob for name, knob in knobs.items() if knob.role != "loop"}
        steps: list[tuple[str, Direction]] = [*_shrink(count, loops), (warps, "up"), *_shrink(count, rest)]
        reason = f"products without matrix units are at most {UNROLLED_FMAS} multiply-adds a thread together"
        yield Constraint("products without matrix units are not too long", fits, tuple(steps), reason, where)
