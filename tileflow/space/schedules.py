"""Which regions have a warp-specialised schedule on a target, and what its configs must satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..config import Choice, Config, ConfigSpace, Constraint, Direction, Knob
from ..expr import Expr
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR
from ..ir.types import Value, itemsize
from ..passes.unit_batches import as_matrices, batch_blocks
from ..schedule.attention import CONSUMER_REGISTERS, NAMES
from ..schedule.chained import LARGEST_WIDTH, Chained, Refusal
from ..schedule.computed import Computed
from ..schedule.computed_product import NAMES as COMPUTED_NAMES
from ..schedule.gradient_loop import GradientLoop
from ..schedule.gradients import NAMES as GRADIENT_NAMES
from ..schedule.memory import BARRIER_BYTES, OVERHEAD
from ..schedule.product import NAMES as PRODUCT_NAMES
from ..schedule.single import Single
from ..schedule.split_product import NAMES as SPLIT_NAMES
from ..schedule.structure import Structure, find_structure
from ..schedule.types import ROWS_OF_A_GROUP, WARPS_OF_A_GROUP
from ..target import Target
from .clusters import without_clusters
from .extents import Extents
from .gradient_schedules import gradient_constraints
from .knobs import (
    CONSUMERS,
    DESCENDING,
    GRID,
    GROUP,
    LOOP_CTAS,
    NUM_STAGES,
    ORDER,
    PERSISTENT,
    PING_PONG,
    PRECISION,
    SCHEDULE,
    definition,
)
from .product_schedules import product_constraints
from .schedule_checks import (
    block_steps,
    ends_with_rows,
    grows_with_rows,
    may_be_masked,
    registers_fit,
    rows_of_groups,
    schedule_constraint,
)
from .shared_turns import shares_turns

_GROUPS = tuple(CONSUMER_REGISTERS)
THREE_GROUPS = 3 * ROWS_OF_A_GROUP  # the one size of a block that is no power of two
_LEAST_KEYS = 32  # in a turn: with fewer the barriers take longer than the products
_LEAST_STAGES = 2  # a turn holds the values of the one before while it waits for its own
_OTHER_REGISTERS = 32  # a thread's addresses, row numbers and what the author's operations need meanwhile
# the knobs that mean the same in every schedule
_SHARED = (DESCENDING, GRID, GROUP, ORDER, NUM_STAGES)
_SHARED_ROLES = ("block", "tunable")
_OWN = (SCHEDULE, CONSUMERS, PING_PONG)


def refusal(ir: KernelIR, target: Target) -> str:
    """Why a region has no warp-specialised schedule on a target; empty where it has one."""
    if not target.has_wgmma:
        return f"{target.name} has no warp groups that multiply from shared memory into their own registers"
    ir = as_matrices(ir)
    found = find_structure(ir)
    if isinstance(found, Refusal):
        return str(found)
    taken = _names(found) & {*(s.name for s in ir.scalars), *ir.hints}
    if taken:
        return f"the kernel reads a number called {min(taken)}, which is a name of the schedule's own"
    impossible = [c for c in _constraints(ir, found, Extents(ir, {}), target) if c.check.constant == 0]
    return impossible[0].reason if impossible else ""


def copied_tensors(ir: KernelIR, target: Target) -> tuple[str, ...]:
    """The tensors that a launch copies where it is warp-specialised, since boxes of themselves serve none."""
    found = find_structure(as_matrices(ir)) if not refusal(ir, target) else None
    return tuple(dict.fromkeys(AccessAttrs.of(op).tensor for op in found.copied)) if isinstance(found, Single) else ()


def schedule_knobs(ir: KernelIR) -> Iterator[Knob]:
    """Whether warps of a region that has a schedule have roles of their own, and how they take turns."""
    yield SCHEDULE.of(ir)
    found = _found(ir)
    if isinstance(found, Single):
        yield CONSUMERS.of(ir, _specialised(ir))
        yield PING_PONG.of(ir, _specialised(ir).and_(Expr.of(2).le(CONSUMERS.symbol(ir))))
    elif isinstance(found, Chained):
        rows = ir.tiles[found.rows].block
        yield PING_PONG.of(ir, _specialised(ir).and_(Expr.of(ROWS_OF_A_GROUP).lt(rows)))


def interpretable(space: ConfigSpace, config: Config) -> Config:
    """``config``, or where a launch of it is not pipelined, or has clusters, the nearest one of ``space`` in which all
    are pipelined and none has: Triton's interpreter runs no other. What it shows is the author's body, masks and tails
    under the same blocks; the schedule has an executor of its own (:mod:`tileflow.schedule.execute`).

    Raises ConfigError where the rest of ``config`` is none of ``space``.
    """
    config = without_clusters(space, config)
    chosen = config.to_dict()
    if all(choice == SCHEDULE.default for name, choice in chosen.items() if SCHEDULE.matches(name)):
        return config
    own = {n for n in chosen if any(knob.matches(n) for knob in _OWN)}
    return space.repair(space.complete({n: c for n, c in chosen.items() if n not in own}))


def of_each_schedule(ir: KernelIR, knobs: list[Knob], target: Target) -> list[Knob]:
    """The knobs of a region that has several schedules: those of the pipelined one matter in it alone. A tile of rows
    that groups share may have three groups' rows."""
    found = _found(ir)
    own = (PERSISTENT,) if isinstance(found, Chained) else (PRECISION,) if _is_split(found) else ()
    shared = (*_SHARED, *own, *((LOOP_CTAS,) if shares_turns(ir, found, target) else ()))
    name = _shared_rows(ir)
    knobs = [replace(k, choices=_with_three_groups(k.choices)) if k.name == name else k for k in knobs]
    return [k if _is_shared(k, shared) else replace(k, active=k.active.and_(_specialised(ir).eq(0))) for k in knobs]


