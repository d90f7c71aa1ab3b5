"""``while`` on a condition of the kernel: a loop that carries scalars, and goes on while one of them is true.

The condition is traced before the loop and at the end of each turn, so that the loop has one region.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import TraceError
from ..ir.graph import Op, walk
from ..ir.types import Value
from .carried import Carried, trace_to_fixpoint
from .carried_pytrees import flatten_all, tree_spec, unflatten_all
from .trace import Tracer
from .values import TileValue

_INSTEAD = "for i in range(n), with what to keep chosen by torch.where(condition, new, old)"


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
    for name, value in leaves:
        if isinstance(value, TileValue) and value.value.dims:
            raise _of_tiles(t, f"{name}: {value!r}")

    def run(flat: tuple[Any, ...]) -> tuple[Any, ...]:
        results = body(*unflatten_all(structures, flat[1:]))
        again = _condition(t, test(*results))
        return (again, *(v for _, v in flatten_all(structures, results, names)))

    carried = Carried(("the condition", *(n for n, _ in leaves)), (_condition(t, first), *(v for _, v in leaves)))
    _, *after = trace_to_fixpoint(t, None, run, carried)
    _check(t, t.builder.ops[-1])
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
        raise _of_tiles(t, f"the condition {answer!r}")
    return t.cast(answer, "bool")


def _check(t: Tracer, loop: Op) -> None:
    for op in walk(loop.regions[0]):
        if any(isinstance(v, Value) and v.dims for v in (*op.inputs, *op.outputs)):
            raise _of_tiles(t, f"{op.kind} of a tile inside it")


def _of_tiles(t: Tracer, got: str) -> TraceError:
    return TraceError(
        "a while loop of the kernel is of scalars: it ends for each program, not for each element",
        got=got,
        where=t.location(),
        hint=_INSTEAD,
    )
