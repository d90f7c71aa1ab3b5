"""Kernels whose names mean something to what is written about them, or have letters that only Python takes."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def load(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] * 2
    return out


@tileflow.kernel
def übung(größe: torch.Tensor, ñ: float = 2.0) -> torch.Tensor:
    """Twice, of größe."""
    ergebnis_ü = torch.empty_like(größe)
    for kachel_ä in tfl.tile(größe.numel()):
        zähler = größe[kachel_ä] * ñ
        ergebnis_ü[kachel_ä] = zähler
    return ergebnis_ü
