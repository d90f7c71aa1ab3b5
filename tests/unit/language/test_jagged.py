"""Jagged tiles in the eager meaning: what rows do not have counts for nothing, or a function is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError

COUNTS = [3, 9, 1, 14, 5]
Rows = Callable[[torch.Tensor], torch.Tensor]


def by_rows(rows: Rows) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
    """What ``rows``, from tiles [t, j] to [t], gives of each row alone, and of all of them as a jagged tile."""
    torch.manual_seed(0)
    x = torch.rand(sum(COUNTS)) + 0.5
    offsets = torch.tensor([0, *COUNTS]).cumsum(0)

    def kernel(offsets: Any, x: Any) -> Any:
        n = offsets.numel() - 1
        out = torch.empty(n, device=x.device)
        for t in tfl.tile(n):
            found, start = tfl.zeros([t]), offsets[t]
            for j in tfl.jagged_tile(offsets[t + 1] - start):
                found += rows(torch.log(x[start[:, None] + j.index[None, :]]))
            out[t] = found
        return out

    wanted = torch.cat([rows(torch.log(row)[None]) for row in x.split(COUNTS)]).float()
    return wanted, lambda: tileflow.kernel(kernel).run_eagerly(offsets, x)


COUNTED: dict[str, Rows] = {
    "stack": lambda p: torch.stack([p, torch.ones_like(p)], 2).sum(1).sum(1),
    "stack in front": lambda p: torch.stack([p, p * 2]).sum(2).sum(0),
    "unbind": lambda p: torch.stack([p, p * 3], 2).unbind(2)[1].sum(1),
    "concatenated beside": lambda p: torch.cat([p[:, :, None], p[:, :, None]], 2).sum(1).sum(1),
    "einsum": lambda p: torch.einsum("tj->t", p),
    "einsum of two": lambda p: torch.einsum("tj,tj->t", p, p),
    "movedim": lambda p: p.movedim(1, 0).sum(0),
    "permute": lambda p: p.permute(1, 0).sum(0),
    "transposed": lambda p: p.T.sum(0),
    "squeeze": lambda p: p[:, None, :].squeeze(1).sum(1),
    "flip beside": lambda p: torch.stack([p, p * p], 2).flip(2)[:, :, 0].sum(1),
    "bits": lambda p: p.view(torch.int32).sum(1).float(),
    "sort": lambda p: p.sort(1).values.sum(1),
    "sort down": lambda p: p.sort(1, descending=True).values.amax(1),
    "cumsum": lambda p: p.cumsum(1).amax(1),
    "softmax": lambda p: F.softmax(p, 1).amax(1),
    "logsumexp": lambda p: torch.logsumexp(p, 1),
    "nansum": lambda p: torch.nansum(p, 1),
    "count_nonzero": lambda p: torch.count_nonzero(p, 1).float(),
    "aminmax": lambda p: torch.aminmax(p, dim=1).min + torch.aminmax(p, dim=1).max,
    "addmm": lambda p: torch.addmm(torch.zeros(p.shape[0], 1), p, torch.ones_like(p[:1]).T)[:, 0],
    "bits by name": lambda p: p.view(dtype=torch.int32).sum(1).float(),
    "norm": lambda p: p.norm(dim=1),
    "vector_norm": lambda p: torch.linalg.vector_norm(p, dim=1),
    "vecdot": lambda p: torch.linalg.vecdot(p, p),
    "cosine_similarity": lambda p: F.cosine_similarity(p, p * p, 1),
    "argmin": lambda p: p.argmin(1).float(),
    "clamp": lambda p: torch.clamp(p, max=0).sum(1),
    "where": lambda p: torch.where(p > 0, p, 1.0).prod(1),
}
REFUSED: dict[str, Rows] = {
    "flip": lambda p: p.flip(1).sum(1),
    "roll": lambda p: (p.roll(1, 1) * p).sum(1),
    "cat": lambda p: torch.cat([p, p], 1).sum(1),
    "trapezoid": lambda p: torch.trapezoid(p, dim=1),
    "median": lambda p: p.median(1).values,
    "mean": lambda p: p.mean(1),
    "by name": lambda p: torch.sum(input=p, dim=1),
    "least norm": lambda p: torch.linalg.vector_norm(p, float("-inf"), dim=1),
    "layer_norm": lambda p: F.layer_norm(p, p.shape[1:]).amax(1),
    "reshape": lambda p: p.reshape(-1).sum().expand(p.shape[0]),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_rows_do_not_have_counts_for_nothing(name: str) -> None:
    wanted, got = by_rows(COUNTED[name])
    torch.testing.assert_close(got(), wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_count_it_is_refused(name: str) -> None:
    _, got = by_rows(REFUSED[name])
    with pytest.raises(TraceError, match="jagged"):
        got()


def test_join_and_split() -> None:
    torch.manual_seed(0)
    x, offsets = torch.rand(sum(COUNTS)) + 0.5, torch.tensor([0, *COUNTS]).cumsum(0)

    @tileflow.kernel
    def joined(offsets: Any, x: Any) -> Any:
        n = offsets.numel() - 1
        out = torch.empty(n, 2, device=x.device)
        for t in tfl.tile(n):
            found, start = tfl.zeros([t, 2]), offsets[t]
            for j in tfl.jagged_tile(offsets[t + 1] - start):
                p = torch.log(x[start[:, None] + j.index[None, :]])
                one, other = tfl.split(tfl.join(p, p * p))
                found += tfl.join(one, other).sum(1)
            out[t, :] = found
        return out

    wanted = torch.stack([torch.stack([row.log().sum(), row.log().square().sum()]) for row in x.split(COUNTS)])
    torch.testing.assert_close(joined.run_eagerly(offsets, x), wanted)
