"""What changes a tile in place, in both executions: the meaning of plain Python, or a refusal with what to write."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import MissingAttribute, TraceError
from tileflow.target import target

X = torch.arange(48.0).view(8, 6) - 20
TURNS = 40  # so many that a loop of the kernel has them


def grown(tile):
    tile += 1
    return tile


def grown_again(tile, turns):
    for _ in range(turns):
        tile += 1
    return tile


def grown_copy(tile):
    tile = tile.clone()
    tile += 1
    return tile


def grown_other(tile):
    other = tile * 2
    other += 1
    return other


def takes_the_result(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        tile = grown(tile)
        x[t, :] = grown(grown(tile))


def copies(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile.clone()
        other = grown_copy(tile) + grown_other(tile)
        x[t, :] = grown(tile) - before + other


def in_one_branch(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        if n > 3:
            tile = grown(tile)
        else:
            tile = tile * 3
        x[t, :] = tile


def in_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        for _ in range(n):
            tile = grown(tile)
        x[t, :] = grown_again(tile, n)


def of_names_of_their_own(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        first, other = tile.clone(), tile
        tile = tile + 1
        tile += other
        sums = [tfl.zeros([t, 6]) for _ in range(2)]
        sums[0] += 1
        sums[1] += tile
        count = before = 1
        count += 1
        x[t, :] = sums[0] + sums[1] - first * before * count


def by_methods(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        tile.add_(1).clamp_(min=-15)
        tile.sub_(tile * 2, alpha=0.5)
        tile.fill_(3).mul_(x[t, :])
        other = torch.zeros_like(tile)
        other.copy_(tile[:, :1])
        other.zero_()
        x[t, :] = tile + other


def by_methods_in_loops(x, n):
    for t in tfl.tile(x.size(0)):
        total = tfl.zeros([t, 6])
        for i in range(n):
            total.add_(i)
            if x[0, 0] < n:
                total.sub_(1)
        for _ in range(2):
            changed_by_a_method(total.clone())
        x[t, :] = changed_by_a_method(total)


def changed_by_a_method(tile):
    tile.mul_(2)
    return tile


def by_methods_of_halves(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :].half()
        tile.add_(x[t, :] / 3)
        x[t, :] = tile.float()


def halves_apart(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        left, right = tile.chunk(2, 1)
        left += 1
        right *= 2
        x[t, :3] = left
        x[t, 3:] = right


def copies_of_views(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before, first = tile.T.clone(), tile[:, 0] + 0
        tile = tile.view(t, 2, 3)
        tile += 1
        tile = tile.view(t, 6)
        for _ in range(n):
            tile += first[:, None]
        x[t, :] = tile - before.T


def of_a_number(x, n):
    for t in tfl.tile(x.size(0)):
        count = grown(3)
        x[t, :] = x[t, :] * count


AS_IN_PYTHON: dict[Callable[..., Any], torch.Tensor] = {
    takes_the_result: X * 2 + 3,
    copies: 1 + (X * 2 + 1) + (X * 4 + 1),
    in_one_branch: X * 2 + 1,
    in_a_loop: X * 2 + 2 * TURNS,
    of_names_of_their_own: torch.full_like(X, 2),
    by_methods: X * 3,
    by_methods_in_loops: torch.full_like(X, 2 * (sum(range(TURNS)) - TURNS)),
    by_methods_of_halves: X.half().add_(X / 3).float(),
    halves_apart: torch.cat([X[:, :3] * 2 + 1, X[:, 3:] * 4], 1),
    copies_of_views: 1 + TURNS * 2 * X[:, :1].expand(8, 6),
    of_a_number: X * 4,
}


def without_the_result(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        grown(tile)
        x[t, :] = tile  # <-


def under_another_name(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        other = grown(tile)
        x[t, :] = tile + other  # <-


def before_a_branch(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile
        if x[0, 0] < n:
            tile = grown(tile)
        x[t, :] = before * tile  # <-


def before_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile
        for _ in range(n):
            tile = grown(tile)
        x[t, :] = before * tile  # <-


def in_the_loop_of_a_function(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile
        tile = grown_again(tile, n)
        x[t, :] = before * tile  # <-


def two_names(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile
        tile += 1
        x[t, :] = tile - before  # <-


def one_tile_of_two_names(x, n):
    for t in tfl.tile(x.size(0)):
        a = b = torch.zeros_like(x[t, :])
        a += 1
        b += 2  # <-
        x[t, :] = a


def one_tile_in_a_list(x, n):
    for t in tfl.tile(x.size(0)):
        sums = [tfl.zeros([t, x.size(1)])] * 2
        sums[0] += 1
        sums[1] += x[t, :]  # <-
        x[t, :] = sums[0]


def before_each_turn(x, n):
    for t in tfl.tile(x.size(0)):
        total = tfl.zeros([t])
        rise = tfl.zeros([t])
        for i in range(n):
            before = total
            total += x[t, i % 6]
            rise = torch.maximum(rise, total - before)  # <-
        x[t, 0] = rise


def by_a_method_under_two_names(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        before = tile
        tile.add_(1)
        x[t, :] = before  # <-


def by_a_method_beside_a_view(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        turned = tile.T
        tile.add_(1)
        x[t, :] = turned.T


def by_a_function_inside(x, n):
    def shrunk(tile):
        tile -= 1

    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        shrunk(tile)
        x[t, :] = tile  # <-


def views_before(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        turned = tile.T
        tile += 1
        x[t, :] = turned.T  # <-


def views_of_views_before(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        first = tile.view(t, 2, 3)[:, 0]
        tile += 1
        x[t, :3] = first  # <-


def through_a_view(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        left = tile[:, :3]
        left += 1
        x[t, :] = tile  # <-


def through_a_view_in_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        for _ in range(n):
            columns = tile[:, None, :]
            columns += 1
        x[t, :] = tile


REFUSED = [
    views_before,
    views_of_views_before,
    through_a_view,
    without_the_result,
    under_another_name,
    before_a_branch,
    before_a_loop,
    in_the_loop_of_a_function,
    two_names,
    one_tile_of_two_names,
    one_tile_in_a_list,
    before_each_turn,
    by_a_function_inside,
]


def _run(function: Callable[..., Any], mode: str) -> torch.Tensor:
    kernel, args = tileflow.kernel(function), (X.clone(), TURNS)
    if mode == "eager":
        kernel.run_eagerly(*args)
        return args[0]
    kernel.lower(args, target("nvidia-h200"), mode=mode)
    return AS_IN_PYTHON.get(function, X)


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", AS_IN_PYTHON, ids=lambda f: f.__name__)
def test_a_function_changes_the_tile_that_it_was_passed_and_gives_it(function: Callable[..., Any], mode: str) -> None:
    assert torch.equal(_run(function, mode), AS_IN_PYTHON[function])


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_the_tile_that_a_function_changed_is_not_used_again(function: Callable[..., Any], mode: str) -> None:
    """The caller's tile was what it had been, without a word, where Python's is the changed one."""
    with pytest.raises(TraceError, match=r"by \+=, is not used again under another name") as caught:
        _run(function, mode)
    assert "x = f(x)" in caught.value.hint and "# <-" in str(caught.value)


def through_a_column_in_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        for i in range(n):
            column = tile[:, i % 3]
            column += 1
        x[t, :] = tile


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
@pytest.mark.parametrize("function", [through_a_view_in_a_loop, through_a_column_in_a_loop], ids=lambda f: f.__name__)
def test_what_each_turn_changes_through_a_view_is_refused(function: Callable[..., Any], mode: str) -> None:
    """The tile was what it had been, without a word."""
    with pytest.raises(TraceError, match=r"by \+=, is not used again under another name"):
        _run(function, mode)


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
def test_a_view_is_not_used_after_a_method_changed_the_tile(mode: str) -> None:
    """It had the numbers from before."""
    with pytest.raises(TraceError, match="is not used again under another name"):
        _run(by_a_method_beside_a_view, mode)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_another_name_is_not_used_after_a_method_changed_the_tile(mode: str) -> None:
    """As plain Python it is torch's tensor, which is changed."""
    with pytest.raises(TraceError, match="is not used again under another name") as caught:
        _run(by_a_method_under_two_names, mode)
    assert "# <-" in str(caught.value)


def turned_off_in_each_turn(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        for _ in range(n):
            torch.nn.functional.relu(tile, inplace=True)
        x[t, :] = tile


def turned_off_in_a_branch(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        if x[0, 0] < n:
            torch.nn.functional.relu(tile, inplace=True)
        x[t, :] = tile


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("function", [turned_off_in_each_turn, turned_off_in_a_branch], ids=lambda f: f.__name__)
def test_what_a_loop_or_a_branch_changes_in_place_is_not_used_behind_it(
    function: Callable[..., Any], mode: str
) -> None:
    """It was refused inside them alone."""
    with pytest.raises(TraceError, match="a tile that was changed in place, by inplace=True"):
        _run(function, mode)


def by_the_function_of_an_operator(x, n):
    for t in tfl.tile(x.size(0)):
        tile = x[t, :] * 2
        operator.iadd(tile, 1)
        x[t, :] = tile


@pytest.mark.parametrize("mode", ["static", "dynamic", "eager"])
def test_functions_of_operators_change_no_tile(mode: str) -> None:
    """Compiled, it had no effect."""
    with pytest.raises(MissingAttribute, match=r"x = x\.add\("):
        _run(by_the_function_of_an_operator, mode)
