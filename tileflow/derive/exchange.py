"""The gradient of a product's operand as a plain product: its loops exchanged, so that a program owns a tile of it.

Of ``out[m, n] = x[m, k] @ y[k, n]``, with ``k`` looped over in each program of ``m`` and ``n``, all programs along
``n`` add to one element of ``x``'s gradient. In a launch over ``m`` and ``k`` that loops over ``n``, one program sums
it up in registers, and stores it. That is possible where what is added follows from loads, in any order of loops.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.attributes import AccessAttrs
from ..parsing import expression_tree
from .forward import TileName
from .named_elements import named
from .program import Branch, Gradient, Loop, Statement, facts, prune, render, walk
from .sums import Reversed, Sum, taken


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop over tiles as text: its variable, its bounds, and the block size that the author gave."""

    variable: str
    begin: str
    end: str
    block: str | None


def exchange(done: Reversed, found: Sum) -> list[str] | None:
    """The lines of the launch that computes the gradient ``found`` alone, which ``done`` computes no more. None where
    its loops cannot be exchanged, or its part is no product."""
    place = _place(done, found)
    if place is None:
        return None
    part, loop = place
    lines = _needed(done.lines, loop, part)
    if lines is None or not any("tfl.dot(" in line for line in (*lines, part.value)):
        return None
    axes = _axes(done, loop, taken(part).tiles[-1])
    own = named(done.launch.ir, taken(part).op).tiles
    outer = [axes[tile] for tile in taken(part).tiles if tile in own]
    inner = [axes[tile] for tile in taken(part).tiles if tile not in own]
    moving = {axis.variable for axis in axes.values()} | _assigned(done.lines)
    bounds = [facts(f"x = ({axis.begin}, {axis.end}, {axis.block})").reads for axis in axes.values()]
    if frozenset().union(*bounds) & moving:
        return None
    done.lines = prune(_without(done.lines, part))[0]
    return _launch(done, found, part, outer, inner, lines, loop)


def _place(done: Reversed, found: Sum) -> tuple[Gradient, Loop] | None:
    """The only part of a gradient and the loop in which it stands, where programs that differ in tiles of the grid
    alone add to the same elements."""
    if len(found.parts) != 1 or found.given is not None or found.is_partial or done.header.is_grid:
        return None
    launch, part = found.parts[0]
    loops = [s for s in done.lines if isinstance(s, Loop) and any(inner is part for inner in s.body)]
    if (
        launch is not done.launch
        or part.mask is not None
        or len(loops) != 1
        or not loops[0].over.startswith("tfl.tile(")
    ):
        return None
    own, tiles = named(launch.ir, taken(part).op), taken(part).tiles
    if (
        not own.by_lane
        or not own.tiles < set(tiles)
        or tiles[-1] not in own.tiles
        or len(tiles) != len(launch.ir.grid) + 1
    ):
        return None
    variables = {done.env.tiles[t].variable for t in launch.ir.grid if t in own.tiles} | {loops[0].variables}
    return (part, loops[0]) if {*part.index} <= variables | {":"} else None


def _needed(lines: Iterable[Statement], loop: Loop, part: Gradient) -> list[str] | None:
    """The lines that a part is made of, in order; None where one is a loop's or a branch's, or depends on the turn
    before."""
    live, kept = set(part.reads), []
    every = [*lines]
    assigned = [name for s in walk(every) if isinstance(s, str) for name in facts(s).assigns]
    in_loops = {name for s in every if isinstance(s, Loop | Branch) and s is not loop for name in _assigned([s])}
    nested = {name for s in loop.body if isinstance(s, Loop | Branch) for name in _assigned([s])}
    for statement in (*reversed(loop.body), *reversed(every)):
        if isinstance(statement, str) and facts(statement).assigns & live:
            kept.append(statement)
            live |= facts(statement).reads
    if live & (in_loops | nested) or any(assigned.count(name) > 1 for name in live):
        return None
    return kept[::-1]


def _assigned(lines: Iterable[Statement]) -> set[str]:
    return {name for s in walk(lines) if isinstance(s, str) for name in facts(s).assigns}


def _axes(done: Reversed, loop: Loop, tile: str) -> dict[str, Axis]:
    """The loops around the part, by their tiles."""
    found = {}
    for axis, name in enumerate(done.launch.ir.grid):
        begin, end = (done.header.bound(which, axis) for which in ("begin", "end"))
        found[name] = Axis(done.env.tiles[name].variable, begin, end, done.header.block_size(axis))
    call = expression_tree(loop.over)
    assert isinstance(call, ast.Call)
    bounds = [ast.unparse(argument) for argument in call.args]
    blocks = [ast.unparse(keyword.value) for keyword in call.keywords]
    begin, end = bounds if len(bounds) == 2 else ("0", bounds[0])
    found[tile] = Axis(loop.variables, begin, end, blocks[0] if blocks else None)
    return found


def _without(lines: Iterable[Statement], part: Gradient) -> list[Statement]:
    """The statements without one that stands among them or in a loop of them."""
    return [
        Loop(s.variables, s.over, _without(s.body, part)) if isinstance(s, Loop) else s for s in lines if s is not part
    ]


def _launch(
    done: Reversed,
    found: Sum,
    part: Gradient,
    outer: Sequence[Axis],
    inner: Sequence[Axis],
    lines: Sequence[str],
    loop: Loop,
) -> list[str]:
    op, ir = taken(part).op, done.launch.ir
    env = done.env.child()
    env.tiles[taken(part).tiles[-1]] = TileName(loop.variables)
    total = done.speller.namer.fresh(f"sum_{found.name[5:]}")
    body: list[Statement] = [*lines, f"{total} = {total} + {part.value}"]
    for axis in reversed(inner):
        body = [Loop(axis.variable, _over([axis]), body)]
    start = f"{total} = tfl.zeros({done.speller.shape(op.output.dims, env)}, dtype=torch.{found.wide})"
    store = f"{found.name}[{', '.join(part.index)}] = {total}"
    whole = Loop(", ".join(axis.variable for axis in outer), _over(outer), [start, *body, store])
    made = "empty" if named(ir, op).is_whole else "zeros"
    assert ir.tensor(AccessAttrs.of(op).tensor).path == part.tensor
    return [f"{found.name} = torch.{made}_like({found.like})", *render([whole], "")]


def _over(axes: Sequence[Axis]) -> str:
    several = [*zip(*((axis.begin, axis.end, str(axis.block)) for axis in axes), strict=True)]
    begins, ends, blocks = (texts[0] if len(axes) == 1 else f"[{', '.join(texts)}]" for texts in several)
    begin = f"{begins}, " if any(axis.begin != "0" for axis in axes) else ""
    block = f", block_size={blocks}" if any(axis.block for axis in axes) else ""
    return f"tfl.tile({begin}{ends}{block})"
