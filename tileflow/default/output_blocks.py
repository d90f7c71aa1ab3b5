"""The blocks of a product's result: as large as leaves every multiprocessor a program, and every thread registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.pressure import beside_products
from ..ir.types import Dim
from ..target import Target
from .operands import operands_of
from .sizes import pow2, register_elements, symbol, times

Shapes = tuple[tuple[int, int, int], ...]  # rows, columns and warps of output blocks, the best first
MOST_SUMS = 192  # registers of a thread for products and what is alive beside them
MOST_SUMS_IN_PARTS = 96  # registers of a thread: beside 64, operands that are split take another 146
HALF_OF_REGISTERS = 128
MOST_WARPS = 8


@dataclass(frozen=True, slots=True)
class Side:
    """The rows or the columns of a product: how many, and whether a loop of each program takes them in turns, as a
    contrastive loss does all others, so that they make no programs."""

    length: int
    is_looped: bool

    def fits(self, size: int) -> bool:
        """Whether a block of so many is not longer than what there is."""
        return size <= pow2(self.length)

    def programs(self, size: int) -> int:
        """How many programs there are along it by blocks of so many."""
        return 1 if self.is_looped else -(-self.length // size)

    def work(self, size: int) -> int:
        """Elements that a program computes along it."""
        return self.length if self.is_looped else size


def sides_of(ir: KernelIR, dims: Sequence[Dim], lengths: Sequence[int]) -> tuple[Side, Side]:
    """The rows and the columns of a product."""
    looped = {TileAttrs.of(op).tile for op in ir.walk() if op.kind is OpKind.FOR}
    rows, columns = (Side(n, d.tile in looped) for d, n in zip(dims[:2], lengths, strict=False))
    return rows, columns


def output_block(sides: tuple[Side, Side], batch: int, shapes: Shapes, target: Target) -> tuple[int, int, int]:
    """The first of the output blocks that gives at least nine tenths of the multiprocessors a tile, and its warps; or
    one before it in which no multiprocessor has more to do.

    A multiprocessor that has two tiles of a block, since there are more tiles than multiprocessors, does as much for a
    block twice as large of which it has one. The larger one reads less for it.
    """
    across, along = sides
    fitting = [shape for shape in shapes if across.fits(shape[0]) and along.fits(shape[1])]

    def tiles(shape: tuple[int, int, int]) -> int:
        return batch * across.programs(shape[0]) * along.programs(shape[1])

    def work(shape: tuple[int, int, int]) -> int:
        """Elements of the output that the busiest multiprocessor computes."""
        return -(-tiles(shape) // target.sm_count) * across.work(shape[0]) * along.work(shape[1])

    smallest = min(64, pow2(across.length)), min(64, pow2(along.length)), 4
    enough = next((shape for shape in fitting if tiles(shape) >= 0.9 * target.sm_count), smallest)
    rows, columns, warps = next((shape for shape in fitting if work(shape) <= work(enough)), enough)
    return rows, columns, 4 if target.vendor == "amd" and rows == columns else warps


def in_registers(ir: KernelIR, op: Op, shapes: Shapes, target: Target, most: int = MOST_SUMS) -> Shapes:
    """The shapes whose programs have registers for every product and for what is alive beside it: the sums of other
    products, a product that is scaled before it is added. ``most``: registers of a thread for them."""
    a, b = operands_of(op)
    together = beside_products(ir)

    def fits(shape: tuple[int, int, int]) -> bool:
        sizes = dict.fromkeys((block.name for block in ir.blocks), 1) | ir.hints
        sizes |= {symbol(d): max(n // times(d), 1) for d, n in zip((a.dims[-2], b.dims[-1]), shape, strict=False)}
        largest = max(sum(register_elements(v, sizes) for v in tiles) for tiles in together)
        return largest <= most * shape[2] * target.warp_size

    return tuple(filter(fits, shapes))
