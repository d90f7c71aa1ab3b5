"""Copies that programs combine into in a tensor's place: what they begin as, and what the tensor has in the end."""

from __future__ import annotations

import ctypes
import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tile_testing.fakes.drivers import FakeCuda, make_binary

from tileflow.errors import TableError
from tileflow.runtime.abi import Copies, LaunchAbi, LaunchArg
from tileflow.runtime.copies import combine, copies_of
from tileflow.runtime.key_invariants import KeyInvariants
from tileflow.runtime.launch import cuda_launcher

DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.int64)
HOW = {"add": torch.add, "min": torch.minimum, "max": torch.maximum}


@given(
    shape=st.lists(st.integers(1, 4), max_size=3),
    step=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
    dtype=st.sampled_from(DTYPES),
    how=st.sampled_from(sorted(HOW)),
    count=st.integers(2, 5),
)
def test_each_copy_goes_into_the_tensor_once(
    shape: list[int], step: int, order: Any, dtype: torch.dtype, how: Any, count: int
) -> None:
    axes = order.sample(range(len(shape)), len(shape))
    whole = torch.arange(torch.Size([*shape, step]).numel()).to(dtype).reshape([*shape, step])
    tensor = whole[..., 0].permute(axes)
    rest, wanted, copies = whole[..., 1:].clone(), tensor.clone(), Copies(count, how, str(dtype).removeprefix("torch."))
    made = copies_of(tensor, copies)
    assert made.dtype is dtype and made.shape[1] * count == made.numel()
    for n, row in enumerate(made):
        seen = row.as_strided(tensor.shape, tensor.stride(), row.storage_offset())
        HOW[how](seen, tensor.new_full((), 3 * n - 4), out=seen)
        wanted = HOW[how](wanted, wanted.new_full((), 3 * n - 4))
    combine(tensor, made, copies)
    assert torch.equal(tensor, wanted)
    assert torch.equal(whole[..., 1:], rest)


def test_halves_are_summed_in_float32_and_rounded_once() -> None:
    tensor, copies = torch.ones(3, dtype=torch.bfloat16), Copies(2, "add", "float32")
    made = copies_of(tensor, copies)
    assert made.dtype is torch.float32
    made[:, :3] += 0.0015
    combine(tensor, made, copies)
    assert tensor.tolist() == [1.0] * 3
    made[:, :3] += 0.0015
    combine(tensor, made, copies)
    assert tensor.tolist() == [1.0078125] * 3


def test_an_expanded_tensor_has_one_element_for_all() -> None:
    one = torch.ones(1)
    made = copies_of(one.expand(5), Copies(2, "add", "float32"))
    made[:, 0] += 3
    combine(one.expand(5), made, Copies(2, "add", "float32"))
    assert one.item() == 7


def test_tensors_without_elements_and_of_an_inference() -> None:
    empty = torch.zeros(0, 3)
    combine(empty, copies_of(empty, Copies(16, "max", "float32")), Copies(16, "max", "float32"))
    with torch.inference_mode():
        tensor = torch.zeros(3)
    made = copies_of(tensor, Copies(2, "add", "float32"))
    made += 1
    combine(tensor, made, Copies(2, "add", "float32"))
    assert tensor.tolist() == [2, 2, 2]


# ---- launches -------------------------------------------------------------------------------------------------------

SUMS = LaunchArg("y", "tensor", "*fp32", "y", stored=True, copies=Copies(16, "add", "float32"))


class Adding(FakeCuda):
    """A card whose kernel adds 1 to the first two elements of the second copy."""

    def cuLaunchKernel(self, *args: Any) -> Any:
        status = super().cuLaunchKernel(*args)
        memory = (ctypes.c_float * 64).from_address(self.launches[-1].values[0])
        memory[32] += 1
        memory[33] += 1
        return status


def launches(run: str, y: torch.Tensor) -> Adding:
    driver = Adding([ctypes.c_uint64])
    launch: Any = cuda_launcher(make_binary(SUMS), "cpu", driver=driver, stream=lambda: 0)
    if run == "loose":
        assert launch({"y": y}, (0,), (4,)) is True
    else:
        context: Any = SimpleNamespace(launch=None)
        launch.specialize(KeyInvariants(), ("y",), 0)(context, y, 4)
    return driver


@pytest.mark.parametrize("run", ["loose", "keyed"])
def test_a_launch_takes_copies_and_combines_them(run: str) -> None:
    y = torch.arange(4.0)
    driver = launches(run, y)
    assert driver.launches[0].values[0] != y.data_ptr()
    assert (y.tolist(), y._version) == ([1, 2, 2, 3], 1)


@pytest.mark.parametrize("run", ["loose", "keyed"])
def test_autograd_sees_one_write(run: str) -> None:
    weight, y = torch.ones(4, requires_grad=True), torch.arange(4.0)
    loss = (weight * y).sum()
    launches(run, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    leaf = torch.zeros(4, requires_grad=True)
    launches(run, leaf)
    assert leaf.tolist() == [1, 1, 0, 0]


def test_tables_keep_them_for_readers_that_know_them() -> None:
    abi = make_binary(SUMS).abi
    text = json.loads(json.dumps(abi.to_json()))
    assert (text["version"], LaunchAbi.from_json(text)) == (5, abi)
    text["args"][0]["copies"]["how"] = "sub"
    with pytest.raises(TableError):
        LaunchAbi.from_json(text)
    with pytest.raises(TableError, match="only a tensor has copies"):
        LaunchArg("n", "int", "i32", copies=Copies(2, "add", "float32"), value=abi.grid[0]).validate()
