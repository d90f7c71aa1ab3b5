"""What a key settles of a call's launches: what the text of host code tells, and launches that rely on it."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import threading
from functools import partial
from typing import Any

import pytest
import torch
from tile_testing.fakes.drivers import ONE, TENSOR, FakeCuda, make_binary

import tileflow.language as tfl
from tileflow.config import Config
from tileflow.errors import CallError, VariantError
from tileflow.expr import Expr, all_of
from tileflow.frontend.split import split
from tileflow.runtime.dispatch import KeyedContext, KeyedRegion, RuntimeContext
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.launch import cuda_launcher

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


def by_comprehension(x: Any, y: Any) -> Any:
    """Each of ``first`` and ``second`` is new memory; what depends on values, on a condition or on which item it is of
    something unknown is no function of the key; nor is what a name of the comprehension's own hides."""
    m, n = x.shape
    first, second = (torch.empty(m, device=x.device) for _ in range(2))
    long, short = [torch.empty(size, device=x.device) for size in (m, n)]
    some, other = (torch.empty(int(y[i].item()), device=x.device) for i in range(2))
    few, rest = (torch.empty(m, device=x.device) for i in range(2) if i < m)
    one, (two, three), *more = (torch.empty(m, device=x.device) for i in range(4))
    hidden, also = (torch.empty(n, device=x.device) for n in [y[0].item(), y[1].item()])
    views, of_x = (x.view(-1) for x in (y, y))
    listed = [torch.empty(m, device=x.device) for _ in range(2)]
    for tile in tfl.tile(m):
        first[tile] = second[tile] = long[tile] = some[tile] = few[tile] = hidden[tile] = views[tile] = x[tile]
        one[tile] = short[tile] + two + three + more[0][tile] + also[tile] + of_x[tile] + other[tile] + rest[tile]
        listed[0][tile] = one[tile]
    return first


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (by_comprehension, [({"x", "y"}, {"m", "n", "first", "second", "long", "short", "one"}, True)]),
        (adds, [({"x", "y"}, {"out"}, True)]),
        (rebinds, [({"y"}, {"m", "n", "half", "x", "out"}, True)]),
        (by_number, [({"x", "n"}, {"k", "other"}, False), ({"x", "n"}, {"k", "other"}, True)]),
        (by_value, [({"x", "y"}, {"flag"}, False)]),
        (by_branch, [({"x", "y"}, {"m"}, True), ({"x", "y"}, {"m"}, False)]),
    ],
)
def test_what_is_a_function_of_the_key(fn: Any, expected: list[tuple[set[str], set[str], bool]]) -> None:
    host = split(fn)
    found = [region.invariants for region in host.regions]
    assert host.flat is not None
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


def calls_the_unknown_for_each(x: Any, y: Any) -> None:
    a, b = (unknown(z) for z in (x, y))
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile] + a + b


def calls_items(x: Any, y: Any) -> None:
    """``len`` is no function of Python's here."""
    a, b = (len(x) for len in (unknown, unknown))
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile] + a + b


@pytest.mark.parametrize(
    "fn",
    [calls_the_unknown_for_each, calls_items, calls_the_unknown, resizes_by_another_name, resizes_an_out,
     sets_an_attribute, sets_an_item, calls_the_unknown_later],
)  # fmt: skip
def test_host_code_that_may_reach_any_tensor_settles_nothing(fn: Any) -> None:
    host = split(fn)
    assert {region.invariants for region in host.regions} == {KeyInvariants()}
    assert host.flat is None


def may_lack_a_value(x: Any, y: Any, many: bool) -> None:
    if many:
        extra = x.numel()
    for tile in tfl.tile(x.numel()):
        y[tile] = x[tile] + (extra if many else 0)


def test_host_code_that_may_lack_a_value_runs_as_it_is() -> None:
    assert split(may_lack_a_value).flat is None


