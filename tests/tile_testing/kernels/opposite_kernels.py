"""A tile, and a number for each of its rows, of which there are as many as columns: in which function they meet, and
by which one each of them was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, ints

N = 8
PLACES = torch.randperm(N, generator=torch.Generator().manual_seed(0)), torch.arange(N) + torch.arange(N)[:, None] & 7
A, B = (torch.rand(shape, generator=torch.Generator().manual_seed(len(shape))) + 0.25 for shape in ((N, N), (N,)))


@tileflow.kernel
def by_rows(a: torch.Tensor, b: torch.Tensor, combine: Callable[..., Any]) -> torch.Tensor:
    out = torch.empty(a.shape)
    for t in tfl.tile(a.size(0)):
        out[t, :] = combine(a[t, :], b[t])
    return out


def operated(a: Any, b: Any) -> Any:
    a &= b
    a |= b
    a ^= b + 1
    a <<= b
    a >>= b
    return a


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: torch.add(a, other=b), "subtracted from": lambda a, b: b.sub(a),
    "sub": lambda a, b: torch.sub(a, b, alpha=2), "mul": lambda a, b: torch.mul(input=a, other=b),
    "rsub": torch.rsub, "pow": lambda a, b: b**a, "float_power": torch.float_power, "ldexp": torch.ldexp,
    "fmax": torch.fmax, "fmin": torch.fmin, "max": torch.max, "min": lambda a, b: a.min(b), "clip": torch.clip,
    "clamp": lambda a, b: torch.clamp(a, min=b), "clamp by both": lambda a, b: a.clamp(max=b + 1, min=b),
    "clamp_min": torch.clamp_min, "clamp_max": torch.clamp_max, "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2, "xlogy": torch.xlogy, "xlog1py": torch.special.xlog1py,
    "nextafter": torch.nextafter, "heaviside": torch.heaviside, "arctan2": torch.arctan2, "hypot": torch.hypot,
    "copysign": lambda a, b: torch.copysign(a, b - 0.5), "greater": torch.greater, "less": torch.less,
    "greater_equal": torch.greater_equal, "less_equal": torch.less_equal, "not_equal": torch.not_equal,
    "isclose": lambda a, b: torch.isclose(a, b, atol=0.2), "masked_fill": lambda a, b: a.masked_fill(b > 0.7, 3.0),
    "where": lambda a, b: torch.where(condition=b > 0.7, input=a, other=b), "lerp": lambda a, b: a.lerp(b, b),
    "expand_as": lambda a, b: b.expand_as(a) * 2,
    "broadcast_tensors": lambda a, b: torch.broadcast_tensors(a, b)[1] * 2,
    "mse_loss": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "l1_loss": lambda a, b: F.l1_loss(a, b, reduction="none"),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
    "huber_loss": lambda a, b: F.huber_loss(a, b, reduction="none"),
    "kl_div": lambda a, b: F.kl_div(a, b, reduction="none"),
    "poisson_nll_loss": lambda a, b: F.poisson_nll_loss(a, b, reduction="none"),
}  # fmt: skip


def wanted(a: torch.Tensor, b: torch.Tensor, combine: Callable[..., Any]) -> torch.Tensor:
    return combine(a.clone(), b[:, None]).to(torch.float32).expand(N, N)


def added(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] + b[1]


def wanted_of_made(a: torch.Tensor, b: torch.Tensor, make: Callable[..., Any]) -> torch.Tensor:
    return torch.cat([make(a[n : n + 1]) * b[n] for n in range(N)])


# functions of rows whose results have rows: as wide ones as the rows were, or a number for each
MADE: dict[str, Callable[..., Any]] = {
    "gather": lambda a: torch.gather(a, 1, a.argsort(1)), "embedding": lambda a: F.embedding(a.argmax(1), torch.eye(N)),
    "one_hot": lambda a: F.one_hot(a.argmax(1), N),
    "take_along_dim": lambda a: torch.take_along_dim(a, a.argsort(1), 1),
    "view": lambda a: a.view(-1, 2, N // 2).flatten(1), "reshape": lambda a: a.reshape(-1, N),
    "reshaped alike": lambda a: a.reshape(a.shape), "outer": lambda a: torch.outer(a[:, 0], torch.arange(N) * 1.0),
    "inner": lambda a: torch.inner(a, torch.ones(N, N).triu()), "cdist": lambda a: torch.cdist(a, torch.eye(N)),
    "tensordot": lambda a: torch.tensordot(a, torch.ones(N, N).triu(), dims=1),
    "column_stack": lambda a: torch.column_stack([a[:, N - 1 - k] for k in range(N)]),
    "dstack": lambda a: torch.dstack([a, a]).sum(2), "vander": lambda a: torch.vander(a[:, 0], N),
    "median": lambda a: a - a.median(1).values, "kthvalue": lambda a: a - a.kthvalue(3, 1).values,
    "quantile": lambda a: a - a.quantile(0.3, dim=1), "nanmean": lambda a: a - a.nanmean(1),
    "linalg.norm": lambda a: a / torch.linalg.norm(a, dim=1), "trapezoid": lambda a: a - torch.trapezoid(a, dim=1),
    "pairwise_distance": lambda a: a * F.pairwise_distance(a, a.flip(1)),
    "logsumexp": lambda a: a - a.logsumexp(1), "var_mean": lambda a: a - torch.var_mean(a, 1)[1],
}  # fmt: skip


@tileflow.kernel
def rows_made(a: torch.Tensor, b: torch.Tensor, make: Callable[..., Any]) -> torch.Tensor:
    out = torch.empty(a.shape)
    for t in tfl.tile(a.size(0)):
        out[t, :] = make(a[t, :]) * b[t]
    return out


@tileflow.kernel
def made_of_sizes(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(7, N, N)
    for t in tfl.tile(a.size(0)):
        out[0, t, :] = b[:].expand(t, N) * b[t]
        out[1, t, :] = torch.broadcast_to(b[:], (t, N)) * b[t]
        out[2, t, :] = (tfl.rand([t, N], 5) >= 0) * b[t]
        out[3, t, :] = (tfl.randint([t, N], 3, 4, 5) + (tfl.rand_at(5, tfl.positions([t, N])) < 0)) * b[t]
        out[4, t, :] = (torch.rand(t, N) >= 0) * b[t]
        out[5, t, :] = (torch.randn_like(a[t, :]).abs() >= 0) * b[t]
        out[6, t, :] = F.one_hot(t.index, N) * b[t]  # ints of 32 bits, of which torch makes none
    return out


def sizes_wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    rows = b[:, None].expand(N, N)
    return torch.stack([rows * b, rows * b, rows, 3 * rows, rows, rows, b.diag()])


@tileflow.kernel
def in_memory(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Masks, what stands where they are false, and what an atomic adds."""
    out = torch.zeros(5, N, N)
    for t in tfl.tile(a.size(0)):
        out[0, t, :] = tfl.load(a, [t, slice(None)], extra_mask=b[t] > 0.7, other=3.0)
        out[1, t, :] = tfl.load(a, [t, slice(None)], extra_mask=a[t, :] > 0.7, other=b[t])
        tfl.store(out, [2, t, slice(None)], a[t, :], extra_mask=b[t] > 0.7)
        tfl.atomic_add(out, [3, t, slice(None)], b[t])
        tfl.atomic_add(out, [4, t, slice(None)], a[t, :], extra_mask=b[t] > 0.7)
    return out


