"""Attention and its gradients, warp-specialised by default: groups, turns, who walks and which tiles come first.

As measured on an H200 (docs/measurements/warp-specialisation.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Dim
from ..schedule.chained import Chained
from ..schedule.gradient_loop import GradientLoop
from ..schedule.types import WARPS_OF_A_GROUP
from ..space.knobs import NUM_STAGES, PERSISTENT, PING_PONG
from ..space.schedule_checks import ends_with_rows, grows_with_rows
from ..target import Target
from .causal_rows import causal_rows_config
from .longest_first import MOST_COUNTED, dealt, turns_in_order
from .sizes import pow2, programs, symbol

GROUP_ROWS = 64  # of a consumer group
WIDE_HEAD = 128  # columns of a head whose programs walk
NARROW_HEAD = 64  # columns of a head whose exponentials take as long as its products
FILLED = 1.05  # rows of a head's tiles, as a multiple of its own
EVEN, NEARLY_EVEN = 1.05, 1.2  # the busiest multiprocessor's tiles, as a multiple of the mean
MOST_UNEVEN = 1.1  # the longest walking program's work, as a multiple of the mean
LONG = 2560  # rows by which more groups, or masks in a turn, are worth their registers
SHORT = 640  # rows below which narrow heads have tiles that are half masked
PLAIN_WORK = 3  # of a softmax, on a thread's part of a key: a scale, a difference and an exponential a score
MOST_WORK = 2048  # arithmetic of a thread in a turn, each copy of the turn counted


def rows_config(ir: KernelIR, found: Chained | GradientLoop, target: Target) -> dict[str, Choice]:
    """Consumer groups beside a producer, where each multiprocessor has a tile of their rows."""
    if isinstance(found, Chained) and (many := _groups_of_causal(ir, found)):
        return causal_rows_config(ir, found, many, target)
    for groups in (4, 3, 2):
        rows: dict[str, Choice] = {ir.tiles[found.rows].block.args[0]: groups * GROUP_ROWS}
        tiles = programs(ir, dict.fromkeys((b.name for b in ir.blocks), 1) | rows)
        if tiles < target.sm_count or (groups > 2 and not _is_filled(ir, found, groups)):
            continue
        if isinstance(found, Chained):
            chosen = _attention(ir, found, groups, tiles, target)
        else:
            chosen = _gradients(ir, found, groups) if groups == 2 or _unevenness(tiles, target) <= EVEN else {}
        if chosen:
            return chosen | rows
    return {}


def _unevenness(tiles: int, target: Target) -> float:
    """The tiles of the busiest multiprocessor, as a multiple of the mean."""
    return -(-tiles // target.sm_count) * target.sm_count / tiles


def _is_filled(ir: KernelIR, found: Chained | GradientLoop, groups: int) -> bool:
    """Whether tiles of so many groups have little beside a head's own rows: 192 rows for 256 are a third padding."""
    length, rows = tile_length(ir, found.rows), groups * GROUP_ROWS
    return -(-length // rows) * rows <= FILLED * length


# ---- attention -----------------------------------------------------------------------------------


def _attention(ir: KernelIR, found: Chained, groups: int, tiles: int, target: Target) -> dict[str, Choice]:
    """Keys of a turn, stages, and whether programs walk; two groups that do take turns."""
    columns = _widest(ir, (found.query.output.dims[1], found.sums.output.dims[1]))
    block = symbol(found.scores.output.dims[1])
    if columns <= NARROW_HEAD:
        keys = _narrow_turn(ir, found, groups, _unevenness(tiles, target))
    else:
        keys = (128 if columns <= WIDE_HEAD else 64) if groups == 2 else 0
    alike = _is_alike(ir, found)
    is_long = groups == 2 and _work(found, keys) * (1 if alike else 2) > MOST_WORK
    if not keys or not block or is_long:
        return {}
    walks = _walks(ir, found, groups, tiles, columns, target)
    chosen: dict[str, Choice] = {block: keys, NUM_STAGES.name(ir): 2 if columns >= WIDE_HEAD else 3}
    return chosen | {PING_PONG.name(ir): walks and groups == 2, PERSISTENT.name(ir): int(walks)}


def _groups_of_causal(ir: KernelIR, found: Chained) -> frozenset[int]:
    """The groups that causal rows of a narrow head may have whose body computes a softmax and no more; none of
    others. Of four, threads have registers for 64 keys without masks."""
    columns = _widest(ir, (found.query.output.dims[1], found.sums.output.dims[1]))
    is_long = tile_length(ir, found.rows) >= SHORT
    if columns > NARROW_HEAD or found.rows != ir.grid[-1] or not is_long or not _is_plain(found, 64):
        return frozenset()
    if not grows_with_rows(ir, found.keys, found.rows) or not symbol(found.scores.output.dims[1]):
        return frozenset()
    return frozenset({2, 4} if _has_no_masks(ir, found, 64) else {2})


def _narrow_turn(ir: KernelIR, found: Chained, groups: int, unevenness: float) -> int:
    """Keys of a turn of so many groups, for heads of up to 64 columns, whose exponentials take as long as their
    products: the more groups, the more of both run beside each other. 0 where other groups, or a pipelined program, are
    faster.

    Three with 128 keys have 1.10 times the speed of torch's (walking 1.15), where two had 0.94 and pipelined programs
    1.00. Masks leave them registers for 64 keys: 1.01 to 1.17 from 2560 keys on, where pipelined programs have 0.69 to
    1.07; shorter loops are those programs'. Loops of several lengths that compute more than a softmax, or begin
    elsewhere than at 0, have two groups; others are :mod:`.causal_rows`'s."""
    if not _is_alike(ir, found):
        return 128 if groups == 2 and tile_length(ir, found.rows) >= SHORT else 0
    if _has_no_masks(ir, found, 128):
        return 128 if groups == 3 and unevenness <= NEARLY_EVEN and _is_plain(found, 128) else 0
    is_known = ir.shape_mode.is_static and tile_length(ir, found.keys) >= LONG
    if not is_known or not _is_plain(found, 128):
        return 0
    return {3: 64 if unevenness <= EVEN else 0, 2: 128}.get(groups, 0)


def _is_plain(found: Chained, keys: int) -> bool:
    """Whether a turn of so many keys computes a softmax and no more."""
    return _work(found, keys) <= PLAIN_WORK * keys and not any(op.kind is OpKind.LOAD for op in found.weigh)


def _is_alike(ir: KernelIR, found: Chained) -> bool:
    """Whether the loop of each tile of rows is as long."""
    loop = ir.tiles[found.keys]
    return isinstance(loop.begin, Expr) and isinstance(loop.end, Expr)


def _has_no_masks(ir: KernelIR, found: Chained | GradientLoop, size: int) -> bool:
    """Whether no turn of ``size`` lies across the loop's end: threads of many groups have no registers for masks."""
    if not ir.shape_mode.is_static:
        return False
    loop = ir.tiles[found.keys]
    if isinstance(loop.begin, Expr) and isinstance(loop.end, Expr):
        return tile_length(ir, found.keys) % size == 0
    return ends_with_rows(ir, found.keys, found.rows)


def _work(found: Chained, keys: int) -> int:
    """Arithmetic of a consumer's thread on the scores of a turn. Where it is long, as with a tanh of each score, the
    other group's products are over long before: at 0.47 times the speed of two pipelined programs of 64 rows beside
    each other (causal, in two copies, one with masks), where a sigmoid is at 1.6 times."""
    scores = found.scores.output.dims
    each = (PointwiseAttrs.of(op).fn for op in found.weigh if op.kind is OpKind.POINTWISE and op.output.dims == scores)
    return sum(POINTWISE[fn].flops for fn in each) * GROUP_ROWS * keys // (WARPS_OF_A_GROUP * 32)


def _walks(ir: KernelIR, found: Chained, groups: int, tiles: int, columns: int, target: Target) -> bool:
    """Whether programs walk over tiles: those of loops of one length, and of causal ones that come out even, at 1.03 to
    1.05 times the speed of one for each tile at 4096 rows and more, 1.06 at 2048, 1.16 at 1024."""
    length, rows = tile_length(ir, found.rows), groups * GROUP_ROWS
    if length < rows or tiles <= target.sm_count or columns > WIDE_HEAD:  # short ones have smaller blocks, pipelined
        return False
    if _is_alike(ir, found):
        is_whole = columns > NARROW_HEAD or _has_no_masks(ir, found, 128)
        return is_whole and (columns == WIDE_HEAD or groups > 2)
    of_a_head = -(-length // rows)
    counted = turns_in_order(of_a_head, max(min(tiles, MOST_COUNTED) // of_a_head, 1), 1)
    return grows_with_rows(ir, found.keys, found.rows) and dealt(tuple(counted), target.sm_count) <= MOST_UNEVEN


# ---- gradients -----------------------------------------------------------------------------------


def _gradients(ir: KernelIR, found: GradientLoop, groups: int) -> dict[str, Choice]:
    """Use the schedule of gradients for queries alone, up to heads of 128: at 1.09 to 1.17 times the speed of the
    whole call, with three groups at 128 columns another 1.00 to 1.04. Two sums a program, as keys and values have,
    leave no registers for turns as long, and gained nothing."""
    dims = (op.output.dims[1] for op in (*found.held, *found.blocks, *(s.product for s in found.sums)))
    widest = _widest(ir, dims)
    if found.added is not None:
        return (
            {symbol(found.columns): 64 if widest > NARROW_HEAD else 128, NUM_STAGES.name(ir): 2} if groups == 2 else {}
        )
    if len(found.sums) > 1 or widest > WIDE_HEAD:
        return {}
    if groups == 2:
        return {symbol(found.columns): 128, NUM_STAGES.name(ir): 2}
    if groups > 3 or widest < WIDE_HEAD or not _has_no_masks(ir, found, 64):
        return {}
    return {symbol(found.columns): 64, NUM_STAGES.name(ir): 3}


def _widest(ir: KernelIR, dims: Iterable[Dim]) -> int:
    """The most columns of some tiles in registers."""
    return pow2(max(d.extent.evaluate(ir.hints) for d in dims))
