"""What a kernel takes at run time: the tensors, boxes, numbers and sizes that its text has named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, Literal

from ..expr import Expr
from ..ir.attributes import AccessAttrs, site_of
from ..ir.combined import Combined, combined
from ..ir.graph import KernelIR, Op, SliceIndex, TensorParam, TileIndex, once
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import INT32_MAX, itemsize
from ..runtime.abi import Copies, LaunchArg, TensorMap
from ..runtime.paths import Symbol
from ..space.knobs import COPIES
from .dtypes import signature
from .plan import KernelPlan, parameter_name

VECTOR = 16  # bytes of the longest load or store of a thread
# all sizes and strides that are so in the example; those of the inner dimensions (and any number of rows); none, but
# where rows of matrices begin and end by 16 bytes, as boxes need it; none at all; none, where a launch makes copies of
# what a product multiplies, and these have boxes
Divisible = Literal["all", "inner", "boxes", "none", "copied"]


@dataclass(frozen=True, slots=True)
class Box:
    """A tensor seen in boxes of ``block`` elements, one number a dimension: the tensor's, in this ``order``.
    ``copied``: the boxes are of a copy that each launch makes, whose rows begin at aligned bytes."""

    tensor: TensorParam
    block: tuple[int, ...]
    order: tuple[int, ...]
    copied: bool = False

    @property
    def name(self) -> str:
        """The name of the descriptor's parameter: the tensor, the order where it is turned, and the block."""
        turned = "" if list(self.order) == sorted(self.order) else f"by_{''.join(map(str, self.order))}_"
        return f"{self.tensor.name}_desc_{turned}{'x'.join(map(str, self.block))}"

    @property
    def arg(self) -> LaunchArg:
        """The run-time argument; which map it is, the build says."""
        type_ = f"tensordesc<{signature(self.tensor.dtype)}[{', '.join(map(str, self.block))}]>"
        shape, strides = (tuple(of[n] for n in self.order) for of in (self.tensor.shape, self.tensor.strides))
        tensor_map = TensorMap(shape, strides, copied=self.order if self.copied else ())
        return LaunchArg(self.name, "descriptor", type_, self.tensor.path, tensor_map=tensor_map)


@once
def inner_symbols(ir: KernelIR) -> frozenset[str]:
    """The sizes and strides that say how runs of memory lie: of contiguous dimensions, and of the tiles along them."""
    accesses = (op for op in ir.walk() if op.kind in (OpKind.LOAD, OpKind.STORE))
    return frozenset[str]().union(*(_runs(ir, op) for op in accesses))


def _runs(ir: KernelIR, op: Op) -> set[str]:
    """Those of one access."""
    found: set[str] = set()
    access = AccessAttrs.of(op)
    tensor = ir.tensor(access.tensor)
    for item, size, stride in zip(access.index, tensor.shape, tensor.strides, strict=True):
        found |= stride.symbols()
        if stride.constant != 1:
            continue
        found |= size.symbols()
        ends = (
            ir.tiles[item.tile].end
            if isinstance(item, TileIndex)
            else item.dim.extent
            if isinstance(item, SliceIndex)
            else None
        )
        found |= ends.symbols() if isinstance(ends, Expr) else set()
    return found


def is_matrix(op: Op) -> bool:
    """Whether a load or a store is of rows of several elements: a vector's elements are few beside them."""
    dims = op.output.dims if op.outputs else op.values[0].dims
    return sum(d.extent.constant != 1 for d in dims) > 1


