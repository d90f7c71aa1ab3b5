"""The types that the op table gives: those of torch itself, on the same operands."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.kernels.compiler_pointwise import BINARY, TERNARY, UNARY
from tile_testing.traced import traced

from tileflow.errors import KernelError

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")
NUMBERS = (2, -3, 0.5, True)
# broadcast against (3, 5), a prime for each size
SHAPES = ((3, 5), (5,), (3, 1), (1, 5), ())


def check(expression: str, **operands: Any) -> None:
    """The same dtype and shape as torch's, wherever torch takes the operands; a tile may take more."""
    try:
        wanted = eval(expression, {"torch": torch, "F": F, **operands})
    except (RuntimeError, TypeError, ValueError, IndexError):
        return
    got = traced(expression, operands)
    assert (got.dtype, tuple(got.shape)) == (wanted.dtype, tuple(wanted.shape)), expression


def ones(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.ones(shape, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype: str) -> None:
    for expression in UNARY:
        check(expression, a=ones(dtype, (3, 5)))


@settings(max_examples=600)
@given(
    st.sampled_from(BINARY + TERNARY),
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.sampled_from(SHAPES),
    st.sampled_from(SHAPES),
)
def test_binary(expression: str, left: str, right: str, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    a, b = ones(left, shape), ones(right, other)
    check(expression, a=a, b=b)


@settings(max_examples=300)
@given(st.sampled_from([e for e in BINARY if e[2] in "+-*/%<>=!&|^"]), st.sampled_from(DTYPES), st.sampled_from(SHAPES),
       st.sampled_from(NUMBERS), st.booleans())  # fmt: skip
def test_numbers_are_weak(expression: str, dtype: str, shape: tuple[int, ...], number: Any, flipped: bool) -> None:
    tile = ones(dtype, shape)
    check(expression, **({"a": number, "b": tile} if flipped else {"a": tile, "b": number}))


SHAPED = (
    "a.sum()", "a.sum(0)", "a.sum(1, keepdim=True)", "a.sum((0, 1))", "a.mean(-1)", "a.amax(0)", "a.any(1)", "a.all()",
    "a.prod(1)", "torch.argmax(a, 1)", "a.max(1).values", "a.max(dim=1)[1]", "a.min()", "a.var(1)", "torch.std(a, 1)",
    "torch.var_mean(a, 1)[1]", "torch.logsumexp(a, 1)", "torch.softmax(a, 1)", "F.log_softmax(a, dim=0)",
    "a.norm(dim=1)",
    "a.T", "a.mT", "a.t()", "a.transpose(0, 1)", "a.permute(1, 0)", "a.unsqueeze(1)", "a[:, None]", "a[None, :, :]",
    "a[..., None]", "a.unsqueeze(0).squeeze(0)", "a.squeeze()", "a.reshape(8, 4)", "a.reshape(-1)", "a.view(2, 2, -1)",
    "a.flatten()", "a.expand(3, 4, 8)", "a[:, None].expand(-1, 3, -1)",
    "a.unsqueeze(0).expand(5, -1, 8)", "a.broadcast_to(2, 4, 8)", "a + a.T.reshape(4, 8)", "a @ a.T",
    "torch.mm(a, a.T)",
    "torch.matmul(a[None], a.T)", "F.linear(a, a)", "a.expand_as(a[None])", "a.new_zeros(3)", "a.new_full((2, 3), 1)",
    "torch.zeros_like(a)", "torch.empty_like(a)", "a.swapaxes(0, 1)", "torch.arange(4, dtype=torch.int32)[:, None] + a",
    "torch.zeros(4, 1) * a", "torch.full((8,), 2.5) * a", "torch.ones(4, 8, dtype=torch.int32) + a",
    "torch.stack([a, a])", "torch.stack([a, a, a], 1)", "torch.stack((a, a, a, a), dim=-1)", "torch.cat([a, a])",
    "torch.cat([a, a, a], 1)", "torch.cat((a, a.half()), dim=-1)", "a.chunk(2, 1)[0]", "torch.chunk(a, 4)[1]",
    "a.split(2)[0]", "torch.split(a, [4, 4], 1)[1]", "a.unbind(0)[1]",
    "torch.unbind(a[:, None].expand(-1, 3, -1), 1)[2]",
    "a.repeat_interleave(2, 1)", "torch.repeat_interleave(a, 4, dim=0)", "a.repeat_interleave(2)", "a[0]", "a[:, 1]",
    "a[-1, None]", "a[..., 3]", "a[1, 2]", "torch.gather(a, 1, a.long())", "a.gather(0, a.int())",
    "a.unflatten(1, (2, -1))", "a.movedim(0, 1)", "torch.movedim(a[None], (0, 1), (2, 0))", "a.ravel()",
    "a.view_as(a.reshape(8, 4))", "torch.broadcast_tensors(a, a[0])[1]", "a[None].mT", "a.swapdims(0, 1)",
    "F.layer_norm(a, (8,))", "F.rms_norm(a, (8,))", "F.normalize(a, dim=1)",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("expression", SHAPED)
def test_shapes(expression: str, dtype: str) -> None:
    check(expression, a=ones(dtype, (4, 8)))


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("a - a", "bool"), ("a & 1", "float32"), ("~a", "float16"), ("a << 1", "float32"), ("a.mean(1)", "int32"),
        ("-a", "bool"), ("a.sum(3)", "float32"), ("a.permute(0, 0)", "float32"), ("a.reshape(5, 5)", "float32"),
        ("a.unsqueeze(4)", "float32"), ("a.expand(3, 8)", "float32"), ("a @ a", "float32"),
        ("a @ a.T.double()", "float32"), ("a + a.T", "float32"), ("F.rms_norm(a, (4,))", "float32"),
        ("torch.linalg.norm(a, 3)", "float32"), ("a.to(3.0)", "float32"), ("a.view(torch.int16)", "float32"),
        ("torch.fft.fft(a)", "float32"), ("a.nonsense()", "float32"), ("a[a:2]", "float32"), ("a[5]", "float32"),
        ("a[None].t()", "float32"),
        ("torch.stack([a, a.T])", "float32"), ("torch.cat([a, a[0]])", "float32"),
        ("torch.gather(a, 1, a.int()[0])", "float32"), ("torch.gather(a, 1, a)", "float32"), ("a[a > 0]", "float32"),
    ],
)  # fmt: skip
def test_refused(expression: str, dtype: str) -> None:
    """What torch refuses, and what registers cannot hold, with an error of ours."""
    with pytest.raises(KernelError):
        traced(expression, {"a": ones(dtype, (4, 8))})
