"""Describing calls, and the fast key in front: equal keys mean equal problems."""

from __future__ import annotations

import enum
import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tileflow.errors import CallError
from tileflow.runtime.describe import describe, device_class
from tileflow.runtime.keys import call_key, fast_keys
from tileflow.runtime.problem import CallableSpec, Problem, ScalarSpec, TensorSpec


class Mode(enum.Enum):
    FAST = 1
    SAFE = 2


def kernel(x: Any, y: Any = None, *, eps: Any = 1e-5, act: Any = None) -> None:
    """Stands for a user's kernel."""


def code_hash(function: Callable[..., Any]) -> str:
    return function.__code__.co_code.hex()


def described(*args: Any, **kwargs: Any) -> Problem:
    return describe("m:kernel", inspect.signature(kernel), args, kwargs, code_hash)


def test_every_kind_of_argument_has_its_spec() -> None:
    bias = torch.zeros(8)

    def act(v: Any, gain: float = 2.0) -> Any:
        return v * gain + bias + math.pi

    x = torch.zeros(4, 8, dtype=torch.bfloat16)
    problem = described(x.t(), (3, [True, "mean"]), eps=torch.float16, act=act)
    specs = dict(problem.args)
    assert specs["x"] == TensorSpec("bfloat16", (8, 4), (1, 8))
    assert specs["y.item:0"] == ScalarSpec("int", 3)
    assert specs["y.item:1.item:0"] == ScalarSpec("bool", True)
    assert specs["y.item:1.item:1"] == ScalarSpec("str", "mean")
    assert specs["eps"] == ScalarSpec("dtype", "float16")
    cells = (("bias", TensorSpec("float32", (8,), (1,))), ("default:gain", ScalarSpec("float", 2.0)))
    assert specs["act"] == CallableSpec("act", code_hash(act), cells)
    assert Problem.from_json(problem.to_json()) == problem
    assert dict(described(x, Mode.FAST).args)["y"] == ScalarSpec("enum", "Mode.FAST")


def test_alignment_is_the_pointers_and_meta_starts_aligned() -> None:
    base = torch.zeros(64)
    assert [described(t).args[0][1].aligned for t in (base, base[1:], base[4:])] == [True, False, True]  # type: ignore[union-attr]
    meta = torch.empty(64, device="meta")
    assert [described(t) for t in (meta, meta[1:], meta[4:])] == [described(t) for t in (base, base[1:], base[4:])]


def test_defaults_are_part_of_a_problem_and_scalars_that_are_parameters_are_not_of_its_key() -> None:
    x = torch.zeros(4)
    assert described(x) == described(x, None, eps=1e-5)
    assert described(x, 3).key == described(x, 4).key
    assert described(x, True).key != described(x, False).key
    assert described(x, eps=float("inf")).key == described(x, eps=0.5).key
    problem = described(x, eps=float("inf"))
    assert Problem.from_json(problem.to_json()) == problem


def test_calls_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CallError, match="must be called as"):
        described()
    with pytest.raises(CallError, match=r"y\.key:a of type object"):
        described(torch.zeros(1), {"a": object()})
    with pytest.raises(CallError, match=r"y\.item:1 of type object"):
        described(torch.zeros(1), (1, object()))


def test_a_recursive_helper_is_described_once() -> None:
    def power(v: Any, n: int) -> Any:
        return v if n == 0 else power(v, n - 1)

    assert dict(described(1, act=power).args)["act"] == CallableSpec("power", code_hash(power))
    hash(call_key((power,)))


def epilogue(bias: torch.Tensor, flag: bool) -> Callable[[Any], Any]:
    return lambda acc: acc + bias if flag else acc


BASE = torch.zeros(4096)


def view(m: int, n: int, offset: int, dtype: torch.dtype, turned: bool) -> torch.Tensor:
    flat = BASE.to(dtype)[offset : offset + m * n].view(m, n)
    return flat.t() if turned else flat


