"""Sequences of many lengths, graphs, and bags."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def starts_of(count: int, most: int) -> torch.Tensor:
    lengths = torch.randint(0, most + 1, (count,))
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()


def make_rows(count: int, most: int, n: int) -> tuple[Any, ...]:
    starts = starts_of(count, most)
    return randn(int(starts[-1]), n), starts


def each(x: Any, starts: Any, function: Any, empty: float) -> torch.Tensor:
    bounds = starts.tolist()
    rows = [function(x[a:b]) if b > a else x.new_full(x.shape[1:], empty) for a, b in pairwise(bounds)]
    return torch.stack(rows)


SMALL, LARGE = {"count": 9, "most": 11, "n": 19}, {"count": 4096, "most": 512, "n": 128}


@stranger(make_rows, lambda x, starts: each(x, starts, lambda part: part.amax(0), float("-inf")), SMALL, LARGE)
@tileflow.kernel
def segment_max(x, starts):
    count, n = starts.size(0) - 1, x.size(1)
    out = torch.empty(count, n, device=x.device)
    for segment, columns in tfl.tile([count, n], block_size=[1, None]):
        top = tfl.full([columns], float("-inf"))
        for rows in tfl.tile(starts[segment.begin], starts[segment.begin + 1]):
            top = torch.maximum(top, x[rows, columns].amax(0))
        out[segment.begin, columns] = top
    return out


def make_scores(count: int, most: int) -> tuple[Any, ...]:
    starts = starts_of(count, most)
    return randn(int(starts[-1])), starts


def softmax_by_segment(x: Any, starts: Any) -> torch.Tensor:
    bounds = starts.tolist()
    return torch.cat([torch.softmax(x[a:b], 0) for a, b in pairwise(bounds)])


@stranger(make_scores, softmax_by_segment, {"count": 9, "most": 11}, {"count": 8192, "most": 1024})
@tileflow.kernel
def segment_softmax(x, starts):
    """Over the edges of each node, as graph attention has it (arXiv:1710.10903)."""
    out = torch.empty_like(x)
    for segment in tfl.grid(starts.size(0) - 1):
        begin, end = starts[segment], starts[segment + 1]
        top, total = float("-inf"), 0.0
        for part in tfl.tile(begin, end):
            high = max(top, x[part].amax())
            total = total * torch.exp(top - high) + torch.exp(x[part] - high).sum()
            top = high
        for part in tfl.tile(begin, end):
            out[part] = torch.exp(x[part] - top) / total
    return out


def padded(x: Any, starts: Any, most: int) -> torch.Tensor:
    out = x.new_zeros(starts.size(0) - 1, most, x.size(1))
    for i, (a, b) in enumerate(pairwise(starts.tolist())):
        out[i, : b - a] = x[a:b]
    return out


def make_padded(count: int, most: int, n: int) -> tuple[Any, ...]:
    return *make_rows(count, most, n), most


@stranger(make_padded, padded, SMALL, LARGE)
@tileflow.kernel
def jagged_to_dense(x, starts, most):
    count, n = starts.size(0) - 1, x.size(1)
    out = torch.empty(count, most, n, device=x.device)
    for i, rows, columns in tfl.tile([count, most, n], block_size=[1, None, None]):
        begin, end = starts[i.begin], starts[i.begin + 1]
        there = begin + rows.index < end
        values = tfl.load(x, [begin + rows.index, columns], extra_mask=there[:, None])
        out[i.begin, rows, columns] = torch.where(there[:, None], values, 0.0)
    return out


def make_graph(nodes: int, most: int, n: int) -> tuple[Any, ...]:
    starts = starts_of(nodes, most)
    return randn(nodes, n), starts, torch.randint(0, nodes, (int(starts[-1]),))


def gathered(x: Any, starts: Any, neighbours: Any) -> torch.Tensor:
    return each(x[neighbours], starts, lambda part: part.mean(0), 0.0)


@stranger(make_graph, gathered, {"nodes": 13, "most": 7, "n": 19}, {"nodes": 65536, "most": 32, "n": 128})
@tileflow.kernel
def neighbour_mean(x, starts, neighbours):
    """GraphSAGE's aggregation (arXiv:1706.02216)."""
    nodes, n = starts.size(0) - 1, x.size(1)
    out = torch.empty(nodes, n, device=x.device)
    for node, columns in tfl.tile([nodes, n], block_size=[1, None]):
        begin, end = starts[node.begin], starts[node.begin + 1]
        total = tfl.zeros([columns])
        for edges in tfl.tile(begin, end):
            total += x[neighbours[edges], columns].sum(0)
        out[node.begin, columns] = total / max(end - begin, 1)
    return out


def make_bags(words: int, n: int, bags: int, size: int) -> tuple[Any, ...]:
    return randn(words, n), torch.randint(0, words, (bags, size)), torch.rand(bags, size)


def bagged(table: Any, words: Any, weights: Any) -> torch.Tensor:
    return (table[words] * weights[..., None]).sum(1)


@stranger(make_bags, bagged, {"words": 23, "n": 19, "bags": 11, "size": 5},
          {"words": 1 << 17, "n": 128, "bags": 16384, "size": 50})  # fmt: skip
@tileflow.kernel
def weighted_bags(table, words, weights):
    out = torch.empty(words.size(0), table.size(1), device=table.device)
    for bags, columns in tfl.tile([words.size(0), table.size(1)]):
        acc = tfl.zeros([bags, columns])
        for j in range(words.size(1)):
            acc = acc + table[words[bags, j], columns] * weights[bags, j][:, None]
        out[bags, columns] = acc
    return out


def make_edges(nodes: int, edges: int, n: int) -> tuple[Any, ...]:
    return randn(nodes, n), torch.randint(0, nodes, (edges,)), torch.randint(0, nodes, (edges,)), torch.rand(edges)


def scattered(x: Any, source: Any, target: Any, weight: Any) -> torch.Tensor:
    return torch.zeros_like(x).index_add(0, target, x[source] * weight[:, None])


@stranger(make_edges, scattered, {"nodes": 13, "edges": 41, "n": 19}, {"nodes": 65536, "edges": 1 << 20, "n": 64})
@tileflow.kernel
def scatter_messages(x, source, target, weight):
    out = torch.zeros_like(x)
    for edges, columns in tfl.tile([source.size(0), x.size(1)]):
        tfl.atomic_add(out, [target[edges], columns], x[source[edges], columns] * weight[edges][:, None])
    return out
