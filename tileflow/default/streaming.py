"""First block sizes of regions that move bytes: whole contiguous runs, many loads in flight, no idle multiprocessor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR, TileIndex
from ..ir.pressure import live_tiles
from ..ir.types import Value, itemsize
from ..passes.roll import rollable
from ..space.names import suffixed
from ..target import Target

ONE_PIECE = 1 << 15  # elements of a row that a program keeps in registers
LIVE_ELEMENTS = 1 << 17  # that it keeps in all: what is not used at once shares registers
LOOP_BLOCK = 1 << 12
PROGRAM_BYTES = 1 << 13  # of the tensor with the shortest elements
BYTES_PER_THREAD = 128  # eight loads of the widest kind in flight
LIVE_REGISTERS = 128  # that a thread spends on tiles, as a rule
ROW_REGISTERS = 256  # where rows are reduced: what the next sum needs is computed anew or read again
CHUNK_WARPS = 16  # of all chunks of a multiprocessor together, where one has fewer and registers suffice
MIN_WARPS = 4


def streaming_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region without products that should not have their plain defaults."""
    wanted: dict[str, Choice] = {}
    chunked = chunks(ir)
    row, live = 1, max(live_tiles(ir), 1)
    for site, extent in rollable(ir).items():
        size = ir.hint(extent)
        one_piece = pow2(size) <= ONE_PIECE and pow2(size) * live <= LIVE_ELEMENTS
        wanted[site] = 0 if one_piece else LOOP_BLOCK
        row = max(row, pow2(size) if one_piece else LOOP_BLOCK)
    row = max(row, _whole(ir))
    registers = ROW_REGISTERS if row > 1 else LIVE_REGISTERS
    per_thread = min(BYTES_PER_THREAD // _element(ir), pow2(registers // live + 1) // 2 or 1)
    budget = max(PROGRAM_BYTES * per_thread // BYTES_PER_THREAD // row, 1)
    used = row
    for symbol, length in _blocks(ir):
        if symbol in chunked:
            continue
        wanted[symbol] = size = min(budget, pow2(length))
        budget = max(budget // size, 1)
        used *= size
    warps = max(min(used // (target.warp_size * per_thread), 1024 // target.warp_size), 1)
    warps = max(warps, MIN_WARPS if used >= MIN_WARPS * target.warp_size else 1)
    wanted[suffixed(ir, "num_warps")] = warps
    wanted[suffixed(ir, "num_stages")] = 3
    resident = max(min(CHUNK_WARPS // warps, target.regs_per_sm // (used * live)), 1)
    return wanted | chunk_sizes(ir, resident * target.sm_count, wanted)


def chunks(ir: KernelIR) -> dict[str, str]:
    """The grid's tiles whose block no register tile has, by their block symbol: how much work a program does."""
    in_registers = {s for op in ir.walk() for v in (*op.inputs, *op.outputs) if isinstance(v, Value)
                    for d in v.dims for s in d.extent.symbols()}  # fmt: skip
    blocks = {ir.tiles[name].block: name for name in ir.grid}
    return {e.args[0]: name for e, name in blocks.items() if e.op == "sym" and e.args[0] not in in_registers}


def chunk_sizes(ir: KernelIR, programs: int, blocks: Mapping[str, Choice]) -> dict[str, Choice]:
    """Sizes of the chunks that give about so many programs: few, since what they leave behind (partial sums, as a rule)
    must be summed again. ``blocks``: the sizes chosen for the grid's other axes."""
    chunked = chunks(ir)
    others = prod(_tiles(ir, name, blocks) for name in ir.grid if name not in chunked.values())
    wanted = max(programs // max(others, 1), 1)
    return {symbol: pow2(-(-tile_length(ir, name) // wanted)) for symbol, name in chunked.items()}


def _tiles(ir: KernelIR, name: str, blocks: Mapping[str, Choice]) -> int:
    """How many tiles of the chosen size an axis of the grid has; 1 where none is chosen yet."""
    block = ir.tiles[name].block
    size = block.constant or (blocks.get(block.args[0]) if block.op == "sym" else None)
    return -(-tile_length(ir, name) // size) if isinstance(size, int) else 1


def _element(ir: KernelIR) -> int:
    """Bytes of an element of what most of the loads of tiles read."""
    sizes = [itemsize(op.output.type.dtype) for op in ir.walk() if op.kind == "load" and op.output.dims]
    return max(set(sizes), key=sizes.count, default=4)


def _whole(ir: KernelIR) -> int:
    """Elements of the largest register tile over dimensions that no knob changes."""
    rolled = set(rollable(ir).values())
    sizes = [1]
    for op in ir.walk():
        for value in op.outputs:
            fixed = [d.extent for d in value.dims if d.extent not in rolled and d.extent.symbols() <= ir.hints.keys()]
            sizes.append(prod(pow2(ir.hint(e)) for e in fixed))
    return max(sizes)


def _blocks(ir: KernelIR) -> list[tuple[str, int]]:
    """The block symbols and how far their loops run: first those along which most bytes lie next to each other."""
    runs: Counter[str] = Counter()
    lengths: dict[str, int] = {}
    for name, tile in ir.tiles.items():
        if tile.block.op == "sym":
            symbol = tile.block.args[0]
            lengths[symbol] = max(lengths.get(symbol, 1), tile_length(ir, name))
    for op in ir.walk():
        if op.kind not in ("load", "store", "atomic"):
            continue
        tensor = ir.tensor(op.attrs["tensor"])
        size = prod(ir.hint(n) for n in tensor.shape) * itemsize(tensor.dtype)
        for item, stride in zip(op.attrs["index"], tensor.strides, strict=True):
            if isinstance(item, TileIndex) and stride.constant == 1 and ir.tiles[item.tile].block.op == "sym":
                runs[ir.tiles[item.tile].block.args[0]] += size
    return sorted(lengths.items(), key=lambda found: -runs[found[0]])


def pow2(n: int) -> int:
    """The power of two that covers ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def extent_length(ir: KernelIR, tile: str | None, extent: Expr) -> int:
    """How far a dimension runs in the traced example; of a block, how far the loops over such blocks do."""
    if tile is not None:
        return tile_length(ir, tile)
    if extent.symbols() <= ir.hints.keys():
        return ir.hint(extent)
    return max((tile_length(ir, n) for n, t in ir.tiles.items() if t.block.symbols() & extent.symbols()), default=1)
