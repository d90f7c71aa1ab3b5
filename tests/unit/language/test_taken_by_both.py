"""What torch's functions take of captured tensors and of tiles in device code, plain Python takes if the compiler does,
and refuses in the compiler's words."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import Location, MissingAttribute, TileflowError, TraceError, UnsupportedOp
from tileflow.frontend.refusals import READ_BY_INDEX
from tileflow.target import target

TARGET = target("nvidia-h200")
X = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))


class Offset:
    """An object that is called, whose tensor stands for all of its elements."""

    def __init__(self) -> None:
        self.by = X[0].clone()

    def __call__(self, tile: torch.Tensor) -> torch.Tensor:
        return tile + self.by


OFFSET, NORM = Offset(), torch.nn.LayerNorm(8)


def kernel_of(expression: str) -> Any:
    """A kernel that stores an expression of the captured ``x``, the tile ``row`` of it and the loop's tile ``t``."""
    text = f"def kernel(x, out):\n    for t in tfl.tile(8):\n        row = x[t, :]\n        out[t, :] = {expression}\n"
    file = f"<taken by both {expression}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"torch": torch, "tfl": tfl, "offset": OFFSET, "norm": NORM, "__name__": "taken_by_both"}
    exec(compile(text, file, "exec"), names)
    return tileflow.kernel(names["kernel"])


def refused(expression: str, way: str) -> TileflowError:
    kernel, args = kernel_of(expression), (X.clone(), torch.zeros(8, 8))
    with pytest.raises(TraceError) as caught:
        kernel.run_eagerly(*args) if way == "eager" else kernel.lower(args, TARGET)
    return caught.value


WHOLE = {
    "x.sum(1)[t, None]": MissingAttribute,
    "row + x.mean()": MissingAttribute,
    "row * x.mean().item()": MissingAttribute,
    "row * x.tolist()[0][1]": MissingAttribute,
    "row * x.item()": MissingAttribute,
    "x.float()[t, :]": MissingAttribute,
    "x.clone()[t, :]": MissingAttribute,
    "x.contiguous()[t, :]": MissingAttribute,
    "x.data[t, :]": MissingAttribute,
    "x.real[t, :]": MissingAttribute,
    "x.scatter(1, t.index[:, None], 1.0)[t, :]": MissingAttribute,
    "x.index_add(0, t.index, row)[t, :]": MissingAttribute,
    "x.nonzero()[t, :]": MissingAttribute,
    "x.flip(0)[t, :]": MissingAttribute,
    "x.fill_(1.0)": MissingAttribute,
    "x.copy_(row)": MissingAttribute,
    "x.add_(1.0)[t, :]": MissingAttribute,
    "torch.index_select(x, 0, t.index)": MissingAttribute,
    "torch.take(x, t.index)[:, None]": MissingAttribute,
    "torch.sum(x, 1)[t, None]": TraceError,
    "torch.exp(x)[t, :]": TraceError,
    "torch.where(row > 0, x, 0)": TraceError,
    "torch.cat([x, x])[t, :]": TraceError,
    "torch.cdist(x, x)[t, :]": TraceError,
    "torch.nn.functional.softmax(x, 1)[t, :]": TraceError,
    "torch.nn.functional.linear(row, x)": TraceError,
    "row.expand_as(x)": TraceError,
    "(x + 1)[t, :]": TraceError,
    "(1 - x)[t, :]": TraceError,
    "(-x)[t, :]": TraceError,
    "(x @ x)[t, :]": TraceError,
    "row * (x == 1.0)": TraceError,
    "row * (x != out)": TraceError,
    "row if x == out else row": TraceError,
    "row if x > 0 else row": TraceError,
    "row if 1.0 in x else row": TraceError,
    "[part.sum() for part in x][0] + row": TraceError,
    "torch.unique(x)[t, None]": UnsupportedOp,
    "torch.equal(x, x) * row": UnsupportedOp,
    "torch.atleast_2d(x)[t, :]": UnsupportedOp,
}


@pytest.mark.parametrize("expression", WHOLE)
def test_captured_tensors_are_refused_whole_in_the_same_words(expression: str) -> None:
    """Plain Python computed them all; ``x == 1.0`` was False to the compiler, without a word."""
    compiled, eager = refused(expression, "compiled"), refused(expression, "eager")
    assert type(compiled) is type(eager) is WHOLE[expression]
    if "for part in x" not in expression:
        assert (compiled.constraint, compiled.hint) == (eager.constraint, eager.hint)
    assert isinstance(compiled.where, Location) and isinstance(eager.where, Location)
    assert compiled.where.line == eager.where.line == 4


