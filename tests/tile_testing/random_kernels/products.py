"""Products of loads: whole, or summed up by a loop over what both have."""

from __future__ import annotations

import torch

from .loads import MOST_WHOLE, Index, indices
from .tensors import Tensor
from .values import Dim, Range, Value, held
from .writer import MOST_ELEMENTS, Loop, Writer


def product(w: Writer) -> Value | None:
    """Rows of one tensor by columns of another of its dtype."""
    pairs = [
        (a, b) for a in w.tensors for b in w.tensors
        if a.dtype == b.dtype and a.dtype.is_floating_point and len(a.sizes) == len(b.sizes) == 2
        and a.sizes[1] == b.sizes[0] and a.sizes[1] > 0 and held(a.range, a.dtype) and held(b.range, b.dtype)
    ]  # fmt: skip
    if not pairs:
        return None
    a, b = w.draws.of(pairs)
    rows, columns = _index(w, a.sizes[0], None), _index(w, b.sizes[1], None)
    if rows is None or columns is None or rows.dim == columns.dim:
        return None
    assert rows.dim is not None and columns.dim is not None
    k = a.sizes[1]
    most = a.range.most * b.range.most
    values = Range(-most, most, a.range.step * b.range.step).times(k)
    if rows.dim.size * columns.dim.size > MOST_ELEMENTS:
        return None
    if w.draws.chance(60):
        return _looped(w, (a, b), (rows, columns), values)
    if Dim(k) in (rows.dim, columns.dim) or k > MOST_WHOLE:
        return None
    left, right = f"{a.name}[{rows.text}, :]", f"{b.name}[:, {columns.text}]"
    text = w.draws.of(
        [f"{left} @ {right}", f"torch.mm({left}, {right})", f"torch.einsum('ik,kj->ij', {left}, {right})"]
    )
    found = held(values, a.dtype)
    if found is None:
        return None
    return w.given(text, Value(w.name("v"), a.dtype, (rows.dim, columns.dim), found))


def _index(w: Writer, size: int, taken: Dim | None) -> Index | None:
    choices = [c for c in indices(w, size) if c[1].dim is not None and c[1].dim != taken]
    return w.draws.weighted(choices) if choices else None


def _looped(w: Writer, pair: tuple[Tensor, Tensor], around: tuple[Index, Index], values: Range) -> Value | None:
    (a, b), (rows, columns) = pair, around
    assert rows.dim is not None and columns.dim is not None
    found = held(values, torch.float32)
    if found is None:
        return None
    made = Value(w.name("c"), torch.float32, (rows.dim, columns.dim), found)
    loop = Loop(w.name("k"), a.sizes[1], True)
    left, right = f"{a.name}[{rows.text}, {loop.variable}]", f"{b.name}[{loop.variable}, {columns.text}]"
    w.line(f"{made.text} = tfl.zeros([{rows.dim.text}, {columns.dim.text}])")
    with w.block(f"for {loop.variable} in tfl.tile({w.size(loop.size)}):"):
        w.line(w.draws.of([
            f"{made.text} = tfl.dot({left}, {right}, acc={made.text})", f"{made.text} += {left} @ {right}",
            f"{made.text} = torch.addmm({made.text}, {left}, {right})",
            f"{made.text} = {made.text} + torch.matmul({left}.float(), {right}.float())",
            f"{made.text} = {made.text} + ({left}.float()[:, :, None] * {right}.float()[None, :, :]).sum(1)",
        ]))  # fmt: skip
    w.values.append(made)
    return made
