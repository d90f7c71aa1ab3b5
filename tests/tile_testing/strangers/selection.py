"""Counting, choosing, searching, distances."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_keys(n: int, bins: int) -> tuple[Any, ...]:
    return torch.rand(n), bins


def counted(x: Any, bins: int) -> torch.Tensor:
    return torch.bincount((x * bins).long().clamp(max=bins - 1), minlength=bins).int()


@stranger(make_keys, counted, {"n": 211, "bins": 13}, {"n": 1 << 26, "bins": 256})
@tileflow.kernel
def histogram(x, bins):
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    for tile in tfl.tile(x.size(0)):
        where = (x[tile] * bins).to(torch.int32).clamp(max=bins - 1)
        tfl.atomic_add(out, [where], 1)
    return out


def make_logits(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), -torch.log(-torch.log(torch.rand(m, n).clamp(1e-6, 1 - 1e-6)))


def gumbel(logits: Any, noise: Any) -> torch.Tensor:
    return (logits + noise).argmax(1)


@stranger(make_logits, gumbel, {"m": 13, "n": 37}, {"m": 2048, "n": 128256})
@tileflow.kernel
def gumbel_argmax(logits, noise):
    """A sample of softmax(logits), by blocks of a row."""
    m, n = logits.shape
    out = torch.empty(m, dtype=torch.int64, device=logits.device)
    for rows in tfl.tile(m):
        best, where = tfl.full([rows], float("-inf")), tfl.zeros([rows], dtype=torch.int64)
        for columns in tfl.tile(n):
            values = logits[rows, columns] + noise[rows, columns]
            top = values.amax(1)
            place = torch.argmax(values, 1) + columns.begin
            where = torch.where(top > best, place, where)
            best = torch.maximum(best, top)
        out[rows] = where
    return out


def make_row(m: int, n: int, k: int) -> tuple[Any, ...]:
    return torch.stack([torch.randperm(n).float() for _ in range(m)]), k


def thresholded(x: Any, k: int) -> torch.Tensor:
    return torch.where(x >= x.topk(k, 1).values[:, -1:], x, 0.0)


@stranger(make_row, thresholded, {"m": 5, "n": 37, "k": 7}, {"m": 4096, "n": 8192, "k": 64})
@tileflow.kernel
def keep_largest(x, k):
    """The k largest of each row stay; found by bisection of the threshold."""
    out = torch.empty_like(x)
    for rows in tfl.tile(x.size(0)):
        row = x[rows, :]
        low, high = row.amin(1), row.amax(1) + 1.0
        for _ in range(30):
            middle = (low + high) * 0.5
            enough = (row >= middle[:, None]).sum(1) >= k
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        out[rows, :] = torch.where(row >= low[:, None], row, 0.0)
    return out


def make_sorted(n: int, m: int) -> tuple[Any, ...]:
    return torch.rand(n).sort().values, torch.rand(m), n.bit_length()


def searched(edges: Any, x: Any, steps: int) -> torch.Tensor:
    return torch.searchsorted(edges, x).int()


@stranger(make_sorted, searched, {"n": 29, "m": 101}, {"n": 1 << 16, "m": 1 << 24})
@tileflow.kernel
def binary_search(edges, x, steps):
    n = edges.size(0)
    out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
    for tile in tfl.tile(x.size(0)):
        low, high = tfl.zeros([tile], dtype=torch.int32), tfl.full([tile], n, dtype=torch.int32)
        for _ in range(steps):
            middle = (low + high) // 2
            before = edges[torch.clamp(middle, max=n - 1)] < x[tile]
            going = low < high
            low, high = torch.where(going & before, middle + 1, low), torch.where(going & ~before, middle, high)
        out[tile] = low
    return out


def make_points(m: int, n: int, d: int) -> tuple[Any, ...]:
    return randn(m, d), randn(n, d)


def nearest(x: Any, centres: Any) -> tuple[Any, Any]:
    found = torch.cdist(x, centres).square().min(1)
    return found.values, found.indices


@stranger(make_points, nearest, {"m": 37, "n": 11, "d": 5}, {"m": 1 << 18, "n": 512, "d": 32})
@tileflow.kernel
def nearest_centre(x, centres):
    """One step of k-means."""
    m = x.size(0)
    far, which = torch.empty(m, device=x.device), torch.empty(m, dtype=torch.int64, device=x.device)
    for rows in tfl.tile(m):
        best, place = tfl.full([rows], float("inf")), tfl.zeros([rows], dtype=torch.int64)
        for others in tfl.tile(centres.size(0)):
            gap = x[rows, :][:, None, :] - centres[others, :][None, :, :]
            apart = (gap * gap).sum(2)
            low, at = apart.min(1)
            place = torch.where(low < best, at + others.begin, place)
            best = torch.minimum(best, low)
        far[rows], which[rows] = best, place
    return far, which


def make_boxes(n: int) -> tuple[Any, ...]:
    corner = torch.rand(n, 2) * 10
    return (torch.cat([corner, corner + torch.rand(n, 2) * 5 + 0.1], 1),)


def overlaps(boxes: Any) -> torch.Tensor:
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return both / (area[:, None] + area[None, :] - both)


@stranger(make_boxes, overlaps, {"n": 37}, {"n": 8192})
@tileflow.kernel
def box_overlaps(boxes):
    """Intersection over union of all pairs."""
    n = boxes.size(0)
    out = torch.empty(n, n, device=boxes.device)
    for a, b in tfl.tile([n, n]):
        width = torch.minimum(boxes[a, 2][:, None], boxes[b, 2][None, :]) - torch.maximum(
            boxes[a, 0][:, None], boxes[b, 0][None, :]
        )
        height = torch.minimum(boxes[a, 3][:, None], boxes[b, 3][None, :]) - torch.maximum(
            boxes[a, 1][:, None], boxes[b, 1][None, :]
        )
        both = torch.relu(width) * torch.relu(height)
        area_a = (boxes[a, 2] - boxes[a, 0]) * (boxes[a, 3] - boxes[a, 1])
        area_b = (boxes[b, 2] - boxes[b, 0]) * (boxes[b, 3] - boxes[b, 1])
        out[a, b] = both / (area_a[:, None] + area_b[None, :] - both)
    return out


def make_flags(m: int, n: int) -> tuple[Any, ...]:
    return randn(m, n), torch.rand(m, n) > 0.5


def compacted(x: Any, keep: Any) -> tuple[Any, Any]:
    out = torch.zeros_like(x)
    for i in range(x.size(0)):
        kept = x[i][keep[i]]
        out[i, : len(kept)] = kept
    return out, keep.sum(1).int()


@stranger(make_flags, compacted, {"m": 7, "n": 37}, {"m": 8192, "n": 4096})
@tileflow.kernel
def compact_rows(x, keep):
    """What is kept of each row moves to its front."""
    m = x.size(0)
    out, counts = torch.zeros_like(x), torch.empty(m, dtype=torch.int32, device=x.device)
    for rows in tfl.tile(m):
        kept = keep[rows, :].to(torch.int32)
        place = torch.cumsum(kept, 1) - 1
        tfl.store(out, [rows.index[:, None], place], x[rows, :], extra_mask=keep[rows, :])
        counts[rows] = kept.sum(1)
    return out, counts
