"""Gathers in registers that Triton must find a layout for: out of one lane, and into one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build, compile_source
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def parts_of_other_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        rows = x[tile, :].cumsum(1)  # which registers alone have: parts of loaded rows are loaded
        a, b, c = torch.split(rows, [5, 30, 1], dim=-1)
        out[tile, :] = torch.cat((c, a * 2, b), dim=-1)
    return out


@tileflow.kernel
def one_of_each_row(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 1, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.gather(x[tile, :], 1, labels[tile, :])
    return out


def test_one_lane_is_a_broadcast_or_a_sum_and_no_gather() -> None:
    x = torch.empty(24, 36, device="meta")
    lowered = parts_of_other_sizes.lower((x,), H200)
    (source,) = lowered.emit(lowered.default)
    assert source.text.count("tl.gather(") == 4  # of six, one reads one lane and one makes one
    build(source, H200)
    lowered = one_of_each_row.lower((x, torch.empty(24, 1, dtype=torch.int64, device="meta")), H200)
    (source,) = lowered.emit(lowered.default)
    assert "tl.gather(" not in source.text
    build(source, H200)


def test_one_of_each_row_is_the_rows_own() -> None:
    x, labels = torch.randn(7, 5), torch.randint(5, (7, 1))
    assert torch.equal(one_of_each_row(x, labels), x.gather(1, labels))


@tileflow.kernel
def normalised(x, weight, bias, groups: int):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :, :] = F.group_norm(x[tile, :, :], groups, weight[:], bias[:])
    return out


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(("rows", "channels", "groups"), [(5, 6, 3), (64, 12, 3), (1, 12, 6)])
def test_a_gather_of_fewer_elements_than_threads_compiles(rows: int, channels: int, groups: int, warps: int) -> None:
    """Triton's pass of layouts ended with an error: a group's mean goes back to its channels by such a gather."""
    x, weight = torch.empty(rows, channels, 8, device="meta"), torch.empty(channels, device="meta")
    lowered = normalised.lower((x, weight, weight, groups), H200)
    config = lowered.space.repair(lowered.default.with_({"num_warps": warps}))
    for source in lowered.emit(config):
        assert "tl.gather" in source.code
        assert build(source, H200).resources.registers > 0


@tileflow.kernel
def rolled_states(x: torch.Tensor, turns: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        state = x[i, :]
        for _ in range(turns):
            state = torch.logaddexp(state, torch.roll(state, 1, 0))
        out[i, :] = state
    return out


def test_computed_places_are_no_secret_of_the_compiler() -> None:
    """Ptxas made wrong code of one warp's shuffles where LLVM knew the places; no CPU can show that."""
    x = torch.empty(64, 81, device="meta")
    lowered = rolled_states.lower((x, 400), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    (line,) = [line for line in source.text.splitlines() if "tl.gather(" in line]
    assert "opaque(" in line
    assert compile_source(source, target("nvidia-h200")).code[:4] == b"\x7fELF"
