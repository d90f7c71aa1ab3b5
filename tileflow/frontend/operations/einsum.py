"""``torch.einsum``: one product after another, on the matrix units where an equation is a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .matmul import accumulator, dot
from .reductions import reduce
from .reshape import value_of
from .views import permute, unsqueeze


@register_torch("einsum")
def einsum(t: Tracer, equation: str, *operands: Any) -> TileValue:
    """Letters that the result lacks are summed over. Raises TraceError for ellipses and repeated letters."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    terms, result = _parsed(t, equation, operands)
    left, term = t.wrap(value_of(t, operands[0])), terms[0]
    for n, right in enumerate(operands[1:], start=1):
        wanted = set(result).union(*terms[n + 1 :])
        left, term = _product(t, left, term, t.wrap(value_of(t, right)), terms[n], wanted)
    dtype = left.value.type.dtype
    left, term = _summed(t, left, term, set(result))
    return permute(t, t.cast(left, dtype), [term.index(c) for c in result])


def _parsed(t: Tracer, equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:  # torch's rule: what appears once, in the alphabet's order
        result = "".join(sorted(c for c in set(inputs) - {","} if inputs.count(c) == 1))
    if any(not c.isalpha() for c in "".join(terms) + result) or any(len(set(x)) < len(x) for x in (*terms, result)):
        raise TraceError(
            "einsum in a tile loop takes letters, each once a tile",
            got=equation,
            where=t.location(),
            hint="name every dimension",
        )
    ranks = [len(value_of(t, x).dims) for x in operands]
    if [len(x) for x in terms] != ranks:
        raise ShapeError(
            "einsum's equation has a letter for each dimension", got=f"{equation} for {ranks}", where=t.location()
        )
    return terms, result


def _product(t: Tracer, left: TileValue, a: str, right: TileValue, b: str, wanted: set[str]) -> tuple[TileValue, str]:
    """Two tiles multiplied, and summed over what is not wanted."""
    left, a = _summed(t, left, a, wanted | set(b))
    right, b = _summed(t, right, b, wanted | set(a))
    batch = [c for c in a if c in b and c in wanted]
    inner = [c for c in a if c in b and c not in wanted]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    if len(rows) == len(columns) == len(inner) == 1:
        first = permute(t, left, [a.index(c) for c in (*batch, *rows, *inner)])
        second = permute(t, right, [b.index(c) for c in (*batch, *inner, *columns)])
        return dot(t, first, second), "".join((*batch, *rows, *columns))
    dtype = left.value.type.dtype
    wide = accumulator(dtype, right.value.type.dtype)
    term = "".join((*batch, *rows, *columns, *inner))
    product = t.pointwise("mul", *(t.cast(_spread(t, x, own, term), wide) for x, own in ((left, a), (right, b))))
    summed, term = _summed(t, product, term, wanted)
    return t.cast(summed, dtype), term


def _summed(t: Tracer, x: TileValue, term: str, wanted: set[str]) -> tuple[TileValue, str]:
    axes = [n for n, c in enumerate(term) if c not in wanted]
    if not axes:
        return x, term
    return reduce(t, "sum", x, axes, keepdim=False), "".join(c for c in term if c in wanted)


def _spread(t: Tracer, x: TileValue, own: str, term: str) -> TileValue:
    """``x`` with its letters in the order of ``term``, and dimensions of 1 for the others."""
    x = permute(t, x, [own.index(c) for c in term if c in own])
    for n, c in enumerate(term):
        x = x if c in own else unsqueeze(t, x, n)
    return x
