"""The order of programs that choose from one tensor by loaded numbers."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


@tileflow.kernel
def by_expert(x, w, expert):
    t, d = x.size(0), w.size(1)
    out = torch.empty(t, d, device=x.device)
    for tt, td in tfl.tile([t, d], block_size=[1, None]):
        out[tt.id, td] = (w[expert[tt.id], td, :] * x[tt.id, :]).sum(1)
    return out


@tileflow.kernel
def by_token(x, w, expert):
    t, d = x.size(0), w.size(1)
    out = torch.empty(t, d, device=x.device)
    for tt, td in tfl.tile([t, d], block_size=[1, None]):
        out[tt.id, td] = (w[tt.id, td, :] * x[expert[tt.id], :]).sum(1)
    return out


def _order(kernel: tileflow.Kernel, tokens: int, experts: int) -> object:
    like = torch.empty(tokens, 1024, device="meta"), torch.empty(experts, 2048, 1024, device="meta")
    lowered = kernel.lower((*like, torch.empty(tokens, dtype=torch.int32, device="meta")), H100)
    return lowered.default["order"]


@pytest.mark.parametrize(
    ("tokens", "experts", "order"),
    [(128, 64, "1,0"), (128, 4, "0,1"), (48, 64, "0,1")],  # 4 are 32 MB, which the cache holds; of 48 few are of one
)
def test_tokens_of_one_part_of_all_experts_are_beside_each_other(tokens: int, experts: int, order: str) -> None:
    assert _order(by_expert, tokens, experts) == order


def test_what_no_other_program_reads_stays() -> None:
    assert _order(by_token, 64, 64) == "0,1"
