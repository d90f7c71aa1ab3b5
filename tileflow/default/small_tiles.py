"""Where a program should hold little: stores that are woven into each other, small matrices in registers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from ..ir.analysis import likely_turns
from ..ir.attributes import AccessAttrs, AxisAttrs, TileAttrs
from ..ir.graph import ExprIndex, KernelIR, Op, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES, OPS
from ..ir.opdef import Trait
from ..ir.pressure import on_the_way
from ..ir.types import Value, itemsize
from ..target import Target
from .recurrences import SCHEDULERS
from .sizes import pow2, programs

WOVEN_BYTES = 1 << 10  # of a tensor that a program stores by several stores
MATRIX_ELEMENTS = 1 << 9  # of all matrices of a program, which is one warp
MATRIX_BYTES = 1 << 12  # of their registers at the most
_SIDE_OF_A_LANE = 2  # elements of what is as long as a side of all matrices
_REGISTER = 4  # bytes
_LEAST_MATRIX = 1 << 6
_PASSING = (OpKind.POINTWISE, OpKind.CAST)
MANY_SUMS = 16  # one after another
_MOST_WORK = 32  # pointwise operations for each store, beside which stores are what takes long


def woven_limits(ir: KernelIR, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes of the blocks whose rows several stores have an element each of, as of the nine of a matrix, or of even and
    odd ones, where little is computed for them. No store fills a sector of memory, and those of one program meet in the
    second-level cache if they follow one another soon: 512 rows of 36 bytes took 109 us, 64 of them 47, 32 of them 36;
    256 rows of 12 bytes 350 us and 128 of them 175; 64 rows of 256 bytes 1174 us, 8 of them 219, 4 of them 201 (H100,
    by hand, 2026-11-25 and 27). ``sizes``: of the blocks."""
    stores = [op for op in ir.body.ops if op.kind is OpKind.STORE]
    woven = [op for op in stores if _is_woven(ir, op)]
    times = Counter(AccessAttrs.of(op).tensor for op in woven)
    work = sum(op.kind is OpKind.POINTWISE and bool(op.output.dims) for op in ir.body.ops)
    if work > _MOST_WORK * len(stores) or any(op.kind is OpKind.FOR for op in ir.body.ops):
        return {}
    limits: dict[str, int] = {}
    for op in woven:
        rows = _rows(ir, op)
        if times[AccessAttrs.of(op).tensor] == 1 or not rows:
            continue
        most = pow2(-(-WOVEN_BYTES // rows[-1][1]))
        if prod(sizes.get(symbol, 1) for symbol, _ in rows) <= most:
            continue
        for symbol, _ in rows:  # those that lie furthest apart first
            others = prod(limits.get(s, sizes.get(s, 1)) for s, _ in rows if s != symbol)
            limits[symbol] = max(min(limits.get(symbol, sizes.get(symbol, 1)), most // others), 1)
    return limits


def _is_woven(ir: KernelIR, op: Op) -> bool:
    """Whether a store takes single elements of what lies side by side."""
    access = AccessAttrs.of(op)
    strides = ir.tensor(access.tensor).strides
    along = [i for i, stride in zip(access.index, strides, strict=True) if stride.constant == 1]
    return bool(along) and all(isinstance(item, (ExprIndex, ValueIndex)) for item in along)


def _rows(ir: KernelIR, op: Op) -> list[tuple[str, int]]:
    """The blocks that a store's tile has, and the bytes between neighbours along each; the longest way first."""
    access = AccessAttrs.of(op)
    tensor = ir.tensor(access.tensor)
    found = [
        (ir.tiles[item.tile].block.args[0], ir.hint(stride) * itemsize(tensor.dtype))
        for item, stride in zip(access.index, tensor.strides, strict=True)
        if isinstance(item, TileIndex) and ir.tiles[item.tile].block.op == "sym" and ir.hint(stride)
    ]
    return sorted(found, key=lambda row: -row[1])


def warps_for_loads(ir: KernelIR, target: Target, most: int) -> int:
    """The warps whose lanes load ``most`` elements each, where the largest tiles are products of what is loaded that
    are summed at once, as a column for each digit is: those never are in registers together. Counting 2048 digits by
    four warps took 209 us and by 32 369 (H100, by hand, 2026-11-25). As many as a block has elsewhere."""
    held = held_elements(ir)
    if held == max((_elements(ir, v) for v in _whole(ir)), default=1):
        return 1024 // target.warp_size
    return max(held // (most * target.warp_size), 1)


def held_elements(ir: KernelIR) -> int:
    """Those of the largest tile of sizes of the problem alone that is not summed as it is made: along one dimension,
    since what is summed along another too is made once for both."""
    makers = ir.definitions
    readers: dict[Value, list[Op]] = {}
    for op in ir.walk():
        for value in op.values:
            readers.setdefault(value, []).append(op)

    def sums(value: Value) -> set[int] | None:
        """The axes from the last that a value is summed along; None where it is there for something else."""
        found = set[int]()
        if value not in makers or makers[value].kind is OpKind.LOAD:
            return None
        for op in readers.get(value, []):
            if op.kind is OpKind.REDUCE:
                found.add(AxisAttrs.of(op).axis - len(value.dims))
            elif op.kind not in _PASSING or (later := sums(op.output)) is None:
                return None
            else:
                found |= later
        return found

    def is_summed(value: Value) -> bool:
        found = sums(value)
        return found is not None and len(found) == 1

    return max((_elements(ir, value) for value in _whole(ir) if not is_summed(value)), default=1)


def _whole(ir: KernelIR) -> list[Value]:
    return [v for op in ir.walk() for v in op.outputs if all(d.extent.symbols() <= ir.hints.keys() for d in v.dims)]


def _elements(ir: KernelIR, value: Value) -> int:
    return prod(pow2(ir.hint(d.extent)) for d in value.dims)


def holds_matrices(ir: KernelIR, row: int) -> bool:
    """Whether each program works on small matrices in registers, sum after sum: elimination, Cholesky's factors. Sums
    across warps would each wait for all, so that a program is one warp with few matrices: 8 of 8 x 8 in float64 took
    27.6 us and 16 by four warps 74.6; two of 16 x 16 241 us and 8 by four warps 336 (65536 of each, H100, by hand,
    2026-11-25). ``row``: elements of one."""
    if not _LEAST_MATRIX <= row <= MATRIX_ELEMENTS or _reads_in_loops(ir):
        return False
    return _sums(ir, ir.body.ops) >= MANY_SUMS


def matrix_elements(ir: KernelIR, row: int, element: int, target: Target) -> int:
    """The elements of all matrices of such a program: so many matrices that lanes have two elements each of what is as
    long as a side, as pivots' rows are, and each scheduler a program. An elimination of 12 x 12 has 800 instructions a
    matrix by two a warp, 540 by four in as many registers (sm_90a, Triton 3.6). By two and four 16 x 8 reflections took
    60 and 53 us, sudokus 3392 and 3340, determinants by 8 and 16 27.5 and 33.3 (H100, by hand, 2026-11-27).
    ``element``: bytes of one."""
    ready = on_the_way(ir)
    tiles = (_sides(ir, v) for op in ir.walk() for v in op.outputs if v not in ready)
    side = max((max(sides) for sides in tiles if len(sides) > 1 and prod(sides) == row), default=0)
    if not side:
        return MATRIX_ELEMENTS
    wanted = min(row * _SIDE_OF_A_LANE * target.warp_size // side, MATRIX_BYTES // max(element, _REGISTER))
    is_busy = programs(ir, {}) * row >= wanted * SCHEDULERS * target.sm_count
    return max(MATRIX_ELEMENTS, wanted if is_busy else 0)


def _sides(ir: KernelIR, value: Value) -> list[int]:
    """The elements of a tile along its whole dimensions of more than one."""
    whole = (d.extent for d in value.dims if d.extent.symbols() <= ir.hints.keys())
    return [pow2(ir.hint(extent)) for extent in whole if ir.hint(extent) > 1]


def _reads_in_loops(ir: KernelIR) -> bool:
    loops = [op for op in ir.body.ops if op.kind is OpKind.FOR]
    return any(op.kind in ACCESSES for loop in loops for turn in loop.regions for op in turn.ops)


def sums_after_loops(ir: KernelIR) -> int:
    """The reductions and scans that a program makes one after another, outside of its loops."""
    return _sums(ir, [op for op in ir.body.ops if op.kind is not OpKind.FOR])


def _sums(ir: KernelIR, ops: Sequence[Op]) -> int:
    """The reductions and scans that a program makes one after another."""
    found = 0
    for op in ops:
        found += bool(OPS[op.kind].traits & Trait.COLLECTIVE)
        turns = likely_turns(ir, TileAttrs.of(op).tile) if op.kind is OpKind.FOR else 1
        found += turns * sum(_sums(ir, region.ops) for region in op.regions)
    return found
