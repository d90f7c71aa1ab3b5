"""What runs in the process that interprets: gradients of single torch functions as Triton, against torch's autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.target import target

POINTS = [0.0, -0.0, 0.25, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 1e-3, 100.0, -100.0, math.inf, -math.inf, math.nan]
LANES: dict[str, Callable[[Any], Any]] = {
    "detach": lambda v: (v.round() - v).detach() * v + v,
    "round": torch.round,
    "clamp": lambda v: v.clamp(-1, 1) + torch.clamp(v, min=v * 0.5),
    "hardswish": lambda v: F.hardswish(v) + F.relu6(v) + F.hardsigmoid(v),
    "fmax": lambda v: torch.fmax(v, 2 * v),
    "sinh": torch.sinh,
    "atan": lambda v: torch.atan(v) + torch.asinh(v),
    "atan2": lambda v: torch.atan2(v, v.abs() + 1) + torch.atan2(v, v),
    "sinc": torch.sinc,
    "erfc": torch.erfc,
    "lgamma": torch.lgamma,
    "elu": lambda v: F.elu(v) + F.softplus(v) + F.mish(v),
    "pow": lambda v: v**-2,
}
ROWS = [[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 2.0, -1.0], [0.0, -3.0, -3.0, 1.0]]
REDUCED: dict[str, Callable[[Any], Any]] = {
    "max": lambda v: v.max(1)[0] + v.min(1)[0],
    "norm": lambda v: torch.norm(v, dim=1) + v.std(1) + torch.linalg.vector_norm(v, 3, 1),
    "similarity": lambda v: F.cosine_similarity(v, v * v, 1),
}
NAMES = (*LANES, *REDUCED)


def run(name: str) -> str:
    """What is wrong with a gradient under the default config; empty where nothing is."""
    f = LANES.get(name) or REDUCED[name]

    @tileflow.kernel
    def by_lane(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = f(x[tile])
        return out

    @tileflow.kernel
    def by_row(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
        for tile in tfl.tile(x.size(0)):
            out[tile] = f(x[tile, :])
        return out

    kernel = by_lane if name in LANES else by_row
    x = torch.tensor(POINTS if name in LANES else ROWS)
    leaf = x.double().requires_grad_()  # in float32 torch's own gradient of sinc has few digits near 0
    out = f(leaf)
    grad = torch.linspace(0.5, 2, out.numel()).reshape(out.shape)
    wanted = torch.autograd.grad(out, leaf, grad.double())[0].float()
    backward = tileflow.derive_backward(kernel).kind(x)
    lowered = backward.lower((x, grad), target("nvidia-h200"))
    found = backward.compile(lowered, lowered.interpretable(lowered.default), "cpu")(x, grad)
    try:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        return f"{name}: {found.tolist()} for {wanted.tolist()}: {error}"
    return ""
