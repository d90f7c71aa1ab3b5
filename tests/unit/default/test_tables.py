"""First configs of loops that read a small table again, and of gathers whose places are needed twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = "nvidia-h100-sxm"


def stages(kernel: Any, *args: Any, device: str = H100) -> object:
    return kernel.lower(args, target(device)).default["num_stages"]


def of(name: str, device: str = H100) -> object:
    return stages(ALL[name].kernel, *ALL[name].arguments("large", "meta"), device=device)


@tileflow.kernel
def mixed(state: torch.Tensor, kind: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Each lane's row of the table, in each turn another one."""
    out = torch.empty_like(state)
    for t in tfl.tile(state.size(0)):
        x = state[t, :]
        for i in range(kind.size(1)):
            x = torch.tanh(x * 0.5 + table[kind[t, i], :])
        out[t, :] = x
    return out


def of_mixed(lanes: int, rows: int, columns: int = 16, device: str = H100) -> object:
    state = torch.empty(lanes, columns, device="meta")
    kind = torch.empty(lanes, 64, dtype=torch.int32, device="meta")
    return stages(mixed, state, kind, torch.empty(rows, columns, device="meta"), device=device)


@pytest.mark.parametrize("name", ["viterbi", "stage_projection"])
def test_a_table_that_turns_read_again_is_in_the_first_level_cache(name: str) -> None:
    """One matrix in each turn: 565 us loaded ahead past that cache, 349 when it is needed. A matrix for each lane and
    turn (H100)."""
    assert of(name) == 1


def test_rows_of_a_small_table() -> None:
    assert of_mixed(1 << 15, rows=32) == 1
    assert of_mixed(1 << 15, rows=1 << 16) == 6  # 4 MiB stay in no first-level cache
    assert of_mixed(1 << 15, rows=32, columns=2) == 6  # copies of 8 bytes do not pass it by
    assert of_mixed(1 << 8, rows=32) == 6  # few warps wait for what they load
    assert of_mixed(1 << 18, rows=32, device="amd-mi300x") == 2  # nothing was measured there


def test_what_is_moved_out_of_a_loop_decides_nothing() -> None:
    """Triton loads the matrix once, where turns write nothing."""
    assert of("crf_partition") == 3


@tileflow.kernel
def sights(height: torch.Tensor, steps: int) -> torch.Tensor:
    """Without the cell itself, to which the places are compared."""
    h, w = height.shape
    out = torch.empty_like(height)
    for ti, tj in tfl.tile([h, w]):
        worst = tfl.zeros([ti, tj])
        for k in range(1, steps):
            px = torch.round(tj.index.float() * k / steps).long()
            worst = torch.where(px[None, :] == tj.index[None, :], worst, worst * 0.5 + height[ti.index[:, None], px])
        out[ti, tj] = worst
    return out


@tileflow.kernel
def glances(height: torch.Tensor, steps: int) -> torch.Tensor:
    """The same with all cells."""
    h, w = height.shape
    out = torch.empty_like(height)
    for ti, tj in tfl.tile([h, w]):
        worst = tfl.zeros([ti, tj])
        for k in range(1, steps):
            px = torch.round(tj.index.float() * k / steps).long()
            worst = worst * 0.5 + height[ti.index[:, None], px]
        out[ti, tj] = worst
    return out


def test_places_that_are_needed_twice_are_made_in_their_turn() -> None:
    """Five stages ahead, lines of sight keep 80 registers of a thread."""
    assert of("viewshed") == 1
    heights = torch.empty(1024, 1024, device="meta")
    assert (stages(sights, heights, 512), stages(glances, heights, 512)) == (1, 6)
    assert stages(sights, torch.empty(8, 1024, device="meta"), 512) == 6  # few warps wait for what they load
    assert of("viewshed", "amd-mi300x") == 2
