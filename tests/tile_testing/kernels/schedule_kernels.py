"""Kernels of two chained products: those that have a warp-specialised schedule, and those that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from examples.attention import LOG2_E, absorb

Tensors = tuple[torch.Tensor, ...]


def inputs(heads: int, m: int, n: int, d: int, groups: int = 1, device: str = "cpu") -> Tensors:
    """Queries of ``heads`` heads, keys and values of a ``groups``-th of them."""
    q = torch.randn(heads, m, d, dtype=torch.bfloat16, device=device)
    k, v = (torch.randn(heads // groups, n, d, dtype=torch.bfloat16, device=device) for _ in range(2))
    return q, k, v


def softmax_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None) -> Any:
    group = q.size(0) // k.size(0)
    k, v = (x.repeat_interleave(group, 0).float() for x in (k, v))
    scores = q.float() @ k.mT / math.sqrt(q.size(-1))
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return (torch.softmax(scores, -1) @ v).to(q.dtype)


@tileflow.kernel
def grouped_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Several heads of queries share one of keys; values lie with their columns first."""
    heads, m, d = q.shape
    n, group = k.size(1), heads // k.size(0)
    out = torch.empty_like(q)
    scale = LOG2_E / math.sqrt(d)
    for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
        query = q[head.begin, tile_m, :]
        peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(n):
            scores = tfl.dot(query, k[head.begin // group, tile_n, :].T)
            peak, total, acc = absorb(peak, total, acc, scores, v[head.begin // group, tile_n, :], scale)
        out[head.begin, tile_m, :] = acc / total[:, None]
    return out


@tileflow.kernel
def of_kept_keys(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, kept: torch.Tensor
) -> torch.Tensor:
    """Each turn loads two numbers for each of its keys: what it takes from their scores, and which of them count."""
    heads, m, d = q.shape
    out = torch.empty_like(q)
    scale = LOG2_E / math.sqrt(d)
    for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
        query = q[head.begin, tile_m, :]
        peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(k.size(1)):
            scores = tfl.dot(query, k[head.begin, tile_n, :].T) - decay[head.begin, tile_n][None, :]
            scores = torch.where(kept[tile_n][None, :] > 0, scores, float("-inf"))
            peak, total, acc = absorb(peak, total, acc, scores, v[head.begin, tile_n, :], scale)
        out[head.begin, tile_m, :] = acc / total[:, None]
    return out


def kept_inputs(heads: int, m: int, n: int, d: int, device: str = "cpu") -> Tensors:
    """The first keys are kept, so that no row is empty after a turn."""
    kept = (torch.rand(n, device=device) < 0.7).to(torch.int32).index_fill_(0, torch.arange(4, device=device), 1)
    return *inputs(heads, m, n, d, device=device), 3 * torch.rand(heads, n, device=device), kept


def of_kept_keys_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, kept: torch.Tensor
) -> torch.Tensor:
    scores = (q.float() @ k.float().mT - decay[:, None]) / math.sqrt(q.size(-1))
    return (torch.softmax(scores.masked_fill(kept <= 0, -math.inf), -1) @ v.float()).to(q.dtype)


WINDOW = 128


@tileflow.kernel
def windowed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Each query sees itself and the WINDOW keys before it; weights are capped as some models do."""
    heads, m, d = q.shape
    out = torch.empty_like(q)
    scale = 1 / math.sqrt(d)
    for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
        query = q[head.begin, tile_m, :]
        peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(max(tile_m.begin - WINDOW, 0), tile_m.end):
            scores = 30 * torch.tanh(tfl.dot(query, k[head.begin, tile_n, :].T) * (scale / 30))
            distance = tile_m.index[:, None] - tile_n.index[None, :]
            scores = torch.where((distance >= 0) & (distance <= WINDOW), scores, float("-inf"))
            new = torch.maximum(peak, torch.amax(scores, dim=1))
            base = torch.where(new == float("-inf"), 0.0, new)  # of a row that has seen nothing yet
            weights, shrink = torch.exp(scores - base[:, None]), torch.exp(peak - base)
            acc = tfl.dot(weights.to(v.dtype), v[head.begin, tile_n, :], acc=acc * shrink[:, None])
            peak, total = new, total * shrink + weights.sum(dim=1)
        out[head.begin, tile_m, :] = acc / total[:, None]
    return out


def windowed_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    distance = torch.arange(q.size(1))[:, None] - torch.arange(k.size(1))[None, :]
    scores = 30 * torch.tanh(q.float() @ k.float().mT / math.sqrt(q.size(-1)) / 30)
    scores = scores.masked_fill((distance < 0) | (distance > WINDOW), -math.inf)
    return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


def _refused(body: Any) -> Any:
    """A kernel around the turn ``body(query, key, value, acc)``, which gives the new sums."""

    @tileflow.kernel
    def refused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        heads, m, d = q.shape
        out = torch.empty_like(q)
        for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
            query = q[head.begin, tile_m, :]
            acc = tfl.zeros([tile_m, d])
            for tile_n in tfl.tile(k.size(1)):
                acc = body(query, k[head.begin, tile_n, :], v[head.begin, tile_n, :], acc)
            out[head.begin, tile_m, :] = acc
        return out

    return refused


def _scaled_query(query: Any, key: Any, value: Any, acc: Any) -> Any:
    weights = tfl.dot((query * 0.5).to(query.dtype), key.T)
    return tfl.dot(weights.to(value.dtype), value, acc=acc)


def _scaled_keys(query: Any, key: Any, value: Any, acc: Any) -> Any:
    weights = tfl.dot(query, (key * 0.5).to(key.dtype).T)
    return tfl.dot(weights.to(value.dtype), value, acc=acc)


def _over_rows(query: Any, key: Any, value: Any, acc: Any) -> Any:
    scores = tfl.dot(query, key.T)
    weights = scores - torch.amax(scores, dim=0)[None, :]
    return tfl.dot(weights.to(value.dtype), value, acc=acc)


def _sums_are_read(query: Any, key: Any, value: Any, acc: Any) -> Any:
    scores = tfl.dot(query, key.T) - torch.amax(acc, dim=1)[:, None]
    return tfl.dot(scores.to(value.dtype), value, acc=acc)


def _one_product(query: Any, key: Any, value: Any, acc: Any) -> Any:
    return acc + tfl.dot(query, key.T).sum(dim=1)[:, None]


def _scanned(query: Any, key: Any, value: Any, acc: Any) -> Any:
    scores = torch.cumsum(tfl.dot(query, key.T), dim=1)
    return tfl.dot(scores.to(value.dtype), value, acc=acc)


REFUSED = {
    "its loop has two products": _refused(_one_product),
    "no reduction goes over the queries' rows|reductions are": _refused(_over_rows),
    "no scan": _refused(_scanned),
    "nothing but the second product reads the sums": _refused(_sums_are_read),
    "the keys are loaded as the product takes them": _refused(_scaled_keys),
    "the queries are loaded as the product takes them": _refused(_scaled_query),
}


FUNCTIONS: dict[str, Callable[[Any, float], Any]] = {  # that stand beside a kernel
    "remainder": lambda x, s: x % s,
    "remainder by a power of two": lambda x, s: x % 8,
    "whole quotient": lambda x, s: x // s,
    "quotient cut off": lambda x, s: torch.div(x, s, rounding_mode="trunc"),
    "fmod": torch.fmod,
    "round": lambda x, s: torch.round(x * s),
    "power": lambda x, s: x**s,
}


@tileflow.kernel(reference=lambda f, x, w, s: f(x.float() @ w.float(), s))
def product_with(f, x, w, s: float):
    out = torch.empty(x.size(0), w.size(1), device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = tfl.dot(x[tile_m, tile_k], w[tile_k, tile_n], acc)
        out[tile_m, tile_n] = f(acc, s)
    return out
