"""Launching binaries through the CUDA driver: built by Triton, started without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from tileflow.build.compile import build
from tileflow.emit.source import TritonSource
from tileflow.errors import CallError
from tileflow.expr import TRUE, Expr
from tileflow.runtime import LaunchArg, Launcher, launcher_for
from tileflow.runtime.describe import device_class
from tileflow.target import target

pytestmark = pytest.mark.gpu

BLOCK = 256
_SHIFT = """
import triton
import triton.language as tl

@triton.jit
def shift(x, out, n, by, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, value * scale + by, mask=at < n)
"""
_MATMUL = """
import triton
import triton.language as tl

@triton.jit
def matmul(x, y, out, k, B: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, B), tl.arange(0, B), tl.arange(0, K)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, k, K):
        a = tl.load(x + rows[:, None] * k + start + inner[None, :])
        b = tl.load(y + (start + inner)[:, None] * B + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(out + rows[:, None] * B + columns[None, :], acc)
"""


def shift_launcher(**options: int) -> Launcher:
    n = Expr.sym("x.shape.0")
    source = TritonSource(
        "shift", 0, _SHIFT,
        (
            LaunchArg("x", "tensor", "*fp32", "x"),
            LaunchArg("out", "tensor", "*fp32", "out"),
            LaunchArg("n", "int", "i64", value=n),
            LaunchArg("by", "int", "i32", value=Expr.sym("by")),
            LaunchArg("scale", "float", "fp32", "scale"),
        ),
        (("BLOCK", BLOCK),), (("num_warps", 4), *options.items()),
        (n.cdiv(BLOCK), Expr.of(1), Expr.of(1)), Expr.sym("x.stride.0").eq(1),
    )  # fmt: skip
    return launcher_for(build(source, target(device_class("cuda"))), "cuda")


@pytest.fixture(scope="module")
def shift() -> Iterator[Launcher]:
    yield shift_launcher()


def run(launch: Launcher, x: torch.Tensor, by: int, scale: float) -> torch.Tensor:
    out = torch.full_like(x, float("nan"))
    assert launch({"x": x, "out": out, "by": by, "scale": scale}, (0,), (x.shape[0],)) is True
    return out


@pytest.mark.parametrize("n", [1, BLOCK, 100_003])
def test_a_cubin_runs_without_triton(shift: Launcher, n: int) -> None:
    x = torch.randn(n, device="cuda")
    torch.testing.assert_close(run(shift, x, -3, 0.5), x * 0.5 - 3)


def test_failing_guards_and_empty_grids_touch_nothing(shift: Launcher) -> None:
    x = torch.randn(64, device="cuda")
    out = torch.zeros(64, device="cuda")
    frame = {"out": out, "by": 1, "scale": 1.0}
    assert shift({"x": x[::2], **frame}, (0,), (32,)) is False
    assert shift({"x": x[:0], **frame}, (0,), (0,)) is True
    assert not out.any()


def test_the_current_stream_is_used_and_graphs_replay(shift: Launcher) -> None:
    x = torch.randn(1000, device="cuda")
    out = torch.zeros_like(x)
    frame = {"x": x, "out": out, "by": 2, "scale": 3.0}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        shift(frame, (0,), (1000,))
    torch.cuda.synchronize()
    assert not out.any(), "a captured launch must not run"
    x.fill_(5.0)
    graph.replay()
    torch.testing.assert_close(out, torch.full_like(x, 17.0))


def test_streams_keep_their_order(shift: Launcher) -> None:
    side = torch.cuda.Stream()
    x = torch.ones(1 << 22, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(20):
            shift({"x": x, "out": x, "by": 1, "scale": 1.0}, (0,), (1,))
        total = x.sum()
    side.synchronize()
    assert total.item() == 21 * (1 << 22)


def test_a_thread_that_never_touched_cuda_can_launch(shift: Launcher) -> None:
    x = torch.randn(1000, device="cuda")
    out = torch.zeros_like(x)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            shift({"x": x, "out": out, "by": 1, "scale": 1.0}, (0,), (1000,))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    torch.testing.assert_close(out, x + 1)


def test_a_host_tensor_never_reaches_the_device(shift: Launcher) -> None:
    x = torch.randn(16, device="cuda")
    with pytest.raises(CallError, match="must be on device 0, but got cuda:0, cpu"):
        shift({"x": x, "out": torch.zeros(16), "by": 1, "scale": 1.0}, (0,), (16,))


def test_block_clusters() -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs block clusters (sm_90)")
    x = torch.randn(10_000, device="cuda")
    torch.testing.assert_close(run(shift_launcher(num_ctas=2), x, 1, 2.0), x * 2 + 1)


def test_more_shared_memory_than_the_default_limit() -> None:
    source = TritonSource(
        "matmul", 0, _MATMUL,
        (
            *(LaunchArg(name, "tensor", "*fp16", name, divisible_by_16=True) for name in ("x", "y")),
            LaunchArg("out", "tensor", "*fp32", "out", divisible_by_16=True),
            LaunchArg("k", "int", "i32", value=Expr.sym("x.shape.1"), divisible_by_16=True),
        ),
        (("B", 128), ("K", 64)), (("num_warps", 8), ("num_stages", 3)),
        (Expr.of(1), Expr.of(1), Expr.of(1)), TRUE,
    )  # fmt: skip
    binary = build(source, target(device_class("cuda")))
    assert binary.abi.shared > 48 * 1024
    x, y = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((128, 512), (512, 128)))
    out = torch.empty(128, 128, device="cuda")
    assert launcher_for(binary, "cuda")({"x": x, "y": y, "out": out}, (0,), (1,)) is True
    torch.testing.assert_close(out, x.float() @ y.float(), rtol=1e-3, atol=1e-2)
