"""``torch.einsum``: one product after another, on the matrix units where an equation is a matrix product."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.types import Dim, Value
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .matmul import accumulator, dot, need_one_dtype
from .reductions import reduce, sum_
from .reshape import value_of
from .views import permute, unsqueeze

_ELLIPSIS = "..."
_LEAST = 16  # of what the matrix units multiply: shorter matrices are multiplied and summed
_LONG = 1 << 30
_UNNAMED = 0x100  # the first of the letters, none of torch's, for what an ellipsis stands for


@register_torch("einsum")
def einsum(t: Tracer, equation: Any, *operands: Any) -> TileValue:
    """Letters that the result lacks are summed over; of one that a tile has twice the diagonal is taken. In place of an
    equation, each tile may be followed by a list of its dimensions' numbers."""
    if not isinstance(equation, str):
        equation, operands = _spelled((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    terms, result = _parsed(t, equation, operands)
    tiles = [t.wrap(value_of(t, x)) for x in operands]
    spelled = tuple(terms)
    for n, term in enumerate(terms):
        tiles[n], terms[n] = _without_repeats(t, tiles[n], term)
    left, term = tiles[0], terms[0]
    for n, right in enumerate(tiles[1:], start=1):
        wanted = set(result).union(*terms[n + 1 :])
        left, term = _product(t, left, term, right, terms[n], wanted)
    left, term = _summed(t, left, term, set(result))
    found = permute(t, left, [term.index(c) for c in result])
    if len(operands) == 1 and {*result} == {*spelled[0]} and isinstance(operands[0], TileValue):
        return t.viewing(found, operands[0])  # type: ignore[no-any-return]  # nothing is summed
    return found


def _parsed(t: Tracer, equation: str, operands: Sequence[Any]) -> tuple[list[str], str]:
    inputs, arrow, result = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:  # torch's rule: what appears once, in the alphabet's order, behind what an ellipsis stands for
        once = sorted(c for c in set(inputs) - {",", "."} if inputs.count(c) == 1)
        result = "".join((_ELLIPSIS if _ELLIPSIS in inputs else "", *once))
    ranks = [len(value_of(t, x).dims) for x in operands]
    hidden = [max(rank - len(term.replace(_ELLIPSIS, "", 1)), 0) for term, rank in zip(terms, ranks, strict=False)]
    most = max((n for n, term in zip(hidden, terms, strict=False) if _ELLIPSIS in term), default=0)
    terms = [term.replace(_ELLIPSIS, _unnamed(n), 1) for term, n in zip(terms, hidden, strict=False)]
    result = result.replace(_ELLIPSIS, _unnamed(most), 1)
    if any(not c.isalpha() for c in "".join((*terms, result))) or len(set(result)) < len(result):
        raise TraceError(
            "einsum takes letters and one ellipsis a tile, and each letter of the result once",
            got=equation,
            where=t.location(),
            hint='one letter for each dimension: torch.einsum("bij,bjk->bik", x, y)',
        )
    if [len(x) for x in terms] != ranks:
        raise ShapeError(
            "einsum's equation has a letter for each dimension", got=f"{equation} for {ranks}", where=t.location()
        )
    return terms, result


def _unnamed(count: int) -> str:
    """Letters for what an ellipsis stands for, which are aligned at the last dimension."""
    return "".join(chr(_UNNAMED + n) for n in reversed(range(count)))


def _spelled(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of tiles that lists of numbers follow, with a list for the result at the end."""
    pairs, rest = given[: len(given) // 2 * 2], given[len(given) // 2 * 2 :]
    terms = [_term(numbers) for numbers in pairs[1::2]]
    result = "".join(f"->{_term(numbers)}" for numbers in rest)
    return ",".join(terms) + result, pairs[::2]


def _term(numbers: Sequence[Any]) -> str:
    return "".join(_ELLIPSIS if n is Ellipsis else string.ascii_letters.swapcase()[n] for n in numbers)


def _without_repeats(t: Tracer, x: TileValue, term: str) -> tuple[TileValue, str]:
    """The tile with each letter once: of two dimensions of one letter the diagonal, which comes last."""
    while len(set(term)) < len(term):
        second = next(n for n, c in enumerate(term) if c in term[:n])
        first = term.index(term[second])
        x = x.diagonal(0, first, second)
        term = term[:first] + term[first + 1 : second] + term[second + 1 :] + term[second]
    return x, term


def _product(t: Tracer, left: TileValue, a: str, right: TileValue, b: str, wanted: set[str]) -> tuple[TileValue, str]:
    """Two tiles multiplied, and summed over what is not wanted. As torch's, a product without a sum promotes, and one
    with a sum takes operands of one dtype."""
    left, a = _summed(t, left, a, wanted | set(b))
    right, b = _summed(t, right, b, wanted | set(a))
    batch = [c for c in a if c in b and c in wanted]
    inner = [c for c in a if c in b and c not in wanted]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    found = _by_matrices(t, left, a, right, b, batch, inner)
    if found is not None:
        return found
    kept = "".join((*batch, *rows, *columns))
    term = "".join((kept, *inner))
    both = [_spread(t, x, own, term) for x, own in ((left, a), (right, b))]
    if not inner:
        return t.pointwise("mul", *both), term
    dtype, other = (x.value.type.dtype for x in both)
    need_one_dtype(t, dtype, other)
    product = t.pointwise("mul", *(t.cast(x, accumulator(dtype, other)) for x in both))
    summed = reduce(t, "sum", product, list(range(len(kept), len(term))), keepdim=False)
    return t.cast(summed, dtype), kept


def _summed(t: Tracer, x: TileValue, term: str, wanted: set[str]) -> tuple[TileValue, str]:
    """A tile's own sums over what is not wanted: of ints in int64, as torch's."""
    axes = [n for n, c in enumerate(term) if c not in wanted]
    if not axes:
        return x, term
    return sum_(t, x, axes), "".join(c for c in term if c in wanted)


def _by_matrices(
    t: Tracer, left: TileValue, a: str, right: TileValue, b: str, batch: Sequence[str], inner: Sequence[str]
) -> tuple[TileValue, str] | None:
    """The product as those of matrices; None where it is none of such. Further inner letters are a product for each, of
    which the sum is taken."""
    of_left, of_right = dict(zip(a, left.value.dims, strict=True)), dict(zip(b, right.value.dims, strict=True))
    rows, columns = ({c: d for c, d in own.items() if c not in term} for own, term in ((of_left, b), (of_right, a)))
    chosen = _matrices(t, rows, columns, {c: of_left[c] for c in inner})
    if chosen is None:
        return None
    row, column, along = chosen
    summed = [c for c in inner if c != along]
    # what one operand alone has comes first, where the other one needs no dimension for it
    front = [*(c for c in (*rows, *columns) if c not in chosen), *batch, *summed]
    first = _spread(t, left, a, _from_first("".join((*front, row, along)), a))
    second = _spread(t, right, b, _from_first("".join((*front, along, column)), b))
    product = dot(t, first, second)
    if summed:
        axes = [front.index(c) for c in summed]
        product = t.cast(reduce(t, "sum", product, axes, keepdim=False), product.value.type.dtype)
    return product, "".join((*(c for c in front if c not in summed), row, column))


def _matrices(t: Tracer, *sides: Mapping[str, Dim]) -> tuple[str, ...] | None:
    """The letters of a product's rows, columns and inner dimension, of which each has its dimension. Of several it is
    one that is held whole, else the longest, and the others, which are batches, must be loops' tiles, so that a program
    may have one of each: ``bsd,od->bso`` over tiles of b, s and o. None where that leaves short matrices, of three rows
    say."""
    if not all(sides):
        return None
    chosen = tuple(_most_suitable(t, side) for side in sides)
    others = [dim for side, own in zip(sides, chosen, strict=True) for c, dim in side.items() if c != own]
    if others:
        multiplied = [side[own] for side, own in zip(sides, chosen, strict=True)]
        if any(dim.tile is None for dim in others) or min(_length(t, dim) for dim in multiplied) < _LEAST:
            return None
    return chosen


def _most_suitable(t: Tracer, side: Mapping[str, Dim]) -> str:
    """The letter of a dimension that is held whole, else of the longest; the last of such."""
    return max(reversed([*side]), key=lambda c: (side[c].tile is None, _length(t, side[c])))


def _length(t: Tracer, dim: Dim) -> int:
    """How long a dimension is, as a loop's tile as long as the loop; long where the kernel computes it."""
    extent = dim.extent
    if dim.tile is not None:
        begin, end = t.tiles[dim.tile].begin, t.tiles[dim.tile].end
        if isinstance(begin, Value) or isinstance(end, Value):
            return _LONG
        extent = end - begin
    return extent.evaluate(t.hints) if extent.symbols() <= t.hints.keys() else _LONG


def _from_first(term: str, own: str) -> str:
    """What is left of a term from the first letter on that a tile has: a product broadcasts what is before it."""
    return term[min(term.index(c) for c in own) :]


def _spread(t: Tracer, x: TileValue, own: str, term: str) -> TileValue:
    """``x`` with its letters in the order of ``term``, and dimensions of 1 for the others."""
    x = permute(t, x, [own.index(c) for c in term if c in own])
    for n, c in enumerate(term):
        x = x if c in own else unsqueeze(t, x, n)
    return x
