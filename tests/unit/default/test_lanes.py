"""First configs by where lanes lie: along memory where they exchange, alone where each has a row of its own."""

from __future__ import annotations

from typing import Any

import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def lowered(kernel: Any, *args: Any) -> Lowered:
    return kernel.lower(args, H200)  # type: ignore[no-any-return]


def chosen(it: Lowered, *names: str) -> tuple[Any, ...]:
    return tuple(it.default[name] for name in names)


@tileflow.kernel
def gray(x):
    out = torch.empty(x.size(0), x.size(2), device=x.device)
    for b in tfl.grid(x.size(0)):
        for t in tfl.tile(x.size(2)):
            p = x[b, :, t].float()
            out[b, t] = 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]
    return out


def test_chosen_channels_leave_all_warps_along_memory() -> None:
    """A lane has 16 bytes of each of four channels: 128 lanes have 2048 pixels of a byte, 512 of four."""
    it = lowered(gray, meta(256, 3, 50176, dtype=torch.uint8))
    assert chosen(it, "block:t", "num_warps") == (2048, 4)
    it = lowered(gray, meta(256, 3, 50176))
    assert chosen(it, "block:t", "num_warps") == (512, 4)


def test_many_channels_are_exchanged_in_one_warp() -> None:
    yolo = ALL["yolo_decode"]
    args = [a.to("meta") if isinstance(a, torch.Tensor) else a for a in yolo.arguments("large")]
    assert lowered(yolo.kernel, *args).default["num_warps"] == 1


@tileflow.kernel
def discounted(x):
    out = torch.empty(x.size(0), device=x.device)
    for t in tfl.tile(x.size(0)):
        total = tfl.zeros([t])
        for k in range(x.size(1)):
            total = total * 0.9 + x[t, k]
        out[t] = total
    return out


def test_a_lane_has_one_row_and_copies_nothing_ahead() -> None:
    it = lowered(discounted, meta(1 << 20, 256))
    assert chosen(it, "block:t", "num_warps", "num_stages") == (128, 4, 1)
    it = lowered(discounted, meta(4096, 256))
    assert chosen(it, "block:t", "num_warps") == (32, 1)


@tileflow.kernel
def by_columns(x):
    out = torch.empty(x.size(1), device=x.device)
    for t in tfl.tile(x.size(1)):
        total = tfl.zeros([t])
        for k in range(x.size(0)):
            total = total * 0.9 + x[k, t]
        out[t] = total
    return out


def test_lanes_along_memory_load_ahead() -> None:
    assert lowered(by_columns, meta(256, 1 << 20)).default["num_stages"] > 1


@tileflow.kernel
def channel_sums(x):
    out = torch.empty(x.size(1), device=x.device)
    for c in tfl.tile(x.size(1)):
        total = tfl.zeros([c])
        for n, h, w in tfl.tile([x.size(0), x.size(2), x.size(3)]):
            total += x[n, c, h, w].float().sum((0, 2, 3))
        out[c] = total
    return out


def test_channels_across_memory_are_as_many_programs_as_there_are() -> None:
    """A block of 32 of 256 channels had eight programs: 2136 us, and 221 with those of one (both launches, H100)."""
    it = lowered(channel_sums, meta(64, 256, 56, 56, dtype=torch.bfloat16))
    assert chosen(it, "block:c", "block:w") == (1, 64) and it.default["block:h"] > 8


@tileflow.kernel
def group_gradient(x, dy):
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        a, g = x[i, :, :].float(), dy[i, :, :].float()
        mean = a.mean()
        d = a - mean
        s = torch.rsqrt((d * d).mean())
        out[i, :, :] = s * (g - g.mean() - d * s * (g * d).mean() * s)
    return out


def test_rows_beside_others_are_rolled_by_what_they_hold_together() -> None:
    """16 rows of 4096 are no row of 4096: 602 us with 640 bytes spilled, 214 in pieces (H100)."""
    half = meta(1024, 16, 4096, dtype=torch.bfloat16)
    pieces = [v for k, v in lowered(group_gradient, half, half).default.items if k.startswith("reduce:")]
    assert 256 in pieces
    few = meta(1024, 2, 4096, dtype=torch.bfloat16)
    assert {v for k, v in lowered(group_gradient, few, few).default.items if k.startswith("reduce:")} <= {0}


@tileflow.kernel
def whole_rows(x, w):
    out = torch.empty(x.size(0), device=x.device)
    for r in tfl.tile(x.size(0)):
        best = tfl.full([r], float("-inf"))
        for c in tfl.tile(w.size(0)):
            best = torch.maximum(best, (x[r, :] @ w[c, :].T).float().amax(1))
        out[r] = best
    return out


def test_products_of_whole_rows_shrink_before_warps_grow() -> None:
    """32 warps have 64 registers each: 44.5 ms, and 8.5 by eight (arc_face, H100)."""
    x, w = meta(1024, 512, dtype=torch.bfloat16), meta(100000, 512, dtype=torch.bfloat16)
    it = lowered(whole_rows, x, w)
    assert it.default["num_warps"] <= 8 and it.default["block:c"] >= 32
