"""The order of programs by what the second-level cache keeps of what several of them read."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def _order(kernel: tileflow.Kernel, *shapes: tuple[int, ...], device: str = "nvidia-h100-sxm") -> object:
    tensors = tuple(torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes)
    return kernel.lower(tensors, target(device)).default["order"]


@tileflow.kernel
def best_of_document(q, d):
    out = torch.empty(q.size(0), d.size(0), device=q.device)
    for tq, tn in tfl.tile([q.size(0), d.size(0)], block_size=[1, 1]):
        best = tfl.full([q.size(1)], float("-inf"))
        for ts in tfl.tile(d.size(1)):
            best = torch.maximum(best, tfl.dot(q[tq.id, :, :], d[tn.id, ts, :].T).amax(1))
        out[tq.id, tn.id] = best.sum()
    return out


@pytest.mark.parametrize(
    ("documents", "order"),
    [(2048, "1,0"), (256, "0,1")],  # 94 MB, and 12, which the cache holds
)
def test_what_one_axis_reads_again_and_the_cache_does_not_hold_runs_slowest(documents: int, order: str) -> None:
    assert _order(best_of_document, (8, 32, 128), (documents, 180, 128)) == order


def test_what_is_expanded_lies_in_memory_once() -> None:
    """It was counted as often as it is repeated, so that programs ran as if it filled the cache."""
    queries = torch.empty(8, 32, 128, dtype=torch.bfloat16, device="meta")
    documents = torch.empty(1, 180, 128, dtype=torch.bfloat16, device="meta").expand(2048, -1, -1)
    assert best_of_document.lower((queries, documents), H100).default["order"] == "0,1"


def test_what_is_empty_keeps_the_authors_order() -> None:
    assert _order(best_of_document, (0, 32, 128), (0, 180, 128)) == "0,1"
    assert _order(between_planes, (0, 4096, 4096)) == "0,1,2"


@tileflow.kernel
def between_planes(m):
    out = torch.empty_like(m)
    for tz, ty, tx in tfl.tile(list(m.shape), block_size=[1, 1, None]):
        out[tz, ty, tx] = m[tz - 1, ty, tx] + m[tz + 1, ty, tx] + m[tz, ty, tx]
    return out


@pytest.mark.parametrize(
    ("side", "order"),
    [(4096, "1,0,2"), (1024, "0,1,2")],  # planes of 32 MB, and of 2
)
def test_planes_that_neighbours_read_run_beside_each_other(side: int, order: str) -> None:
    assert _order(between_planes, (16, side, side)) == order
    assert _order(between_planes, (16, side, side), device="amd-mi300x") == "0,1,2"  # not measured there


@tileflow.kernel
def product_of_each_channel(a, b):
    rows, inner, channels = a.shape
    out = torch.empty(rows, b.size(0), channels, device=a.device)
    for tc, ti, tj in tfl.tile([channels, rows, b.size(0)], block_size=[1, None, None]):
        total = tfl.zeros([ti, tj])
        for tk in tfl.tile(inner):
            total = tfl.dot(a[ti, tk, tc.id], b[tj, tk, tc.id].T, acc=total)
        out[ti, tj, tc.id] = total
    return out


@pytest.mark.parametrize(
    ("channels", "order"),
    [(128, "1,0,2"), (1, "0,1,2")],
)
def test_channels_that_share_sectors_run_beside_each_other(channels: int, order: str) -> None:
    assert _order(product_of_each_channel, (512, 512, channels), (512, 512, channels)) == order


@tileflow.kernel
def gathered(table, chosen):
    out = torch.empty(chosen.size(0), chosen.size(1), table.size(1), dtype=table.dtype, device=table.device)
    for tb, tt, tc in tfl.tile([*chosen.shape, table.size(1)], block_size=[1, 1, None]):
        out[tb.id, tt.id, tc] = table[chosen[tb.id, tt.id].int(), tc]
    return out


def test_places_that_numbers_say_are_no_neighbours() -> None:
    assert _order(gathered, (1 << 16, 4096), (64, 4096)) == "0,1,2"
