"""Launches that begin while the one before them ends, on a GPU: whatever came before is complete where they read and
write.

The launch before lets the next one begin at once, as kernels of other libraries do, and is slow to read and to write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from unittest import mock

import pytest
import torch

from tileflow.build.compile import build
from tileflow.emit.source import TritonSource
from tileflow.expr import TRUE, Expr
from tileflow.runtime import LaunchArg, Launcher, launcher_for
from tileflow.runtime.describe import device_class
from tileflow.target import Target, target

pytestmark = pytest.mark.gpu

SIZE = 1 << 16
BLOCK = 256
_TEXT = """
import triton
import triton.language as tl

@triton.jit
def late(x, out, BLOCK: tl.constexpr):
    tl.inline_asm_elementwise("griddepcontrol.launch_dependents; // $0", "=r", [], tl.int32, is_pure=False, pack=1)
    for _ in range(200):
        tl.inline_asm_elementwise("nanosleep.u32 1000; // $0", "=r", [], tl.int32, is_pure=False, pack=1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) + 1)

@triton.jit
def double(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)
"""

Kernel = Callable[[torch.Tensor, torch.Tensor], None]


@pytest.fixture(scope="module", autouse=True)
def able() -> Target:
    found = target(device_class("cuda"))
    if not found.has_dependent_launches:
        pytest.skip(f"{found.name} has no dependent launches")
    return found


def made(name: str, able: Target, waits: bool = True) -> Kernel:
    """The function of that name, launched as one that depends on the launch before it; ``waits``: that it waits for
    it."""
    tensors = tuple(LaunchArg(n, "tensor", "*fp32", n) for n in ("x", "out"))
    grid = (Expr.of(SIZE // BLOCK), Expr.of(1), Expr.of(1))
    source = TritonSource(name, 0, _TEXT, tensors, (("BLOCK", BLOCK),), (("num_warps", 4),), grid, TRUE)
    with mock.patch.object(Target, "has_dependent_launches", waits):
        binary = build(source, able)
    assert binary.abi.pdl == waits
    binary = dataclasses.replace(binary, abi=dataclasses.replace(binary.abi, pdl=True))
    launcher: Launcher = launcher_for(binary, "cuda")

    def run(x: torch.Tensor, out: torch.Tensor) -> None:
        assert launcher({"x": x, "out": out}, (0,), (SIZE,))

    return run


def written_late(late: Kernel, after: Kernel, through: Callable[[Callable[[], None]], None]) -> float:
    """The share of right numbers where ``after`` reads what ``late`` writes."""
    x, between, out = (torch.zeros(SIZE, device="cuda") for _ in range(3))

    def both() -> None:
        late(x, between)
        after(between, out)

    through(both)
    return float((out == 2).float().mean())


def read_late(late: Kernel, after: Kernel, through: Callable[[Callable[[], None]], None]) -> float:
    """The share of right numbers where ``after`` overwrites what ``late`` reads."""
    x, ones, out = torch.zeros(SIZE, device="cuda"), torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")

    def both() -> None:
        late(x, out)
        after(ones, x)

    through(both)
    return float((out == 1).float().mean())


def eagerly(calls: Callable[[], None]) -> None:
    calls()
    torch.cuda.synchronize()


def captured(calls: Callable[[], None]) -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    graph.replay()
    torch.cuda.synchronize()


@pytest.mark.parametrize("through", [eagerly, captured])
@pytest.mark.parametrize("case", [written_late, read_late])
def test_a_launch_waits_for_the_one_before_it(case: Callable[..., float], through: object, able: Target) -> None:
    assert case(made("late", able), made("double", able), through) == 1.0


@pytest.mark.parametrize("case", [written_late, read_late])
def test_it_would_not_without_its_first_instruction(case: Callable[..., float], able: Target) -> None:
    assert case(made("late", able), made("double", able, waits=False), captured) < 1.0


def test_what_is_captured_after_other_work_waits_for_it(able: Target) -> None:
    """Memory that is set and copied, and kernels of another stream, come before launches in graphs."""
    late, double = made("late", able), made("double", able)
    x, between, out = (torch.zeros(SIZE, device="cuda") for _ in range(3))
    other = torch.cuda.Stream()
    results = [torch.zeros(SIZE, device="cuda") for _ in range(3)]

    def calls() -> None:
        here = torch.cuda.current_stream()
        x.fill_(3.0)
        between.zero_()
        double(between, results[0])
        between.copy_(x)
        double(between, results[1])
        other.wait_stream(here)
        with torch.cuda.stream(other):
            late(x, between)
        double(x, out)
        here.wait_stream(other)
        double(between, results[2])

    for through in (eagerly, captured):
        for result in results:
            result.fill_(-1.0)
        through(calls)
        assert [set(result.tolist()) for result in results] == [{0.0}, {6.0}, {8.0}]