class Parameters:
    """Those of one kernel. ``divisible``: in dynamic mode, which sizes and strides are assumed to be multiples of 16,
    or of what the example's are."""

    def __init__(self, plan: KernelPlan, divisible: Divisible) -> None:
        self._plan = plan
        self._divisible = divisible
        self._tensors: dict[str, TensorParam] = {}
        self._boxes: dict[str, Box] = {}
        self._scalars: dict[str, str] = {}

    def tensor(self, tensor: TensorParam) -> str:
        """The name of a captured tensor's pointer."""
        self._tensors[tensor.path] = tensor
        return _pointer_name(tensor)

    def box(self, tensor: TensorParam, block: tuple[int, ...], order: tuple[int, ...], copied: bool = False) -> Box:
        """A captured tensor in boxes, or a copy of it."""
        box = Box(tensor, block, order, copied)
        self._boxes[box.name] = box
        return box

    def copied(self) -> Iterator[tuple[Combined, int]]:
        """The tensors in whose place the config has copies, and how many."""
        for found in combined(self._plan.ir).values():
            count = max(self._plan.choice(COPIES, site_of(op)) for op in found.ops)
            if count > 1:
                yield found, count

    def held(self, tensor: TensorParam) -> str:
        """The dtype of the elements that a tensor's pointer leads to: its own, or that of its copies."""
        return next((found.dtype for found, _ in self.copied() if found.tensor.path == tensor.path), tensor.dtype)

    def divisors(self) -> dict[str, int]:
        """What the run-time sizes and strides along which memory lies are multiples of, where that is less than 16:
        8, 4 or 2, by their names. Vectors of as many elements need it, up to 16 bytes."""
        ir = self._plan.ir
        if ir.shape_mode.is_static or self._divisible in ("none", "copied") or not self._tensors:
            return {}
        by_rows = self._divisible == "boxes"
        longest = VECTOR // min(itemsize(t.dtype) for t in ir.tensors)
        symbols = self._by_pointers if by_rows else inner_symbols(ir)
        found: dict[str, int] = {}
        for symbol, name in sorted(self._plan.symbols.items()):
            common = gcd(ir.hints[symbol], longest)
            if symbol in symbols and (by_rows or ir.hints[symbol] % 16) and common > 1:
                self._plan.guard((Expr.sym(symbol) % common).eq(0))
                found[name] = common
        return found

    @property
    def _by_pointers(self) -> frozenset[str]:
        """How the rows of matrices lie that the text has a pointer to."""
        ir = self._plan.ir
        accesses = (op for op in ir.walk() if op.kind in (OpKind.LOAD, OpKind.STORE) and is_matrix(op))
        return frozenset[str]().union(*(_runs(ir, op) for op in accesses if AccessAttrs.of(op).tensor in self._tensors))

    def scalar(self, path: str) -> str:
        """The name of a run-time float."""
        name = parameter_name(next(s.name for s in self._plan.ir.scalars if s.path == path))
        self._scalars[path] = name
        return name

    def args(self, float_dtype: str) -> tuple[LaunchArg, ...]:
        """Pointers, descriptors, run-time floats (passed as ``float_dtype``), ints."""
        ir = self._plan.ir
        copies = {found.tensor.path: Copies(count, found.how, found.dtype) for found, count in self.copied()}
        args = [
            LaunchArg(
                _pointer_name(t),
                "tensor",
                f"*{signature(self.held(t))}",
                path=t.path,
                divisible_by_16=t.aligned,
                copies=copies.get(t.path),
                **_captured(ir, t),
            )
            for t in ir.tensors
            if t.path in self._tensors
        ]
        args += [replace(box.arg, **_captured(ir, box.tensor)) for box in self._boxes.values()]
        args += [
            LaunchArg(parameter_name(s.name), "float", signature(float_dtype), path=s.path)
            for s in ir.scalars
            if s.path in self._scalars
        ]
        args += [self._int(symbol, name) for symbol, name in sorted(self._plan.symbols.items())]
        return tuple(args)

    def _int(self, symbol: str, name: str) -> LaunchArg:
        e, mode = Expr.sym(symbol), self._plan.ir.shape_mode
        hint = self._plan.ir.hints[symbol]
        assumed = self._divisible == "all" or (self._divisible == "inner" and symbol in inner_symbols(self._plan.ir))
        # boxes have no use for it: a kernel without pointers has one variant for any size
        divisible = assumed and bool(self._tensors) and not mode.is_static and hint % 16 == 0
        if divisible:
            self._plan.guard((e % 16).eq(0))
        wide = mode.is_wide or abs(hint) > INT32_MAX
        if not wide:
            self._plan.guard(e.le(INT32_MAX))
            # only an int of the author's may be negative
            if not mode.is_static and Symbol.parse(symbol).field == "value":
                self._plan.guard(Expr.of(-INT32_MAX).le(e))
        return LaunchArg(name, "int", "i64" if wide else "i32", value=e, divisible_by_16=divisible)


def _captured(ir: KernelIR, tensor: TensorParam) -> Mapping[str, Any]:
    """What the binary assumes of a tensor, and whether it may write into it."""
    stored = any(tensor.path in effects_of(op).writes for op in ir.walk())
    return {"dtype": tensor.torch_dtype or tensor.dtype, "rank": len(tensor.shape), "stored": stored}


def _pointer_name(tensor: TensorParam) -> str:
    return f"{tensor.name}_ptr"
