"""``while`` on a condition of the kernel: a loop that goes on while a scalar that it carries is true, beside tiles.

The condition is traced before the loop and at the end of each turn, so that the loop has one region. It is one for all
lanes of a program: a reduction, as ``(value > 0).any()``, makes it of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import TraceError
from .carried import Carried, trace_to_fixpoint
from .carried_pytrees import flatten_all, tree_spec, unflatten_all
from .trace import Tracer
from .values import TileValue


def device_while(
    t: Tracer,
    test: Callable[..., Any],
    first: Any,
    body: Callable[..., Any],
    names: tuple[str, ...],
    values: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Record the loop. ``test`` takes the first of the values, and gave ``first`` for them; gives the values after the
    loop."""
    structures = [tree_spec(v) for v in values]
    leaves = flatten_all(structures, values, names)

    def run(flat: tuple[Any, ...]) -> tuple[Any, ...]:
        results = body(*unflatten_all(structures, flat[1:]))
        again = _condition(t, test(*results))
        return (again, *(v for _, v in flatten_all(structures, results, names)))

    carried = Carried(("the condition", *(n for n, _ in leaves)), (_condition(t, first), *(v for _, v in leaves)))
    _, *after = trace_to_fixpoint(t, None, run, carried)
    return tuple(unflatten_all(structures, after))


def _condition(t: Tracer, answer: Any) -> TileValue:
    """What a condition gave, as a bool of the kernel."""
    if not isinstance(answer, (TileValue, bool)):
        raise TraceError(
            "the condition of a while is Python's or a scalar of the kernel",
            got=repr(answer)[:200],
            where=t.location(),
            hint="a block size decides an if, or the bound of a range",
        )
    if isinstance(answer, bool):
        return t.full((), answer, "bool")
    if answer.value.dims:
        raise TraceError(
            "a while loop of the kernel ends for all lanes of a program at once, on a scalar",
            got=f"the condition {answer!r}",
            where=t.location(),
            hint="while (condition).any(), with what an element keeps chosen by torch.where(condition, new, old)",
        )
    return t.cast(answer, "bool")
