"""The gallery's differentiable functions against torch, and a small model of them compiled whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
from examples import training

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    torch.compiler.reset()
    with tileflow.interpret():
        yield


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


LABELS = torch.tensor([1, -100, 4, 0, 36])
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "rms_norm": (training.rms_norm, lambda x, w: F.rms_norm(x, (37,), w, 1e-5), ((5, 37), (37,))),
    "layer_norm": (training.layer_norm, lambda x, w, b: F.layer_norm(x, (37,), w, b), ((5, 37), (37,), (37,))),
    "softmax": (training.softmax, lambda x: x.softmax(1), ((5, 37),)),
    "swiglu": (training.swiglu, lambda a, b: F.silu(a) * b, ((5, 37), (5, 37))),
    "geglu": (training.geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, ((5, 37), (5, 37))),
    "cross_entropy": (
        lambda x: training.cross_entropy(x, LABELS), lambda x: F.cross_entropy(x, LABELS), ((5, 37),)
    ),
    "attention": (training.attention, F.scaled_dot_product_attention, ((1, 2, 35, 16),) * 3),
    "causal_attention": (
        lambda q, k, v: training.attention(q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((1, 2, 35, 16),) * 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, shapes = CASES[name]
    args = [leaf(*shape) for shape in shapes]
    got, wanted = ours(*args), theirs(*args)
    torch.testing.assert_close(got, wanted)
    grad = torch.randn_like(wanted)
    torch.testing.assert_close(torch.autograd.grad(got, args, grad), torch.autograd.grad(wanted, args, grad))


class Block(torch.nn.Module):
    """A gated layer and a loss."""

    def __init__(self, norm: Callable[..., Any], gate: Callable[..., Any], loss: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(24) + 0.5)
        self.up, self.down = torch.nn.Linear(24, 2 * 32, bias=False), torch.nn.Linear(32, 24, bias=False)
        self.norm, self.gate, self.loss = norm, gate, loss

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        a, b = self.up(self.norm(x, self.weight)).chunk(2, dim=1)
        return self.loss(x + self.down(self.gate(a, b)), labels)


def test_a_model_trains_compiled() -> None:
    torch.manual_seed(0)
    ours = Block(training.rms_norm, training.swiglu, training.cross_entropy)
    theirs = Block(lambda x, w: F.rms_norm(x, (24,), w, 1e-5), lambda a, b: F.silu(a) * b, F.cross_entropy)
    theirs.load_state_dict(ours.state_dict())
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    x, labels = torch.randn(9, 24), torch.randint(0, 24, (9,))
    losses = []
    optimisers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (ours, theirs)]
    for _ in range(3):
        for model, optimiser in zip((compiled, theirs), optimisers, strict=True):
            optimiser.zero_grad()
            losses.append(model(x, labels))
            losses[-1].backward()
            optimiser.step()
    torch.testing.assert_close(losses[::2], losses[1::2])
    assert losses[-2] < losses[0]
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)