def stores(x: Any, y: Any, given: Any = None) -> Any:
    out, view, again = torch.empty_like(x), x.view(-1), torch.zeros(4, device=x.device)
    part, own = out[1:], y.new_zeros(3)
    for tile in tfl.tile(x.numel()):
        out[tile] = view[tile] = part[tile] = again[tile] = own[tile] = x[tile] + y[tile]
    out, again = given, y
    for tile in tfl.tile(x.numel()):
        out[tile] = own[tile] = again[tile] = x[tile]
    return out


def test_new_memory_of_a_call_is_told_from_what_others_hold() -> None:
    first, second = (region.invariants.fresh for region in split(stores).regions)
    assert (first, second) == ({"out", "again", "own"}, {"own"})
    (region,) = split(by_comprehension).regions
    new = {"first", "second", "long", "short", "some", "other", "few", "rest", "one", "hidden", "also"}
    assert region.invariants.fresh == new


# ---- launches that rely on it -------------------------------------------------------------------------------------

OUT = TENSOR.__class__("out", "tensor", "*fp32", "out")
INVARIANTS = KeyInvariants(frozenset({"x"}), frozenset({"out"}), True)


def sized(n: int, *names: str) -> Expr:
    known = [Expr.sym(f"{name}.shape.0").eq(n) for name in names]
    return all_of([*known, *(Expr.sym(f"{name}.align").eq(1) for name in names), Expr.sym("end.0").eq(n)])


NAMES = ("out", "x")


def launcher(guards: Expr, grid: tuple[Expr, ...] = ONE) -> tuple[Any, FakeCuda]:
    driver = FakeCuda([ctypes.c_uint64] * 2)
    binary = make_binary(TENSOR, OUT, guards=guards, grid=grid)
    return cuda_launcher(binary, "cpu", driver=driver, stream=lambda: 0x57), driver


def served(
    launchers: list[Any], invariants: KeyInvariants = INVARIANTS, run: Any = None, names: tuple[str, ...] = NAMES
) -> Any:
    """Host code that takes ``x`` and ``out`` and launches at once, for calls with one key."""

    def host(context: Any, x: torch.Tensor, out: torch.Tensor) -> None:
        context.regions[0](context, out, x, x.shape[0])

    context = RuntimeContext(Config.of({}), {0: launchers})
    return partial(run or host, KeyedContext(context, [KeyedRegion(names, invariants)]))


