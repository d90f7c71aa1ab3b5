"""The next word, 2024 to 2026: surprise that is held, marks that a tournament leaves, top choices that are left out."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def race(*shape: int) -> torch.Tensor:
    return torch.empty(shape).exponential_().clamp(min=1e-10)


def make_mirostat(b: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    return (3 * randn(b, vocabulary)).to(dtype), race(b, vocabulary), 4 + 4 * torch.rand(b), 5.0, 0.1


def mirostat_ref(logits: Any, noise: Any, mu: Any, tau: float, eta: float) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    log_p = logits.to(wide).log_softmax(1)
    best = log_p.argmax(1, keepdim=True)
    keep = (-log_p / math.log(2) <= mu[:, None]).scatter(1, best, True)
    token = torch.where(keep, log_p - noise.log(), -torch.inf).argmax(1)
    kept = torch.where(keep, log_p.exp(), 0).sum(1)
    seen = (kept.log() - log_p.gather(1, token[:, None])[:, 0]) / math.log(2)
    mu.copy_(mu - eta * (seen - tau))
    return token, mu, keep.sum(1)


@stranger(
    make_mirostat,
    mirostat_ref,
    {"b": 5, "vocabulary": 203},
    {"b": 64, "vocabulary": 128256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def mirostat_sample(logits, noise, mu, tau: float, eta: float):
    """Basu and others, 2021 (Mirostat 2, as llama.cpp has it): words that surprise too much are out; a bound moves."""
    b, vocabulary = logits.shape
    token = torch.empty(b, dtype=torch.int64, device=logits.device)
    kept = torch.empty(b, dtype=torch.int64, device=logits.device)
    for tb in tfl.tile(b):
        log_p = torch.log_softmax(logits[tb, :].float(), dim=-1)
        best = log_p.argmax(-1)
        keep = -log_p / math.log(2) <= mu[tb][:, None]
        keep = keep | (tfl.arange(vocabulary)[None, :] == best[:, None])
        found = torch.where(keep, log_p - torch.log(noise[tb, :]), float("-inf")).argmax(-1)
        left = torch.where(keep, torch.exp(log_p), 0.0).sum(-1)
        own = torch.gather(log_p, 1, found[:, None]).squeeze(1)
        seen = (torch.log(left) - own) / math.log(2)
        mu[tb] = mu[tb] - eta * (seen - tau)
        token[tb] = found
        kept[tb] = keep.sum(-1)
    return token, mu, kept


def make_tournament(b: int, words: int, depth: int, dtype: torch.dtype = torch.float32) -> Any:
    return (
        (2 * torch.randn(b, words)).to(dtype),
        torch.stack([torch.randperm(256000)[:words] for _ in range(b)]),
        torch.randint(-(1 << 62), 1 << 62, (b,)),
        torch.randint(1, 1 << 30, (depth,)),
        torch.rand(b) < 0.8,
        1.2,
    )


def tournament_ref(logits: Any, word: Any, context: Any, key: Any, fresh: Any, temperature: float) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    before = (logits.to(wide) / temperature).softmax(1)
    p, times, plus = before, 6364136223846793005, 1
    hashed = (context[:, None] + word) * times + plus
    for depth in range(key.numel()):
        bit = (((hashed + key[depth]) * times + plus) >> 30 & 1).to(wide)
        p = p * (1 + bit - (bit * p).sum(1, keepdim=True))
    p = torch.where(fresh[:, None], p, before)
    return p, (p * p).sum(1)


@stranger(
    make_tournament,
    tournament_ref,
    {"b": 4, "words": 57, "depth": 30},
    {"b": 256, "words": 4096, "depth": 30, "dtype": torch.bfloat16},
)
@tileflow.kernel
def tournament_watermark(logits, word, context, key, fresh, temperature: float):
    """Dathathri and others, 2024 (SynthID-Text): thirty rounds of a tournament by hashed bits, as one distribution."""
    b, words = logits.shape
    marked = torch.empty(b, words, device=logits.device)
    collision = torch.empty(b, device=logits.device)
    for tb in tfl.tile(b):
        before = torch.softmax(logits[tb, :].float() / temperature, dim=-1)
        hashed = (context[tb][:, None] + word[tb, :]) * 6364136223846793005 + 1
        p = before
        for depth in range(key.size(0)):
            bit = (((hashed + key[depth]) * 6364136223846793005 + 1) >> 30) & 1
            p = p * (1 + bit - (bit * p).sum(-1, keepdim=True))
        p = torch.where(fresh[tb][:, None], p, before)
        marked[tb, :] = p
        collision[tb] = (p * p).sum(-1)
    return marked, collision


def make_top_out(b: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    ends = torch.randint(0, vocabulary, (3,))
    return (4 * randn(b, vocabulary)).to(dtype), race(b, vocabulary), torch.rand(b), ends, 1.0, 0.1, 0.5, 0.8


def top_out_ref(
    logits: Any, noise: Any, coin: Any, ends: Any, sigmas: float, threshold: float, chance: float, temperature: float
) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    row = logits.to(wide) / temperature
    row = row.masked_fill(row < row.amax(1, keepdim=True) - sigmas * row.std(1, keepdim=True), -torch.inf)
    p = row.softmax(1)
    high = p >= threshold
    least = torch.where(high, p, torch.inf).amin(1, keepdim=True)
    out = high & (p > least)
    is_end = torch.isin(torch.arange(logits.size(1)), ends)
    acts = (coin < chance) & ~(out & is_end).any(1)
    row = row.masked_fill(out & acts[:, None], -torch.inf)
    return (row - noise.log()).argmax(1), torch.where(acts, out.sum(1), 0).int()


@stranger(
    make_top_out,
    top_out_ref,
    {"b": 7, "vocabulary": 151},
    {"b": 64, "vocabulary": 128256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def exclude_top_choices(
    logits, noise, coin, ends, sigmas: float, threshold: float, chance: float, temperature: float
):  # fmt: skip
    """Tang and others, 2024 (top n sigma), then Weidmann, 2024 (XTC): at times all likely words but one are out."""
    b, vocabulary = logits.shape
    token = torch.empty(b, dtype=torch.int64, device=logits.device)
    removed = torch.empty(b, dtype=torch.int32, device=logits.device)
    for tb in tfl.tile(b):
        row = logits[tb, :].float() / temperature
        floor = row.amax(-1, keepdim=True) - sigmas * row.std(-1, keepdim=True)
        row = row.masked_fill(row < floor, float("-inf"))
        p = torch.softmax(row, -1)
        high = p >= threshold
        least = torch.where(high, p, float("inf")).amin(-1, keepdim=True)
        out = high & (p > least)
        is_end = torch.isin(tfl.arange(vocabulary), ends[:])
        acts = (coin[tb] < chance) & ~(out & is_end[None, :]).any(-1)
        row = torch.where(out & acts[:, None], float("-inf"), row)
        token[tb] = (row - torch.log(noise[tb, :])).argmax(-1)
        removed[tb] = torch.where(acts, out.sum(-1), 0)
    return token, removed
