"""Large systems: factors found at once, rows by levels, sparse products, directions, penalties, errors fed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


class Rows(NamedTuple):
    """A sparse matrix by rows: where each begins, the columns and the values."""

    starts: torch.Tensor
    columns: torch.Tensor
    values: torch.Tensor

    def dense(self, width: int) -> torch.Tensor:
        lengths = self.starts.diff().long()
        out = torch.zeros(len(lengths), width, dtype=self.values.dtype)
        out[torch.repeat_interleave(torch.arange(len(lengths)), lengths), self.columns.long()] = self.values
        return out


def banded(n: int, offsets: tuple[int, ...], dtype: torch.dtype) -> Rows:
    """Diagonals of a matrix that its own one outweighs."""
    columns = torch.arange(n)[:, None] + torch.tensor(sorted(offsets))
    inside = (columns >= 0) & (columns < n)
    values = torch.where(torch.tensor(sorted(offsets)) == 0, 4.0 + torch.rand(n, 1), -torch.rand(columns.shape))
    starts = torch.nn.functional.pad(inside.sum(1).cumsum(0), (1, 0))
    return Rows(starts.int(), columns[inside].int(), values[inside].to(dtype))


def make_incomplete(n: int) -> Any:
    side = max(int(n**0.5), 3)
    return banded(n, (-side, -1, 0, 1, side), torch.float64), 4


def incomplete_ref(a: Rows, sweeps: int) -> Any:
    n = len(a.starts) - 1
    rows = torch.repeat_interleave(torch.arange(n), a.starts.diff().long())
    dense = torch.zeros(n, n, dtype=torch.float64)
    dense[rows, a.columns.long()] = a.values
    pattern = torch.zeros(n, n, dtype=torch.bool)
    pattern[rows, a.columns.long()] = True
    lower = torch.where(pattern, dense / dense.diagonal(), 0).tril(-1) + torch.eye(n)
    upper = dense.triu()
    for _ in range(sweeps):
        inner = (lower - torch.eye(n, dtype=torch.float64)) @ upper
        new_upper = torch.where(pattern, dense - inner, 0).triu()
        short = torch.tril(lower, -1) @ upper.triu(1)
        lower = torch.where(pattern, (dense - short) / upper.diagonal(), 0).tril(-1) + torch.eye(n)
        upper = new_upper
    found = lower.tril(-1) + upper
    return found[rows, a.columns.long()]


@stranger(make_incomplete, incomplete_ref, {"n": 23}, {"n": 1 << 20}, loops=True)
@tileflow.kernel
def incomplete_factors(a: Rows, sweeps: int):
    """Chow and Patel, 2015: both factors on the pattern of a matrix, all elements at once in a few sweeps."""
    n = a.starts.size(0) - 1
    total = a.values.size(0)
    owner = torch.empty(total, dtype=torch.int32, device=a.values.device)
    diagonal = torch.empty(n, dtype=torch.int32, device=a.values.device)
    for r in tfl.tile(n):
        first = a.starts[r]
        for k in tfl.jagged_tile(a.starts[r + 1] - first):
            at = first[:, None] + k.index[None, :]
            owner[at] = r.index[:, None].expand_as(at)
            column = a.columns[at]
            tfl.store(diagonal, [column], at, extra_mask=column == r.index[:, None])
    now, after = torch.empty_like(a.values), torch.empty_like(a.values)
    for e in tfl.tile(total):
        row, column = owner[e], a.columns[e]
        pivot = a.values[diagonal[column]]
        now[e] = torch.where(row > column, a.values[e] / pivot, a.values[e])
    for _ in range(sweeps):
        for e in tfl.tile(total):
            row, column = owner[e], a.columns[e]
            last = torch.minimum(row, column)
            acc = a.values[e]
            i, end = a.starts[row], a.starts[row + 1]
            while ((i < end) & (a.columns[i] < last)).any():
                middle = a.columns[i]
                ours = (i < end) & (middle < last)
                first, stop = a.starts[middle], a.starts[middle + 1]
                other = torch.zeros_like(acc)
                for _step in range(5):
                    at = first + _step
                    hit = (at < stop) & (a.columns[at] == column)
                    other = torch.where(hit, now[at], other)
                acc = torch.where(ours, acc - now[i] * other, acc)
                i += 1
            pivot = now[diagonal[column]]
            after[e] = torch.where(row > column, acc / pivot, acc)
        now, after = after, now
    return now


def make_levels(n: int) -> Any:
    side = max(int(n**0.5), 3)
    lower = banded(n, (-side, -1, 0), torch.float32)
    place = torch.arange(n)
    level = place // side + place % side  # of a grid whose nodes wait for two neighbours
    level = torch.where(place % side == 0, level, level)
    depth = torch.zeros(n, dtype=torch.int64)
    if n < 5000:
        for i in range(n):
            depth[i] = 1 + max((int(depth[j]) for j in (i - 1, i - side) if j >= 0), default=-1)
    else:
        depth = torch.arange(n) // 4096
        lower = banded(n, (-8192, -4100, 0), torch.float32)
    order = depth.argsort(stable=True)
    return lower, order, torch.bincount(depth).tolist(), torch.randn(n, 3)


def levels_ref(lower: Rows, order: Any, counts: Any, b: Any) -> Any:
    return torch.linalg.solve_triangular(lower.dense(b.size(0)), b, upper=False)


@stranger(make_levels, levels_ref, {"n": 19}, {"n": 1 << 17}, loops=True)
@tileflow.kernel
def level_solve(lower: Rows, order, counts: list[int], b):
    """Anderson and Saad, 1989: a triangular system whose rows of one level are solved at once."""
    x = torch.empty_like(b)
    begin = 0
    for count in counts:
        mine = order[begin : begin + count]
        for t in tfl.tile(mine.numel()):
            row = mine[t]
            first, last = lower.starts[row], lower.starts[row + 1] - 1
            acc = b[row, :]
            for k in tfl.jagged_tile(last - first):
                at = first[:, None] + k.index[None, :]
                acc = acc - (lower.values[at][:, :, None] * x[lower.columns[at], :]).sum(1)
            x[row, :] = acc / lower.values[last][:, None]
        begin += count
    return x


def make_product(n: int, k: int, m: int, most: int) -> Any:
    def random_rows(rows: int, width: int) -> Rows:
        lengths = torch.randint(0, most + 1, (rows,))
        keys = torch.rand(rows, width).argsort(1) if width < 5000 else torch.randint(0, width // most, (rows, most))
        keys = keys[:, :most] if width < 5000 else keys + torch.arange(most) * (width // most)
        keys = torch.where(torch.arange(most) < lengths[:, None], keys, width).sort(1).values
        kept = keys[keys < width]
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        return Rows(starts, kept.int(), torch.randn(len(kept)))

    return random_rows(n, k), random_rows(k, m), m


def merge_ref(a: Rows, b: Rows, width: int) -> Any:
    k = len(b.starts) - 1
    dense = a.dense(k).double() @ b.dense(width).double()
    held = (a.dense(k) != 0).double() @ (b.dense(width) != 0).double() > 0
    counts = held.sum(1)
    kept = torch.where(held, torch.arange(width), width).sort(1).values
    values = torch.where(kept < width, dense.gather(1, kept.clamp(max=width - 1)), 0)
    return counts.int(), torch.where(kept < width, kept, -1).int(), values.float()


@stranger(
    make_product,
    merge_ref,
    {"n": 13, "k": 17, "m": 21, "most": 4},
    {"n": 1 << 14, "k": 1 << 15, "m": 4096, "most": 8},
    loops=True,
)
@tileflow.kernel
def row_merge_product(a: Rows, b: Rows, width: int):
    """Gustavson, 1978: a sparse product row by row, summed up in a row of memory and then pressed together."""
    n = a.starts.size(0) - 1
    device = a.values.device
    sums = torch.zeros(n, width, device=device)
    held = torch.zeros(n, width, dtype=torch.bool, device=device)
    counts = torch.empty(n, dtype=torch.int32, device=device)
    columns = torch.full((n, width), -1, dtype=torch.int32, device=device)
    values = torch.zeros(n, width, device=device)
    for r in tfl.grid(n):
        row, mine = sums[r], held[r]
        for i in range(a.starts[r], a.starts[r + 1]):
            k, scale = a.columns[i], a.values[i]
            for t in tfl.tile(b.starts[k], b.starts[k + 1]):
                column = b.columns[t]
                row[column] += scale * b.values[t]
                mine[column] = True
        done = 0
        for t in tfl.tile(width):
            kept = mine[t]
            places = done + torch.cumsum(kept.int(), 0) - 1
            tfl.store(columns, [r, places], t.index, extra_mask=kept)
            tfl.store(values, [r, places], row[t], extra_mask=kept)
            done += kept.sum()
        counts[r] = done
    return counts, columns, values


@dataclass
class History:
    """The last steps of an optimiser, the newest at `newest`, and how the gradient changed along each."""

    steps: torch.Tensor
    changes: torch.Tensor
    newest: int


def direction_ref(gradient: Any, history: History) -> Any:
    m = history.steps.size(0)
    order = [(history.newest - i) % m for i in range(m)]
    s, y, q = history.steps.double(), history.changes.double(), gradient.double()
    alphas = {}
    for i in order:
        alphas[i] = (s[i] @ q) / (s[i] @ y[i])
        q = q - alphas[i] * y[i]
    q = q * (s[order[0]] @ y[order[0]]) / (y[order[0]] @ y[order[0]])
    for i in reversed(order):
        q = q + (alphas[i] - (y[i] @ q) / (s[i] @ y[i])) * s[i]
    return -q.float()


def make_history(n: int, m: int) -> Any:
    steps = torch.randn(m, n)
    return torch.randn(n), History(steps, steps * (0.5 + torch.rand(n)) + 0.01 * torch.randn(m, n), 2)


@stranger(make_history, direction_ref, {"n": 201, "m": 5}, {"n": 1 << 24, "m": 8})
@tileflow.kernel
def lbfgs_direction(gradient, history: History):
    """Nocedal, 1980: the way down by the last steps, two loops of products that wait for one another."""
    m, n = history.steps.shape
    q = gradient.clone()
    curvature = torch.zeros(m, device=q.device)
    norm = torch.zeros(1, device=q.device)
    for i, t in tfl.tile([m, n]):
        tfl.atomic_add(curvature, [i], (history.steps[i, t] * history.changes[i, t]).sum(-1))
    order = [(history.newest - i) % m for i in range(m)]
    alpha, beta = torch.zeros(m, device=q.device), torch.zeros(m, device=q.device)
    first = order[0]
    previous = None
    for i in order:
        for t in tfl.tile(n):
            value = q[t]
            if previous is not None:
                value = value - alpha[previous] / curvature[previous] * history.changes[previous, t]
                q[t] = value
            tfl.atomic_add(alpha, [i], (value * history.steps[i, t]).sum())
        previous = i
    for t in tfl.tile(n):
        tfl.atomic_add(norm, [0], history.changes[first, t].pow(2).sum())
    for i in reversed(order):
        for t in tfl.tile(n):
            if i == order[-1]:
                value = (q[t] - alpha[i] / curvature[i] * history.changes[i, t]) * (curvature[first] / norm[0])
            else:
                before = order[order.index(i) + 1]
                value = q[t] + (alpha[before] - beta[before]) / curvature[before] * history.steps[before, t]
            q[t] = value
            tfl.atomic_add(beta, [i], (history.changes[i, t] * value).sum())
    out = torch.empty_like(q)
    for t in tfl.tile(n):
        out[t] = -(q[t] + (alpha[first] - beta[first]) / curvature[first] * history.steps[first, t])
    return out


def admm_ref(a: Any, b: Any, penalty: float, rho: float, turns: int) -> Any:
    a, b = a.double(), b.double()
    inverse = torch.linalg.inv(a.mT @ a + rho * torch.eye(a.size(-1), dtype=torch.float64))
    right = (a.mT @ b[..., None])[..., 0]
    z = torch.zeros_like(right)
    u = torch.zeros_like(right)
    for _ in range(turns):
        x = (inverse @ (right + rho * (z - u))[..., None])[..., 0]
        z = torch.nn.functional.softshrink(x + u, penalty / rho)
        u = u + x - z
    return z.float(), ((x - z).norm(dim=-1) + x.norm(dim=-1)).float()


@stranger(
    lambda batch, rows, n: (randn(batch, rows, n) / rows**0.5, randn(batch, rows), 0.05, 1.0, 12),
    admm_ref,
    {"batch": 3, "rows": 31, "n": 12},
    {"batch": 512, "rows": 512, "n": 64},
)
@tileflow.kernel
def admm_lasso(a, b, penalty: float, rho: float, turns: int):
    """Boyd and others, 2011: many sparse regressions side by side, with factors that host code finds once."""
    batch, rows, n = a.shape
    gram = torch.empty(batch, n, n, device=a.device)
    right = torch.empty(batch, n, device=a.device)
    for i in tfl.tile(batch, block_size=1):
        acc, side = torch.zeros([i, n, n]), torch.zeros([i, n])
        for r in tfl.tile(rows):
            part = a[i, r, :]
            acc = acc + part.mT @ part
            side = side + (part * b[i, r][:, :, None]).sum(1)
        gram[i, :, :] = acc
        right[i, :] = side
    inverse = torch.linalg.inv(gram + rho * torch.eye(n, device=a.device))
    found = torch.empty(batch, n, device=a.device)
    sizes = torch.empty(batch, device=a.device)
    for i in tfl.tile(batch, block_size=1):
        matrix, side = inverse[i, :, :], right[i, :]
        z = torch.zeros_like(side)
        u = torch.zeros_like(side)
        x = torch.zeros_like(side)
        for _ in range(turns):
            x = (matrix * (side + rho * (z - u))[:, None, :]).sum(-1)
            z = torch.nn.functional.softshrink(x + u, penalty / rho)
            u = u + x - z
        found[i, :] = z
        sizes[i] = torch.linalg.vector_norm(x - z, dim=-1) + torch.linalg.vector_norm(x, dim=-1)
    return found, sizes


def make_columns(rows: int, columns: int, group: int) -> Any:
    x = torch.randn(4 * columns, columns)
    hessian = x.mT @ x / len(x) + 0.1 * torch.eye(columns)
    upper = torch.linalg.cholesky(torch.linalg.inv(hessian.cpu()), upper=True).to(x.device)
    return randn(rows, columns, dtype=torch.bfloat16), upper, group


def columns_ref(weight: Any, upper: Any, group: int) -> Any:
    w, upper = weight.double(), upper.double()
    codes, scales = torch.empty(w.shape, dtype=torch.int8), []
    loss = torch.zeros(w.size(0), dtype=torch.float64)
    for c in range(w.size(1)):
        if c % group == 0:
            scale = (w[:, c : c + group].abs().amax(1) / 7).clamp(min=1e-6)
            scales.append(scale)
        q = (w[:, c] / scale).round().clamp(-8, 7)
        codes[:, c] = q
        error = (w[:, c] - q * scale) / upper[c, c]
        loss += error**2
        w = torch.cat([w[:, : c + 1], w[:, c + 1 :] - error[:, None] * upper[c, c + 1 :]], 1)
    return codes, torch.stack(scales, 1).float(), loss.float()


@stranger(
    make_columns,
    columns_ref,
    {"rows": 9, "columns": 24, "group": 8},
    {"rows": 4096, "columns": 256, "group": 64},
)
@tileflow.kernel
def error_fed_columns(weight, upper, group: int):
    """Frantar and others, 2022 (GPTQ): weights of four bits, column by column; what is lost goes to those behind."""
    rows, columns = weight.shape
    groups = columns // group
    codes = torch.empty(rows, columns, dtype=torch.int8, device=weight.device)
    scales = torch.empty(rows, groups, dtype=torch.float32, device=weight.device)
    loss = torch.empty(rows, dtype=torch.float32, device=weight.device)
    for r in tfl.tile(rows):
        w = weight[r, :].float()
        place = torch.arange(columns)
        lost = torch.zeros(r)
        scale = torch.ones(r)
        for c in range(columns):
            if c % group == 0:
                mine = (place >= c) & (place < c + group)
                scale = (torch.where(mine, w.abs(), 0.0).amax(-1) / 7).clamp_min(1e-6)
                scales[r, c // group] = scale
            column = w[:, c]
            q = torch.clamp(torch.round(column / scale), -8, 7)
            codes[r, c] = q.to(torch.int8)
            row = upper[c, :]
            error = (column - q * scale) / upper[c, c]
            lost += error**2
            w = torch.where(place > c, w - error[:, None] * row, w)
        loss[r] = lost
    return codes, scales, loss
