"""Names of one tile, and of views of it, across loops and branches: what changes the tile in place, in both executions
has Python's meaning or is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tileflow
import tileflow.frontend.lower  # registers what there is of torch's functions
import tileflow.language as tfl
from tileflow.errors import ShapeError, TraceError
from tileflow.frontend.torch_registry import METHODS, TABLE
from tileflow.language.captured_views import ITSELF, gives_views
from tileflow.target import target

X = torch.arange(48.0).view(8, 6) - 20
TURNS = 40  # so many that a loop of the kernel has them
MODES = ("static", "dynamic", "eager")
CHANGED = r"by \+=, is not used again under another name"


def _run(function: Callable[..., Any], mode: str) -> torch.Tensor:
    kernel, args = tileflow.kernel(function), (X.clone(), TURNS)
    if mode == "eager":
        kernel.run_eagerly(*args)
    else:
        kernel.lower(args, target("nvidia-h200"), mode=mode)
    return args[0]


# ---- refused ------------------------------------------------------------------------------------------------------


def another_name_before_the_loop(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        first, gathered = total, x[t, :] * 0
        for _ in range(n):
            gathered = gathered + first
            total += 1
        x[t, :] = gathered


def a_view_before_the_loop(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        turned, gathered = total.T, x[t, :] * 0
        for _ in range(n):
            gathered = gathered + turned.T
            total += 1
        x[t, :] = gathered


def an_item_before_the_loop(x, n):
    for t in tfl.tile(x.size(0)):
        totals = [x[t, :] * 2]
        first, gathered = totals[0], x[t, :] * 0
        for _ in range(n):
            gathered = gathered + first
            totals[0] += 1
        x[t, :] = gathered


def a_name_of_the_turn_before(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        before, gathered = total + 1, x[t, :] * 0
        for _ in range(n):
            total += 1
            gathered = gathered + before
            before = total
        x[t, :] = gathered


def exchanged_in_turns(x, n):
    for t in tfl.tile(x.size(0)):
        a, b = x[t, :] * 2, x[t, :] * 3
        first, gathered = b, x[t, :] * 0
        for _ in range(n):
            a += 1
            gathered = gathered + first
            a, b = b, a
        x[t, :] = gathered


def what_a_loop_begins_with(x, n):
    for t in tfl.tile(x.size(0)):
        start, gathered = x[t, :] * 2, x[t, :] * 0
        for _ in range(n):
            total = start
            for _ in range(n):
                total += 1
            gathered = gathered + total
        x[t, :] = gathered


def bound_before_a_change(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        other = total
        total += 1
        for _ in range(n):
            other = other + 1
        x[t, :] = other


def by_one_side_of_a_branch(x, n):
    for t in tfl.tile(x.size(0)):
        a, b = x[t, :] * 2, x[t, :] * 3
        if x[0, 0] < n:
            b = a
        b += 1
        x[t, :] = a


def by_both_sides_of_a_branch(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        other = a
        if x[0, 0] < n:
            other *= 2
        else:
            a += 1
        x[t, :] = a


def by_a_conditional_expression(x, n):
    for t in tfl.tile(x.size(0)):
        a, b = x[t, :] * 2, x[t, :] * 3
        other = a if x[0, 0] < n else b
        a += 1
        x[t, :] = other


def given_by_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        a = b = x[t, :] * 2
        for _ in range(n):
            a = a + 1
            b = a
        a += 1
        x[t, :] = b


def filled_after_a_change(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        b = a
        b += 1
        a.fill_(2)
        x[t, :] = b


def copied_after_a_change(x, n):
    for t in tfl.tile(x.size(0)):
        a, c = x[t, :] * 2, x[t, :] * 3
        b = a
        b += 1
        c.copy_(a)
        x[t, :] = c


def in_a_list_of_operands(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        b = a
        a += 1
        x[t, :] = torch.stack([b, b], 0)[0]


def slices_that_meet(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        left, right = a[:, :4], a[:, 2:]
        right += 1
        x[t, :4] = left


def one_column_twice(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        first, again = a[:, 0], a.select(1, 0)
        again += 1
        x[t, 0] = first


def views_of_all_of_it(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        turned, whole = a.T, a[...]
        whole += 1
        x[t, :] = turned.T


def _views() -> Iterator[Callable[..., Any]]:
    """Of each view of a tile that torch has a kernel that reads it after the tile was changed."""
    makers: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "float": lambda a: a.float(), "to": lambda a: a.to(torch.float32), "type_as": lambda a: a.type_as(a),
        "type": lambda a: a.type(torch.float32), "detach": lambda a: a.detach(), "contiguous": lambda a: a.contiguous(),
        "view_as": lambda a: a.view_as(a), "expand_as": lambda a: a.expand_as(a), "hsplit": lambda a: a.hsplit(1)[0],
        "tensor_split": lambda a: a.tensor_split(1, 1)[0], "einsum": lambda a: torch.einsum("ij->ji", a).T,
        "broadcast_tensors": lambda a: torch.broadcast_tensors(a, a)[0], "squeeze": lambda a: a[:, None].squeeze(1),
        "mT": lambda a: a.mT.mT, "flatten": lambda a: a.unflatten(1, (2, 3)).flatten(1), "brackets": lambda a: a[...],
    }  # fmt: skip
    for name, make in makers.items():

        def kernel(x, n, make=make):
            for t in tfl.tile(x.size(0)):
                a = x[t, :] * 2
                view = make(a)
                a += 1
                x[t, :] = view

        kernel.__name__ = name
        yield kernel


REFUSED = [
    another_name_before_the_loop, a_view_before_the_loop, an_item_before_the_loop, a_name_of_the_turn_before,
    exchanged_in_turns, what_a_loop_begins_with, bound_before_a_change, by_one_side_of_a_branch,
    by_both_sides_of_a_branch, by_a_conditional_expression, given_by_a_loop, filled_after_a_change,
    copied_after_a_change, in_a_list_of_operands, slices_that_meet, one_column_twice, views_of_all_of_it, *_views(),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_a_name_has_no_numbers_from_before_a_change(function: Callable[..., Any], mode: str) -> None:
    """All were compiled, or ran as plain Python, with the numbers from before."""
    with pytest.raises(TraceError, match=CHANGED) as caught:
        _run(function, mode)
    assert "a.clone()" in caught.value.hint and __file__ in str(caught.value)


# ---- Python's meaning ---------------------------------------------------------------------------------------------


def read_before_the_change(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        before, gathered = total + 1, x[t, :] * 0
        for _ in range(n):
            gathered = gathered + before
            total += 1
            before = total
        x[t, :] = gathered


def exchanged(x, n):
    for t in tfl.tile(x.size(0)):
        a, b = x[t, :] * 0, x[t, :] * 0 + 1
        for _ in range(n):
            a += 1
            a, b = b, a
        x[t, :] = a * 2 + b


def carried_with_a_copy(x, n):
    for t in tfl.tile(x.size(0)):
        total = x[t, :] * 2
        first, gathered = total.clone(), x[t, :] * 0
        for _ in range(n):
            gathered = gathered + first
            total += 1
            other = total.clone()
            other += 1
        x[t, :] = gathered


def apart(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        half = x.size(1) // 2
        left, right = a[:, :half], a[:, half:]
        even, odd = left[:, ::2], left[:, 1::2]
        for _ in range(n):
            right += 1
        odd += 2
        first, second, *_ = (x[t, :] * 2).unbind(1)
        first += 3
        x[t, :half:2] = even
        x[t, 1] = odd[:, 0] + second - second
        x[t, half:] = right
        x[t, 0] = first


def copies_of_what_was(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        power, copied, whole = a**1, a.to(torch.float32, copy=True), a.int().nan_to_num()
        other = a * 0
        other.copy_(power)
        a += 1
        other += 1
        power += 1
        x[t, :] = copied + (a - other) + (power - a) + (whole - whole)


def in_one_side(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        if x[0, 0] < n:
            a += 1
        b = a if x[0, 0] < n else a * 2
        b += 1
        x[t, :] = b


AS_IN_PYTHON: dict[Callable[..., Any], torch.Tensor] = {
    read_before_the_change: sum((X * 2 + 1 if turn == 0 else X * 2 + turn) for turn in range(TURNS)),
    exchanged: torch.full_like(X, 2 * (TURNS // 2) + TURNS // 2 + 1),
    carried_with_a_copy: X * 2 * TURNS,
    apart: torch.cat([X[:, :1] * 2 + 3, X[:, 1:2] * 2 + 2, X[:, 2:3] * 2, X[:, 3:] * 2 + TURNS], 1),
    copies_of_what_was: X * 2,
    in_one_side: X * 2 + 2,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", AS_IN_PYTHON, ids=lambda f: f.__name__)
def test_what_is_of_its_own_goes_on(function: Callable[..., Any], mode: str) -> None:
    found = _run(function, mode)
    assert mode != "eager" or torch.equal(found, AS_IN_PYTHON[function])


def narrowed_from_the_end(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        x[t, :3] = a.narrow(1, -3, 3)


def narrowed_beyond_the_end(x, n):
    for t in tfl.tile(x.size(0)):
        a = x[t, :] * 2
        x[t, :3] = a.narrow(1, 4, 3)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_narrow_names_what_the_dimension_has(mode: str) -> None:
    """Beyond the end it was a slice, which is shorter, and from the end one without elements."""
    _run(narrowed_from_the_end, mode)
    if mode == "static":
        with pytest.raises(ShapeError, match="narrow takes elements that the dimension has"):
            _run(narrowed_beyond_the_end, mode)


# ---- blocks -------------------------------------------------------------------------------------------------------


def copied_into_a_block(x, n):
    for t in tfl.tile(x.size(0)):
        block = x[t, :]
        block.copy_(x[t, :] * 2)  # <-


def filled_by_a_view_of_a_block(x, n):
    for t in tfl.tile(x.size(0)):
        column = x[t, :].T[0]
        column.fill_(1)  # <-


def added_to_a_block_of_a_part(x, n):
    for i in tfl.grid(x.size(0)):
        row = x[i]
        for t in tfl.tile(x.size(1)):
            block = row[t]
            block.add_(1)  # <-


def added_to_every_other(x, n):
    for i in tfl.grid(x.size(0)):
        some = x[i, ::2]
        some.add_(1)  # <-


def scaled_in_a_loop(x, n):
    for t in tfl.tile(x.size(0)):
        block = x[t, :].float()
        for _ in range(n):
            block.mul_(2)  # <-
        x[t, :] = block


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "function",
    [
        copied_into_a_block, filled_by_a_view_of_a_block, added_to_a_block_of_a_part, added_to_every_other,
        scaled_in_a_loop,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_method_in_place_changes_no_block_in_registers_alone(function: Callable[..., Any], mode: str) -> None:
    """The tensor kept what it had, where torch writes to it."""
    with pytest.raises(TraceError, match="where torch changes the tensor that has it too") as caught:
        _run(function, mode)
    assert "clone() is a tile of its own" in caught.value.hint and "# <-" in str(caught.value)


def every_other(x, n):
    for i in tfl.grid(x.size(0)):
        some = x[i, ::2]
        some += 1  # <-


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_changes_no_part_with_a_step(mode: str) -> None:
    """It was a tile of its own, where torch changes the tensor."""
    with pytest.raises(TraceError, match="gives a name another tile") as caught:
        _run(every_other, mode)
    assert "# <-" in str(caught.value)


def copies_of_blocks(x, n):
    for t in tfl.tile(x.size(0)):
        block, half = x[t, :].clone(), x[t, :].half()
        block.mul_(2)
        half.mul_(2)
        x[t, :].copy_(block + half)


@pytest.mark.parametrize("mode", MODES)
def test_copies_of_blocks_are_changed(mode: str) -> None:
    found = _run(copies_of_blocks, mode)
    assert mode != "eager" or torch.equal(found, X * 4)


# ---- torch's functions ----------------------------------------------------------------------------------------------

_IN_PLACE = frozenset({"elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu6", "silu", "selu",
                       "celu", "relu", "threshold", "rrelu"})  # fmt: skip  # by inplace=True, which is seen itself
_BY_THEMSELVES = frozenset({"broadcast_tensors", "einsum"})  # of arguments that are not first, and of some equations
_ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (), (0,), (1,), (-1,), (0, 1), (2,), (2, 1), (3, 1), ((2, 3),), (2, 3), ((4, 6),), (4, 6), (1, (2, 3)),
    (torch.zeros(4, 6),), (torch.float32,), (0, 0, 4), (1, 0, 3), (0, 3, 1), (1, 2, 1), ((0, 1),), (0.5, False),
    ((1, 1),), (1, 1),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({*METHODS, *(name for _, name in TABLE.values())}))
def test_what_shares_memory_in_torch_is_known_as_a_view(name: str) -> None:
    """A function that is missing there would have the numbers from before its argument was changed."""
    places = (torch.Tensor, torch, torch.nn.functional)
    function = next((getattr(place, name) for place in places if hasattr(place, name)), None)
    if function is None or name.endswith("_") or name in _IN_PLACE | _BY_THEMSELVES:
        return
    for tensor in (torch.ones(4, 6), torch.ones(6), torch.ones(4, 6).int(), torch.ones(4, 6).bool()):
        for args in _ARGUMENTS:
            try:
                found = function(tensor, *args)
            except Exception:  # it does not take these
                continue
            for one in found if isinstance(found, (tuple, list)) else (found,):
                shares = isinstance(one, torch.Tensor) and one.numel() and one.data_ptr()
                if shares and one.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                    assert gives_views(name) or name in ITSELF
