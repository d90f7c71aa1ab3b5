"""Views of captured tensors in device code: they are torch's own, to what is traced and to plain Python alike, and what
is no view of the tensor's memory is refused alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tileflow
import tileflow.language as tfl
from tileflow.errors import GradientError, ShapeError, TableError, TileflowError, TraceError
from tileflow.runtime.paths import Path, read_path
from tileflow.runtime.views import spelled, view_of
from tileflow.target import target

Tensor = torch.Tensor
TARGET = target("nvidia-h200")

VIEWS: dict[str, Callable[[Any, list[int]], Any]] = {
    "view": lambda x, n: x.view(-1),
    "view by sizes": lambda x, n: x.view(n[0], -1),
    "reshape": lambda x, n: x.reshape((-1, n[0])),
    "flatten": lambda x, n: x.flatten(),
    "flatten from": lambda x, n: x.flatten(start_dim=n[0] % 2),
    "flatten up to": lambda x, n: torch.flatten(x, end_dim=1),
    "ravel": lambda x, n: x.ravel(),
    "T": lambda x, n: x.T if x.dim() == 2 else x.t(),
    "mT": lambda x, n: x.mT,
    "t": lambda x, n: x.t(),
    "permute": lambda x, n: x.permute(*range(x.dim() - 1, -1, -1)),
    "permute a tuple": lambda x, n: torch.permute(x, tuple(range(x.dim()))[::-1]),
    "transpose": lambda x, n: x.transpose(n[0], n[1] - 2),
    "swapaxes": lambda x, n: torch.swapaxes(x, 0, -1),
    "movedim": lambda x, n: x.movedim(0, n[0]),
    "movedim of two": lambda x, n: torch.movedim(x, (0, 1), (-1, n[0])),
    "squeeze": lambda x, n: x.squeeze(),
    "squeeze one": lambda x, n: x.squeeze(n[0]),
    "unsqueeze": lambda x, n: x.unsqueeze(-n[0]),
    "expand": lambda x, n: x.expand(n[0], *(-1 for _ in x.shape)),
    "select": lambda x, n: x.select(-1, n[0]),
    "narrow": lambda x, n: x.narrow(0, n[0], n[1]),
    "unflatten": lambda x, n: x.unflatten(0, (n[0], -1)),
    "diagonal": lambda x, n: x.diagonal(offset=n[0]),
    "chunk": lambda x, n: x.chunk(n[0] + 1, dim=n[1] % 2)[-1],
    "split": lambda x, n: torch.split(x, n[0] + 1)[0],
    "unbind": lambda x, n: x.unbind(n[0])[0],
    "unfold": lambda x, n: x.unfold(-1, n[0] + 1, 2),
    "two": lambda x, n: x.transpose(0, 1).narrow(0, 0, n[0]),
}


@tileflow.kernel
def copied(x: Tensor, shape: list[int], take: Any, numbers: list[int]) -> Tensor:
    """The view's elements, by tiles of each of its dimensions."""
    out = torch.empty(shape)
    if len(shape) == 1:
        for a in tfl.tile(shape[0]):
            out[a] = take(x, numbers)[a]
    elif len(shape) == 2:
        for a, b in tfl.tile(shape):
            out[a, b] = take(x, numbers)[a, b]
    else:
        for a, b, c in tfl.tile(shape):
            out[a, b, c] = take(x, numbers)[a, b, c]
    return out


@tileflow.kernel
def filled(x: Tensor, shape: list[int], take: Any, numbers: list[int]) -> None:
    """Stores into the view: its elements and one."""
    if len(shape) == 1:
        for a in tfl.tile(shape[0]):
            take(x, numbers)[a] = take(x, numbers)[a] + 1
    elif len(shape) == 2:
        for a, b in tfl.tile(shape):
            take(x, numbers)[a, b] = take(x, numbers)[a, b] + 1
    else:
        for a, b, c in tfl.tile(shape):
            take(x, numbers)[a, b, c] = take(x, numbers)[a, b, c] + 1


@st.composite
def strided(draw: st.DrawFn) -> Tensor:
    """A tensor of one to three dimensions, of odd sizes, a part of a larger one, in some order."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 7]), min_size=1, max_size=3))
    more = [n + draw(st.sampled_from([0, 0, 0, 2])) for n in sizes]
    whole = torch.arange(float(torch.Size(more).numel())).reshape(more)
    part = whole[tuple(slice(0, n) for n in sizes)]
    return part.permute(draw(st.permutations(range(part.dim()))))


def taken(x: Tensor, take: Callable[[Any, list[int]], Any], numbers: list[int]) -> Tensor | None:
    """torch's own view; None where it has none, or would copy."""
    try:
        found = take(x, numbers)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    shares = found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return found if shares else None


def refuses(kernel: Any, *args: Any) -> bool:
    """Whether plain Python and the compiler refuse a call; both do, or neither."""
    answers = []
    ways = kernel.run_eagerly, *(partial(kernel.lower, target=TARGET, mode=mode) for mode in ("static", "dynamic"))
    for number, way in enumerate(ways):
        try:
            way(args) if number else way(*args)
        except TileflowError as error:
            assert "a view of a captured tensor" in str(error), error
            answers.append(True)
        else:
            answers.append(False)
    assert len(set(answers)) == 1, answers
    return answers[0]


