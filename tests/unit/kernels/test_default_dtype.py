"""torch's default dtype, which programs set to half precision while they load models, decides about no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

import tileflow
import tileflow.kernels as ours
from tileflow.kernels import flash

LABELS = torch.arange(4)
TURNS = torch.randn(8, 8), torch.randn(8, 8), torch.arange(8).expand(2, 8)
ROWS, HEADS = (4, 16), (2, 2, 8, 16)

CASES: dict[str, tuple[Callable[..., object], list[tuple[int, ...]]]] = {
    "rms_norm": (ours.rms_norm, [ROWS, (16,)]),
    "add_rms_norm": (ours.add_rms_norm, [ROWS, ROWS, (16,)]),
    "layer_norm": (ours.layer_norm, [ROWS, (16,), (16,)]),
    "add_layer_norm": (ours.add_layer_norm, [ROWS, ROWS, (16,), (16,)]),
    "swiglu": (ours.swiglu, [ROWS, ROWS]),
    "geglu": (ours.geglu, [ROWS, ROWS]),
    "cross_entropy": (lambda x: ours.cross_entropy(x, LABELS, label_smoothing=0.1, softcap=9.0), [ROWS]),
    "cross_entropy of many": (lambda x: ours.cross_entropy(x, LABELS, num_items_in_batch=70_001), [ROWS]),
    "linear_cross_entropy": (lambda x, w: ours.linear_cross_entropy(x, w, LABELS), [ROWS, (20, 16)]),
    "linear_cross_entropy of many": (
        lambda x, w: ours.linear_cross_entropy(x, w, LABELS, num_items_in_batch=70_001),
        [ROWS, (20, 16)],
    ),
    "gated_linear": (ours.gated_linear, [ROWS, (20, 16), (20, 16)]),
    "gated_mlp": (ours.gated_mlp, [ROWS, (20, 16), (20, 16), (16, 20)]),
    "rope": (lambda q, k: ours.rope(q, k, *TURNS), [HEADS, HEADS]),
    "attention": (ours.attention, [HEADS, HEADS, HEADS]),
    "flash": (lambda q, k, v: flash.attention(q.detach(), k.detach(), v.detach(), True, True), [HEADS] * 3),
}


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_the_same_under_each_default_dtype(name: str, dtype: torch.dtype) -> None:
    """Under float16 a loss of 70,001 tokens was 0; attention's backward pass was given rounded logarithms."""
    call, shapes = CASES[name]
    given = [torch.randn(shape) for shape in shapes]

    def made() -> list[torch.Tensor]:
        leaves = [x.clone().requires_grad_() for x in given]
        result = call(*leaves)
        outputs = [result] if isinstance(result, torch.Tensor) else [*result]  # type: ignore[call-overload]
        if not outputs[0].requires_grad:
            return outputs
        grads = torch.autograd.grad(outputs, leaves, [torch.ones_like(x) for x in outputs])
        return [*(x.detach() for x in outputs), *grads]

    with tileflow.interpret():
        wanted = made()
        with default_dtype(dtype):
            found = made()
    for mine, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, exact, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_angles_are_in_single_precision(dtype: torch.dtype) -> None:
    """In bfloat16 those of most positions were others'."""
    wanted = ours.RotaryEmbedding(16, 4096)
    with default_dtype(dtype):
        found = ours.RotaryEmbedding(16, 4096)
    assert torch.equal(found.cos, wanted.cos) and torch.equal(found.sin, wanted.sin)
