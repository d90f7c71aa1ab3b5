"""Faults planted in the compiler, which random kernels must find: for the process that interprets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tileflow.emit.context import Context
from tileflow.emit.table import TRITON, Rule
from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import Op, SliceIndex
from tileflow.ir.kinds import OpKind

from .checks import check
from .draws import by_seed
from .kernels import program


def without_mask(rule: Rule[Context]) -> Rule[Context]:
    """Lanes past an end count in reductions."""
    return lambda e, op: e.bind(op.output, e.name(op.inputs[0]), e.held(op.inputs[0]))


def with_stale_value(rule: Rule[Context]) -> Rule[Context]:
    """The last of several values that a loop carries keeps what it began with."""

    def emit(e: Context, op: Op) -> None:
        (body,) = op.regions
        if len(body.results) > 1:
            body = replace(body, results=(*body.results[:-1], body.params[-1]))
        rule(e, replace(op, regions=(body,)))

    return emit


def with_shifted_slice(rule: Rule[Context]) -> Rule[Context]:
    """A slice that begins behind the first element begins one too early."""

    def shifted(item: object) -> object:
        starts_behind = isinstance(item, SliceIndex) and (item.start.constant or 0) > 0
        return replace(item, start=item.start - 1) if isinstance(item, SliceIndex) and starts_behind else item

    def emit(e: Context, op: Op) -> None:
        attrs = AccessAttrs.of(op)
        rule(e, op.with_(attrs=replace(attrs, index=tuple(map(shifted, attrs.index)))))

    return emit


FAULTS: dict[str, tuple[OpKind, Callable[[Rule[Context]], Rule[Context]]]] = {
    "a mask is dropped": (OpKind.WHERE_MASK, without_mask),
    "a carried value is stale": (OpKind.FOR, with_stale_value),
    "an offset is one too small": (OpKind.LOAD, with_shifted_slice),
}


@contextmanager
def planted(fault: str) -> Iterator[None]:
    kind, change = FAULTS[fault]
    right = TRITON[kind]
    had_own = kind in TRITON
    TRITON[kind] = change(right)
    try:
        yield
    finally:
        if had_own:
            TRITON[kind] = right
        else:
            del TRITON[kind]


def programs_until_found(fault: str, most: int) -> int:
    """How many programs it takes to see a wrong value; ``most`` + 1 where that many do not."""
    with planted(fault):
        for number in range(most):
            if any(f.kind == "wrong" for f in check(program(by_seed(number)), (number,))):
                return number + 1
    return most + 1
