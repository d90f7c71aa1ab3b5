"""Rows of numbers and truths that are converted before they are reduced, in the process that interprets."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def reduced(x, dtype: tfl.constexpr):
    n, _ = x.shape
    probabilities = torch.empty(x.shape, dtype=dtype, device=x.device)
    least, most, total = (torch.empty(n, dtype=dtype, device=x.device) for _ in range(3))
    place = torch.empty(n, dtype=torch.int64, device=x.device)
    for t in tfl.tile(n):
        row = x[t, :].to(dtype)
        probabilities[t, :] = row.softmax(1)
        least[t], most[t], total[t], place[t] = row.amin(1), row.amax(1), row.logsumexp(1), row.argmax(1)
    return probabilities, least, most, total, place


def rows(name: str) -> torch.Tensor:
    """Five rows of seven, of which the first two are alike throughout."""
    dtype = getattr(torch, name)
    low = 0 if dtype is torch.bool or not dtype.is_signed else -2
    made = torch.randint(low, 2, (5, 7), generator=torch.Generator().manual_seed(0))
    made[0], made[1] = low, 1
    return made.to(dtype)


def differences(names: list[str]) -> dict[str, list[str]]:
    """What is not torch's, by the dtype of the rows: under the default, static and dynamic."""
    wrong = ("probabilities", "least", "most", "total", "place")
    found: dict[str, list[str]] = {}
    for name in names:
        x = rows(name)
        for to in (torch.float32, torch.float64):
            f = x.to(to)
            wanted = f.softmax(1), f.amin(1), f.amax(1), f.logsumexp(1), f.argmax(1)
            for mode in ("static", "dynamic"):
                lowered = reduced.lower((x, to), target("nvidia-h200"), mode=mode)
                got = reduced.compile(lowered, lowered.default, "cpu")(x, to)
                pairs = zip(wrong, got, wanted, strict=True)
                found.setdefault(name, []).extend(w for w, a, b in pairs if not torch.allclose(a, b, atol=1e-5))
    return found
