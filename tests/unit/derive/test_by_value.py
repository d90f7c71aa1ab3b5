"""Derived backward passes whose text follows from what an int argument holds."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def by_an_int(x: torch.Tensor, n: int) -> torch.Tensor:
    out = x.new_empty(x.size(0), 3)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :] * x[tile, :]
        if n > 2:
            row = torch.sin(row)
        out[tile, :] = row[:, n : n + 3]
    return out


def test_an_int_that_device_code_asks_has_a_backward_for_each_value() -> None:
    """The first call's branch and places were those of later calls."""
    backward, x = tileflow.derive_backward(by_an_int), torch.randn(5, 9)
    for n in (1, 4, 3, 1):
        own = x.clone().requires_grad_()
        square = own * own
        result = (torch.sin(square) if n > 2 else square)[:, n : n + 3]
        grad = torch.randn_like(result)
        (wanted,) = torch.autograd.grad(result, own, grad)
        torch.testing.assert_close(backward.run_eagerly(x, n, grad), wanted)
