"""A lowered call in words: what bounds it, what may be chosen, what it computes line by line, what it assumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .config import Choice
from .cost import roofline_us
from .expr import Expr
from .ir.attributes import AccessAttrs, TileAttrs
from .ir.graph import Block, ExprIndex, IndexItem, KernelIR, Op, Operand, SliceIndex, TileIndex
from .ir.kinds import LOOPS, OpKind
from .ir.op_table import PRODUCTS
from .ir.types import Value
from .lowered import Lowered
from .space.schedules import copied_tensors, refusal

_SHOWN_ATTRS = ("tile", "name", "axis", "axes", "dtype", "operand", "precision", "reverse", "value", "shape")


def explain(lowered: Lowered) -> str:
    """The answers that a person asks for first come first; what only a reader of variants needs, the guards, last."""
    parts = [_heading(lowered), *_bounds(lowered), "", *_knobs(lowered)]
    for ir in lowered.regions:
        parts += ["", f"Launch {ir.region} of {ir.name}", *_launch(ir)]
    parts += ["", "Assumed of every call that this variant serves"]
    parts += [f"  {guard}" for guard in dict.fromkeys(g for ir in lowered.regions for g in ir.guards)]
    return "\n".join(parts)


def _heading(lowered: Lowered) -> str:
    return f"{lowered.problem}\non {lowered.target.name}, {lowered.mode} shapes"


def _bounds(lowered: Lowered) -> Iterator[str]:
    """``139.0 us at the compute roof, 21.0 us of memory``: the larger of both is what no config can beat."""
    moved, target = lowered.traffic, lowered.target
    memory_us = moved.bytes / (target.dram_gbps * 1e3)
    compute_us = moved.flops / (target.tflops(moved.flop_dtype) * 1e6)
    work = f"{_scaled(moved.bytes)}B at {target.dram_gbps:g} GB/s"
    sums = f"{_scaled(moved.flops)}FLOP of {moved.flop_dtype} at {target.tflops(moved.flop_dtype):g} TFLOP/s"
    if memory_us >= compute_us:
        yield f"{memory_us:.1f} us at the memory roof ({work}), {compute_us:.1f} us of arithmetic ({sums})"
    else:
        yield f"{compute_us:.1f} us at the compute roof ({sums}), {memory_us:.1f} us of memory ({work})"
    launches = "1 launch" if len(lowered.regions) == 1 else f"{len(lowered.regions)} launches"
    yield f"{launches}, no config is faster than {roofline_us(moved, target):.1f} us"


def _knobs(lowered: Lowered) -> Iterator[str]:
    space = lowered.space
    yield f"{len(space.knobs)} knobs, {space.size} combinations; the default config is marked"
    width = max((len(knob.name) for knob in space.knobs), default=0)
    for knob in space.knobs:
        choices = (_choice(choice, choice == lowered.default[knob.name]) for choice in knob.choices)
        unless = "" if knob.active.constant is not None else f"   where {knob.active}"
        yield f"  {knob.name:{width}}  {' '.join(choices)}{unless}"
    if space.constraints:
        yield "Combinations are left out that break one of these"
        yield from dict.fromkeys(f"  {c.name}: {c.reason}" for c in space.constraints)
    for ir in lowered.regions:
        why = refusal(ir, lowered.target)
        if why and lowered.target.has_wgmma and any(op.kind in PRODUCTS for op in ir.walk()):
            yield f"Launch {ir.region} has no warp-specialised schedule: {why}"
        copied = copied_tensors(ir, lowered.target)
        if copied:
            yield (
                f"Launch {ir.region} copies {' and '.join(copied)} first where it is warp-specialised: rows that begin "
                "between multiples of 16 bytes, and neighbours that lie apart, have no boxes"
            )


def _choice(choice: Choice, is_default: bool) -> str:
    text = "none" if choice == "" else str(choice)
    return f"[{text}]" if is_default else text


def _launch(ir: KernelIR) -> Iterator[str]:
    for tensor in ir.tensors:
        shape, strides = (", ".join(map(str, e)) for e in (tensor.shape, tensor.strides))
        notes = ("" if tensor.aligned else ", may start off 16 bytes") + "".join(f", shares {p}" for p in tensor.shares)
        yield f"  {tensor.name}: {tensor.dtype}[{shape}], strides ({strides}){notes}"
    yield from (f"  {scalar.name}: {scalar.dtype}" for scalar in ir.scalars)
    listing = _Listing(ir)
    for name in ir.grid:
        tile = ir.tiles[name]
        begin, end = (listing.operand(b) for b in (tile.begin, tile.end))
        yield f"  one program for each {name} of {tile.block} in {begin} to {end}"
    yield from listing.block(ir.body, "  ")


@dataclass
class _Listing:
    """The ops, under the author's line that each came from."""

    ir: KernelIR
    names: dict[int, str] = field(default_factory=dict)
    line: tuple[str, int] = ("", 0)

    def block(self, block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            place = (op.loc.file, op.loc.line) if op.loc is not None else self.line
            if place != self.line and op.loc is not None:
                self.line = place
                yield f"{indent}# {op.loc.line}: {op.loc.text.strip()}"
            yield f"{indent}{self.op(op)}"
            for region in op.regions:
                if region.params:
                    yield f"{indent}  {self._params(op, region)}"
                yield from self.block(region, indent + "  ")
        if block.results:
            yield f"{indent}gives {', '.join(map(self.operand, block.results))}"

    def op(self, op: Op) -> str:
        left = ", ".join(f"{self.operand(v)}: {v.type}" for v in op.outputs)
        text = self._access(op) if isinstance(op.attrs, AccessAttrs) else self._plain(op)
        return f"{left} = {text}" if left else text

    def operand(self, v: Operand | Expr) -> str:
        return self.names.setdefault(v.id, f"%{len(self.names)}") if isinstance(v, Value) else str(v)

    def _params(self, op: Op, region: Block) -> str:
        """What a loop carries and begins with; what a function of a scan or reduction takes."""
        params = list(map(self.operand, region.params))
        if op.kind not in LOOPS:
            return f"takes {', '.join(params)}"
        before = map(self.operand, op.inputs[-len(params) :])
        return f"carries {', '.join(f'{param} = {value}' for param, value in zip(params, before, strict=True))}"

    def _plain(self, op: Op) -> str:
        if op.kind is OpKind.FOR:
            loop = self.ir.tiles[TileAttrs.of(op).tile]
            begin, end = self.operand(loop.begin), self.operand(loop.end)
            return f"for {TileAttrs.of(op).tile} of {loop.block} in {begin} to {end}"
        attrs = dict(op.attrs.items())
        name = attrs.pop("fn", op.kind)
        shown = [f"{key}={value}" for key, value in attrs.items() if key in _SHOWN_ATTRS and value is not None]
        return f"{name}({', '.join([*map(self.operand, op.inputs), *shown])})"

    def _access(self, op: Op) -> str:
        """``load x[tile_m, 0:8192]``, ``store out[tile_m] = %3``."""
        attrs = AccessAttrs.of(op)
        place = f"{attrs.tensor}[{', '.join(self._index(op, item) for item in attrs.index)}]"
        used = {item.input for item in attrs.index if not isinstance(item, (TileIndex, SliceIndex, ExprIndex))}
        rest = [self.operand(v) for n, v in enumerate(op.inputs) if n not in used]
        mask = f" where {rest.pop()}" if attrs.has_mask else ""
        return f"{op.kind} {place}{' = ' + ', '.join(rest) if rest else ''}{mask}"

    def _index(self, op: Op, item: IndexItem) -> str:
        match item:
            case TileIndex():
                return item.tile
            case SliceIndex():
                return f"{item.start}:{item.start + item.dim.extent}"
            case ExprIndex():
                return str(item.value)
        return self.operand(op.inputs[item.input])


def _scaled(number: float) -> str:
    """``134.2 M``: with the prefix that leaves 1 to 1000."""
    power = min(max(len(str(int(number))) - 1, 0) // 3, 4)
    return f"{number / 1000**power:.1f} {['', 'k', 'M', 'G', 'T'][power]}"
