"""The references of attention's gallery kernels against torch's autograd."""

from __future__ import annotations

import pytest
import torch

from examples.attention import backward_reference, reference


@pytest.mark.parametrize("causal", [False, True])
def test_the_backward_reference_is_the_gradient(causal: bool) -> None:
    q, k, v, grad = (torch.randn(2, 3, 7, 16, dtype=torch.float64) for _ in range(4))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(reference(*leaves, causal), leaves, grad)
    out, lse = reference(q, k, v, causal, with_lse=True)
    for got, gradient in zip(backward_reference(q, k, v, out, lse, grad, causal), wanted, strict=True):
        torch.testing.assert_close(got, gradient)
