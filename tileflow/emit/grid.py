"""Program ids: which tiles of the outermost loop a program works on, in which order.

The axes are laid out in the order of the knob ``order`` (the last one fastest). ``group`` makes programs that share
data of the slower of the two fastest axes neighbours, as in Triton's matrix multiplication tutorial. A ``persistent``
grid starts a few programs per multiprocessor, and each walks over many tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expr import Expr

if TYPE_CHECKING:
    from .kernel import Emitter


def axes(e: Emitter) -> tuple[str, ...]:
    """The grid's tiles, slowest first."""
    grid = e.plan.ir.grid
    order = str(e.plan.choice(e.knob("order"), ""))
    return tuple(grid[int(n)] for n in order.split(",")) if order else grid


def tile_count(e: Emitter, name: str) -> Expr:
    """How many tiles an axis has, with the block size as a number."""
    tile = e.plan.ir.tiles[name]
    assert isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)
    extent = tile.end - tile.begin
    return extent.cdiv(e.plan.block(tile.block)).substitute(e.plan.environment())


def total(e: Emitter) -> Expr:
    """How many tiles there are."""
    count = Expr.of(1)
    for name in e.plan.ir.grid:
        count = count * tile_count(e, name)
    return count


def launch_grid(e: Emitter) -> tuple[Expr, Expr, Expr]:
    """The grid of the launch."""
    programs = total(e)
    per_sm = e.plan.int_choice(e.knob("persistent"), 0)
    if per_sm:
        programs = programs.min(per_sm * e.target.sm_count)
    return programs, Expr.of(1), Expr.of(1)


def emit_grid(e: Emitter) -> None:
    """The program's tiles, then the body of the region for each."""
    per_sm = e.plan.int_choice(e.knob("persistent"), 0)
    if not per_sm:
        e.writer.line("pid = tl.program_id(0)")
        _tiles(e)
        return
    e.writer.line(f"for pid in tl.range(tl.program_id(0), {_count_text(e, total(e))}, tl.num_programs(0)):")
    with e.writer.indented():
        _tiles(e)


def _count_text(e: Emitter, count: Expr) -> str:
    return str(count.constant) if count.constant is not None else e.plan.text(count)


def _tiles(e: Emitter) -> None:
    names = axes(e)
    group = e.plan.int_choice(e.knob("group"), 1)
    rest = "pid"
    if len(names) == 1:
        e.grid_tile(names[0], rest)
    elif group > 1:
        _grouped(e, names, group)
    else:
        for name in reversed(names[1:]):
            count = _count_text(e, tile_count(e, name))
            e.grid_tile(name, f"{rest} % {count}")
            rest = f"({rest} // {count})"
        e.grid_tile(names[0], rest.removeprefix("(").removesuffix(")") if rest.startswith("(pid //") else rest)
    e.block(e.plan.ir.body)


def _grouped(e: Emitter, names: tuple[str, ...], group: int) -> None:
    """The two fastest axes in bands of ``group`` tiles of the slower one; further axes outside."""
    *outer, slow, fast = names
    slow_count, fast_count = (_count_text(e, tile_count(e, n)) for n in (slow, fast))
    pid = "pid"
    if outer:
        e.writer.line(f"plane = pid % ({slow_count} * {fast_count})")
        rest = f"(pid // ({slow_count} * {fast_count}))"
        for name in reversed(outer[1:]):
            count = _count_text(e, tile_count(e, name))
            e.grid_tile(name, f"{rest} % {count}")
            rest = f"({rest} // {count})"
        e.grid_tile(outer[0], rest)
        pid = "plane"
    e.writer.line(f"band = {pid} // ({group} * {fast_count})")
    e.writer.line(f"height = tl.minimum({slow_count} - band * {group}, {group})")
    e.grid_tile(slow, f"band * {group} + {pid} % ({group} * {fast_count}) % height")
    e.grid_tile(fast, f"{pid} % ({group} * {fast_count}) // height")