def _with_three_groups(choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """The sizes of a block, and three groups' rows where they are between them."""
    sizes = [c for c in choices if isinstance(c, int)]
    return tuple(sorted({*sizes, THREE_GROUPS})) if max(sizes) > THREE_GROUPS else choices


def _shared_rows(ir: KernelIR) -> str:
    """The block size of the rows that consumer groups share, where it is that of no other loop; else empty."""
    found = _found(ir)
    if isinstance(found, Single):
        return ""
    block = ir.tiles[found.rows].block
    users = [tile for tile in ir.tiles.values() if block.symbols() & tile.block.symbols()]
    return str(block.args[0]) if block.op == "sym" and len(users) == 1 else ""


def schedule_constraints(
    ir: KernelIR, extents: Extents, pipelined: list[Constraint], target: Target
) -> list[Constraint]:
    """The constraints of a region that has several schedules: each schedule's own hold only where that one is
    chosen."""
    is_specialised = _specialised(ir)
    found = [replace(c, check=is_specialised.or_(c.check)) for c in pipelined]
    if name := _shared_rows(ir):
        found.append(_powers_of_two(name, is_specialised))
    of_matrices = as_matrices(ir)
    for own in (*_lone_matrices(ir), *_constraints(of_matrices, _found(ir), extents, target)):
        if own.check.constant is None:
            back: tuple[str, Direction] = (SCHEDULE.name(ir), "down")
            check = is_specialised.eq(0).or_(own.check)
            found.append(replace(own, check=check, repair=(*own.repair, back)))
    return found


def _lone_matrices(ir: KernelIR) -> Iterator[Constraint]:
    for name in batch_blocks(ir):
        yield schedule_constraint(
            f"matrices of a tile: {name}",
            Expr.sym(name).eq(1),
            ((name, "down"),),
            "a tile is of one matrix, as of one head",
        )


def _powers_of_two(name: str, is_specialised: Expr) -> Constraint:
    return Constraint(
        f"pipelined: rows of {name}",
        is_specialised.or_(Expr.sym(name).ne(THREE_GROUPS)),
        ((name, "down"), (name, "up")),
        f"a tile has a power of two of rows, but for what {THREE_GROUPS // ROWS_OF_A_GROUP} consumer groups share",
    )


def _found(ir: KernelIR) -> Structure:
    """The structure of a region that has one, of matrices where its blocks have several."""
    found = find_structure(as_matrices(ir))
    assert not isinstance(found, Refusal)  # or there would be no knob
    return found


def _is_split(found: Structure) -> bool:
    return isinstance(found, Single) and found.is_split


def _names(found: Structure) -> frozenset[str]:
    """What a program of the structure's schedule calls its own."""
    if isinstance(found, Computed):
        return COMPUTED_NAMES
    if isinstance(found, Single):
        return SPLIT_NAMES if _is_split(found) else PRODUCT_NAMES
    return GRADIENT_NAMES if isinstance(found, GradientLoop) else NAMES


def _specialised(ir: KernelIR) -> Expr:
    return SCHEDULE.symbol(ir).eq(SCHEDULE.choices.index("warp_specialised"))


def _is_shared(knob: Knob, shared: tuple[object, ...]) -> bool:
    return knob.role in _SHARED_ROLES or definition(knob.name) in (*shared, *_OWN)


def _constraints(ir: KernelIR, found: Structure, extents: Extents, target: Target) -> Iterable[Constraint]:
    if isinstance(found, Single):
        return product_constraints(ir, found, extents, target)
    if isinstance(found, GradientLoop):
        return gradient_constraints(ir, found, extents, target)
    return _chained_constraints(ir, found, extents, target)


def _chained_constraints(ir: KernelIR, found: Chained, extents: Extents, target: Target) -> Iterable[Constraint]:
    rows = ir.tiles[found.rows].block
    keys, depth = extents.of(found.scores.output.dims[1]), extents.of(found.sums.output.dims[1])
    inner = extents.of(found.query.output.dims[1])
    stages, groups = NUM_STAGES.symbol(ir), rows // ROWS_OF_A_GROUP
    yield from rows_of_groups(rows, _GROUPS)
    yield schedule_constraint(
        "keys of a turn",
        Expr.of(_LEAST_KEYS).le(keys),
        block_steps(keys, "up"),
        f"a turn has at least {_LEAST_KEYS} keys",
    )
    widest = keys.max(depth).max(inner)
    yield schedule_constraint(
        "columns of a product",
        widest.le(LARGEST_WIDTH),
        block_steps(keys, "down"),
        f"products, and the boxes of their operands, have at most {LARGEST_WIDTH} columns",
    )
    yield schedule_constraint(
        "slots of a ring",
        Expr.of(_LEAST_STAGES).le(stages),
        ((NUM_STAGES.name(ir), "up"),),
        f"a turn holds values of the turn before: there are at least {_LEAST_STAGES} stages",
    )
    loop = ir.tiles[found.keys]
    alike = isinstance(loop.begin, Expr) and isinstance(loop.end, Expr)
    yield schedule_constraint(
        "programs that walk",
        PERSISTENT.symbol(ir).le(int(alike or grows_with_rows(ir, found.keys, found.rows))),
        ((PERSISTENT.name(ir), "down"),),
        "a program that traverses several tiles is the only one of its multiprocessor, and has a turn in each",
    )
    threads = WARPS_OF_A_GROUP * 32  # the scores in float32, the weights beside them in half of that, the sums
    needed = (keys * ROWS_OF_A_GROUP * 3).cdiv(2 * threads) + (depth * ROWS_OF_A_GROUP).cdiv(threads)
    masks, fewer = may_be_masked(ir, found.keys, found.rows), block_steps(keys, "down")
    yield from registers_fit(needed, rows, CONSUMER_REGISTERS, _OTHER_REGISTERS, masks, fewer)
    yield _memory_fits(ir, found, extents, stages, groups, target)
    if ends_with_rows(ir, found.keys, found.rows):
        yield schedule_constraint(
            "blocks of keys in a tile of rows",
            (rows % keys).eq(0),
            block_steps(keys, "down"),
            "a loop that ends with a tile of rows has whole blocks of keys before it",
        )


def _memory_fits(
    ir: KernelIR, found: Chained, extents: Extents, stages: Expr, groups: Expr, target: Target
) -> Constraint:
    """As :func:`tileflow.schedule.memory.shared_bytes` counts a schedule's buffers."""
    size = itemsize(found.query.output.type.dtype)
    inner, depth = (extents.of(v.dims[1]) for v in (found.query.output, found.sums.output))
    keys = extents.of(found.scores.output.dims[1])
    own = groups * ROWS_OF_A_GROUP * inner * size
    if found.saved is not None:
        out = found.saved.inputs[0]
        assert isinstance(out, Value)
        dtype = ir.tensor(found.saved.attrs.tensor).dtype  # type: ignore[attr-defined]
        shares = inner.eq(extents.of(out.dims[1])) * int(itemsize(dtype) == size)
        apart = shares.eq(0).or_(PERSISTENT.symbol(ir).ne(0))
        own = own + groups * ROWS_OF_A_GROUP * extents.of(out.dims[1]) * itemsize(dtype) * apart
    ring = stages * keys * (inner + depth) * size
    barriers = (stages * 4 + groups * (PERSISTENT.symbol(ir).ne(0) + 2)) * BARRIER_BYTES
    repair: tuple[tuple[str, Direction], ...] = (
        (PERSISTENT.name(ir), "down"),
        (NUM_STAGES.name(ir), "down"),
        *block_steps(keys, "down"),
    )
    fits = (own + ring + barriers + OVERHEAD).le(target.smem_per_block)
    return schedule_constraint(
        "buffers fit shared memory",
        fits,
        repair,
        f"queries, and keys and values of all stages, fit the {target.smem_per_block} bytes of "
        f"shared memory of {target.name}",
    )
