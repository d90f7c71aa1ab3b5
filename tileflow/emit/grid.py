"""Program ids: which tiles of the outermost loop a program works on, in which order.

The axes are laid out in the order of the knob ``order`` (the last one fastest). ``group`` makes programs that share
data of the slower of the two fastest axes neighbours, as in Triton's matrix multiplication tutorial. A ``persistent``
grid starts a few programs per multiprocessor, and each walks over many tiles: one out of as many as there are programs
(``interleaved``), or a run of neighbours (``blocked``). A ``grid`` of ``axes`` takes each tile's number from an axis of
the launch.

A device of several dies deals programs out to them in turn. With ``xcd``, programs of one die are numbered one after
the other, so that neighbours share its cache.
"""

from __future__ import annotations

from ..expr import Expr
from ..ir.attributes import TileAttrs
from ..ir.kinds import OpKind
from ..space.grids import MOST_PROGRAMS, growing_tiles
from ..space.knobs import DESCENDING, FLATTEN, GRID, GROUP, ORDER, PERSISTENT, WALK, XCD
from . import clusters
from .context import Context
from .loops import guard_turns


def axes(e: Context) -> tuple[str, ...]:
    """The grid's tiles, slowest first: before the author's those whose programs share a loop's turns."""
    grid, dealt = e.plan.ir.grid, {tile.dealt for tile in e.plan.ir.tiles.values()}
    parts = tuple(name for name in grid if name in dealt)
    order = e.plan.launch(ORDER)
    own = tuple(grid[int(n)] for n in order.split(",")) if order else tuple(n for n in grid if n not in dealt)
    return (*parts, *own)


def tile_count(e: Context, name: str) -> Expr:
    """How many tiles an axis has, with the block size as a number."""
    tile = e.plan.ir.tiles[name]
    assert isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)
    extent = tile.end - tile.begin
    return extent.cdiv(e.plan.block(tile.block)).substitute(e.plan.environment())


def total(e: Context) -> Expr:
    """How many tiles there are."""
    count = Expr.of(1)
    for name in e.plan.ir.grid:
        count = count * tile_count(e, name)
    return count


def launch_grid(e: Context) -> tuple[Expr, Expr, Expr]:
    """The grid of the launch."""
    programs = total(e)
    if e.plan.ir.cluster:
        clusters.guard_few(e, programs, clusters.shared_by_clusters(e))
    if _has_axes(e):
        counts = [tile_count(e, name) for name in reversed(axes(e))]
        for count in counts[1:]:
            e.plan.guard(count.le(MOST_PROGRAMS))
        x, y, z = (*counts, *[Expr.of(1)] * (3 - len(counts)))
        return x, y, z
    per_sm = e.plan.launch(PERSISTENT)
    if per_sm:
        programs = programs.min(per_sm * e.target.sm_count)
    return programs, Expr.of(1), Expr.of(1)


def emit_grid(e: Context) -> None:
    """The program's tiles, then the body of the region for each."""
    per_sm, counts = e.plan.launch(PERSISTENT), Counts(e)
    clusters.emit_program(e)
    if _has_axes(e):
        for axis, name in enumerate(reversed(axes(e))):
            e.writer.line(f"pid_{axis} = {clusters.program_id(e, axis)}")
            _tile(e, name, f"pid_{axis}", counts)
        e.block(e.plan.ir.body)
        return
    program = _program(e)
    if not per_sm:
        e.writer.line(f"pid = {program}")
        emit_tiles(e, counts)
        return
    flatten = ", flatten=True" if e.plan.launch(FLATTEN) else ""
    if flatten:  # a turn of the loop inside is one of the loop over tiles too
        for op in (op for op in e.plan.ir.walk() if op.kind is OpKind.FOR):
            guard_turns(e, e.plan.ir.tiles[TileAttrs.of(op).tile])
    e.writer.line(f"for pid in tl.range({_walk(e, program, counts.total())}{flatten}):")
    with e.writer.indented():
        emit_tiles(e, counts)


def _has_axes(e: Context) -> bool:
    return e.plan.launch(GRID) == "axes"


def _program(e: Context) -> str:
    """The program's number."""
    if not e.plan.launch(XCD):
        return clusters.program_id(e, 0)
    dies = e.target.dies
    e.writer.line(f"die = tl.program_id(0) % {dies}")
    e.writer.line(f"before = die * (tl.num_programs(0) // {dies}) + tl.minimum(die, tl.num_programs(0) % {dies})")
    e.writer.line(f"program = before + tl.program_id(0) // {dies}")
    return "program"


