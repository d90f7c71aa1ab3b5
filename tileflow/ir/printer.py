"""KernelIR as text: for people, goldens and hashes. The text does not depend on value numbering's gaps."""

from __future__ import annotations

from ..expr import Expr
from .attributes import TileAttrs
from .graph import Block, KernelIR, Op, Operand
from .kinds import OpKind
from .types import Value


def render(ir: KernelIR) -> str:
    """The whole region. Locations are left out, so that moving a kernel in its file changes nothing."""
    names: dict[int, str] = {}
    lines = [f"region {ir.region} of {ir.name} ({ir.mode})"]
    for t in ir.tensors:
        shape = ", ".join(map(str, t.shape))
        strides = ", ".join(map(str, t.strides))
        notes = ("" if t.aligned else " unaligned") + (f" shares {', '.join(t.shares)}" if t.shares else "")
        lines.append(f"  tensor {t.name} = {t.path}: {t.dtype}[{shape}] strides ({strides}){notes}")
    lines += [f"  scalar {s.name} = {s.path}: {s.dtype}" for s in ir.scalars]
    lines += [f"  block {b.name} in [{b.low}, {b.high}]" for b in ir.blocks]
    for name in ir.grid:
        tile = ir.tiles[name]
        lines.append(f"  grid {name} of {tile.block}: [{_bound(tile.begin, names)}, {_bound(tile.end, names)})")
    if ir.divided is not None:
        lines.append(f"  {ir.divided.extent} divided among {ir.divided.blocks} blocks of a cluster")
    lines += [f"  guard {g}" for g in ir.guards]
    _block(ir, ir.body, names, lines, "  ")
    return "\n".join(lines)


def _name(v: Value, names: dict[int, str]) -> str:
    return names.setdefault(v.id, f"%{len(names)}")


def _operand(v: Operand, names: dict[int, str]) -> str:
    return _name(v, names) if isinstance(v, Value) else repr(v)


def _bound(bound: Expr | Value, names: dict[int, str]) -> str:
    return _name(bound, names) if isinstance(bound, Value) else str(bound)


def _block(ir: KernelIR, block: Block, names: dict[int, str], lines: list[str], indent: str) -> None:
    for op in block.ops:
        _op(ir, op, names, lines, indent)
    if block.results:
        lines.append(f"{indent}yield {', '.join(_operand(r, names) for r in block.results)}")


def _op(ir: KernelIR, op: Op, names: dict[int, str], lines: list[str], indent: str) -> None:
    inputs = ", ".join(_operand(v, names) for v in op.inputs)
    outputs = ", ".join(f"{_name(v, names)}: {v.type}" for v in op.outputs)
    attrs = ", ".join(f"{k}={_attr(v)}" for k, v in op.attrs.items())
    text = f"{op.kind}({inputs})" + (f" {{{attrs}}}" if attrs else "")
    if op.kind is OpKind.FOR:
        tile = ir.tiles[TileAttrs.of(op).tile]
        text += f" of {tile.block}" + (f" dealt to {tile.dealt}" if tile.dealt else "")
    lines.append(f"{indent}{outputs} = {text}" if outputs else f"{indent}{text}")
    for region in op.regions:
        if region.params:
            lines.append(f"{indent}  ({', '.join(_name(p, names) for p in region.params)})")
        _block(ir, region, names, lines, indent + "  ")


def _attr(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_attr(v) for v in value) + ")"
    return str(value)
