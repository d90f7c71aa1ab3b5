"""What a key settles of a call's launches: what the text of host code tells, and launches that rely on it."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import pytest
import torch

import tileflow.language as tfl
from tests.unit.test_runtime_launch import ONE, TENSOR, FakeCuda, make_binary
from tileflow.config import Config
from tileflow.errors import VariantError
from tileflow.expr import Expr, all_of
from tileflow.frontend.split import split
from tileflow.runtime.dispatch import bind, keyed
from tileflow.runtime.launch import cuda_launcher
from tileflow.runtime.settled import Settled

DEFAULT = torch.zeros(3)


def unknown(x: Any) -> None:
    """Anything."""


def adds(x: Any, y: Any) -> Any:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + y[tile]
    return out


def rebinds(x: Any, y: Any) -> Any:
    (m, n), half = x.shape, math.ceil(x.size(0) / 2)
    x, z = x.flatten(0, 1).t(), x
    out, lse = torch.empty(m, n + half, dtype=y.dtype, device=y.device), torch.zeros(m)
    for tile in tfl.tile([0, 0], [m, n]):
        out[tile] = x[tile] + y[tile] + lse[0] + z[tile]
    return out.sum() / m


def by_number(x: Any, n: int, k: tfl.constexpr, d: Any = DEFAULT) -> Any:
    out, other = torch.empty(n, device=x.device), torch.empty(k, device=x.device)
    for tile in tfl.tile(n):
        out[tile] = x[tile] + d[0] + other[0]
    for tile in tfl.tile(k, block_size=n):
        other[tile] = x[tile]
    return out


def by_value(x: Any, y: Any) -> Any:
    first, count = x[0], int(y.item())
    length = max(int(x.sum()), 1)
    flag = torch.ones(2, device=x.device)
    size = int(flag[0])
    for tile in tfl.tile(count):
        y[tile] = first + length + size
    return y


def by_branch(x: Any, y: Any) -> Any:
    n, m = x.numel(), x.numel()
    if y.size(0) > 2:
        n = y.size(0)
        for tile in tfl.tile(m):
            y[tile] = x[tile]
    for tile in tfl.tile(n):
        y[tile] = x[tile] + m
    return y


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (adds, [({"x", "y"}, {"out"}, True)]),
        (rebinds, [({"y"}, {"m", "n", "half", "x", "out"}, True)]),
        (by_number, [({"x", "n"}, {"k", "other"}, False), ({"x", "n"}, {"k", "other"}, True)]),
        (by_value, [({"x", "y"}, {"flag"}, False)]),
        (by_branch, [({"x", "y"}, {"m"}, True), ({"x", "y"}, {"m"}, False)]),
    ],
)
def test_what_is_a_function_of_the_key(fn: Any, expected: list[tuple[set[str], set[str], bool]]) -> None:
    found = [region.settled for region in split(fn).regions]
    assert [(set(s.arguments), set(s.made), s.bounds) for s in found] == expected


def calls_the_unknown(x: Any, y: Any) -> None:
    unknown(y)
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile]


def resizes_by_another_name(x: Any, y: Any) -> None:
    z = y
    z.resize_(3)
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile]


def resizes_an_out(x: Any, y: Any) -> None:
    torch.zeros(3, out=y, device=x.device)
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile]


def sets_an_attribute(x: Any, y: Any) -> None:
    y.data = x
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile]


def sets_an_item(x: Any, y: Any) -> None:
    sizes = [x.numel()]
    sizes[0] = 4
    for tile in tfl.tile(sizes):
        y[tile] = x[tile]


def calls_the_unknown_later(x: Any, y: Any) -> None:
    for _ in range(2):
        for tile in tfl.tile(x.numel()):
            y[tile] = x[tile]
        unknown(x)


@pytest.mark.parametrize(
    "fn",
    [calls_the_unknown, resizes_by_another_name, resizes_an_out, sets_an_attribute, sets_an_item,
     calls_the_unknown_later],
)  # fmt: skip
def test_host_code_that_may_reach_any_tensor_settles_nothing(fn: Any) -> None:
    assert {region.settled for region in split(fn).regions} == {Settled()}


# ---- launches that rely on it -------------------------------------------------------------------------------------

OUT = TENSOR.__class__("out", "tensor", "*fp32", "out")
SETTLED = Settled(frozenset({"x"}), frozenset({"out"}), True)


def sized(n: int, *names: str) -> Expr:
    known = [Expr.sym(f"{name}.shape.0").eq(n) for name in names]
    return all_of([*known, *(Expr.sym(f"{name}.align").eq(1) for name in names), Expr.sym("end.0").eq(n)])


def launcher(guards: Expr) -> tuple[Any, FakeCuda]:
    driver = FakeCuda([ctypes.c_uint64] * 2)
    binary = make_binary(TENSOR, OUT, guards=guards, grid=ONE)
    return cuda_launcher(binary, "cpu", driver=driver, stream=lambda: "the stream"), driver


def host(context: Any, x: torch.Tensor, out: torch.Tensor) -> None:
    context.launch(0, {"x": x, "out": out}, x.shape[0])


def test_a_settled_launcher_still_looks_at_what_no_key_settles() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    x, memory = torch.zeros(8), torch.zeros(9)
    warm = launch.settle(SETTLED)
    assert warm({"x": x, "out": memory[:8]}, (0,), (8,)) is True
    assert warm({"x": x, "out": memory[1:]}, (0,), (8,)) is False, "fresh memory of torch's is aligned, but is it fresh"
    other = launch.settle(Settled(frozenset({"x"})))
    assert other({"x": x, "out": memory}, (0,), (8,)) is False
    assert other({"x": x, "out": memory[:8]}, (0,), (9,)) is False
    assert len(driver.launches) == 1


def test_calls_with_one_key_are_checked_once_and_launch_on_what_they_hold() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    call = keyed(bind(host, Config.of({}), {0: [launch]}), [SETTLED])
    with pytest.raises(VariantError):
        call(torch.zeros(9), torch.zeros(9))
    pairs = [(torch.zeros(8), torch.zeros(8)) for _ in range(4)]
    for x, out in pairs:
        call(x, out)
    assert [seen.values for seen in driver.launches] == [[x.data_ptr(), out.data_ptr()] for x, out in pairs]
    with pytest.raises(VariantError):
        call(torch.zeros(8), torch.zeros(9)[1:])


def test_a_variant_that_goes_before_is_tried_again_where_it_may_accept() -> None:
    """The first is for small ``k`` only, which no key settles."""
    small, first = launcher(Expr.sym("k").lt(4))
    large, second = launcher(sized(8, "x"))

    def run(context: Any, x: torch.Tensor, k: int) -> None:
        context.launch(0, {"x": x, "out": x, "k": k}, 8)

    call = keyed(bind(run, Config.of({}), {0: [small, large]}), [SETTLED])
    for k in (9, 9, 1):
        call(torch.zeros(8), k)
    assert (len(first.launches), len(second.launches)) == (1, 2)


def test_a_variant_that_never_accepts_is_not_tried_again() -> None:
    wrong, _ = launcher(sized(9, "x", "out"))
    right, driver = launcher(sized(8, "x", "out"))
    call = keyed(bind(host, Config.of({}), {0: [wrong, right]}), [SETTLED])
    for _ in range(3):
        call(torch.zeros(8), torch.zeros(8))
    assert len(driver.launches) == 3
    assert call.args[0]._warm.keys() == {0}


def test_threads_that_make_one_warm_call_at_once_launch_on_their_own_tensors() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    driver.pause = 0.001
    call = keyed(bind(host, Config.of({}), {0: [launch]}), [SETTLED])
    pairs = [(torch.zeros(8), torch.zeros(8)) for _ in range(6)]

    def calls(x: torch.Tensor, out: torch.Tensor) -> None:
        for _ in range(10):
            call(x, out)

    threads = [threading.Thread(target=calls, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [tuple(launched.values) for launched in driver.launches]
    assert {pair: seen.count(pair) for pair in set(seen)} == {(x.data_ptr(), o.data_ptr()): 10 for x, o in pairs}