# no dimension of one element, whose stride is in the key and is no part of the Problem
tensors = st.builds(
    view, st.integers(2, 4), st.integers(2, 4), st.sampled_from([0, 1, 16]),
    st.sampled_from([torch.float32, torch.float16]), st.booleans(),
)  # fmt: skip
scalars = st.sampled_from(
    [None, True, False, 0, 1, 2, 1.0, 0.5, "a", "b", torch.float32, torch.int8, Mode.FAST, Mode.SAFE]
)
values = st.one_of(
    tensors,
    scalars,
    st.builds(epilogue, tensors, st.booleans()),
    st.tuples(scalars, scalars),
    st.lists(tensors, min_size=1, max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(values, min_size=1, max_size=2), st.lists(values, min_size=1, max_size=2), values, st.booleans())
def test_equal_keys_mean_equal_problems_and_the_other_way_round(
    one: list[Any], other: list[Any], eps: Any, same: bool
) -> None:
    if same:
        other = [*one[:-1], other[-1]]
    keys = [call_key(args, {"eps": eps}) for args in (one, other)]
    assert hash(keys[0]) == hash(call_key(one, {"eps": eps}))
    equal = described(*one, eps=eps).key == described(*other, eps=eps).key and len(one) == len(other)
    assert (keys[0] == keys[1]) == equal


def test_the_key_does_not_hold_on_to_tensors_and_sees_what_a_cell_holds_now() -> None:
    bias = torch.zeros(4)

    def act(v: Any) -> Any:
        return v + bias

    before = call_key((act,))
    bias = torch.ones(4)
    assert call_key((act,)) == before
    bias = torch.ones(5)
    assert call_key((act,)) != before


def test_only_a_gpu_has_a_device_class() -> None:
    with pytest.raises(CallError, match="asked of a GPU"):
        device_class("cpu")


# ---- readers of keys ----------------------------------------------------------------------------------------------

flat_values = st.one_of(tensors, st.sampled_from([None, True, False, 0, 1, 1.0, 0.5, "a", torch.float32, torch.int8]))


@settings(max_examples=300, deadline=None)
@given(st.lists(flat_values, min_size=1, max_size=2), st.lists(flat_values, min_size=1, max_size=2), st.booleans())
def test_fast_keys_are_as_telling_as_those_of_any_call(one: list[Any], other: list[Any], kinds: bool) -> None:
    other = [n if type(o) is type(n) else o for o, n in zip(one, other, strict=False)] if kinds else other
    fast = fast_keys(one)
    assert fast is not None
    key = fast.key(tuple(one))
    assert key is not None and hash(key) == hash(fast.key(tuple(one)))
    fast.remember(tuple(one), "one")
    fast.remember(tuple(other), "other")
    if [type(v) for v in one] == [type(v) for v in other]:
        same = call_key(one) == call_key(other)
        assert (key == fast.key(tuple(other))) == same
        assert [fast.find(tuple(v)) for v in (one, other)] == ["other" if same else "one", "other"]
    else:
        assert fast.key(tuple(other)) is fast.find(tuple(other)) is None
        assert fast.find(tuple(one)) == "one"


def test_numbers_that_select_code_enter_a_fast_key() -> None:
    fast = fast_keys((3, 4), constants={1})
    assert fast is not None
    assert fast.key((3, 4)) == fast.key((5, 4)) != fast.key((3, 5))


def test_a_fast_key_sees_gradients_and_the_precision_of_products() -> None:
    x = torch.zeros(4)
    both = [fast_keys((x,), multiplies=multiplies) for multiplies in (True, False)]
    before = [fast and fast.key((x,)) for fast in both]
    learned = x.detach().requires_grad_()
    assert [fast and fast.key((learned,)) for fast in both] != before
    with torch.no_grad():
        assert [fast and fast.key((learned,)) for fast in both] == before
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if precision != "medium" else "high")
    try:
        after = [fast and fast.key((x,)) for fast in both]
        assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("value", [(1, 2), lambda v: v, Mode.FAST, object(), {"a": 1}])
def test_other_kinds_have_no_fast_key(value: Any) -> None:
    assert fast_keys((torch.zeros(1), value)) is None


def test_a_call_without_arguments_has_a_fast_key() -> None:
    fast = fast_keys(())
    assert fast is not None
    fast.remember((), "none")
    assert (fast.find(()), fast.find((1,))) == ("none", None)
