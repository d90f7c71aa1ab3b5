"""What a config of one product's warp-specialised schedule must satisfy."""

from __future__ import annotations

from collections.abc import Iterable

from ..config import Constraint
from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR
from ..ir.types import itemsize
from ..schedule.chained import LARGEST_WIDTH
from ..schedule.computed import Computed
from ..schedule.memory import BARRIER_BYTES, OVERHEAD
from ..schedule.product import PIECE_BYTES, PIECE_SUMS
from ..schedule.single import Single, scattered_element
from ..schedule.types import WARPS_OF_A_GROUP
from ..target import Target
from .extents import Extents
from .knobs import CONSUMERS, NUM_STAGES, PING_PONG
from .schedule_checks import block_steps, schedule_constraint
from .shared_turns import blocks, shared_turns_constraints
from .split_schedules import bytes_of_parts, split_constraints

HEIGHTS = (64, 128)  # rows of a group: one instruction of the matrix units, or two
_LEAST_COLUMNS = 16
_LEAST_INNER = 32  # bytes: the sums of one instruction
_LEAST_STAGES = 2  # a turn issues its product before it lets go of the box of the turn before
# a thread's registers for sums: twice as many where less than four warp groups share a multiprocessor's registers
_FEW_SUMS = 64
# of a thread whose operand is computed: sums, the operand of a product under way and the next one
_MOST_COMPUTED, _MOST_COMPUTED_OF_THREE = 192, 96
_SUM_BYTES = 4  # of a float32
_RESERVED = 1024  # bytes of a block's shared memory that the driver has
_MOST_BOX = 256  # elements along a dimension of a box


def programs(groups: int, sums: int, shared: int, target: Target) -> int:
    """How many programs share a multiprocessor: of so many groups, registers of a thread for sums, bytes of shared
    memory."""
    return programs_that_fit(shared, target) if groups == 1 and sums <= _FEW_SUMS else 1


def programs_that_fit(shared: int, target: Target) -> int:
    """How many of up to two programs, of so many bytes each, a multiprocessor's shared memory has room for."""
    return 2 if 2 * (shared + _RESERVED) <= target.smem_per_sm else 1