def test_views_of_the_bits_are_as_wide() -> None:
    compiled, eager = (refused("x.view(torch.int16)[t, :8]", way) for way in ("compiled", "eager"))
    assert compiled.constraint == eager.constraint and "as wide" in str(compiled) and "as wide" in str(eager)


TILES = [
    "torch.fft.fft(row)",
    "torch.linalg.svd(row)[0]",
    "torch.special.zeta(row, 2.0)",
    "row.unique()",
    "row.nonzero()",
    "row.data",
    "row.storage_offset() + row",
    "row.is_contiguous() * row",
    "row.copy_(row)",
    "row.mul_(row)",
    "row.view(torch.int16)",
    "x[t, ::-1]",
    "row[:, ::-1]",
    "row * len(row)",
    "row if 1.0 in row else row",
    "sum(x[0, :]) + row",
    "torch.randperm(8)[None, :] + row",
    "torch.hann_window(8)[None, :] + row",
]


@pytest.mark.parametrize("expression", TILES)
def test_functions_that_tiles_do_not_have_are_refused_in_the_same_words(expression: str) -> None:
    """Plain Python asked torch, which has them."""
    compiled, eager = refused(expression, "compiled"), refused(expression, "eager")
    assert type(compiled) is type(eager)
    assert (compiled.constraint, compiled.hint) == (eager.constraint, eager.hint)


@pytest.mark.parametrize("asked", ["x.is_cuda", "row.is_cuda", "x.get_device()", "row.is_cpu"])
def test_the_device_is_asked_in_host_code(asked: str) -> None:
    compiled, eager = (refused(f"row if {asked} else row", way) for way in ("compiled", "eager"))
    assert (compiled.constraint, compiled.got) == (eager.constraint, eager.got)


TAKEN = {
    "row + x.stride(0) + x.numel() + x.element_size() + x.ndim + x.dim() + len(x)": X + 8 + 64 + 4 + 2 + 2 + 8,
    "row + x.ndimension() + row.ndimension()": X + 4,
    "row.to(x) + row.type_as(x)": X * 2,
    "row + torch.zeros_like(x)[t, :] + x.new_ones(8) + torch.numel(x)": X + 65,
    "torch.nn.functional.embedding(t.index, x)": X,
    "offset(row) + offset.by": X + X[0] * 2,
    "norm(row)": torch.nn.functional.layer_norm(X, (8,)),
    "norm(row) * norm.weight": torch.nn.functional.layer_norm(X, (8,)),
    "x.view(torch.int32)[t, :].view(torch.float32)": X,
    "x.T[:, t].T + x.view(-1)[t.index * 8][:, None]": X + X[:, :1],
    "row + torch.result_type(x, 1).itemsize + x.is_contiguous()": X + 5,
}


@pytest.mark.parametrize("expression", TAKEN)
def test_what_says_of_tensors_what_they_are_is_taken_by_both(expression: str) -> None:
    kernel, out = kernel_of(expression), torch.zeros(8, 8)
    with torch.no_grad():
        kernel.lower((X, out), TARGET)
        kernel.run_eagerly(X, out)
    torch.testing.assert_close(out, TAKEN[expression].detach())


def test_values_are_looked_at_in_plain_python(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = kernel_of("row + 0 * len(f'{x}{row}{row[0, 0]:.2f}{row.tolist()}{row.sum().item()}')")
    out = torch.zeros(8, 8)
    kernel.run_eagerly(X, out)
    assert torch.equal(out, X)


def test_what_is_typed_at_a_breakpoint_is_torchs_own() -> None:
    """A debugger evaluates it in the author's frame."""
    kernel, out = kernel_of("row + eval('x.sum() + torch.fft.fft(row).real.sum()')"), torch.zeros(8, 8)
    kernel.run_eagerly(X, out, config={"block:t": 8})
    torch.testing.assert_close(out, X + X.sum() + torch.fft.fft(X).real.sum())


def test_the_words_are_one() -> None:
    assert refused("x.sum()", "eager").constraint == READ_BY_INDEX
