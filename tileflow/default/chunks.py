"""Chunks: blocks of the grid that no register tile has, and so how much work a program does in turns."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR
from ..ir.types import Value
from .sizes import pow2


def chunks(ir: KernelIR) -> dict[str, str]:
    """The grid's tiles whose block no register tile has, by their block symbol: how much work a program does."""
    in_registers = {
        s
        for op in ir.walk()
        for v in (*op.inputs, *op.outputs)
        if isinstance(v, Value)
        for d in v.dims
        for s in d.extent.symbols()
    }
    blocks = {ir.tiles[name].block: name for name in ir.grid}
    return {e.args[0]: name for e, name in blocks.items() if e.op == "sym" and e.args[0] not in in_registers}


def chunk_sizes(ir: KernelIR, programs: int, blocks: Mapping[str, Choice]) -> dict[str, Choice]:
    """Sizes of the chunks that give about so many programs: few, since what they leave behind (partial sums, as a rule)
    must be summed again. ``blocks``: the sizes chosen for the grid's other axes."""
    chunked = chunks(ir)
    others = prod(tiles_along(ir, name, blocks) for name in ir.grid if name not in chunked.values())
    wanted = max(programs // max(others, 1), 1)
    return {symbol: pow2(-(-tile_length(ir, name) // wanted)) for symbol, name in chunked.items()}


def tiles_along(ir: KernelIR, name: str, blocks: Mapping[str, Choice]) -> int:
    """How many tiles of the chosen size an axis of the grid has; 1 where none is chosen yet."""
    block = ir.tiles[name].block
    size = block.constant or (blocks.get(block.args[0]) if block.op == "sym" else None)
    return -(-tile_length(ir, name) // size) if isinstance(size, int) else 1
