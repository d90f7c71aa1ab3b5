"""Places outside a tile in registers: what they hold is 0, as outside a tensor in memory, compiled and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl
from tileflow.errors import ShapeError
from tileflow.target import target

X = torch.arange(1.0, 36).reshape(5, 7)
PLACES = torch.tensor([-1, 0, -7, 7, 14, 6])
FAR = torch.tensor([2**32, 2**32 + 3, -(2**32) + 1, 2**31, 5, -(2**63)])  # of which 32 bits leave places inside
ROWS = torch.stack([PLACES, FAR, PLACES - 3, PLACES + 1, FAR])


@tileflow.kernel
def by_brackets(x, places):
    out = x.new_empty(x.size(0), places.size(0))
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :].clone()[:, places[:]]
    return out


@tileflow.kernel
def by_index_select(x, places):
    out = x.new_empty(x.size(0), places.size(0))
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.index_select(x[t, :], 1, places[:])
    return out


@tileflow.kernel
def by_embedding(x, places):
    out = x.new_empty(x.size(0), places.size(0))
    for t in tfl.tile(x.size(0)):
        out[t, :] = F.embedding(places[:], x[t, :].T).T
    return out


@tileflow.kernel
def by_gather(x, places):
    out = x.new_empty(x.size(0), places.size(1))
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.gather(x[t, :], 1, places[t, :])
    return out


@tileflow.kernel
def by_take_along_dim(x, places):
    out = x.new_empty(x.size(0), places.size(1))
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :].take_along_dim(places[t, :], dim=1)
    return out


@tileflow.kernel
def of_a_tile(x, places):
    """Lanes past the loop's end hold 1, which is no element."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0), block_size=4):
        out[t] = (x[t] + 1)[places[t]]
    return out


@tileflow.kernel
def of_a_constant(x, places):
    out = x.new_empty(x.size(0), places.size(0))
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.full((t, 7), 3.0)[:, places[:]]
    return out


