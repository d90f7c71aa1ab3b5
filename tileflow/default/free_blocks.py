"""Blocks that the rules of a region's products leave free: of loops beside products, and of the grid's axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..config import Choice
from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR, walk
from ..ir.kinds import OpKind
from ..space.knobs import NUM_WARPS
from ..target import Target
from .sizes import block_symbols, chosen_sizes, programs, register_elements

LANE_ELEMENTS = 32  # of the largest tile of a turn without products
FEWEST_COLUMNS = 32  # of an axis that is divided
NEARLY = 0.9  # of the multiprocessors have a program


def free_block_config(
    ir: KernelIR, wanted: Mapping[str, Choice], chosen: Mapping[str, Choice], target: Target
) -> dict[str, Choice]:
    """Smaller sizes of such blocks, where a lane would hold too much, or multiprocessors would have no program.
    ``wanted``: what the rules of products say; ``chosen``: the knobs of all blocks and warps so far."""
    if not any(op.kind is OpKind.DOT for op in ir.walk()):
        return {}
    free = {name for tile in ir.tiles.values() if tile.block.op == "sym" for name in tile.block.args} - wanted.keys()
    free &= chosen.keys()
    return _of_loops(ir, free, chosen, target) | _of_axes(ir, free, chosen, target)


def _of_loops(ir: KernelIR, free: set[str], chosen: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """As much of a turn without products as a lane has registers for beside what the products left there. Four streams
    of 64 tokens that are mixed after a product took 3147 us by 32 columns a turn (as a call ran them: by 16 warps, with
    spills), 1730 by 16 and 510 by 8 (H200, 2026-11-29)."""
    found: dict[str, Choice] = {}
    for name in sorted(_beside_products(ir) & free):
        sizes, warps = chosen_sizes(ir, {**chosen, name: 1}), chosen.get(NUM_WARPS.name(ir), NUM_WARPS.default)
        tiles = [v for op in ir.walk() for v in op.outputs if name in block_symbols(ir, v)]
        others = max((register_elements(v, sizes) for v in tiles), default=1)
        assert isinstance(warps, int)
        most = LANE_ELEMENTS * warps * target.warp_size // others
        now = chosen[name]
        if isinstance(now, int) and now > most:
            found[name] = 1 << max(most.bit_length() - 1, 0)
    return found


def _beside_products(ir: KernelIR) -> set[str]:
    """The blocks of loops without products that no product has a dimension of."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    beside = [op for op in loops if all(inner.kind is not OpKind.DOT for inner in walk(op.regions[0]))]
    blocks = {s for op in beside for s in ir.tiles[TileAttrs.of(op).tile].block.symbols()}
    return blocks - {s for op in ir.walk() if op.kind is OpKind.DOT for v in op.values for s in block_symbols(ir, v)}


def _of_axes(ir: KernelIR, free: set[str], chosen: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """Axes of the grid divided until the multiprocessors have a program each: linear attention by 64 programs of 128
    columns took 160 us, by 128 of 64 138, by 256 of 32 135 (H200, 2026-11-29)."""
    sizes = dict(chosen)
    while programs(ir, sizes) < NEARLY * target.sm_count:
        widest, size = max(_axes(ir, free, sizes), key=lambda axis: axis[1], default=("", 0))
        if size <= FEWEST_COLUMNS:
            break
        sizes[widest] = size // 2
    return {name: size for name, size in sizes.items() if size != chosen[name]}


def _axes(ir: KernelIR, free: set[str], sizes: Mapping[str, Choice]) -> Iterator[tuple[str, int]]:
    for axis in ir.grid:
        block = ir.tiles[axis].block
        if block.op == "sym" and block.args[0] in free:
            size = sizes[block.args[0]]
            assert isinstance(size, int)
            yield block.args[0], size
