"""What the configs of a warp-specialised loop of gradients must satisfy."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import Constraint
from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op
from ..ir.types import itemsize
from ..schedule.attention import CONSUMER_REGISTERS
from ..schedule.chained import LARGEST_WIDTH
from ..schedule.gradient_loop import Added, GradientLoop
from ..schedule.gradients import RUN
from ..schedule.memory import BARRIER_BYTES, OVERHEAD
from ..schedule.types import ROWS_OF_A_GROUP, WARPS_OF_A_GROUP
from ..target import Target
from .extents import Extents
from .knobs import NUM_STAGES
from .schedule_checks import (
    block_steps,
    ends_with_rows,
    may_be_masked,
    registers_fit,
    rows_of_groups,
    schedule_constraint,
)

_LEAST_COLUMNS = 32  # of a turn: with fewer the barriers take longer than the products
_LEAST_STAGES = 2  # with one, the groups would wait for each copy
_OTHER_REGISTERS = 4  # beside them addresses and row numbers have room where a part is done with its scores
_THREADS = WARPS_OF_A_GROUP * 32
_SUM_BYTES = 4


def gradient_constraints(ir: KernelIR, found: GradientLoop, extents: Extents, target: Target) -> Iterator[Constraint]:
    """The constraints on block sizes, stages and groups, each with what repairs a config that breaks it."""
    rows, columns = ir.tiles[found.rows].block, extents.of(found.columns)
    stages = NUM_STAGES.symbol(ir)
    yield from rows_of_groups(rows, tuple(CONSUMER_REGISTERS))
    yield schedule_constraint(
        "columns of a turn",
        Expr.of(_LEAST_COLUMNS).le(columns),
        block_steps(columns, "up"),
        f"a turn has at least {_LEAST_COLUMNS} rows of each block",
    )
    widest = columns
    for op in (*found.held, *found.blocks, *(s.product for s in found.sums)):
        widest = widest.max(extents.of(op.output.dims[1]))
    for op in found.blocks:
        widest = widest.max(extents.of(op.output.dims[0]))
    yield schedule_constraint(
        "columns of a product",
        widest.le(LARGEST_WIDTH),
        block_steps(columns, "down"),
        f"products, and the boxes of their operands, have at most {LARGEST_WIDTH} columns",
    )
    yield schedule_constraint(
        "slots of a ring",
        Expr.of(_LEAST_STAGES).le(stages),
        ((NUM_STAGES.name(ir), "up"),),
        f"a block is copied while another one is read: there are at least {_LEAST_STAGES} stages",
    )
    if found.added is not None:
        yield _parts_of_added(found.added, rows, extents)
    yield from _registers_fit(ir, found, extents)
    yield _memory_fits(ir, found, extents, target)
    if ends_with_rows(ir, found.keys, found.rows):
        yield schedule_constraint(
            "blocks in a tile of rows",
            (rows % columns).eq(0),
            block_steps(columns, "down"),
            "a loop that ends with a tile of rows has whole blocks before it",
        )


def _parts_of_added(added: Added, rows: Expr, extents: Extents) -> Constraint:
    """As :func:`tileflow.schedule.gradients.is_by_columns` divides what a turn adds to memory."""
    turn, columns = (extents.of(d) for d in added.product.output.dims)
    groups = rows // ROWS_OF_A_GROUP
    by_rows = turn.eq(groups * ROWS_OF_A_GROUP)
    by_columns = turn.eq(ROWS_OF_A_GROUP).and_(columns.eq(groups * RUN))
    return schedule_constraint(
        "parts of what is added",
        by_rows.or_(by_columns),
        (*block_steps(turn, "down"), *block_steps(turn, "up")),
        f"consumer groups share what a turn adds to memory: {ROWS_OF_A_GROUP} rows each, or {RUN} columns of "
        f"{ROWS_OF_A_GROUP} rows",
    )


def _registers_fit(ir: KernelIR, found: GradientLoop, extents: Extents) -> Iterator[Constraint]:
    """The sums and the scores in float32, an operand in half of that: of a group's rows, by its threads."""
    rows, columns = ir.tiles[found.rows].block, extents.of(found.columns)
    needed = (columns * ROWS_OF_A_GROUP * (2 * len(found.scores) + 1)).cdiv(2 * _THREADS)
    for sum_ in found.sums:
        needed = needed + (extents.of(sum_.product.output.dims[1]) * ROWS_OF_A_GROUP).cdiv(_THREADS)
    masks, fewer = may_be_masked(ir, found.keys, found.rows), block_steps(columns, "down")
    yield from registers_fit(needed, rows, CONSUMER_REGISTERS, _OTHER_REGISTERS, masks, fewer)


def _memory_fits(ir: KernelIR, found: GradientLoop, extents: Extents, target: Target) -> Constraint:
    """As :func:`tileflow.schedule.memory.shared_bytes` counts a schedule's buffers."""
    rows, stages = ir.tiles[found.rows].block, NUM_STAGES.symbol(ir)
    groups = rows // ROWS_OF_A_GROUP
    total = (stages * 2 * len(found.blocks) + groups * len(found.held)) * BARRIER_BYTES + OVERHEAD
    for op in found.held:
        total = total + rows * _row_bytes(ir, op, extents)
    for op in found.blocks:
        total = total + stages * extents.of(op.output.dims[0]) * _row_bytes(ir, op, extents)
    total = total + _memory_of_added(found, rows, stages, extents)
    for vector in (op for op in found.vectors if op is not None):
        total = total + stages * extents.of(vector.output.dims[0]) * _bytes(ir, vector)
    for n, op in enumerate(found.saved if found.added is None else ()):
        own = rows * _row_bytes(ir, op, extents)
        is_own = Expr.of(1)
        if n < len(found.held) and _bytes(ir, op) == _bytes(ir, found.held[n]):
            is_own = _row_bytes(ir, op, extents).eq(_row_bytes(ir, found.held[n], extents)).eq(0)
        total = total + own * is_own
    steps = ((NUM_STAGES.name(ir), "down"), *block_steps(extents.of(found.columns), "down"))
    return schedule_constraint(
        "buffers fit shared memory",
        total.le(target.smem_per_block),
        steps,
        f"what a program holds, and the blocks of all stages, fit the {target.smem_per_block} "
        f"bytes of shared memory of {target.name}",
    )


def _memory_of_added(found: GradientLoop, rows: Expr, stages: Expr, extents: Extents) -> Expr:
    """The operands of all stages with their barriers, and the sums in float32 that leave."""
    if found.added is None:
        return Expr.of(0)
    turn, columns = (extents.of(d) for d in found.added.product.output.dims)
    operands = stages * (rows * turn * itemsize(found.added.operand.type.dtype) + BARRIER_BYTES)
    return operands + turn * columns * _SUM_BYTES


def _row_bytes(ir: KernelIR, op: Op, extents: Extents) -> Expr:
    """Bytes of one row of the box of a load or a store."""
    value = op.output if op.outputs else op.values[0]
    return extents.of(value.dims[1]) * _bytes(ir, op)


def _bytes(ir: KernelIR, op: Op) -> int:
    """Bytes of one element in memory."""
    return itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype)
