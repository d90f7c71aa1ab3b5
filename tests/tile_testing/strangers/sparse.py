"""Products with sparse matrices."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_csr(m: int, n: int, most: int, k: int | None = None) -> tuple[Any, ...]:
    counts = torch.randint(0, most + 1, (m,))
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    total = int(starts[-1])
    columns = torch.randint(0, n, (total,), dtype=torch.int32)
    return starts, columns, randn(total), randn(n) if k is None else randn(n, k)


def csr_product(starts: Any, columns: Any, values: Any, x: Any) -> torch.Tensor:
    rows = torch.repeat_interleave(torch.arange(len(starts) - 1, device=x.device), starts.diff().long())
    picked = x[columns.long()] * (values[:, None] if x.ndim == 2 else values)
    return x.new_zeros(len(starts) - 1, *x.shape[1:]).index_add(0, rows, picked)


@stranger(make_csr, csr_product, {"m": 13, "n": 31, "most": 9}, {"m": 65536, "n": 65536, "most": 128})
@tileflow.kernel
def csr_vector(starts, columns, values, x):
    out = torch.empty(starts.size(0) - 1, device=x.device)
    for row in tfl.grid(starts.size(0) - 1):
        total = 0.0
        for part in tfl.tile(starts[row], starts[row + 1]):
            total += (values[part] * x[columns[part]]).sum()
        out[row] = total
    return out


@stranger(make_csr, csr_product, {"m": 13, "n": 31, "most": 9, "k": 19}, {"m": 16384, "n": 16384, "most": 64, "k": 128})
@tileflow.kernel
def csr_matrix(starts, columns, values, x):
    m, k = starts.size(0) - 1, x.size(1)
    out = torch.empty(m, k, device=x.device)
    for row, tile_k in tfl.tile([m, k], block_size=[1, None]):
        acc = tfl.zeros([tile_k])
        for part in tfl.tile(starts[row.begin], starts[row.begin + 1]):
            acc += (values[part][:, None] * x[columns[part], tile_k]).sum(0)
        out[row.begin, tile_k] = acc
    return out


def make_ell(m: int, n: int, width: int) -> tuple[Any, ...]:
    columns = torch.where(torch.rand(m, width) < 0.3, -1, torch.randint(0, n, (m, width)))
    return columns, randn(m, width), randn(n)


def ell_product(columns: Any, values: Any, x: Any) -> torch.Tensor:
    return torch.where(columns >= 0, values * x[columns.clamp(min=0)], 0.0).sum(1)


@stranger(make_ell, ell_product, {"m": 21, "n": 17, "width": 7}, {"m": 262144, "n": 262144, "width": 64})
@tileflow.kernel
def ell_vector(columns, values, x):
    """Rows of one width, -1 where there is nothing."""
    out = torch.empty(columns.size(0), device=x.device)
    for rows in tfl.tile(columns.size(0)):
        where = columns[rows, :]
        picked = x[torch.where(where >= 0, where, 0)]
        out[rows] = torch.where(where >= 0, values[rows, :] * picked, 0.0).sum(1)
    return out


def make_blocks(rows: int, columns: int, each: int, size: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    where = torch.stack([torch.randperm(columns)[:each] for _ in range(rows)]).int()
    return where, randn(rows, each, size, size, dtype=dtype), randn(columns * size, k, dtype=dtype)


def block_product(where: Any, blocks: Any, x: Any) -> torch.Tensor:
    size = blocks.size(2)
    parts = x.unflatten(0, (-1, size))[where.long()]
    return torch.einsum("rbij,rbjk->rik", blocks.float(), parts.float()).flatten(0, 1).to(x.dtype)


@stranger(make_blocks, block_product, {"rows": 3, "columns": 4, "each": 2, "size": 16, "k": 21},
          {"rows": 64, "columns": 64, "each": 8, "size": 64, "k": 4096, "dtype": torch.bfloat16})  # fmt: skip
@tileflow.kernel
def block_sparse(where, blocks, x):
    rows, each, size, _ = blocks.shape
    out = torch.empty(rows * size, x.size(1), dtype=x.dtype, device=x.device)
    for row, tile_k in tfl.tile([rows, x.size(1)], block_size=[1, None]):
        acc = tfl.zeros([size, tile_k])
        for j in range(each):
            begin = where[row.begin, j] * size
            part = x[begin + tfl.arange(size), tile_k]
            acc = tfl.dot(blocks[row.begin, j, :, :], part, acc=acc)
        out[row.begin * size + tfl.arange(size), tile_k] = acc
    return out


def make_sampled(m: int, n: int, d: int, count: int) -> tuple[Any, ...]:
    return torch.randint(0, m, (count,)), torch.randint(0, n, (count,)), randn(m, d), randn(n, d)


def sampled(rows: Any, columns: Any, x: Any, y: Any) -> torch.Tensor:
    return (x[rows] * y[columns]).sum(1)


@stranger(make_sampled, sampled, {"m": 11, "n": 7, "d": 19, "count": 41},
          {"m": 65536, "n": 65536, "d": 128, "count": 1 << 20})  # fmt: skip
@tileflow.kernel
def sampled_product(rows, columns, x, y):
    """The entries of x @ y.T at given places."""
    out = torch.empty(rows.size(0), device=x.device)
    for tile in tfl.tile(rows.size(0)):
        out[tile] = (x[rows[tile], :] * y[columns[tile], :]).sum(1)
    return out
