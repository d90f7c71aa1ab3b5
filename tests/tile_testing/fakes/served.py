"""Bundles whose machine code runs as torch on the CPU, through a stand-in for the driver."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

from tile_testing.fakes.drivers import ONE, FakeCuda
from tileflow import runtime
from tileflow.config import Config
from tileflow.expr import TRUE, Expr
from tileflow.runtime import (
    Binary,
    Entry,
    KernelId,
    LaunchAbi,
    LaunchArg,
    Resources,
    Table,
    launches_of,
    write_bundle,
)
from tileflow.runtime.launch import cuda_launcher

DEVICE = "nvidia-h200"


class Driver:
    """Stands for the GPU: each loaded binary runs as torch on the CPU, by the name of its symbol."""

    def __init__(self) -> None:
        self.loads: list[bytes] = []
        self.launched: list[str] = []
        self.exhausted: set[bytes] = set()
        self.pause = 0.0
        self.made: dict[Any, Any] = {}

    def launcher(self, binary: Binary, device: torch.device, scope: Any) -> Any:
        """As ``lazy_launcher``, without a GPU."""
        fake = _Recording([ctypes.c_uint64] * len(binary.abi.args), self, binary)
        return cuda_launcher(binary, "cpu", scope, driver=fake, stream=lambda: 7)


class _Recording(FakeCuda):
    def __init__(self, types: list[Any], driver: Driver, binary: Binary) -> None:
        super().__init__(types)
        self.driver, self.binary = driver, binary

    def cuModuleLoadData(self, code: bytes) -> tuple[int, str]:
        self.driver.loads.append(code)
        return 0, "module"

    def _launch(self, function: str, *rest: Any) -> tuple[int]:
        if self.binary.code in self.driver.exhausted:
            return (701,)
        self.driver.launched.append(f"{function} {self.binary.code.decode()}")
        return super()._launch(function, *rest)


def binary(code: str, guards: Expr = TRUE, *names: str, region: int = 0, mode: Any = "dynamic") -> Binary:
    args = tuple(LaunchArg(name, "tensor", "*fp32", name, dtype="float32", rank=1) for name in names or ("out", "x"))
    abi = LaunchAbi(f"region_{region}", args, ONE, 128, 0)
    return Binary(region, DEVICE, "cubin", code.encode(), abi, guards, Resources(16, 0, 0, 128), mode)


def row(kernel: Any, args: tuple[Any, ...], binaries: list[Binary], block: int = 64, **other: Any) -> Entry:
    values: dict[str, Any] = {"origin": "measured", "best_us": 10.0, "n": 9, "measured_on": DEVICE} | other
    values["launches"] = launches_of(binaries)
    return Entry(DEVICE, kernel.describe(*args), Config.of({"block:tile": block}), **values)


def load(
    folder: Path, kernel: Any, rows: list[Entry], binaries: list[Binary], defaults: Any = None, **options: Any
) -> None:
    """Write a bundle of these rows and load it for the device."""
    table = Table.of(KernelId.of(kernel.name, kernel.semantic_hash), rows, defaults=defaults or {})
    write_bundle([table], binaries, folder)
    runtime.load(folder, as_device=DEVICE, **options)
