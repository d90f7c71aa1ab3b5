"""Which loads and stores the copy engine can do: those that name a box of a tensor by descriptor."""

from __future__ import annotations

from ..expr import Expr
from .attributes import AccessAttrs
from .graph import ExprIndex, IndexItem, KernelIR, Op, SliceIndex, TensorParam, TileIndex, ValueIndex, once
from .kinds import OpKind
from .op_table import effects_of
from .types import Dim, Value, itemsize

ALIGNMENT = 16  # bytes: of the address, of every stride but the last, and the least run of a box
MOST_DIMS = 5


def boxed(op: Op) -> tuple[Dim, ...]:
    """The dims of what a load gives or a store takes."""
    value = op.output if op.kind is OpKind.LOAD else op.inputs[0]
    assert isinstance(value, Value)
    return value.dims


def describable(ir: KernelIR, op: Op) -> bool:
    """Whether a load or store of at least two dimensions moves a box: dimensions in the tensor's order, the last one
    contiguous, the address and the other strides aligned, and for a store no lane inside the tensor that is masked. A
    tensor that is both read and written, by this name or another, is not: barriers do not order the copy engine's
    accesses."""
    if op.kind not in (OpKind.LOAD, OpKind.STORE) or AccessAttrs.of(op).has_mask:
        return False
    tensor, items = ir.tensor(AccessAttrs.of(op).tensor), AccessAttrs.of(op).index
    if not 2 <= len(tensor.shape) <= MOST_DIMS or not tensor.aligned or tensor.dtype in ("bool", "float64"):
        return False
    if any(_accesses(ir).get(path, set()) - {op.kind} for path in ir.sharing(tensor.path)):
        return False
    axes = [_axis(item) for item in items]
    if None in axes or axes[-1] is None or [a for a in axes if a is not None and a >= 0] != list(range(len(boxed(op)))):
        return False
    if axes[-1] < 0 or len(boxed(op)) < 2 or not _strided(ir, tensor) or not _starts_aligned(ir, items[-1], tensor):
        return False
    return op.kind is OpKind.LOAD or all(covers(ir, i, n) for i, n in zip(items, tensor.shape, strict=True))


def covers(ir: KernelIR, item: IndexItem, size: Expr) -> bool:
    """Whether the lanes of an index that do not count are the ones past the tensor's end, which no box touches; in
    dynamic mode as long as :func:`same_end` holds."""
    match item:
        case TileIndex(name):
            tile = ir.tiles[name]
            known = isinstance(tile.end, Expr) and tile.end.symbols() <= ir.hints.keys()
            whole = is_power_of_two(tile.block) and tile.lengths is None
            return whole and known and ir.hint(same_end(ir, item, size)) != 0
        case SliceIndex(start, dim):
            known = dim.extent.symbols() <= ir.hints.keys()
            return start == Expr.of(0) and dim.tile is None and known and ir.hint(same_end(ir, item, size)) != 0
    return True


def is_power_of_two(block: Expr) -> bool:
    """Whether a block is one whatever the config chooses, so that each tile has all lanes of its registers."""
    number = block.constant
    if number is not None:
        return number & (number - 1) == 0
    if block.op == "sym":
        return not block.args[0].startswith("tunable:")
    return block.op in ("prod", "floordiv") and all(is_power_of_two(a) for a in block.args)


def same_end(ir: KernelIR, item: TileIndex | SliceIndex, size: Expr) -> Expr:
    """The condition that a tile's loop, or a slice from the start, ends where the tensor's dimension does."""
    end = ir.tiles[item.tile].end if isinstance(item, TileIndex) else item.dim.extent
    assert isinstance(end, Expr)
    return end.eq(size)


def aligned_start(ir: KernelIR, item: IndexItem, tensor: TensorParam) -> Expr | None:
    """The condition that every box starts at a multiple of 16 bytes of a row, as Triton takes for granted; None where
    only the device knows."""
    start: Expr | Value | None = None
    if isinstance(item, TileIndex):
        start = ir.tiles[item.tile].begin
    elif isinstance(item, SliceIndex):
        start = item.start
    if not isinstance(start, Expr) or not start.symbols() <= ir.hints.keys():
        return None
    return (start * itemsize(tensor.dtype) % ALIGNMENT).eq(0)


@once
def _accesses(ir: KernelIR) -> dict[str, set[OpKind]]:
    """By tensor, the kinds of the ops that read or write it."""
    found: dict[str, set[OpKind]] = {}
    for op in ir.walk():
        for tensor in effects_of(op).tensors:
            found.setdefault(tensor, set()).add(op.kind)
    return found


def _axis(item: IndexItem) -> int | None:
    """The dimension that an index gives; -1 for a scalar, None for what no box has."""
    match item:
        case TileIndex(axis=axis) | SliceIndex(axis=axis):
            return axis
        case ExprIndex():
            return -1
        case ValueIndex(axes=()):  # one outside the tensor is a box outside
            return -1
    return None


def _starts_aligned(ir: KernelIR, last: IndexItem, tensor: TensorParam) -> bool:
    """In dynamic mode: in the traced example, and checked by each launch."""
    condition = aligned_start(ir, last, tensor)
    return condition is not None and ir.hint(condition) != 0


def _strided(ir: KernelIR, tensor: TensorParam) -> bool:
    """In dynamic mode: in the traced example, and checked by each launch."""
    size = itemsize(tensor.dtype)
    outer = [ir.hint(s) for s in tensor.strides[:-1]]
    return (
        tensor.strides[-1].constant == 1
        and all(s > 0 and s * size % ALIGNMENT == 0 for s in outer)
        and all(ir.hint(n) > 0 for n in tensor.shape)
    )
