"""The kernels of one construct each, which the interpreter's tests define in tables ``CASES``, on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module
from tile_testing.runs.placing import place
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.lowered import Lowered

# indices, atomics and scans have files of their own
MODULES = ("language", "function", "control", "python", "packing", "escape", "random", "workload")


def cases(module: str) -> dict[str, Any]:
    found: dict[str, Any] = load_module(path_of(f"{module}_kernels")).CASES
    return found


@dataclass(frozen=True, slots=True)
class ConstructJob:
    """Case ``name`` of a module, under the default config and its own."""

    module: str
    name: str
    mode: str

    @property
    def case(self) -> Any:
        return cases(self.module)[self.name]

    @property
    def subject(self) -> Kernel:
        kernel: Kernel = self.case.kernel
        return kernel

    def arguments(self, device: str) -> tuple[Any, ...]:
        placed: tuple[Any, ...] = place(tuple(self.case.args), device)
        return placed

    def configs(self, lowered: Lowered) -> Sequence[Config]:
        own = lowered.space.repair(lowered.default.with_(dict(self.case.config)))
        return tuple(dict.fromkeys((lowered.default, own)))

    def judge(self, args: tuple[Any, ...], device: str) -> Callable[[Callable[..., Any]], str]:
        wanted = self.case.wanted(*self.arguments("cpu"))

        def judged(call: Callable[..., Any]) -> str:
            with torch.device(device):  # some of them allocate where torch does by default
                got = call(*self.arguments(device))
            return close(got.cpu(), wanted)

        return judged

    def __str__(self) -> str:
        return f"{self.module} {self.name} {self.mode}"