def memory_wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    row = b[:, None].expand(N, N)
    kept = torch.where(row > 0.7, a, 0.0)
    return torch.stack([torch.where(row > 0.7, a, 3.0), torch.where(a > 0.7, a, row), kept, row, kept])


@tileflow.kernel
def in_indices(a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(4, N, N)
    for t in tfl.tile(a.size(0)):
        out[0, t, :] = a[rows[t], columns[t, :]]
        out[1, t, :] = a[columns[t, :], rows[t]]
        out[2, rows[t], columns[t, :]] = b[t]
        tfl.atomic_add(out, [3, rows[t], columns[t, :]], b[t])
    return out


def indices_wanted(a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    there = rows[:, None].expand(N, N)
    out = torch.stack([a[there, columns], a[columns, there], torch.zeros(N, N), torch.zeros(N, N)])
    out[2, there, columns] = out[3, there, columns] = b[:, None].expand(N, N)
    return out


@tileflow.kernel
def in_functions_of_the_language(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, N, N)
    for t in tfl.tile(a.size(0)):
        out[0, t, :], out[1, t, :] = tfl.split(tfl.join(a[t, :], b[t]))
        out[2, t, :] = tfl.associative_scan(added, (b[t], a[t, :]), dim=1)[0]
        out[3, t, :] = tfl.reduce(added, (a[t, :], b[t]), dim=1)[1] + a[t, :]
    return out


def language_wanted(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    row = b[:, None].expand(N, N)
    return torch.stack([a, row, row.cumsum(1), row * N + a])


CASES = {
    **{name: Case(by_rows, (A, B, function), wanted, (("block:t", N),)) for name, function in FUNCTIONS.items()},
    **{f"made by {name}": Case(rows_made, (A, B, make), wanted_of_made) for name, make in MADE.items()},
    "made of sizes": Case(made_of_sizes, (A, B), sizes_wanted, (("block:t", N),)),
    "in memory": Case(in_memory, (A, B), memory_wanted, (("block:t", N),)),
    "in indices": Case(in_indices, (A, B, *PLACES), indices_wanted, (("block:t", N),)),
    "in functions of the language": Case(in_functions_of_the_language, (A, B), language_wanted, (("block:t", N),)),
    "operators that assign": Case(by_rows, (ints(9, N, N), ints(5, N, seed=1), operated), wanted, (("block:t", N),)),
}
