"""How the operands of products come from memory: in boxes and vectors, or an element at a time.

What goes an element at a time is no small matter (compiled for sm_90a by Triton 3.6;
docs/explanations/default-products.md):

- No asynchronous copy moves fewer than four bytes. Elements of two go through registers, all of a turn's at once where
  the assembler finds registers for them, else a few at a time, each of which waits for memory. It finds fewest where
  a box of another operand is awaited in the same loop.
- Copies of single elements of four bytes are staged in an order in which neighbours share a bank of shared memory.
"""

from __future__ import annotations

from math import gcd

from ..config import Choice
from ..expr import Expr
from ..ir.access import box_order
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR, Op, SliceIndex, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Value, itemsize
from ..space.access import access_knobs
from ..space.knobs import LOAD_ACCESS, STORE_ACCESS, definition
from ..target import Target
from .sizes import symbol

LEAST_COPIED = 4  # bytes that an asynchronous copy moves
LEAST_SIDE = 16  # of a matrix that matrix units take
_LONGEST = 16  # bytes of a vector


def operands_of(op: Op) -> tuple[Value, Value]:
    """The left and the right operand of a product."""
    a, b = op.inputs[:2]
    assert isinstance(a, Value) and isinstance(b, Value)
    return a, b


def one_matrix(op: Op) -> dict[str, Choice]:
    """Blocks of 1 for the batches of a product, whichever operand has them: a tile of several is a product of three
    dimensions, which has no warp group's instructions, and sums for each. Of whole matrices that are too small for
    those, and that the right operand alone has several of, a tile keeps what its program has work by: 3720 us in tiles
    of 32 and 4548 in tiles of 1 (`intra_modes`, 8 x 8; H200, 2026-11-30)."""
    a, b = operands_of(op)
    sides = (a.dims[-2], b.dims[-1], a.dims[-1])
    is_small = any((d.extent.constant or LEAST_SIDE) < LEAST_SIDE for d in sides)
    batches = a.dims[:-2] if is_small else op.output.dims[:-2]
    return {symbol(d): 1 for d in batches if symbol(d)}


def comes_by_element(ir: KernelIR, operand: Value, target: Target, unaligned: bool = False) -> bool:
    """Whether an operand of a product is loaded an element at a time: no box can be had of it, and its rows begin or
    end at any element. ``unaligned``: for a variant that assumes this of all rows."""
    load = _loaded(ir, operand)
    if unaligned:
        return load is not None
    if load is None or (target.has_tensor_maps and box_order(ir, load) is not None):
        return False
    return _is_single(ir, load)


def needs_box(ir: KernelIR, operand: Value, target: Target) -> bool:
    """Whether pointers would load an operand an element at a time, and boxes do not: its rows begin aligned, and end at
    any element."""
    load = _loaded(ir, operand)
    return load is not None and target.has_tensor_maps and box_order(ir, load) is not None and _is_single(ir, load)


def contiguous_along(ir: KernelIR, operand: Value, axis: int) -> bool:
    """Whether an operand of a product is loaded from memory that is contiguous along its ``axis``, -2 or -1."""
    load = _loaded(ir, operand)
    if load is None:
        return False
    access = AccessAttrs.of(load)
    if ir.definitions[operand].kind is OpKind.PERMUTE:
        axis = -3 - axis
    axis += len(load.output.dims)
    strides = zip(ir.tensor(access.tensor).strides, access.index, strict=True)
    return any(stride.constant == 1 for stride, item in strides if getattr(item, "axis", None) == axis)


def _loaded(ir: KernelIR, operand: Value) -> Op | None:
    """The load that an operand is, perhaps permuted."""
    maker = ir.definitions.get(operand)
    if maker is not None and maker.kind is OpKind.PERMUTE:
        maker = ir.definitions.get(maker.values[0])
    return maker if maker is not None and maker.kind is OpKind.LOAD else None


def _is_single(ir: KernelIR, load: Op) -> bool:
    """Whether no two elements of a load go together, or fewer than an asynchronous copy moves."""
    run, size = _run(ir, load), itemsize(load.output.type.dtype)
    return run == 1 or run * size < LEAST_COPIED


def _run(ir: KernelIR, load: Op) -> int:
    """How many neighbours one instruction may load, by what the example's sizes and strides are multiples of."""
    access = AccessAttrs.of(load)
    tensor = ir.tensor(access.tensor)
    if access.has_mask:
        return _LONGEST  # for all that is known
    if not tensor.aligned:
        return 1
    common, along = _LONGEST // min(itemsize(tensor.dtype), _LONGEST), False
    for item, size, stride in zip(access.index, tensor.shape, tensor.strides, strict=True):
        if stride.constant != 1:
            common = gcd(common, ir.hint(stride))
        elif ir.hint(size) == 1:  # one of a column, say
            continue
        elif isinstance(item, TileIndex):
            tile, along = ir.tiles[item.tile], True
            common = gcd(common, _known(ir, tile.begin), _known(ir, tile.end))
        elif isinstance(item, SliceIndex):
            along, common = True, gcd(common, _known(ir, item.start), _known(ir, item.dim.extent))
    return common if along else 1


def _known(ir: KernelIR, bound: object) -> int:
    """The value of a bound in the example; 0, a multiple of everything, where only the device knows."""
    return ir.hint(bound) if isinstance(bound, Expr) and bound.symbols() <= ir.hints.keys() else 0


def boxes_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Descriptors wherever the target has a copy engine."""
    return {k.name: "descriptor" for k in access_knobs(ir, target) if definition(k.name) in (LOAD_ACCESS, STORE_ACCESS)}


def loaded_operands(ir: KernelIR) -> set[Value]:
    """What products take as a load brought it, perhaps permuted."""
    makers = ir.definitions
    operands = {v for op in ir.walk() if op.kind is OpKind.DOT for v in operands_of(op)}
    sources = {makers[v].values[0] if v in makers and makers[v].kind is OpKind.PERMUTE else v for v in operands}
    return {v for v in sources if v in makers and makers[v].kind is OpKind.LOAD}


def gathers(op: Op, axes: int) -> bool:
    """Whether an op loads what a tile of ints of so many dimensions names."""
    if op.kind is not OpKind.LOAD:
        return False
    return any(isinstance(item, ValueIndex) and len(item.axes) >= axes for item in AccessAttrs.of(op).index)
