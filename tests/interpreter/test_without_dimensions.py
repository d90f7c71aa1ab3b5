"""Tiles without dimensions: what torch's functions give of a tensor that has none, compiled and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import ShapeError
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0], [0.0, 0.0, 0.0]])


def _reductions(s: torch.Tensor) -> list[torch.Tensor]:
    return [
        *(f(s, dim) for dim in (0, -1) for f in (torch.argmax, torch.argmin, torch.sum, torch.prod, torch.amax)),
        *(part for dim in (0, -1) for f in (torch.max, torch.min) for part in f(s, dim)),
        *(f(s, dim) for dim in (0, -1) for f in (torch.mean, torch.any, torch.all, torch.amin, torch.nansum)),
        *(f(s, dim) for dim in (0, -1) for f in (torch.logsumexp, torch.nanmean, torch.count_nonzero)),
        *(f(s, dim) for dim in (0, -1) for f in (torch.softmax, torch.log_softmax, F.softmin)),
        *(torch.var(s, dim, correction=0) for dim in (0, -1)),
        *(torch.linalg.vector_norm(s, dim=dim) for dim in (0, -1)),
        *torch.std_mean(s, 0, correction=0),
        torch.argmax(s, 0, keepdim=True),
        torch.mean(s, -1, keepdim=True),
    ]


def _orders(s: torch.Tensor) -> list[torch.Tensor]:
    return [
        *(part for dim in (0, -1) for f in (torch.sort, torch.median, torch.cummax) for part in f(s, dim)),
        *(f(s, dim) for dim in (0, -1) for f in (torch.cumsum, torch.cumprod, torch.argsort, torch.logcumsumexp)),
        *s.sort(),
        *s.kthvalue(1),
        *s.topk(1),
        *torch.cummin(s, 0),
        torch.msort(s),
        s.median(),
        s.nanmedian(),
        torch.quantile(s, 0.5),
    ]


def _views(s: torch.Tensor) -> list[torch.Tensor]:
    found = [
        *(s.reshape(1) * 2, s.view(1, 1) + 1, s.reshape(-1), s.reshape(()), s.flatten(), s.flatten(0, -1), s.ravel()),
        *(s.squeeze(0), s.squeeze(-1), s.flip(0), s.roll(1), s.transpose(0, -1), s.movedim(0, -1)),
        *(torch.hstack([s, s]), torch.vstack([s, s]), torch.column_stack([s, s]), torch.dstack([s, s])),
        *(s.repeat_interleave(2), torch.isin(s, s), torch.cat([s[None], s.reshape(1)])),
        torch.gather(s, 0, torch.tensor(0)),
    ]
    return [found[0].sum(), *(part.sum() for part in found[1:])]


FUNCTIONS = {"reductions": _reductions, "orders": _orders, "views": _views}


@tileflow.kernel
def reductions(x):
    out = torch.zeros(x.size(0), 64)
    for i in tfl.grid(x.size(0)):
        for n, part in enumerate(_reductions(x[i, :].sum())):
            out[i, n] = part
    return out


@tileflow.kernel
def orders(x):
    out = torch.zeros(x.size(0), 64)
    for i in tfl.grid(x.size(0)):
        for n, part in enumerate(_orders(x[i, :].sum())):
            out[i, n] = part
    return out


@tileflow.kernel
def views(x):
    out = torch.zeros(x.size(0), 64)
    for i in tfl.grid(x.size(0)):
        for n, part in enumerate(_views(x[i, :].sum())):
            out[i, n] = part
    return out


def wanted(name: str) -> torch.Tensor:
    out = torch.zeros(X.size(0), 64)
    for i, row in enumerate(X):
        parts = FUNCTIONS[name](row.sum())
        out[i, : len(parts)] = torch.stack([part.float() for part in parts])
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    (got,) = interpreter("runs.interpreted:run_all", [Call(__file__, name, (X,), mode=mode)])
    assert not isinstance(got, str), got
    torch.testing.assert_close(got, wanted(name))


@pytest.mark.parametrize("kernel", [reductions, orders, views], ids=list(FUNCTIONS))
def test_eagerly(kernel: Any) -> None:
    torch.testing.assert_close(kernel.run_eagerly(X), wanted(kernel.__name__))


@pytest.mark.parametrize("kernel", [reductions, orders, views], ids=list(FUNCTIONS))
def test_triton_compiles_them(kernel: Any) -> None:
    """Its interpreter takes reshapes of a number; its compiler does not."""
    lowered = kernel.lower((X.to("meta"),), H200)
    (source,) = lowered.emit(lowered.default)
    assert build(source, H200).resources.registers > 0


@tileflow.kernel
def refused(x, how: tfl.constexpr):
    out = torch.empty(x.size(0))
    for i in tfl.grid(x.size(0)):
        s = x[i, :].sum()
        out[i] = s.sum(1) if how == "reduced" else s.cumsum(1) if how == "scanned" else s.unbind(0)[0]
    return out


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("reduced", r"lie in \[-1, 0\], but got 1"),
        ("scanned", r"lie in \[-1, 0\], but got 1"),
        ("unbound", "got 0 of a tile without dimensions"),
    ],
)
def test_other_dimensions_are_refused(how: str, says: str) -> None:
    with pytest.raises(ShapeError, match=says):
        refused.lower((X, how), H200)
