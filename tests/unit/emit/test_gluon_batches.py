"""Attention whose author left the heads of a tile to a knob: with one head, the warp-specialised text of one head."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


def _attention(q: Any, k: Any, v: Any, out: Any, th: Any, tm: Any, causal: bool) -> None:
    query = q[th, tm, :]
    top, total = tfl.full([th, tm], float("-inf")), tfl.zeros([th, tm])
    acc = tfl.zeros([th, tm, q.size(2)])
    for tn in tfl.tile(tm.end if causal else k.size(1)):
        s = torch.bmm(query, k[th, tn, :].transpose(1, 2)).float() * (1 / math.sqrt(q.size(2)))
        if causal:
            s = torch.where(tm.index[:, None] >= tn.index[None, :], s, float("-inf"))
        new = torch.maximum(top, s.amax(-1))
        p, shrink = torch.exp(s - new[:, :, None]), torch.exp(top - new)
        total = total * shrink + p.sum(-1)
        acc = acc * shrink[:, :, None] + torch.bmm(p.to(v.dtype), v[th, tn, :])
        top = new
    out[th, tm, :] = (acc / total[:, :, None]).to(out.dtype)


@tileflow.kernel
def several_heads(q, k, v, causal: bool):
    out = torch.empty_like(q)
    for th, tm in tfl.tile([q.size(0), q.size(1)]):
        _attention(q, k, v, out, th, tm, causal)
    return out


@tileflow.kernel
def one_head(q, k, v, causal: bool):
    out = torch.empty_like(q)
    for th, tm in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
        _attention(q, k, v, out, th, tm, causal)
    return out


def inputs(length: int, d: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty(32, length, d, dtype=torch.bfloat16, device="meta") for _ in range(3))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "d"), [(4096, 128), (6000, 64)])
def test_one_of_several_heads_is_one_head(length: int, d: int, causal: bool, mode: str) -> None:
    """It had no schedule: 0.5 to 0.9 of the speed."""
    texts = []
    for name, kernel in (("several_heads", several_heads), ("one_head", one_head)):
        lowered = kernel.lower((*inputs(length, d), causal), H200, mode=mode)
        texts.append([_body(source.text.replace(name, "attention")) for source in lowered.emit(lowered.default)])
        assert lowered.default["schedule"] == "warp_specialised" or mode == "dynamic"
    assert texts[0] == texts[1]


def _body(text: str) -> list[str]:
    """The lines without those that count heads."""
    of_heads = ("th_", "BLOCK_TH", "    rows = ", "    tiles = ", "    tm_begin = ", "#")
    return [line for line in text.splitlines() if line and not any(word in line for word in of_heads)]


def test_several_heads_are_pipelined() -> None:
    lowered = several_heads.lower((*inputs(4096, 128), True), H200)
    two = lowered.space.repair(lowered.space.normalise(lowered.default.with_({"block:th": 2})))
    assert two["block:th"] == 1 or two["schedule"] == "pipelined"
    rng = random.Random(0)
    for config in (lowered.space.sample(rng) for _ in range(40)):
        assert config["schedule"] == "pipelined" or config["block:th"] == 1
