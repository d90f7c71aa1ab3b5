"""Tensors of another module than the kernels' own, and functions and a class that read them there."""

from __future__ import annotations

from typing import Any

import torch

BIAS = torch.linspace(0, 1, 21)
ROWS = {"rows": [torch.linspace(1, 2, 21)]}


def shifted(tile: Any, place: Any) -> Any:
    return tile + BIAS[place]


def twice(tile: Any, place: Any) -> Any:
    return shifted(shifted(tile, place), place)


def by_an_entry(tile: Any, place: Any) -> Any:
    return tile * ROWS["rows"][0][place] + BIAS.size(0)


class Layer:
    """A user's object, whose methods read what its module has."""

    def __init__(self) -> None:
        self.scale = 2.0

    def apply(self, tile: Any, place: Any) -> Any:
        return tile * self.scale + BIAS[place]
