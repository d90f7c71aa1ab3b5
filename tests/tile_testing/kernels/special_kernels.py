"""Special functions at many points: of gamma distributions, of normal ones, of directions and windows."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def bessel(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(6, x.size(0), dtype=x.dtype)
    for t in tfl.tile(x.size(0)):
        out[0, t] = torch.special.i0(x[t])
        out[1, t] = torch.special.i0e(x[t])
        out[2, t] = torch.special.i1(x[t])
        out[3, t] = torch.special.i1e(x[t])
        out[4, t] = torch.special.modified_bessel_i0(x[t])
        out[5, t] = torch.i0(x[t])
    return out


@tileflow.kernel
def gammas(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(5, x.size(0), dtype=x.dtype)
    for t in tfl.tile(x.size(0)):
        out[0, t] = torch.polygamma(1, x[t])
        out[1, t] = x[t].polygamma(1)
        out[2, t] = torch.special.polygamma(0, x[t])
        out[3, t] = torch.mvlgamma(x[t].abs() + 1.5, 3)
        out[4, t] = torch.special.multigammaln(x[t].abs() + 0.5, p=1)
    return out


@tileflow.kernel
def polygammas(x: torch.Tensor) -> torch.Tensor:
    """Even orders, which cross 0, beside odd ones, which do not."""
    out = torch.empty(3, x.size(0), dtype=x.dtype)
    for t in tfl.tile(x.size(0)):
        out[0, t] = torch.polygamma(2, x[t]) / torch.polygamma(1, x[t])
        out[1, t] = x[t].polygamma(3)
        out[2, t] = torch.special.polygamma(6, x[t]) / torch.polygamma(5, x[t])
    return out


@tileflow.kernel
def quantiles(p: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(p)
    for t in tfl.tile(p.size(0)):
        out[t] = torch.special.ndtri(p[t])
    return out
