"""Which loads and stores the copy engine can do: those that name a box of a tensor by descriptor."""

from __future__ import annotations

from ..expr import Expr
from .attributes import AccessAttrs, AtomicAttrs, LoadAttrs
from .graph import ExprIndex, IndexItem, KernelIR, Op, SliceIndex, TensorParam, TileIndex, ValueIndex, once
from .kinds import OpKind
from .op_table import effects_of
from .types import Dim, Value, itemsize

ALIGNMENT = 16  # bytes: of the address, of every stride but the contiguous one, and the least run of a box
MOST_DIMS = 5


def boxed(op: Op) -> tuple[Dim, ...]:
    """The dimensions of the tile that a load gives or a store takes."""
    value = op.output if op.kind is OpKind.LOAD else op.inputs[0]
    assert isinstance(value, Value)
    return value.dims


def describable(ir: KernelIR, op: Op) -> bool:
    """Whether a load or store moves a box whose dimensions are in the order of the tensor's."""
    order = box_order(ir, op)
    return order is not None and list(order) == sorted(order)


def box_order(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The tensor's dimensions in the order of a box that a load or store of at least two dimensions moves: the
    contiguous one last, the others as the tensor has them. None where it moves none: without a contiguous dimension,
    with an address or other strides that are not aligned, and for a store with a lane inside the tensor that is masked.
    A tensor that is both read and written, by this name or another, is in no box: barriers do not order the copy
    engine's accesses."""
    order = box_anywhere(ir, op)
    if order is None:
        return None
    tensor, items = ir.tensor(AccessAttrs.of(op).tensor), AccessAttrs.of(op).index
    if not _starts_aligned(ir, items[order[-1]], tensor):
        return None
    is_whole = all(covers(ir, i, n) for i, n in zip(items, tensor.shape, strict=True))
    return order if op.kind is OpKind.LOAD or is_whole else None


def box_anywhere(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The same wherever the box begins and ends: for whoever knows that it begins at aligned bytes, and that a store
    has no masked lane."""
    return _box(ir, op) if op.kind in (OpKind.LOAD, OpKind.STORE) else None


def added_box(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The tensor's dimensions in the order of a box that an addition to memory adds, where the copy engine can, in the
    order of the tensor's; else None."""
    order = _box(ir, op) if op.kind is OpKind.ATOMIC and AtomicAttrs.of(op).fn == "add" else None
    tensor, items = ir.tensor(AccessAttrs.of(op).tensor), AccessAttrs.of(op).index
    if order is None or list(order) != sorted(order) or not _starts_aligned(ir, items[order[-1]], tensor):
        return None
    return order if all(covers(ir, i, n) for i, n in zip(items, tensor.shape, strict=True)) else None


def vector_box(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The tensor's dimensions in the order of a box of one row that the load of a vector brings, with zeros past the
    tensor's end; for whoever knows that it begins at aligned bytes. None where the copy engine brings none."""
    order = _box(ir, op, least_dims=1) if op.kind is OpKind.LOAD and len(op.output.dims) == 1 else None
    tensor, items = ir.tensor(AccessAttrs.of(op).tensor), AccessAttrs.of(op).index
    if order is None or list(order) != sorted(order) or LoadAttrs.of(op).other != 0:
        return None
    return order if all(covers(ir, i, n) for i, n in zip(items, tensor.shape, strict=True)) else None


def copied_order(ir: KernelIR, op: Op) -> tuple[int, ...] | None:
    """The tensor's dimensions in the order of a box of a copy of it, whose rows begin at aligned bytes: for a load that
    no box of the tensor itself serves, because of how the tensor lies. Its contiguous dimension is last, or the one
    that it has last. None where boxes of a copy would serve no better, or the tensor itself has them."""
    if op.kind is not OpKind.LOAD or _box(ir, op) is not None:
        return None
    tensor = ir.tensor(AccessAttrs.of(op).tensor)
    order = _contiguous_last(tensor) or tuple(range(len(tensor.shape)))
    if not _is_of_boxes(ir, op, order, least_dims=2) or any(ir.hint(n) <= 0 for n in tensor.shape):
        return None
    return order if _starts_aligned(ir, AccessAttrs.of(op).index[order[-1]], tensor) else None


def _box(ir: KernelIR, op: Op, least_dims: int = 2) -> tuple[int, ...] | None:
    tensor = ir.tensor(AccessAttrs.of(op).tensor)
    order = _contiguous_last(tensor)
    if order is None or not tensor.aligned or not _is_of_boxes(ir, op, order, least_dims):
        return None
    return order if _strided(ir, tensor, order) else None


def _is_of_boxes(ir: KernelIR, op: Op, order: tuple[int, ...], least_dims: int) -> bool:
    """Whether an access names boxes of its tensor, whose dimensions are in this order, wherever the tensor lies."""
    tensor, items = ir.tensor(AccessAttrs.of(op).tensor), AccessAttrs.of(op).index
    if AccessAttrs.of(op).has_mask or is_accessed_otherwise(ir, op):
        return False
    if not 2 <= len(tensor.shape) <= MOST_DIMS or tensor.dtype in ("bool", "float64"):
        return False
    axes = [_axis(item) for item in items]
    if None in axes or len(boxed(op)) < least_dims or axes[order[-1]] == -1:
        return False
    return sorted(a for a in axes if a is not None and a >= 0) == list(range(len(boxed(op))))


def scattered_along(ir: KernelIR, op: Op, always: bool = False) -> int | None:
    """The dimension of a stored tile along which its elements lie together, where its rows begin at any element, so
    that neither boxes nor vectors write them, or may (``always``); None for all other stores."""
    access = AccessAttrs.of(op)
    tensor, dims = ir.tensor(access.tensor), boxed(op)
    if op.kind is not OpKind.STORE or access.has_mask or len(dims) != 2:
        return None
    if not all(isinstance(i, TileIndex | SliceIndex | ExprIndex) for i in access.index):
        return None
    strides = {_axis(item): stride for item, stride in zip(access.index, tensor.strides, strict=True)}
    along = next((axis for axis in (1, 0) if strides[axis].constant == 1), None)
    if along is None or always:
        return along
    return along if ir.hint(strides[1 - along]) * itemsize(tensor.dtype) % ALIGNMENT else None


def is_accessed_otherwise(ir: KernelIR, op: Op) -> bool:
    """Whether something else than loads, of a load, or than stores, of a store, accesses the tensor, by this name or
    another: roles of their own keep no order with it."""
    return any(_accesses(ir).get(path, set()) - {op.kind} for path in ir.sharing(AccessAttrs.of(op).tensor))


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
    """Whether a block is a power of two under every config, so that each tile has all lanes of its registers."""
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
    """The kinds of the ops that read or write each tensor, by its path."""
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
    """Whether the box begins aligned in the traced example; in dynamic mode each launch checks it."""
    condition = aligned_start(ir, last, tensor)
    return condition is not None and ir.hint(condition) != 0


def _contiguous_last(tensor: TensorParam) -> tuple[int, ...] | None:
    """The last dimension of stride 1 behind all others; None where there is none."""
    last = next((n for n in reversed(range(len(tensor.shape))) if tensor.strides[n].constant == 1), None)
    return None if last is None else (*(n for n in range(len(tensor.shape)) if n != last), last)


def _strided(ir: KernelIR, tensor: TensorParam, order: tuple[int, ...]) -> bool:
    """Whether the outer strides are aligned in the traced example; in dynamic mode each launch checks it."""
    size = itemsize(tensor.dtype)
    outer = [ir.hint(tensor.strides[n]) for n in order[:-1]]
    return all(s > 0 and s * size % ALIGNMENT == 0 for s in outer) and all(ir.hint(n) > 0 for n in tensor.shape)
