"""Kernels with a loop of gradients: one whose heads share keys, and those that are refused."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from examples.attention import LOG2_E

Tensors = tuple[torch.Tensor, ...]


def inputs(heads: int, m: int, n: int, d: int, groups: int = 1, device: str = "cpu") -> Tensors:
    """Queries and gradients of ``heads`` heads, keys and values of a ``groups``-th of them, and two numbers a query."""
    q, grad_out = (torch.randn(heads, m, d, dtype=torch.bfloat16, device=device) for _ in range(2))
    k, v = (torch.randn(heads // groups, n, d, dtype=torch.bfloat16, device=device) for _ in range(2))
    lse2 = 4 + torch.rand(heads, m, device=device)
    return q, k, v, grad_out, lse2, torch.randn(heads, m, device=device)


@tileflow.kernel
def shared_keys(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad_out: torch.Tensor, lse2: torch.Tensor, delta: torch.Tensor
) -> torch.Tensor:
    """The gradient of queries, of which several heads share one of keys."""
    heads, m, d = q.shape
    n, group = k.size(1), heads // k.size(0)
    grad_q = torch.empty_like(q)
    for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
        query, grad = q[head.begin, tile_m, :], grad_out[head.begin, tile_m, :]
        row_lse, row_delta = lse2[head.begin, tile_m][:, None], delta[head.begin, tile_m][:, None]
        total = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(n):
            key, value = k[head.begin // group, tile_n, :], v[head.begin // group, tile_n, :]
            weights = torch.exp2(tfl.dot(query, key.T) * (LOG2_E / 8) - row_lse)
            inner = weights * (tfl.dot(grad, value.T) - row_delta)
            total = tfl.dot(inner.to(key.dtype), key, acc=total)
        grad_q[head.begin, tile_m, :] = total
    return grad_q


def shared_keys_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, grad_out: torch.Tensor, lse2: torch.Tensor, delta: torch.Tensor
) -> torch.Tensor:
    group = q.size(0) // k.size(0)
    q, k, v, grad_out = (x.float() for x in (q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0), grad_out))
    weights = torch.exp(q @ k.mT / 8 - lse2[..., None] * math.log(2))
    return (weights * (grad_out @ v.mT - delta[..., None])) @ k


def _around(body: Any) -> Any:
    """A kernel around the turn ``body(query, grad, key, value, total)``, which gives the new sums."""

    @tileflow.kernel
    def made(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        grad_out: torch.Tensor,
        lse2: torch.Tensor,
        delta: torch.Tensor,
    ) -> torch.Tensor:
        heads, m, d = q.shape
        grad_q = torch.empty_like(q)
        for head, tile_m in tfl.tile([heads, m], block_size=[1, None]):
            query, grad = q[head.begin, tile_m, :], grad_out[head.begin, tile_m, :]
            total = tfl.zeros([tile_m, d])
            for tile_n in tfl.tile(k.size(1)):
                total = body(query, grad, k[head.begin, tile_n, :], v[head.begin, tile_n, :], total)
            grad_q[head.begin, tile_m, :] = total
        return grad_q

    return made


def _by_each_other(query: Any, grad: Any, key: Any, value: Any, total: Any) -> Any:
    weights = tfl.dot(query, key.T) * tfl.dot(grad, value.T)
    return tfl.dot(weights.to(key.dtype), key, acc=total)


by_each_other = _around(_by_each_other)  # of a form that is taken: nothing is computed from the first score alone


def _transposed(query: Any, grad: Any, key: Any, value: Any, total: Any) -> Any:
    """Scores whose rows are the turn's: the sums' operand would have to be transposed."""
    weights = tfl.dot(key, query.T) * tfl.dot(value, grad.T)
    return tfl.dot(weights.T.to(key.dtype), key, acc=total)


def _over_rows(query: Any, grad: Any, key: Any, value: Any, total: Any) -> Any:
    weights = tfl.dot(query, key.T) * tfl.dot(grad, value.T)
    weights = weights - torch.amax(weights, dim=0)[None, :]
    return tfl.dot(weights.to(key.dtype), key, acc=total)


def _rescaled(query: Any, grad: Any, key: Any, value: Any, total: Any) -> Any:
    weights = tfl.dot(query, key.T) * tfl.dot(grad, value.T)
    return tfl.dot(weights.to(key.dtype), key, acc=total * 0.5)


def _four(query: Any, grad: Any, key: Any, value: Any, total: Any) -> Any:
    weights = tfl.dot(query, key.T) * tfl.dot(grad, value.T) * tfl.dot(query, value.T)
    return tfl.dot(weights.to(key.dtype), key, acc=total)


REFUSED = {
    "the rows that a program holds are loaded before the loop": _around(_transposed),
    "no reduction goes over the queries' rows": _around(_over_rows),
    "nothing but its product adds to a sum or reads it": _around(_rescaled),
    "a turn has up to 2 products of boxes": _around(_four),
}