def group_rows(ir: KernelIR, found: Single) -> Expr:
    """Of a tile, in a consumer group: all rows where groups have tiles of their own."""
    rows, groups = ir.tiles[found.rows].block, CONSUMERS.symbol(ir)
    dealt = PING_PONG.symbol(ir) * Expr.of(2).le(groups)
    return rows * dealt + (rows // groups) * dealt.eq(0)


def product_constraints(ir: KernelIR, found: Single, extents: Extents, target: Target) -> Iterable[Constraint]:
    """What the blocks, the groups and the ring must fit."""
    own, columns = group_rows(ir, found), extents.of(found.columns)
    yield from _shapes(ir, found, own, columns, extents.of(found.inner))
    groups, stages = CONSUMERS.symbol(ir), NUM_STAGES.symbol(ir)
    rows, inner = ir.tiles[found.rows].block, extents.of(found.inner)
    depth = NUM_STAGES.name(ir)
    yield schedule_constraint(
        "slots of a ring",
        Expr.of(_LEAST_STAGES).le(stages),
        ((depth, "up"),),
        f"a turn holds boxes of the turn before: at least {_LEAST_STAGES} stages",
    )
    sums = own * columns * len(found.products)
    # a float32 product's group has the sums of a turn twice beside those of all
    most = Expr.of(_FEW_SUMS) if found.is_split else _FEW_SUMS + groups.ne(3) * _FEW_SUMS
    fit = sums.cdiv(WARPS_OF_A_GROUP * 32).le(most)
    repair = (*block_steps(columns, "down"), *block_steps(rows, "down"))
    yield schedule_constraint(
        "registers of a consumer", fit, repair, "the sums of a group leave a thread registers for the epilogue"
    )
    if isinstance(found, Computed):
        yield _operands_fit(groups, own, columns, inner)
    if found.is_split:
        yield from split_constraints(ir, found, extents, target)
    if found.parts is not None and not (found.parts.length + found.parts.whole).symbols() & ir.hints.keys():
        yield schedule_constraint(
            "turns of a part",
            found.parts.comes_out(ir.tiles[found.keys].block * blocks(ir, found, target)),
            block_steps(inner, "down"),
            "turns divide a part of the inner dimension, all blocks' together, so that none reads of the next one",
        )
    yield from shared_turns_constraints(ir, found, own, columns, target)
    needed = _memory(ir, found, own, columns, extents, blocks(ir, found, target))
    repair = ((depth, "down"), *block_steps(inner, "down"), *block_steps(columns, "down"))
    yield schedule_constraint(
        "buffers fit shared memory",
        needed.le(target.smem_per_block),
        repair,
        f"boxes of all stages, and a piece of each group's result, fit the "
        f"{target.smem_per_block} bytes of shared memory of {target.name}",
    )


def _operands_fit(groups: Expr, own: Expr, columns: Expr, inner: Expr) -> Constraint:
    """A thread's sums, an operand that a product reads and the next one, of 16-bit numbers."""
    threads = WARPS_OF_A_GROUP * 32
    needed = (own * columns).cdiv(threads) + (own * inner).cdiv(threads)
    most = _MOST_COMPUTED - groups.eq(3) * (_MOST_COMPUTED - _MOST_COMPUTED_OF_THREE)
    return schedule_constraint(
        "registers of an operand",
        needed.le(most),
        (*block_steps(inner, "down"), *block_steps(columns, "down")),
        f"sums, an operand and the next one take at most {_MOST_COMPUTED} of a thread's registers, "
        f"{_MOST_COMPUTED_OF_THREE} in three groups",
    )


def _shapes(ir: KernelIR, found: Single, own: Expr, columns: Expr, inner: Expr) -> Iterable[Constraint]:
    """The constraints on the shape of a group's product: ``own`` rows by so many columns, summed over ``inner``."""
    rows = ir.tiles[found.rows].block
    groups, dealer = CONSUMERS.symbol(ir), CONSUMERS.name(ir)
    size = itemsize(found.product.values[0].type.dtype)
    heights = f"consumer groups have {' or '.join(map(str, HEIGHTS))} rows each"
    for name, check, repair, reason in (
        (
            "three groups",
            groups.ne(3).or_(PING_PONG.symbol(ir)),
            ((dealer, "down"),),
            "three groups have tiles of their own: no block of rows is cut in three",
        ),
        ("rows of a group", Expr.of(min(HEIGHTS)).le(own), ((dealer, "down"), *block_steps(rows, "up")), heights),
        ("rows of all groups", own.le(max(HEIGHTS)), block_steps(rows, "down"), heights),
        (
            "columns of a product",
            (columns * len(found.products)).le(LARGEST_WIDTH),
            block_steps(columns, "down"),
            f"products have at most {LARGEST_WIDTH} columns, those of several right operands together",
        ),
        (
            "least columns of a product",
            Expr.of(_LEAST_COLUMNS).le(columns),
            block_steps(columns, "up"),
            f"products have at least {_LEAST_COLUMNS} columns",
        ),
        (
            "inner dimension of a turn",
            Expr.of(_LEAST_INNER // size).le(inner),
            block_steps(inner, "up"),
            f"an instruction sums over {_LEAST_INNER} bytes of each operand",
        ),
        (
            "boxes",
            inner.le(_MOST_BOX),
            block_steps(inner, "down"),
            f"boxes have at most {_MOST_BOX} elements along a dimension",
        ),
    ):
        yield schedule_constraint(name, check, repair, reason)


def _memory(ir: KernelIR, found: Single, own: Expr, columns: Expr, extents: Extents, blocks: Expr) -> Expr:
    """As :func:`tileflow.schedule.memory.shared_bytes` counts a schedule's buffers."""
    rows, inner = ir.tiles[found.rows].block, extents.of(found.inner)
    groups, stages = CONSUMERS.symbol(ir), NUM_STAGES.symbol(ir)
    if isinstance(found, Computed):
        box = extents.elements(found.left.output.dims) * itemsize(found.left.output.type.dtype)
        ring = stages * (box + columns * inner * itemsize(found.right.output.type.dtype)) + stages * BARRIER_BYTES
    else:
        rights = columns * len(found.products)
        ring = stages * (rows + rights) * inner * itemsize(found.left.output.type.dtype)
        if found.is_split:
            ring = ring + stages * (bytes_of_parts(found, rows, columns, inner) + BARRIER_BYTES)
    needed = ring + (stages * 2 + groups) * BARRIER_BYTES + OVERHEAD
    size = scattered_element(ir, found)  # which Triton moves between lanes as a whole, where it is no piece of columns
    scattered = own * columns * size
    if found.by_columns:
        scattered = _piece(found, own, columns, size, blocks)
    given = own * (columns - columns // blocks) * _SUM_BYTES
    if found.saved is None:
        return needed + groups * (scattered + given)
    size = itemsize(ir.tensor(AccessAttrs.of(found.saved).tensor).dtype)
    saved = _piece(found, own, columns, size, blocks) if found.by_columns else (own * columns * size).min(PIECE_BYTES)
    return needed + groups * (saved + scattered + given)


def _piece(found: Single, own: Expr, columns: Expr, size: int, blocks: Expr) -> Expr:
    """Bytes of a piece of some columns of a group's result, whose elements have so many; of a cluster, of a block's."""
    most = PIECE_SUMS * WARPS_OF_A_GROUP * 32 // len(found.products) * size
    whole, alone = own * columns * size, blocks.eq(1)
    return whole.min(PIECE_BYTES).min(most) * alone + whole // blocks * (blocks.ne(1))
