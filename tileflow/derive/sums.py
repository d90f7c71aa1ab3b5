"""How the parts of a gradient are added up: stored, added by the program that owns the element, summed by blocks, or by
atomics.

A load's elements may be those of one turn of one program alone: its gradient is stored. Where each program owns the
elements that it names, it adds to them. Where all programs along one loop name the same ones, each sums up a block of
that loop, and the blocks' sums are added by torch. A product's are one of exchanged loops (:mod:`exchange`). Everything
else is added by atomics, in float32 or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..ir.graph import KernelIR
from .forward import Env, Speller, index_item
from .host import Header
from .named_elements import Named, disjoint, named
from .observe import Launch
from .program import Gradient, Loop, Statement, facts, walk
from .reverse import Taken


@dataclass(slots=True)
class Sum:
    """The gradient of one tensor while its parts are found. ``name``: of the tensor that collects them; ``like``: the
    text of the tensor itself. ``given``: the text of a gradient that it starts from."""

    name: str
    like: str
    dtype: str
    parts: list[tuple[Launch, Gradient]] = field(default_factory=list)
    given: str | None = None
    is_atomic: bool = False
    is_partial: bool = False
    is_exchanged: bool = False

    @property
    def total(self) -> str:
        """The gradient itself, as text."""
        return f"{self.name}.to({self.like}.dtype)" if self.is_atomic and self.wide != self.dtype else self.name

    @property
    def wide(self) -> str:
        """What atomics add in."""
        return self.dtype if self.dtype == "float64" else "float32"


@dataclass(slots=True)
class Partial:
    """Sums over blocks of one loop of a launch, of which each program adds up its own in registers. ``block``: how
    many elements of the loop a program takes. ``of``: the gradients, by their part's id, and the names of what holds
    them in registers and in memory."""

    tile: str
    block: str
    rows: str
    of: dict[int, tuple[Sum, str, str]]


@dataclass(slots=True)
class Reversed:
    """The backward pass of one launch: its loop's bounds, the names of its tiles, and its lines."""

    launch: Launch
    header: Header
    env: Env
    lines: list[Statement]
    speller: Speller
    partial: Partial | None = None


def plan_partials(reversed_: Iterable[Reversed], sums: Iterable[Sum]) -> None:
    """Plan partial sums: where all programs along one loop of a launch add to the same elements, each sums up a
    block."""
    for done in reversed_:
        grid = set(done.launch.ir.grid)
        for found in sums:
            if len(found.parts) != 1 or found.given is not None or found.parts[0][0] is not done.launch:
                continue
            (_, part), outer = found.parts[0], {t.variable for t in done.env.tiles.values()}
            own = named(done.launch.ir, taken(part).op)
            missing = grid - own.tiles
            if not own.by_lane or len(missing) != 1 or set(taken(part).tiles) != grid or part.mask is not None:
                continue
            (tile,) = missing
            index = (
                frozenset().union(*(facts(f"x[{i}]").reads - {"x"} for i in part.index)) if part.index else frozenset()
            )
            if done.header.is_grid or (done.partial is not None and done.partial.tile != tile):
                continue
            if index - outer or done.env.tiles[tile].variable in index or not done.header.begins_at_0:
                continue
            if done.partial is None:
                done.partial = Partial(tile, done.speller.namer.fresh("block"), done.speller.namer.fresh("rows"), {})
            done.partial.of[id(part)] = (
                found,
                done.speller.namer.fresh(f"sum_{found.name[5:]}"),
                done.speller.namer.fresh(f"partial_{found.name[5:]}"),
            )
            found.is_partial = True


def partial_lines(done: Reversed) -> tuple[list[str], list[str]]:
    """The lines before and after a launch whose programs sum up blocks."""
    partial = done.partial
    if partial is None:
        return [], []
    end = done.header.bound("end", done.launch.ir.grid.index(partial.tile))
    before = [f"{partial.block} = tfl.register_block_size({end})"]
    after = []
    for found, _, memory in partial.of.values():
        whole = named(done.launch.ir, taken(found.parts[0][1]).op).is_whole
        count = f"({end} + {partial.block} - 1) // {partial.block}"
        before.append(
            f"{memory} = torch.{'empty' if whole else 'zeros'}({count}, *{found.like}.shape, "
            f"dtype=torch.{found.wide}, device={found.like}.device)"
        )
        narrow = "" if found.wide == found.dtype else f".to({found.like}.dtype)"
        after.append(f"{found.name} = {memory}.sum(0){narrow}")
    return before, after


