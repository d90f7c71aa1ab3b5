"""What a tensor says of itself in device code: its device is where tiles are made, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.target import target

Tensor = torch.Tensor


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda x: x.device.type == "cuda", "device.type"),
        (lambda x: x.device.index is None, "device.index"),
        (lambda x: x.device == torch.device("cuda"), "whether device is another"),
        (lambda x: x.device != "cpu", "whether device is another"),
        (lambda x: str(x.device) == "cpu", r"str\(device\)"),
        (lambda x: f"{x.device}" == "cpu", "the text of device"),
        (lambda x: {"cpu": 1}.get(x.device, 0) == 1, r"hash\(device\)"),
        (lambda x: x.is_cuda, "is_cuda"),
        (lambda x: x.is_cpu or x.is_meta, "is_cpu"),
        (lambda x: x.get_device() == 0, r"get_device\(\)"),
    ],
)
@pytest.mark.parametrize("of_tile", [False, True])
def test_which_device_a_call_is_on_is_refused(asked: Callable[[Any], bool], words: str, of_tile: bool) -> None:
    """It was the meta device of the lowering, so that a branch for a GPU was left out of the GPU's code."""

    @tileflow.kernel
    def on_a_gpu(x: Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            if asked(x[tile] if of_tile else x):
                x[tile] = x[tile] * 2
            x[tile] = x[tile] + 1

    with pytest.raises(TraceError, match=f"asked in host code, but got {words} of a tensor in a tile loop"):
        on_a_gpu.lower((torch.empty(8, device="meta"),), target("nvidia-h200"))


@tileflow.kernel
def made_there(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        v = x[tile]
        assert x.device == y.device and v.device == x.device and isinstance(x.device, torch.device)
        a = torch.zeros([tile], device=v.device) + torch.full_like(v, 1.0, device=x.device) + v.to(x.device)
        a = a + v.new_ones([tile], device=y.device) + torch.arange(4, device=x.device).sum()
        out[tile] = a + v.to(device=x.device, dtype=torch.float64).to(torch.float32) + v.to(y.device, torch.float32)
    return out


def test_a_device_says_where_tiles_are_made() -> None:
    x = torch.ones(8)
    lowered = made_there.lower((x.to("meta"), x.to("meta")), target("nvidia-h200"))
    assert lowered.emit(lowered.default)
    torch.testing.assert_close(made_there.run_eagerly(x, x), x * 11)


@tileflow.kernel
def made_where_host_code_says(x: Tensor) -> Tensor:
    device, made = x.device, {"device": x.device, "dtype": torch.float32}
    out = torch.empty_like(x, device=device)
    for tile in tfl.tile(x.size(0)):
        v = x[tile]
        assert v.device == device and isinstance(device, torch.device)
        out[tile] = v.to(device) + torch.arange(4, device=device).sum() + torch.zeros([tile], **made)
    return out


def test_a_device_that_host_code_found_is_no_condition_of_a_launch() -> None:
    """The lowering's, which is meta, was one, so that code that was compiled ahead ran on no device."""
    x = torch.ones(8)
    lowered = made_where_host_code_says.lower((x,), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    assert "device" not in str(source.guards)
    torch.testing.assert_close(made_where_host_code_says.run_eagerly(x), x * 7)


def test_which_device_host_code_found_is_asked_there() -> None:
    @tileflow.kernel
    def on_a_gpu(x: Tensor) -> None:
        device = x.device
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile] * (2 if device.type == "cuda" else 3)

    with pytest.raises(TraceError, match=r"asked in host code, but got device\.type"):
        on_a_gpu.lower((torch.empty(8),), target("nvidia-h200"))
