"""Stores into arguments, beside what autograd saved of them."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def scale(x: torch.Tensor, by: float) -> None:
    flat = x.view(-1)
    for tile in tfl.tile(flat.numel()):
        flat[tile] = flat[tile] * by


@tileflow.kernel
def copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile]
    return out


def refusals() -> list[str]:
    """What the backward pass says of a tensor that a kernel wrote into meanwhile: at its first call and a warm one."""
    said = []
    for _ in range(2):
        weight, x = torch.ones(2, 2, requires_grad=True), torch.full((2, 2), 2.0)
        loss = (weight * x).sum()
        with torch.no_grad():
            scale(x, 3.0)
        try:
            loss.backward()
        except RuntimeError as error:
            said.append(str(error))
    return said


def versions() -> list[int]:
    """What torch counts of a tensor that is only loaded, and of one in inference mode."""
    x = torch.ones(3)
    copied(x)
    with torch.inference_mode():
        scale(torch.ones(2, 2), 2.0)
    return [x._version]
