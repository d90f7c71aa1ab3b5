"""First configs of recurrences and of other loops of few programs, and of blocks beside a short vector of their own."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


@tileflow.kernel
def leaky(drive):
    """A step for each row of the drive."""
    steps, n = drive.shape
    out = torch.empty_like(drive)
    for i in tfl.tile(n):
        v = tfl.zeros([i])
        for t in range(steps):
            v = 0.9 * v + drive[t, i]
            out[t, i] = v
    return out


@tileflow.kernel
def sums_of_columns(x):
    out = torch.empty_like(x[0])
    for columns in tfl.tile(x.size(1), block_size=64):
        total = tfl.zeros([columns])
        for rows in tfl.tile(x.size(0)):
            total = total + x[rows, columns].sum(0)
        out[columns] = total
    return out


@tileflow.kernel
def by_late_steps(x, history):
    out = torch.empty_like(x)
    for tm, tn in tfl.tile([x.size(0), x.size(1)]):
        out[tm, tn] = x[tm, tn] / history[:].amax()
    return out


@tileflow.kernel
def by_a_number(x, history):
    out = torch.empty_like(x)
    for tm, tn in tfl.tile([x.size(0), x.size(1)]):
        out[tm, tn] = x[tm, tn] / history[0]
    return out


def test_programs_that_are_few_have_warps_enough_to_wait_in_turns() -> None:
    """8 warps a multiprocessor of 8 elements a lane: 1.3 to 2.0 times as long (H100)."""

    def warps(n: int) -> int:
        return int(leaky.lower((torch.empty(256, n, device="meta"),), H100).default["num_warps"])

    assert warps(1 << 18) > warps(1 << 24) == 4


def test_loops_of_few_programs_have_more_warps() -> None:
    """Of resampled means 128 programs of four warps took 531 us and of eight 369, of a batch's norms 219 and 117, of an
    expert's queue 760 and 630 (H100). On AMD nothing of it was measured."""

    def warps(columns: int, device: str = "nvidia-h100-sxm") -> int:
        x = torch.empty(4096, columns, device="meta")
        return int(sums_of_columns.lower((x,), target(device)).default["num_warps"])

    assert (warps(64 * 128), warps(64 * 4096), warps(64 * 128, "amd-mi300x")) == (8, 4, 4)


def test_a_short_vector_makes_no_blocks_smaller() -> None:
    """Each element of a block counted sixteen times: blocks of 8 by 32 in place of 32 by 128 (444 us, 103; H100)."""
    args = torch.empty(8192, 8192, dtype=torch.bfloat16, device="meta"), torch.empty(16, device="meta")
    found = [kernel.lower(args, H100).default.to_dict() for kernel in (by_late_steps, by_a_number)]
    blocks = [{name: size for name, size in config.items() if name.startswith("block")} for config in found]
    assert blocks[0] == blocks[1]


def words(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(points, 10, device="meta"), torch.empty(4096, 10, device="meta")


@pytest.mark.parametrize(
    ("points", "device", "turn"), [(8192, "nvidia-h100-sxm", 8), (16384, "nvidia-h100-sxm", 4), (8192, "amd-mi300x", 4)]
)
def test_turns_of_few_warps_are_longer(points: int, device: str, turn: int) -> None:
    """1024 warps for 132 multiprocessors: 577 us by turns of four words, 459 by eight (H100)."""
    found = ALL["hyperbolic_nearest"].kernel.lower(words(points), target(device)).default
    assert (found["block:tm"], found["block:tn"]) == (turn, 32)


def test_turns_that_a_lane_has_no_registers_for_stay() -> None:
    """A lane has 64 elements already: twice as many took 2.2 times as long (`yolo_decode`, H100)."""
    one = ALL["yolo_decode"]
    found = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm")).default
    assert (found["block:tx"], found["num_warps"]) == (16, 1)


@pytest.mark.parametrize(("tokens", "stages"), [(180, 2), (400, 4), (2048, 5)])
def test_a_loop_has_no_more_stages_than_turns(tokens: int, stages: int) -> None:
    """Of 128 tokens each: 399 us in five stages, 244 in two (H100)."""
    with torch.device("meta"):
        args = ALL["max_sim"].make(q=8, t=32, n=2048, s=tokens, c=128)
    found = ALL["max_sim"].kernel.lower(args, target("nvidia-h100-sxm")).default
    assert (found["block:ts"], found["num_stages"]) == (128, stages)


@tileflow.kernel
def turned(x):
    """A size of its tiles is the author's to choose."""
    lanes = tfl.register_tunable("lanes", [1, 2, 4, 8])
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        wide = torch.sin(x[t][:, None] * tfl.full([t, lanes], 1.0))
        out[t] = wide.sum(1) / lanes
    return out


@tileflow.kernel
def handed_on(x):
    lanes = tfl.register_tunable("lanes", [1, 2, 4, 8])
    steps, n = x.shape
    out = torch.empty_like(x[0])
    for t in tfl.tile(n):
        state = tfl.zeros([t, lanes])
        for i in range(steps):
            state = 0.5 * state + x[i, t][:, None]
        out[t] = state.sum(1) / lanes
    return out


@pytest.mark.parametrize("kernel", [turned, handed_on])
def test_a_tile_may_have_a_size_that_is_a_tunable(kernel: tileflow.Kernel) -> None:
    """It ended in a KeyError where a rule counts the tile's elements."""
    shape = (1 << 20,) if kernel is turned else (64, 4096)
    assert kernel.lower((torch.empty(*shape, device="meta"),), H100).default["tunable:lanes"] == 1
