"""Stacks of tensors by their addresses (issue 14), through the interpreter, eagerly, and built for each kind of GPU."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import CallError, ShapeError, TraceError
from tileflow.target import target

KERNELS = path_of("stack_kernels")
CASES = load_module(KERNELS).CASES
H200 = target("nvidia-h200")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_kernel_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


@pytest.mark.parametrize("gpu", ["nvidia-a100", "nvidia-h200", "nvidia-b200", "amd-mi300x"])
@pytest.mark.parametrize("name", ["masked", "stored_and_read_back", "of_bools"])
def test_each_builds(name: str, gpu: str) -> None:
    lowered = CASES[name].kernel.lower(CASES[name].args, target(gpu))
    assert all(build(source, lowered.target) for source in lowered.emit(lowered.default))


# ---- what is no stack ---------------------------------------------------------------------------

POINTERS, ROW = torch.zeros(3, dtype=torch.int64), torch.zeros(37)


@tileflow.kernel
def of_a_whole_tensor(pointers: torch.Tensor, like: torch.Tensor) -> None:
    for tile in tfl.tile(like.size(0)):
        like[tile] = tfl.stacktensor_like(like, pointers)[tile].sum(0)


@tileflow.kernel
def of_floats(pointers: torch.Tensor, like: torch.Tensor) -> None:
    for tile in tfl.tile(like.size(0)):
        like[tile] = tfl.stacktensor_like(like, like[0:2])[tile].sum(0)


@tileflow.kernel
def like_a_tile(pointers: torch.Tensor, like: torch.Tensor) -> None:
    for tile in tfl.tile(like.size(0)):
        like[tile] = tfl.stacktensor_like(like[tile], pointers[:])[tile].sum(0)


@tileflow.kernel
def another_shape(pointers: torch.Tensor, like: torch.Tensor) -> None:
    for tile in tfl.tile(like.size(0)):
        tfl.stacktensor_like(like, pointers[:])[tile] = tfl.zeros([2, 3, tile])


@tileflow.kernel
def in_host_code(pointers: torch.Tensor, like: torch.Tensor) -> None:
    stack = tfl.stacktensor_like(like, pointers)
    for tile in tfl.tile(like.size(0)):
        like[tile] = stack[tile].sum(0)


@pytest.mark.parametrize(
    ("kernel", "error", "says"),
    [
        (of_a_whole_tensor, TraceError, r"a tile of int64 or uint64.*load them: pointers\[:\]"),
        (of_floats, TraceError, "a tile of int64 or uint64, but got tile float32"),
        (like_a_tile, TraceError, "example is a tensor that the kernel captures"),
        (another_shape, ShapeError, r"broadcasts to the stack's dimensions and the index's, but got \[2, 3"),
        (in_host_code, CallError, "works inside a @tileflow.kernel function only"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_refused(kernel: tileflow.Kernel, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"(?s){says}"):
        kernel.lower((POINTERS, ROW), H200)
