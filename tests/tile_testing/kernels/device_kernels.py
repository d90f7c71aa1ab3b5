"""Kernels whose host code asks about the device of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.cuda import get_device_capability

import tileflow
import tileflow.language as tfl

Tensor = torch.Tensor


@tileflow.kernel
def on_gpu_alone(x: Tensor) -> Tensor:
    """Asserts what launches on a CPU would fail without."""
    assert x.is_cuda and not x.is_cpu and not x.is_meta
    assert x.device.type == "cuda", f"a tensor on {x.device}"
    assert x.get_device() == 0
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out


@tileflow.kernel
def made_on_gpu(x: Tensor) -> tuple[Tensor, Tensor]:
    """Results by every way to say on which device they are made."""
    out, again = torch.empty(x.shape, device="cuda"), torch.zeros(x.shape, device=f"cuda:{x.get_device()}")
    factors = torch.tensor([1.0, 2.0]).to(x.device).cuda()
    with torch.cuda.device(x.device):
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * factors[1]
    for tile in tfl.tile(x.size(0)):
        again[tile] = x[tile] + factors[0]
    return out, again.to("cuda:0", torch.float64)


def _multiprocessors(x: Tensor) -> int:
    return torch.cuda.get_device_properties(x.device).multi_processor_count


@tileflow.kernel
def by_multiprocessors(x: Tensor) -> Tensor:
    """A program for each multiprocessor."""
    out = torch.empty_like(x)
    each = (x.size(0) + _multiprocessors(x) - 1) // _multiprocessors(x)
    for rows in tfl.tile(x.size(0), block_size=each):
        for tile in tfl.tile(rows.begin, rows.end):
            out[tile] = x[tile] * 2
    return out


@tileflow.kernel
def by_architecture(x: Tensor) -> Tensor:
    """Other code on Hopper than elsewhere."""
    out = torch.empty_like(x)
    if torch.cuda.is_available() and torch.cuda.get_device_capability(x.device) == (9, 0):
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.exp(x[tile])
    else:
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.sin(x[tile])
    return out


@tileflow.kernel
def by_memory(x: Tensor) -> Tensor:
    """Asks for what no class of devices says."""
    out = torch.empty_like(x)
    if torch.cuda.get_device_properties(x.device).total_memory > 0:
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile]
    return out


@tileflow.kernel
def calls_another(x: Tensor) -> Tensor:
    """Host code calls a kernel, whose host code asks too."""
    assert x.is_cuda
    twice = on_gpu_alone(x)
    assert twice.is_cuda
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = twice[tile] + 1
    return out


@tileflow.kernel
def by_an_imported_function(x: Tensor) -> Tensor:
    """Asks by a name of its own, which is torch's function in all circumstances."""
    out = torch.empty_like(x)
    each = 32 if get_device_capability(x.device) >= (8, 0) else 16
    for tile in tfl.tile(x.size(0), block_size=each):
        out[tile] = x[tile]
    return out


@tileflow.kernel
def by_free_memory(x: Tensor) -> Tensor:
    """Asks the driver for what changes."""
    out = torch.empty_like(x)
    assert torch.cuda.mem_get_info(x.device)[0] > 0
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile]
    return out


@tileflow.kernel
def orders_its_launches(x: Tensor) -> Tensor:
    """Streams, events and ranges, of which no launch knows."""
    out = torch.empty_like(x)
    side, done = torch.cuda.Stream(), torch.cuda.Event()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.device_of(x), torch.cuda.stream(side), torch.cuda.nvtx.range("out"):
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * 2
    done.record(side)
    torch.cuda.current_stream(x.device).wait_event(done)
    torch.cuda.synchronize()
    return out


@tileflow.kernel
def by_vendor(x: Tensor) -> Tensor:
    """Other code on AMD's GPUs, by each way to ask."""
    out = torch.empty_like(x)
    assert torch.cuda.is_bf16_supported() and torch.accelerator.current_accelerator() == torch.device("cuda")
    if torch.version.hip is not None and not torch.version.cuda:
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.sin(x[tile])
    else:
        assert torch.version.cuda
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.exp(x[tile])
    return out


@tileflow.kernel
def by_version(x: Tensor) -> Tensor:
    """Asks which CUDA torch was built for."""
    out = torch.empty_like(x)
    is_new = torch.version.cuda.split(".") >= ["12"]
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + is_new
    return out


@tileflow.kernel
def by_duration(x: Tensor) -> Tensor:
    """Times a launch."""
    out = torch.empty_like(x)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile]
    end.record()
    assert begin.elapsed_time(end) >= 0
    return out


@tileflow.kernel
def by_index(x: Tensor) -> Tensor:
    """Other code on each GPU."""
    out = torch.empty_like(x)
    assert x.device == torch.device("cuda", x.get_device()) and torch.cuda.current_device() == x.device.index
    if x.device.index == 1:
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.sin(x[tile])
    else:
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.exp(x[tile])
    return out


@tileflow.kernel
def made_in_device_code(x: Tensor) -> Tensor:
    """A tile on the device that host code was told of."""
    out, device = torch.empty_like(x), x.device
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + torch.ones([tile], device=device) + torch.full([tile], 2.0, device=x.device)
    return out


@tileflow.kernel
def sums_by_program(x: Tensor) -> Tensor:
    """A sum for each program, of which there are as many as multiprocessors; with a gradient."""
    assert x.is_cuda
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    each = -(-x.size(0) // programs)
    out = torch.empty(-(-x.size(0) // each), device=x.device)
    for rows in tfl.tile(x.size(0), block_size=each):
        out[rows.id] = (x[rows] * x[rows]).sum()
    return out


# What kernels compute, by their names, wherever they are called.
MEANINGS: dict[str, Callable[[Tensor], Any]] = {
    "on_gpu_alone": lambda x: x * 2,
    "made_on_gpu": lambda x: (x * 2, (x + 1).double()),
    "by_multiprocessors": lambda x: x * 2,
    "by_architecture": torch.exp,
    "calls_another": lambda x: x * 2 + 1,
    "orders_its_launches": lambda x: x * 2,
    "by_vendor": torch.exp,
    "by_index": torch.exp,
    "made_in_device_code": lambda x: x + 3,
}