@settings(max_examples=150, deadline=None)
@given(strided(), st.sampled_from(sorted(VIEWS)), st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_a_view_is_torchs_own(x: Tensor, name: str, numbers: list[int]) -> None:
    take = VIEWS[name]
    wanted = taken(x, take, numbers)
    if wanted is None:
        assert refuses(copied, x, [3], take, numbers)
        return
    assume(1 <= wanted.dim() <= 3 and wanted.numel())
    assert not refuses(copied, x, [*wanted.shape], take, numbers)
    torch.testing.assert_close(copied.run_eagerly(x, [*wanted.shape], take, numbers), wanted)


@settings(max_examples=100, deadline=None)
@given(strided(), st.sampled_from(sorted(VIEWS)), st.lists(st.integers(0, 3), min_size=2, max_size=2))
def test_what_is_stored_into_a_view_is_in_the_tensor(x: Tensor, name: str, numbers: list[int]) -> None:
    take = VIEWS[name]
    view = taken(x, take, numbers)
    assume(view is not None and 1 <= view.dim() <= 3 and view.numel() and name not in ("expand", "unfold"))
    own, other = x.clone(memory_format=torch.preserve_format), x.clone(memory_format=torch.preserve_format)
    assume(taken(own, take, numbers) is not None)
    filled.run_eagerly(own, [*view.shape], take, numbers)
    take(other, numbers).add_(1)
    torch.testing.assert_close(own, other)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (("permute", (1, 0)), {}, "permute_l2_1_0"),
        (("flatten",), {"end_dim": -2}, "flatten_0_m2"),
        (("view", -1, 4), {}, "view_m1_4"),
        (("unflatten", 1), {"sizes": [2, -1]}, "unflatten_1_l2_2_m1"),
    ],
)
def test_a_path_says_a_view(args: tuple[Any, ...], kwargs: dict[str, Any], words: str) -> None:
    name, *given = args
    assert spelled(name, given, kwargs) == words
    x = torch.arange(24.0).reshape(6, 4)
    found = read_path(Path.parse(f"x.view:{words}"), {"x": x}, None)
    wanted = getattr(x, name)(*given, **kwargs)
    assert (found.shape, found.stride(), found.data_ptr()) == (wanted.shape, wanted.stride(), wanted.data_ptr())


@pytest.mark.parametrize(
    "words",
    [
        "copy_1",
        "T_1",
        "view_x",
        "set_0",
        "backward",
        "view_",
        "_view",
        "numpy",
        "view_dint3",
        "view_dload",
        "view_dfloat64x",
    ],
)
def test_a_path_says_nothing_but_views(words: str) -> None:
    with pytest.raises(TableError, match="a path must be"):
        Path.parse(f"x.view:{words}")


def test_a_launch_takes_no_copy() -> None:
    with pytest.raises(ValueError, match="do not follow"):
        view_of(torch.empty(3, 4).t(), "reshape_m1")


@tileflow.kernel
def by_a_tile(x: Tensor) -> None:
    for t in tfl.tile(x.size(0)):
        x[t] = x.view(t, -1)[t, 0]


@tileflow.kernel
def copied_and_stored(x: Tensor) -> None:
    for t in tfl.tile(x.numel()):
        x.reshape(-1)[t] = 0


REFUSED = [
    (by_a_tile, torch.empty(4), TraceError, ("taken with ints and sizes", "before the loop, in host code")),
    (copied_and_stored, torch.empty(4, 3).t(), ShapeError, ("one of its memory", "reshape(-1)[t]", "x.contiguous()")),
]


@pytest.mark.parametrize(("kernel", "x", "kind", "words"), REFUSED, ids=["tile", "copy"])
@pytest.mark.parametrize("way", ["plain Python", "compiler"])
def test_what_is_no_view_is_refused(kernel: Any, x: Tensor, kind: Any, words: tuple[str, ...], way: str) -> None:
    """Plain Python stored into a copy, without a word."""
    with pytest.raises(kind) as caught:
        kernel(x) if way == "plain Python" else kernel.lower((x,), TARGET)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.where is not None


@tileflow.kernel
def flat_squares(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        out.view(-1)[t] = x.view(-1)[t] * x.view(-1)[t]
    return out


@tileflow.kernel
def doubled(x: Tensor) -> None:
    for t in tfl.tile(x.numel()):
        x.view(-1)[t] = x.view(-1)[t] * 2


def test_a_gradient_of_such_a_kernel_says_where_views_are_taken() -> None:
    with pytest.raises(GradientError, match=r"(?s)in device code.*part = (x|out)\.view\(\.\.\.\)"):
        tileflow.differentiable(flat_squares)(torch.randn(4, 3).requires_grad_())


def test_a_compiled_graph_knows_what_is_stored_into() -> None:
    def twice(x: Tensor) -> Tensor:
        doubled(x)
        return x + 1

    x = torch.randn(4, 3)
    given = x.clone()
    torch.testing.assert_close(torch.compile(twice, backend="aot_eager")(given), x * 2 + 1)
    torch.testing.assert_close(given, x * 2)


def test_a_view_of_the_bits_is_a_step_of_a_path() -> None:
    x = torch.randn(3, 4)
    for dtype in (torch.int32, torch.uint32):
        step = spelled("view", (dtype,))
        assert step == spelled("view", (), {"dtype": dtype})
        assert torch.equal(view_of(x, step).view(torch.int32), x.view(torch.int32))
    halves = torch.randn(3).to(torch.float8_e4m3fn)
    assert view_of(halves.view(torch.uint8), spelled("view", (torch.float8_e4m3fn,))).dtype is torch.float8_e4m3fn
    with pytest.raises(ValueError, match="as wide"):
        view_of(x, spelled("view", (torch.int64,)))
