"""Jobs for the GPU's processes whose second config ends badly."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.runs import cells
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.errors import OutOfResources
from tileflow.lowered import Lowered

# how it ends: the cell's status, and a part of its reason
ENDS = {
    "raises": ("failed", "ValueError: planted"),
    "is wrong": ("failed", "planted"),
    "does not fit": ("refused", "planted"),
    "dies": ("failed", "exit code 3"),
    "breaks the device": ("failed", "planted"),
}


@tileflow.kernel
def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    factor = tfl.register_tunable("factor", [1, 2, 3])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * factor
    return out


@dataclass(frozen=True, slots=True)
class Planted:
    """Three configs, which the kernel's results tell apart."""

    end: str
    mode: str = "static"

    @property
    def subject(self) -> Kernel:
        kernel: Kernel = scaled
        return kernel

    def arguments(self, device: str) -> tuple[Any, ...]:
        if self.end == "unlowered":
            raise ValueError("no such size")
        return (torch.ones(37),)

    def configs(self, lowered: Lowered) -> Sequence[Config]:
        return [lowered.default.with_({"tunable:factor": factor}) for factor in (1, 2, 3)]

    def judge(self, args: tuple[Any, ...], device: str) -> Callable[[Callable[..., Any]], str]:
        return lambda call: self.ended() if call(*args)[0] == 2 else ""

    def ended(self) -> str:
        match self.end:
            case "raises":
                raise ValueError("planted")
            case "does not fit":
                raise OutOfResources("planted", got=1)
            case "dies":
                os._exit(3)
            case "breaks the device":
                cells.is_broken = lambda device: True
        return "planted"