class Declined:
    """Stands for the context of calls with one key: remembers what a launcher hands back."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def launch(self, *args: Any) -> None:
        self.calls.append(args)


def test_a_specialised_launcher_still_looks_at_what_no_key_fixes() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    x, memory, context = torch.zeros(8), torch.zeros(9), Declined()
    warm = launch.specialize(INVARIANTS, NAMES, 0)
    warm(context, memory[:8], x, 8, block_size=4)
    assert (len(driver.launches), context.calls) == (1, [])
    warm(context, memory[1:], x, 8)
    assert len(context.calls) == 1, "fresh memory of torch's is aligned, but is it fresh"
    other = launch.specialize(KeyInvariants(frozenset({"x"})), NAMES, 0)
    other(context, memory, x, 8)
    other(context, memory[:8], x, 0, 9)
    assert [(args[0], *args[3:]) for args in context.calls] == [(0, 8, None, None), (0, 8, None, None), (0, 0, 9, None)]
    assert len(driver.launches) == 1


def test_keys_share_the_launchers_of_a_binary() -> None:
    """13.13: each further shape had a generated launcher of its own."""
    launch, _ = launcher(Expr.sym("x.shape.0").le(64))
    calls = [served([launch]) for _ in range(3)]
    for n, call in enumerate(calls, 1):
        call(torch.zeros(n), torch.zeros(n))
    first, second, third = (call.args[0].regions[0] for call in calls)
    assert first is second is third


def test_what_host_code_makes_is_trusted_in_nothing() -> None:
    """13.2: after set_default_dtype a warm call launched the float32 binary on half-size buffers."""
    out = dataclasses.replace(OUT, dtype="float32", rank=1)
    driver = FakeCuda([ctypes.c_uint64] * 2)
    launch = cuda_launcher(make_binary(TENSOR, out), "cpu", driver=driver, stream=lambda: 7)
    x = torch.zeros(8)
    assert launch({"x": x, "out": torch.zeros(8)}, (0,), (8,)) is True
    for made in (torch.zeros(8, dtype=torch.bfloat16), torch.zeros(8, 1), torch.zeros(()), torch.zeros(8).double()):
        assert launch({"x": x, "out": made}, (0,), (8,)) is False
    assert "out of float32 and rank 1 with bfloat16" in launch.explain(
        {"x": x, "out": torch.zeros(8, dtype=torch.bfloat16)}, (0,), (8,)
    )
    with pytest.raises(CallError, match="resolve_neg"):
        launch({"x": x, "out": torch.zeros(8, dtype=torch.complex64).conj().imag}, (0,), (8,))
    assert len(driver.launches) == 1


@pytest.mark.parametrize(
    ("fn", "ambient"),
    [
        (adds, set()),
        (rebinds, {"default_dtype"}),  # torch.zeros(m)
        (by_value, {"default_dtype"}),
        (calls_the_unknown, {"default_dtype", "autocast", "deterministic"}),
    ],
)
def test_the_key_holds_the_settings_that_host_code_can_see(fn: Any, ambient: set[str]) -> None:
    assert split(fn).ambient == ambient


def given_a_dtype(x: Any, dtype: Any) -> Any:
    out, other = torch.empty(4, dtype=dtype, device=x.device), torch.empty(4, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(4):
        out[tile] = other[tile]
    return out


def test_a_dtype_that_may_be_none_is_the_default_one() -> None:
    assert split(given_a_dtype).ambient == {"default_dtype"}


def test_bounds_that_are_not_constants_are_read_at_each_launch() -> None:
    grid = (Expr.sym("end.0"), Expr.sym("begin.0") + 1, Expr.sym("end.1"))
    launch, driver = launcher(Expr.sym("x.shape.0").eq(8), grid)

    def run(context: Any, x: torch.Tensor, *bounds: Any) -> None:
        context.regions[0](context, x, x, *bounds, block_size=None)

    call = served([launch], KeyInvariants(frozenset({"x"})), run)
    x = torch.zeros(8)
    for n in (2, 3):
        call(x, [n, 1], [8, 5])
    assert [seen.grid for seen in driver.launches] == [(8, 3, 5), (8, 4, 5)]
    with pytest.raises(CallError, match="as many"):
        call(x, [1, 2], [8])


def test_calls_with_one_key_are_checked_once_and_launch_on_what_they_hold() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    call = served([launch])
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
        context.regions[0](context, x, x, k, 8)

    call = served([small, large], run=run, names=(*NAMES, "k"))
    for k in (9, 9, 1):
        call(torch.zeros(8), k)
    assert (len(first.launches), len(second.launches)) == (1, 2)


def test_a_variant_that_never_accepts_is_not_tried_again() -> None:
    wrong, _ = launcher(sized(9, "x", "out"))
    right, driver = launcher(sized(8, "x", "out"))
    call = served([wrong, right])
    regions = call.args[0].regions
    (first,) = regions
    for _ in range(3):
        call(torch.zeros(8), torch.zeros(8))
    assert len(driver.launches) == 3
    assert first not in regions and "own_x" in regions[0].__code__.co_varnames


def test_threads_that_make_one_warm_call_at_once_launch_on_their_own_tensors() -> None:
    launch, driver = launcher(sized(8, "x", "out"))
    driver.pause = 0.001
    call = served([launch])
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


def test_flat_host_code_hands_over_what_its_regions_capture() -> None:
    host = split(adds)
    assert host.flat is not None
    (region,) = host.regions
    launch, driver = launcher(sized(8, "x", "out", "y"))
    context = RuntimeContext(Config.of({}), {0: [launch]})
    call = partial(host.flat, KeyedContext(context, [KeyedRegion(region.locals, region.invariants)]))
    x, y = torch.zeros(8), torch.zeros(8)
    made = [call(x, y=y) for _ in range(3)]
    assert [seen.values for seen in driver.launches] == [[x.data_ptr(), out.data_ptr()] for out in made]
    assert region.locals == ("out", "x", "y")
