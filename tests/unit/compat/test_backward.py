"""``experimental.backward`` of the dialect: gradients, the derived text, and what is refused under its names."""

from __future__ import annotations

import pytest
import torch

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl

Tensor = torch.Tensor


@helion.kernel()
def scaled_rows(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        row = x[tile, :].to(torch.float32)
        scale = torch.rsqrt((row * row).mean(-1, keepdim=True) + eps)
        out[tile, :] = (row * scale * weight[:].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def two_results(x: Tensor) -> tuple[Tensor, Tensor]:
    out, total = torch.empty_like(x), x.new_empty(x.size(0))
    for tile in hl.tile(x.size(0)):
        out[tile, :] = torch.exp(x[tile, :])
        total[tile] = x[tile, :].sum(-1)
    return out, total


@helion.kernel()
def product(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for tile in hl.tile(x.size(0)):
        out[tile] = torch.cumprod(x[tile, :], -1).amax(-1)
    return out


def test_gradients_are_torchs() -> None:
    x, weight = torch.randn(40, 24, requires_grad=True), torch.randn(24, requires_grad=True)
    wanted = torch.nn.functional.rms_norm(x, (24,), weight, 1e-5)
    grad = torch.randn_like(wanted)
    got = helion.experimental.backward(scaled_rows, grad, x, weight, 1e-5)
    torch.testing.assert_close(got, torch.autograd.grad(wanted, (x, weight), grad))


def test_several_results_and_the_generated_code() -> None:
    x = torch.randn(5, 7)
    grads = torch.randn(5, 7), torch.randn(5)
    found, text, triton = helion.experimental.backward(two_results, grads, x, return_code=True)
    torch.testing.assert_close(found, grads[0] * x.exp() + grads[1][:, None])
    assert "def two_results_backward(x, grad_out, grad_total):" in text
    assert "tl.store(grad_x_ptr" in triton


def test_what_is_not_differentiated_is_refused_under_the_dialects_name() -> None:
    with pytest.raises(helion.exc.AutodiffNotSupported, match="of cumulative operations"):
        helion.experimental.backward(product, torch.randn(5), torch.randn(5, 7))