def _walk(e: Context, program: str, count: str) -> str:
    """The bounds of a persistent program's loop."""
    if e.plan.launch(WALK) == "interleaved":
        return f"{program}, {count}, tl.num_programs(0)"
    e.writer.line(f"run = tl.cdiv({count}, tl.num_programs(0))")
    e.writer.line(f"first = {program} * run")
    return f"first, tl.minimum(first + run, {count})"


class Counts:
    """How many tiles the axes have, as text that follows from the block sizes: where sizes are constants, constants of
    the kernel's own, which are written when they are first asked for."""

    def __init__(self, e: Context) -> None:
        self._e = e
        self._named: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The text of how many tiles the axis ``name`` has."""
        if name not in self._named:
            self._named[name] = self._text(name)
        return self._named[name]

    def last(self, name: str) -> str:
        """The number of the last tile."""
        count = self._symbolic(name)
        return f"({self.of(name)} - 1)" if self._is_static(name) else self._e.plan.text(count - 1)

    def total(self) -> str:
        """The text of how many tiles all axes have together."""
        grid, count = self._e.plan.ir.grid, Expr.of(1)
        if all(map(self._is_static, grid)):
            return " * ".join(map(self.of, grid))
        for name in grid:
            count = count * self._symbolic(name)
        return self._e.plan.text(count)

    def _text(self, name: str) -> str:
        tile, count = self._e.plan.ir.tiles[name], tile_count(self._e, name)
        if count.constant is None:
            return self._e.plan.text(self._symbolic(name))
        length = self._length(name)
        if not self._e.plan.is_folded(tile.block) or length.constant is None:
            return str(count.constant)
        named, block = f"{self._e.tile(name)}_count", self._e.plan.text(tile.block)
        self._e.writer.line(f"{named}: tl.constexpr = ({length.constant} + {block} - 1) // {block}")
        return named

    def _is_static(self, name: str) -> bool:
        return tile_count(self._e, name).constant is not None

    def _symbolic(self, name: str) -> Expr:
        return self._length(name).cdiv(self._e.plan.ir.tiles[name].block)

    def _length(self, name: str) -> Expr:
        tile = self._e.plan.ir.tiles[name]
        assert isinstance(tile.begin, Expr) and isinstance(tile.end, Expr)
        return tile.end - tile.begin


def emit_tiles(e: Context, counts: Counts) -> None:
    """The tiles of the program of number ``pid``, then the body of the region for them."""
    names = axes(e)
    group = e.plan.launch(GROUP)
    rest = "pid"
    if len(names) == 1:
        _tile(e, names[0], rest, counts)
    elif group > 1:
        _grouped(e, names, group, counts)
    else:
        for name in reversed(names[1:]):
            count = counts.of(name)
            _tile(e, name, f"{rest} % {count}", counts)
            rest = f"({rest} // {count})"
        plain = rest.removeprefix("(").removesuffix(")") if rest.startswith("(pid //") else rest
        _tile(e, names[0], plain, counts)
    e.block(e.plan.ir.body)


def _tile(e: Context, name: str, position: str, counts: Counts) -> None:
    """The tile at a position of its axis: the last one first where those take longest and the config says so (Graham,
    1969: the longest first leaves the least idle at the end)."""
    if e.plan.launch(DESCENDING) and name in growing_tiles(e.plan.ir):
        position = f"{counts.last(name)} - {position if position.isidentifier() else f'({position})'}"
    e.grid_tile(name, position)


def _grouped(e: Context, names: tuple[str, ...], group: int, counts: Counts) -> None:
    """The two fastest axes in bands of ``group`` tiles of the slower one; further axes outside."""
    *outer, slow, fast = names
    slow_count, fast_count = map(counts.of, (slow, fast))
    pid = "pid"
    if outer:
        e.writer.line(f"plane = pid % ({slow_count} * {fast_count})")
        rest = f"(pid // ({slow_count} * {fast_count}))"
        for name in reversed(outer[1:]):
            count = counts.of(name)
            _tile(e, name, f"{rest} % {count}", counts)
            rest = f"({rest} // {count})"
        _tile(e, outer[0], rest, counts)
        pid = "plane"
    e.writer.line(f"band = {pid} // ({group} * {fast_count})")
    e.writer.line(f"height = tl.minimum({slow_count} - band * {group}, {group})")
    _tile(e, slow, f"band * {group} + {pid} % ({group} * {fast_count}) % height", counts)
    _tile(e, fast, f"{pid} % ({group} * {fast_count}) // height", counts)