def whole_first(ir: KernelIR, lines: Iterable[Statement]) -> list[Statement]:
    """A launch's lines with each gradient of single elements behind the loop that gives all elements theirs.

    The loop then stores into memory that is not set before, where it else would add to zeros that the host wrote.
    """
    kept = list(lines)
    for part in [s for s in kept if isinstance(s, Gradient)]:
        if _is_stored(ir, part):
            continue
        begin = kept.index(part)
        for end, later in enumerate(kept[begin + 1 :], begin + 1):
            if isinstance(later, Loop) and any(
                isinstance(s, Gradient) and s.tensor == part.tensor and _is_stored(ir, s) for s in later.body
            ):
                between = kept[begin + 1 : end + 1]
                if not _assigned(between) & part.reads:
                    kept[begin : end + 1] = [*between, part]
                break
    return kept


def _is_stored(ir: KernelIR, part: Gradient) -> bool:
    """Whether a gradient is of each element of its tensor, in one turn of one program."""
    own = named(ir, taken(part).op)
    return own.by_lane and own.is_whole and own.tiles >= set(taken(part).tiles)


def _assigned(lines: Iterable[Statement]) -> frozenset[str]:
    names = (facts(line).assigns for line in walk(lines) if isinstance(line, str))
    return frozenset().union(*names)


def accumulation_lines(found: Sum) -> tuple[str, list[str]]:
    """How the parts of a gradient are added up: the line that allocates it, and the line of each part."""
    known = [(launch, gradient, named(launch.ir, taken(gradient).op)) for launch, gradient in found.parts]
    alone = [n.by_lane and n.tiles >= set(taken(g).tiles) for _, g, n in known]
    like = f"{found.name} = torch.zeros_like({found.like})"
    if found.given is not None:
        like = f"{found.name} = {found.given}.clone()"
    elif all(alone) and _are_disjoint(found):
        empty = len(known) == 1 and known[0][2].is_whole
        return (like.replace("zeros", "empty") if empty else like), [_store(found, g) for _, g in found.parts]
    if all(_is_owned(launch, n, known) for launch, _, n in known):
        first = found.given is None and alone[0] and known[0][2].is_whole
        lines = [_store(found, g) if first and i == 0 else _update(found, g) for i, (_, g) in enumerate(found.parts)]
        return (like.replace("zeros", "empty") if first else like), lines
    found.is_atomic = True
    given = f"{found.name} = {found.given}.to(torch.{found.wide}, copy=True)"
    dtype = f", dtype=torch.{found.wide}" if found.wide != found.dtype else ""
    return (given if found.given else f"{like[:-1]}{dtype})"), [_atomic(found, g) for _, g in found.parts]


def _are_disjoint(found: Sum) -> bool:
    parts = found.parts
    return all(
        one is other and disjoint(one.ir, taken(a).op, taken(b).op)
        for n, (one, a) in enumerate(parts)
        for other, b in parts[:n]
    )


def _is_owned(launch: Launch, own: Named, known: list[tuple[Launch, Gradient, Named]]) -> bool:
    """Whether no two programs of a launch name the same element."""
    grid = set(launch.ir.grid)
    owners = [{o for o in n.owners if o[0] in grid} for other, _, n in known if other is launch]
    return own.by_lane and own.tiles >= grid and all(o == owners[0] for o in owners)


def summed(done: Reversed, partial: Partial, inner: Loop, lines_of: dict[int, str]) -> list[Statement]:
    """A program's sums: set to 0, added to in the loop over its block, and stored."""
    before: list[Statement] = []
    after: list[Statement] = []
    for found, register, memory in partial.of.values():
        (_, part), op = found.parts[0], taken(found.parts[0][1]).op
        shape = done.speller.shape(op.output.dims, done.env)
        before.append(f"{register} = tfl.zeros({shape}, dtype=torch.{found.wide})")
        lines_of[id(part)] = f"{register} = {register} + {part.value}"
        after.append(f"{memory}[{', '.join((f'{partial.rows}.id', *part.index))}] = {register}")
    return [*before, inner, *after]


def taken(gradient: Gradient) -> Taken:
    """Where the load of a gradient stands."""
    assert isinstance(gradient.facts, Taken)
    return gradient.facts


def _store(found: Sum, g: Gradient) -> str:
    if g.mask is None:
        return f"{found.name}[{', '.join(g.index) or '()'}] = {g.value}"
    return f"tfl.store({found.name}, [{_items(g)}], {g.value}, extra_mask={g.mask})"


def _update(found: Sum, g: Gradient) -> str:
    if g.mask is None:
        return f"{found.name}[{', '.join(g.index) or '()'}] = {found.name}[{', '.join(g.index) or '()'}] + {g.value}"
    before = f"tfl.load({found.name}, [{_items(g)}], extra_mask={g.mask})"
    return f"tfl.store({found.name}, [{_items(g)}], {before} + {g.value}, extra_mask={g.mask})"


def _atomic(found: Sum, g: Gradient) -> str:
    mask = f", extra_mask={g.mask}" if g.mask else ""
    return f"tfl.atomic_add({found.name}, [{_items(g)}], {g.value}{mask})"


def _items(g: Gradient) -> str:
    return ", ".join(map(index_item, g.index))
