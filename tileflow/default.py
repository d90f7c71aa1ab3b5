"""The zero-search config: a heuristic over the IR's access pattern and the Target.

Products get the block sizes that keep the matrix units fed; everything else moves bytes, so that a program takes whole
contiguous runs, enough of them to have many loads in flight, and few enough to keep every multiprocessor busy.
"""

from __future__ import annotations

from collections.abc import Sequence

from .config import Choice, Config, ConfigSpace
from .expr import Expr
from .ir.analysis import contiguous_tiles, tile_length
from .ir.graph import KernelIR
from .ir.pressure import live_tiles
from .ir.types import Value, itemsize
from .passes.roll import rollable
from .space.build import suffixed
from .space.extents import block_of
from .target import Target

ONE_PIECE = 1 << 15  # elements of a row that a program keeps in registers
LOOP_BLOCK = 1 << 12
PROGRAM_ELEMENTS = 1 << 12
ELEMENTS_PER_THREAD = 16
LIVE_REGISTERS = 128  # that a thread spends on tiles, as a rule
MIN_WARPS = 4


def default_config(regions: Sequence[KernelIR], space: ConfigSpace, target: Target) -> Config:
    """A config that needs no search and no measurement; valid in ``space``."""
    wanted: dict[str, Choice] = {}
    for ir in regions:
        wanted |= _product(ir, target) if any(op.kind == "dot" for op in ir.walk()) else _streaming(ir, target)
    chosen = {k.name: _nearest(wanted.get(k.name, k.default), k.choices) for k in space.knobs}
    return space.normalise(space.repair(Config.of(chosen)))


def _nearest(value: Choice, choices: tuple[Choice, ...]) -> Choice:
    """The choice that is closest to ``value`` in log distance."""
    if value in choices or isinstance(value, str):
        return value if value in choices else choices[0]
    ints = [c for c in choices if isinstance(c, int) and c > 0]
    return min(ints, key=lambda c: abs(c.bit_length() - int(value).bit_length()))


def _pow2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _product(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Block sizes of a matrix product: as large as leaves every multiprocessor a program."""
    op = next(op for op in ir.walk() if op.kind == "dot")
    a, b = op.inputs[:2]
    assert isinstance(a, Value) and isinstance(b, Value)
    blocks = [block_of(d.extent) for d in (a.dims[-2], b.dims[-1], a.dims[-1])]
    lengths = [_length(ir, v.dims[i].tile, v.dims[i].extent) for v, i in ((a, -2), (b, -1), (a, -1))]
    m, n, warps = _output_block(lengths[0], lengths[1], target)
    k = 128 // itemsize(a.type.dtype) if target.vendor == "nvidia" else 64
    depth = 3 if m * n >= 128 * 256 else 4
    sizes = m, n, min(k, _pow2(lengths[2]))
    wanted: dict[str, Choice] = {name: size // factor for (name, factor), size in zip(blocks, sizes, strict=True)}
    wanted[suffixed(ir, "num_warps")] = warps
    wanted[suffixed(ir, "num_stages")] = depth if target.vendor == "nvidia" else 2
    wanted[suffixed(ir, "group")] = 8
    return wanted


def _length(ir: KernelIR, tile: str | None, extent: Expr) -> int:
    if tile is not None:
        return tile_length(ir, tile)
    return ir.hint(extent) if extent.symbols() <= ir.hints.keys() else 1


def _output_block(m: int, n: int, target: Target) -> tuple[int, int, int]:
    """The largest output block that gives at least nine tenths of the multiprocessors a tile, and its warps."""
    shapes = ((128, 256, 8), (128, 128, 8 if target.vendor == "nvidia" else 4), (64, 256, 4), (64, 128, 4), (64, 64, 4))
    for rows, columns, warps in shapes:
        fits = rows <= _pow2(m) and columns <= _pow2(n)
        if fits and -(-m // rows) * -(-n // columns) >= 0.9 * target.sm_count:
            return rows, columns, warps
    return min(64, _pow2(m)), min(64, _pow2(n)), 4


def _streaming(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """Bytes in, bytes out: contiguous tiles get the program's budget, rows are taken one at a time or a few."""
    wanted: dict[str, Choice] = {}
    row = 1
    for site, extent in rollable(ir).items():
        size = ir.hint(extent)
        one_piece = _pow2(size) <= ONE_PIECE
        wanted[site] = 0 if one_piece else LOOP_BLOCK
        row = max(row, _pow2(size) if one_piece else LOOP_BLOCK)
    fast = contiguous_tiles(ir)
    per_thread = min(ELEMENTS_PER_THREAD, _pow2(LIVE_REGISTERS // max(live_tiles(ir), 1) + 1) // 2 or 1)
    budget = max(PROGRAM_ELEMENTS * per_thread // ELEMENTS_PER_THREAD // row, 1)
    used = row
    for name in sorted(ir.tiles, key=lambda t: (t not in fast, ir.tiles[t].is_grid)):
        tile = ir.tiles[name]
        if tile.block.op != "sym" or tile.block.args[0] in wanted:
            continue
        size = min(budget, _pow2(tile_length(ir, name)))
        wanted[tile.block.args[0]] = size
        budget = max(budget // size, 1)
        used *= size
    warps = max(min(used // (target.warp_size * per_thread), 1024 // target.warp_size), 1)
    wanted[suffixed(ir, "num_warps")] = max(warps, MIN_WARPS if used >= MIN_WARPS * target.warp_size else 1)
    wanted[suffixed(ir, "num_stages")] = 3
    return wanted
