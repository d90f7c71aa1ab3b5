"""Arguments that overlap at run time (issue 14): what each launch checks of them, by Python and by C."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tile_testing.fakes.drivers import TENSOR, launcher, make_binary
from tile_testing.fakes.native_drivers import Loading, Recorder

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError
from tileflow.expr import Expr
from tileflow.runtime import native
from tileflow.runtime.abi import LaunchArg
from tileflow.runtime.guards import conjuncts, pair_of
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.launch import cuda_launcher
from tileflow.runtime.overlap import by_memory, is_apart, is_in_step, is_same, shares_in_part, surely_fit
from tileflow.runtime.to_meta import ToMeta
from tileflow.target import target

X, Y, M = torch.zeros(64), torch.zeros(64), torch.zeros(16, 64)
OUT = LaunchArg("out", "tensor", "*fp32", "out")


# ---- which pairs --------------------------------------------------------------------------------


@tileflow.kernel
def added(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + 1


@tileflow.kernel
def differences(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0) - 1):
        out[tile] = x[tile + 1] - x[tile]


@tileflow.kernel
def stepped(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
    for tile in tfl.tile(p.size(0)):
        m[tile] = m[tile] * 0.9 + g[tile]
        p[tile] = p[tile] - m[tile]


@tileflow.kernel
def normalised(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.softmax(x[tile, :], 1)


@tileflow.kernel
def read_again(x: torch.Tensor, out: torch.Tensor, most: torch.Tensor) -> None:
    """As a loop over the columns, what is stored into ``out`` comes before the last reduction's loads."""
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        total = row.sum(1)
        out[tile, :] = row / total[:, None]
        most[tile] = (row - total[:, None]).amax(1)


@tileflow.kernel
def accumulated(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        for i in tfl.grid(1, x.size(1)):
            out[tile, i] = x[tile, i - 1] + 1


@tileflow.kernel
def fresh(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0) - 1):
        out[tile] = x[tile + 1]
    return out


@tileflow.kernel
def through_a_view(x: torch.Tensor, out: torch.Tensor) -> None:
    flat = x.view(-1)
    for tile in tfl.tile(out.size(0)):
        out[tile] = flat[tile] * 2


def pairs(kernel: Any, *args: Any, mode: Any = "static") -> list[str]:
    lowered = kernel.lower(args, target("nvidia-h200"), mode=mode)
    source, *others = lowered.emit(lowered.default)
    assert all({*filter(pair_of, conjuncts(other.guards))} <= {*conjuncts(source.guards)} for other in others)
    return [str(c).split("== ")[1].rstrip(")") for c in conjuncts(source.guards) if pair_of(c) is not None]


