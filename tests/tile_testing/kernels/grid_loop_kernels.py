"""Kernels around whose products there are loops that are axes of the grid, with what they must give: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case
HEADS = tuple(rand(2, 3, 70, 16, seed=seed) for seed in range(3))


def attended(q, k, v):
    return torch.softmax(q @ k.mT * 0.1, -1) @ v


@case(rand(3, 40, 48), rand(3, 48, 20, seed=1), wanted=torch.matmul, m=16, n=16, k=16)
@tileflow.kernel
def products(x, w):
    out = x.new_empty(x.size(0), x.size(1), w.size(2))
    for b in tfl.grid(x.size(0)):
        for m, n in tfl.tile([x.size(1), w.size(2)]):
            sums = torch.zeros(m, n)
            for k in tfl.tile(x.size(2)):
                sums += x[b, m, k] @ w[b, k, n]
            out[b, m, n] = sums
    return out


def one_head(q, k, v, rows):
    queries = q[rows, :]
    sums, weight = torch.zeros(rows, v.shape[1]), torch.zeros(rows)
    most = torch.full([rows], float("-inf"))
    for keys in tfl.tile(k.shape[0]):
        scores = (queries @ k[keys, :].T).float() * 0.1
        new = torch.maximum(most, scores.amax(1))
        shares, scale = torch.exp(scores - new[:, None]), torch.exp(most - new)
        weight = weight * scale + shares.sum(1)
        sums = sums * scale[:, None] + shares.to(v.dtype) @ v[keys, :]
        most = new
    return sums / weight[:, None]


@case(*HEADS, wanted=attended, rows=16, keys=32)
@tileflow.kernel
def by_tiles_of_one(q, k, v):
    out = torch.empty_like(q)
    for b, h, rows in tfl.tile(q.shape[:3], block_size=[1, 1, None]):
        i, j = b.begin, h.id
        out[b, h, rows, :] = one_head(q[i, j], k[i, j], v[i, j], rows)
    return out


@case(*HEADS, wanted=attended, rows=16, keys=32)
@tileflow.kernel
def by_loops(q, k, v):
    out = torch.empty_like(q)
    for b, h in tfl.grid(q.shape[:2]):
        for rows in tfl.tile(q.size(2)):
            out[b, h, rows] = one_head(q[b, h], k[b, h], v[b, h], rows)
    return out


@case(*HEADS, wanted=attended, rows=16)
@tileflow.kernel
def by_whole_rows(q, k, v):
    out = torch.empty_like(q)
    for b, h in tfl.grid(q.shape[:2]):
        for rows in tfl.tile(q.size(2)):
            shares = torch.softmax((q[b, h, rows] @ k[b, h].T).float() * 0.1, -1)
            out[b, h, rows] = shares.to(v.dtype) @ v[b, h]
    return out


@case(*HEADS, wanted=attended, rows=16, keys=32)
@tileflow.kernel
def by_batches(q, k, v):
    out = torch.empty_like(q)
    for b, h, rows in tfl.tile(q.shape[:3], block_size=[1, 1, None]):
        queries = q[b, h, rows, :]
        sums, weight = torch.zeros(b, h, rows, v.shape[3]), torch.zeros(b, h, rows)
        most = torch.full([b, h, rows], float("-inf"))
        for keys in tfl.tile(k.size(2)):
            scores = (queries @ k[b, h, keys, :].mT).float() * 0.1
            new = torch.maximum(most, scores.amax(-1))
            shares, scale = torch.exp(scores - new[..., None]), torch.exp(most - new)
            weight = weight * scale + shares.sum(-1)
            sums = sums * scale[..., None] + shares.to(v.dtype) @ v[b, h, keys, :]
            most = new
        out[b, h, rows, :] = sums / weight[..., None]
    return out