def chosen(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The elements of each row at places, the same for all or its own; 0 outside."""
    wide = places.long().expand(x.size(0), places.size(-1))
    inside = (wide >= 0) & (wide < x.size(1))
    return torch.where(inside, x.gather(1, wide.clamp(0, x.size(1) - 1)), torch.zeros((), dtype=x.dtype))


def of_blocks(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return torch.cat([chosen(b[None] + 1, p)[0] for b, p in zip(x.split(4), places.split(4), strict=True)])


def threes(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return chosen(torch.full_like(x, 3), places)


Case = tuple[Any, tuple[torch.Tensor, ...], Callable[..., torch.Tensor]]
CASES: dict[str, Case] = {
    "int64": (by_brackets, (X, PLACES), chosen),
    "int32": (by_brackets, (X, PLACES.int()), chosen),
    "int8": (by_brackets, (X, PLACES.to(torch.int8)), chosen),
    "far": (by_brackets, (X, FAR), chosen),
    "bools": (by_brackets, (X % 2 > 0, PLACES), chosen),
    "halves": (by_brackets, (X.half(), FAR), chosen),
    "one column": (by_brackets, (X[:, :1].contiguous(), PLACES), chosen),
    "one place": (by_brackets, (X, torch.tensor([-1])), chosen),
    "index_select": (by_index_select, (X, PLACES), chosen),
    "embedding": (by_embedding, (X, FAR), chosen),
    "gather": (by_gather, (X, ROWS), chosen),
    "gather of one": (by_gather, (X, ROWS[:, :1].contiguous()), chosen),
    "take_along_dim": (by_take_along_dim, (X, ROWS), chosen),
    "a tile's end": (of_a_tile, (X[:, 0].contiguous(), torch.tensor([0, 4, -1, 3, 1])), of_blocks),
    "a constant": (of_a_constant, (X, PLACES), threes),
}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_compiled(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    kernel, args, wanted = CASES[name]
    (got,) = interpreter("runs.interpreted:run_all", [Call(__file__, kernel.__name__, args, mode=mode)])
    assert not isinstance(got, str), got
    assert torch.equal(got, wanted(*args))


@pytest.mark.parametrize("name", CASES)
def test_eagerly(name: str) -> None:
    kernel, args, wanted = CASES[name]
    assert torch.equal(kernel.run_eagerly(*args), wanted(*args))


# ---- dimensions of one element ------------------------------------------------------------------------------------


@tileflow.kernel
def of_one_by_a_number(x):
    out = torch.zeros_like(x)
    for t, u in tfl.tile(x.shape, block_size=[2, 2]):
        sums = x[t, u].sum(1, keepdim=True)
        out[t, u] = sums[:, u.id][:, None].expand(t, u)
    return out


@tileflow.kernel
def of_one_by_a_tile(x):
    out = torch.zeros_like(x)
    for t, u in tfl.tile(x.shape, block_size=[2, 2]):
        sums = x[t, u].sum(1, keepdim=True)
        out[t, u] = sums[:, u].expand(t, u)
    return out


@tileflow.kernel
def of_a_short_tile(x):
    """The last tile has one element, and is no dimension of one."""
    out = torch.zeros_like(x)
    for t in tfl.tile(x.size(0), block_size=2):
        out[t, :] = (x[t, :] + 1)[t.id, :][None, :].expand(t, x.size(1))
    return out


def sums_of_pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.sum(1, keepdim=True).expand_as(part) for part in x.split(2, 1)], 1)


def rows_of_tiles(x: torch.Tensor) -> torch.Tensor:
    parts = enumerate(x.split(2))
    return torch.cat([((v + 1)[n] if n < len(v) else torch.zeros(x.size(1))).expand_as(v) for n, v in parts])


SHORT = {
    "by a number": (of_one_by_a_number, sums_of_pairs),
    "by a tile": (of_one_by_a_tile, sums_of_pairs),
    "a short tile": (of_a_short_tile, rows_of_tiles),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_dimension_of_one_is_one_for_longer_loops(interpreter: Callable[..., Any], name: str) -> None:
    kernel, wanted = SHORT[name]
    (got,) = interpreter("runs.interpreted:run_all", [Call(__file__, kernel.__name__, (X,))])
    assert not isinstance(got, str), got
    assert torch.equal(got, wanted(X))
    assert torch.equal(kernel.run_eagerly(X), wanted(X))


# ---- where places are known to be inside ------------------------------------------------------------------------


@tileflow.kernel
def known_places(x, places, how: tfl.constexpr):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        v, lanes, loaded = x[t, :], tfl.arange(8), places[:]
        if how == "constants":
            found = v[:, lanes]
        elif how == "remainder":
            found = v[:, (loaded % 8)]
        elif how == "clamped":
            found = v[:, loaded.clamp(0, 7)]
        elif how == "exclusive or":
            found = v[:, lanes ^ 4]
        elif how == "rolled":
            found = v.roll(3, 1)
        elif how == "padded":
            found = F.pad(v, (1, 0), mode="replicate")[:, :8]
        else:
            found = v[:, loaded]
        out[t, :] = found
    return out


@pytest.mark.parametrize("how", ["constants", "remainder", "clamped", "exclusive or", "rolled", "padded"])
def test_known_places_are_not_compared_with_the_ends(how: str) -> None:
    assert "tl.where(" not in text_of(known_places, how)


def test_loaded_places_are_compared_with_the_ends() -> None:
    assert text_of(known_places, "loaded").count("tl.where(") == 1


def text_of(kernel: Any, how: str) -> str:
    lowered = kernel.lower((torch.zeros(5, 8), torch.zeros(8, dtype=torch.int32), how), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    assert "tl.gather(" in source.text
    return str(source.text)


# ---- sizes as places ----------------------------------------------------------------------------------------------


@tileflow.kernel
def by_a_size(x, n: int):
    out = x.new_empty(x.size(0))
    for t in tfl.tile(x.size(0)):
        out[t] = x[t, :].clone()[:, n - 4]
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_size_counts_from_the_end_and_stays_inside(interpreter: Callable[..., Any], mode: str) -> None:
    for n in (2, 6):
        (got,) = interpreter("runs.interpreted:run_all", [Call(__file__, "by_a_size", (X, n), mode=mode)])
        assert not isinstance(got, str), got
        assert torch.equal(got, X[:, n - 4])
    for n in (-4, 11):
        with pytest.raises(ShapeError, match=r"an index (lies|must lie) inside"):
            by_a_size.lower((X, n), target("nvidia-h200"), mode=mode)