@pytest.mark.parametrize(
    ("kernel", "args", "expected"),
    [
        (added, (X, Y), ["out.in_step.x"]),
        (added, (X, X), ["out.in_step.x"]),
        (differences, (X, Y), ["out.apart.x"]),
        (differences, (X, X), []),  # what the trace knew to be one memory keeps its order
        (stepped, (X, Y, X.clone()), ["g.in_step.m", "g.in_step.p", "m.apart.p"]),
        (normalised, (M, M.clone()), ["out.in_step.x"]),
        (read_again, (M, M.clone(), X[:16]), ["most.apart.out", "most.apart.x", "out.apart.x"]),
        (accumulated, (M, M.clone()), ["out.apart.x"]),
        (through_a_view, (M, torch.zeros(1024)), ["flat.in_step.out"]),
        (fresh, (X,), []),  # nothing lies in memory that host code allocated: a launch checks nothing
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_pairs_whose_order_matters_are_guarded(kernel: Any, args: tuple[Any, ...], expected: list[str]) -> None:
    assert pairs(kernel, *args) == expected
    assert pairs(kernel, *args, mode="dynamic") == expected


def test_a_call_that_its_launch_refuses_is_not_lowered() -> None:
    """A search lowers a call and runs configs on copies of its arguments: it kept a row that no call could run."""
    both = torch.zeros(72)
    for kernel, offset, mode in itertools.product((added, through_a_view), (1, 4, 35), ("static", "dynamic")):
        said = f"that overlap, {offset * 4} bytes apart\n  at .*test_overlap.py"
        with pytest.raises(CallError, match=said) as error:
            pairs(kernel, both[offset:], both[:-offset], mode=mode)
        assert error.value.hint is not None and "clone" in error.value.hint
    for apart in ((both[36:], both[:-36]), (both[:32], both[40:]), (both[::2], both[1::2]), (both[3:9], both[3:9])):
        assert pairs(added, *apart) == ["out.in_step.x"]
    held = torch.zeros(8, 9)
    assert pairs(normalised, held[:, :4], held[:, 5:]) == ["out.in_step.x"]


@pytest.mark.parametrize("how", ["interpret", "TILEFLOW_INTERPRET", "run_eagerly"])
def test_a_call_that_its_launch_refuses_is_not_interpreted(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    b = torch.zeros(64)
    call = added.run_eagerly if how == "run_eagerly" else added
    if how == "TILEFLOW_INTERPRET":
        monkeypatch.setenv(how, "1")
    with tileflow.interpret() if how == "interpret" else contextlib.nullcontext():
        for _ in range(2):
            call(b[:32], b[32:])
            call(b, b)
            call(b[::2], b[1::2])
            with pytest.raises(CallError, match="overlap, 4 bytes apart"):
                call(b[1:], b[:-1])
    assert b.any()


def test_a_text_without_a_compiled_form_is_interpreted_however_its_arguments_lie() -> None:
    @tileflow.kernel
    def looked_at(x: torch.Tensor, out: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            seen.append(x[tile].tolist())
            out[tile] = x[tile]

    seen: list[list[float]] = []
    b = torch.arange(9.0)
    looked_at.run_eagerly(b[1:], b[:-1], config={"block:tile": 4})
    assert len(seen) == 2


def test_what_shares_memory_is_one_group() -> None:
    base, other = torch.zeros(100), torch.zeros(4)
    groups = by_memory([base[50:60], other, base[:20], base[10:55], base[:20], base[99:], base[:0]])
    assert sorted(len(group) for group in groups) == [1, 1, 1, 4]
    assert not shares_in_part([base[:50], base[50:], other, other]) and shares_in_part([base[:51], base[50:]])
    assert not shares_in_part([base[::2], base[1::2]])


def test_tensors_without_data_lie_as_the_call_s_own() -> None:
    for dtype in (torch.uint8, torch.float16, torch.float64, torch.complex128):
        memory = torch.zeros(256, dtype=torch.uint8)[16:144].view(dtype)
        to_meta = ToMeta()
        first, *others = made = [to_meta(memory[begin:]) for begin in range(8)]
        assert all(m.untyped_storage() is first.untyped_storage() for m in others)
        for begin, like in enumerate(made):
            assert like.data_ptr() - first.data_ptr() == begin * dtype.itemsize
            assert like.data_ptr() % 16 == memory[begin:].data_ptr() % 16


def test_a_long_list_of_tensors_is_not_checked_pair_by_pair() -> None:
    @tileflow.kernel
    def all_of_them(xs: list[torch.Tensor], outs: list[torch.Tensor]) -> None:
        for tile in tfl.tile(64):
            for x, out in zip(xs, outs, strict=True):
                out[tile] = x[tile]

    many = [torch.zeros(64) for _ in range(18)]
    assert len(pairs(all_of_them, many[:2], many[2:4])) == 5
    assert pairs(all_of_them, many[:9], many[9:]) == []


# ---- what is apart ------------------------------------------------------------------------------

BUFFER = torch.arange(200)
STRIDES = [(1, 5, 20), (20, 5, 1), (7, 3, 1), (10, 2, 1), (2, 2, 1), (3, 0, 1)]


def some_views(draw: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    rank, strides = draw.randint(1, 3), draw.choice(STRIDES)
    shape = [draw.randint(0, 4) for _ in range(rank)]
    other = [max(0, size + draw.choice((0, 0, 1, -1))) for size in shape]
    more = strides if draw.random() < 0.7 else draw.choice(STRIDES)
    first = BUFFER.as_strided(shape, strides[:rank], draw.randint(0, 60))
    return first, BUFFER.as_strided(other, more[:rank], draw.randint(0, 60))


def test_what_is_said_of_two_views_is_true() -> None:
    draw, exact = random.Random(0), 0
    for _ in range(1500):
        a, b = some_views(draw)
        shared = set(a.flatten().tolist()) & set(b.flatten().tolist())
        if a.stride() == b.stride():
            assert is_apart(a, b) == (not shared)
            exact += 1
        for same in (0, 1):
            quick = surely_fit(bytes([0, 1, same]), a, b)
            assert not quick or not shared or (same and is_same(a, b))
            test = native.pairs_test()
            assert test is None or test(bytes([0, 1, same]), a, b) == quick
        assert is_apart(a, b) <= (not shared)
    assert exact > 500


def test_columns_of_one_buffer_are_apart_and_shifts_are_not() -> None:
    packed, line = torch.zeros(8, 96), torch.zeros(100)
    assert is_apart(packed[:, :32], packed[:, 32:96]) and is_in_step(packed[:, :32], packed[:, 32:64])
    assert not is_apart(packed[:, :33], packed[:, 32:])
    assert is_apart(line[::2], line[1::2]) and not is_apart(line[1:], line[:-1])
    with pytest.raises(CallError, match=r"overlap, 4 bytes apart[\s\S]*clone"):
        is_in_step(line[1:], line[:-1])


def test_no_tensor_that_was_not_given_is_read() -> None:
    test = native.pairs_test()
    if test is None:
        pytest.skip("TILEFLOW_NATIVE=0, or torch does not offer its tensors to C")
    with pytest.raises(ValueError, match="not given"):
        test(bytes([0, 2, 0]), X, Y)
    with pytest.raises(TypeError):
        test()


# ---- launches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["apart", "in_step"])
def test_a_launch_looks_at_its_pairs(relation: str) -> None:
    binary = make_binary(TENSOR, OUT, guards=Expr.sym(f"x.{relation}.out").eq(1))
    launch, driver = launcher(binary, [ctypes.c_uint64] * 2)
    assert launch({"x": X, "out": Y}, (0,), (1,)) is True
    assert launch({"x": M[:, :32], "out": M[:, 32:]}, (0,), (1,)) is True
    assert len(driver.launches) == 2
    if relation == "apart":
        assert launch({"x": X, "out": X}, (0,), (1,)) is False
        assert launch({"x": X[1:], "out": X[:-1]}, (0,), (1,)) is False
        assert "x.apart.out" in launch.explain({"x": X, "out": X}, (0,), (1,))
    else:
        assert launch({"x": X, "out": X}, (0,), (1,)) is True
        with pytest.raises(CallError, match="shares no memory with it"):
            launch({"x": X[1:], "out": X[:-1]}, (0,), (1,))


def test_a_specialised_launch_looks_at_its_pairs_too(extension: None) -> None:
    """Through C, as one that hands its tensors over; what shares memory goes to the context, which checks all."""
    if native.pairs_test() is None:
        pytest.skip("TILEFLOW_NATIVE=0, or torch does not offer its tensors to C")
    recorder = Recorder("QQ")
    binary = make_binary(TENSOR, OUT, guards=Expr.sym("x.apart.out").eq(1))
    launch: Any = cuda_launcher(binary, "cpu", driver=Loading(recorder))
    handed: list[tuple[Any, ...]] = []
    context = SimpleNamespace(launch=lambda *args: handed.append(args))
    warm = launch.specialize(KeyInvariants(frozenset({"x", "out"})), ("out", "x"), 0)
    warm(context, Y, X, 5)
    assert len(recorder.launches) == 1 and not handed
    warm(context, X, X, 5)
    assert len(recorder.launches) == 1 and handed == [(0, X, X, 5, None, None)]


def test_a_table_s_guards_name_pairs_by_paths_alone() -> None:
    binary = make_binary(TENSOR, OUT, guards=Expr.sym("x.apart.out[0]").eq(1))
    with pytest.raises(tileflow.errors.TableError, match="a path must be"):
        launcher(binary, [ctypes.c_uint64] * 2)
