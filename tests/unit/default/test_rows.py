"""First configs of whole rows and columns: read once, or again, or scanned."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def sums_of_exponentials(x):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = torch.logsumexp(x[rows, :].float(), -1)
    return out


@tileflow.kernel
def variances(x):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = torch.var(x[rows, :].float(), -1)
    return out


@pytest.mark.parametrize(("kernel", "blocks"), [(sums_of_exponentials, (0, 8192)), (variances, (0, 0))])
def test_a_row_that_a_loop_reads_once_is_a_loop(kernel: tileflow.api.Kernel, blocks: tuple[int, int]) -> None:
    """32768 numbers in bfloat16: 102 us in one piece, and 68; of variances 75 in one piece, and 85."""
    found = []
    for columns in (16384, 32768):
        config = kernel.lower((torch.empty(4096, columns, dtype=torch.bfloat16, device="meta"),), H200).default
        found.append(next(v for k, v in config.items if k.startswith("reduce:")))
    assert tuple(found) == blocks


@tileflow.kernel
def running_sums(x):
    out = torch.empty_like(x)
    for columns in tfl.tile(x.size(1)):
        out[:, columns] = x[:, columns].cumsum(0)
    return out


@pytest.mark.parametrize(("rows", "columns", "block", "warps"), [(1024, 8192, 16, 4), (4096, 4096, 8, 8)])
def test_a_lane_scans_much_of_a_column(rows: int, columns: int, block: int, warps: int) -> None:
    """8 and 32 warps took 31 and 123 us where these take 27 and 81."""
    found = running_sums.lower((torch.empty(rows, columns, device="meta"),), H200).default
    assert (found["block:columns"], found["num_warps"]) == (block, warps)


@tileflow.kernel
def gaps_of_pairs(x, y):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        gaps = x[rows, :][:, :, None] - y[rows, :][:, None, :]
        out[rows] = (gaps * torch.tanh(gaps)).sum(2).sum(1)
    return out


@pytest.mark.parametrize(("length", "looped"), [(64, (0, 0)), (200, (0, 1))])
def test_of_all_pairs_of_two_long_rows_one_is_a_loop(length: int, looped: tuple[int, int]) -> None:
    """Both were whole, 65536 pairs a program: losses of 200 x 200 quantiles took 12.7 ms, by a loop 0.55 (H100)."""
    args = tuple(torch.empty(4096, length, device="meta") for _ in range(2))
    config = gaps_of_pairs.lower(args, H200).default.to_dict()
    assert tuple(sorted(int(v) for name, v in config.items() if name.startswith("reduce:"))) == looped


@tileflow.kernel
def channel_norm(x):
    out = torch.empty_like(x)
    for images, pixels in tfl.tile([x.size(0), x.size(2)]):
        value = x[images, :, pixels].float()
        out[images, :, pixels] = (value - value.mean(1, keepdim=True)) * torch.rsqrt(value.var(1, keepdim=True) + 1e-6)
    return out


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((64, 96, 12544), (64, 2)),  # with weights 167 us by four warps of half the block, 108 so
        ((64, 8, 12544), None),  # a lane has a whole column
        ((1, 96, 1024), None),  # too few programs
    ],
)
def test_short_columns_have_few_warps(shape: tuple[int, ...], wanted: tuple[int, int] | None) -> None:
    config = channel_norm.lower((torch.empty(shape, dtype=torch.float16, device="meta"),), H200).default
    found = config["block:pixels"], config["num_warps"]
    assert found == wanted if wanted else found[1] != 2


@tileflow.kernel
def between_keys(keys, at, when):
    """Four numbers of each craft, at times that are looked up among the keys'."""
    out = torch.empty(keys.size(0), when.numel(), 4, device=keys.device)
    for craft, times in tfl.tile([keys.size(0), when.numel()]):
        t = when[times]
        place = torch.clamp(torch.searchsorted(at[:], t), 1, keys.size(1) - 1)
        weight = ((t - at[place - 1]) / (at[place] - at[place - 1]))[None, :, None]
        out[craft, times, :] = torch.lerp(keys[craft, place - 1, :], keys[craft, place, :], weight)
    return out


def test_a_tile_has_its_own_whole_dimensions_beside_its_blocks() -> None:
    """The 48 keys beside the times counted for the 4 numbers of each craft too: 64 numbers for 128 threads, 415 us in
    place of 76 where the four are turned (an H200 and an H100, 2026-11-28)."""
    args = tuple(torch.empty(*shape, device="meta") for shape in ((256, 48, 4), (48,), (16384,)))
    config = between_keys.lower(args, H200).default
    stored = config["block:craft"] * config["block:times"] * 4
    assert stored >= 2 * 32 * config["num_warps"]
