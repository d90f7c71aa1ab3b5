"""Host code that asks about its device, on one: lowered without data, and called."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import device_kernels

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120)]


def test_each_way_to_ask() -> None:
    x = torch.randn(100_000, device="cuda")
    is_hopper = torch.cuda.get_device_capability() == (9, 0)
    for _ in range(2):  # compiled, then served by what is kept of that
        assert torch.equal(device_kernels.on_gpu_alone(x), 2 * x)
        out, again = device_kernels.made_on_gpu(x)
        assert torch.equal(out, 2 * x) and torch.equal(again, (x + 1).double())
        assert torch.equal(device_kernels.by_multiprocessors(x), 2 * x)
        found = device_kernels.by_architecture(x)
        torch.testing.assert_close(found, torch.exp(x) if is_hopper else torch.sin(x))


def test_a_kernel_that_was_called_is_called_by_another_ones_host_code() -> None:
    """What is kept of its calls on a GPU serves none without data."""
    x = torch.randn(100_000, device="cuda")
    assert torch.equal(device_kernels.on_gpu_alone(x), 2 * x)
    assert torch.equal(device_kernels.calls_another(x), 2 * x + 1)
