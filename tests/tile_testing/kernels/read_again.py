"""Kernels that read the rows which their products take once more."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def kept_queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Queries are read in front of the loop, for what a turn multiplies by, and after it."""
    m, d = q.shape
    out = torch.empty_like(q)
    for tile_m in tfl.tile(m):
        query = q[tile_m, :]
        halved = 0.5 * query
        loudest = torch.amax(query.abs(), dim=1)
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(k.size(0)):
            weights = torch.relu(tfl.dot(query, k[tile_n, :].T)) * loudest[:, None]
            acc = tfl.dot(weights.to(v.dtype), v[tile_n, :], acc=acc)
        out[tile_m, :] = query + halved * acc
    return out


def kept_queries_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = q.float(), k.float(), v.float()
    return q + 0.5 * q * ((torch.relu(q @ k.T) * q.abs().amax(1, keepdim=True)) @ v)


@tileflow.kernel
def gated_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A gated layer with its own rows added: two products of the rows, whose blocks are read along the loop."""
    m, d = q.shape
    out = torch.empty_like(q)
    for tile_m in tfl.tile(m):
        rows = q[tile_m, :]
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(k.size(0)):
            gate, up = tfl.dot(rows, k[tile_n, :].T), tfl.dot(rows, v[tile_n, :].T)
            acc = tfl.dot((torch.sigmoid(gate) * up).to(v.dtype), v[tile_n, :], acc=acc)
        out[tile_m, :] = rows + acc
    return out


def gated_rows_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = q.float(), k.float(), v.float()
    return q + (torch.sigmoid(q @ k.T) * (q @ v.T)) @ v


TAKEN: dict[str, tuple[Any, Any]] = {
    "two products": (kept_queries, kept_queries_reference),
    "three products": (gated_rows, gated_rows_reference),
}
