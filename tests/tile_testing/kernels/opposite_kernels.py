"""Functions of a tile and of a number for each of its rows, as many as there are columns: what each must give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, ints

N = 8
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


CASES = {
    **{name: Case(by_rows, (A, B, function), wanted, (("block:t", N),)) for name, function in FUNCTIONS.items()},
    "operators that assign": Case(by_rows, (ints(9, N, N), ints(5, N, seed=1), operated), wanted, (("block:t", N),)),
}
