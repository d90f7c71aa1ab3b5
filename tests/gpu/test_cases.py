"""Every case of the interpreter's tests on the GPU, in both modes, under its own config and the default."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import pytest
import tile_testing.kernels
import torch
from tile_testing.kernels.cases import Case
from tile_testing.runs.interpreted import close

from tileflow.build.compile import build
from tileflow.errors import OutOfResources
from tileflow.lowered import Lowered
from tileflow.runtime.describe import device_class
from tileflow.settled import settled_default
from tileflow.target import target

pytestmark = pytest.mark.gpu


OF_THE_CPU = ("stack_kernels",)  # whose arguments are addresses of its memory
CAPTURING = ("control_kernels.partials_as_arguments", "function_kernels.closures")  # tensors of its memory
# libdevice's fmod takes what is less than the least normal number for 0
SUBNORMAL = ("remainder_kernels.by_6_float32", "remainder_kernels.by_1099511627776_float32")
ROUNDING = 5  # times that of the interpreter: a GPU's exponentials and quotients are others


def _cases() -> dict[str, Case]:
    """The cases of all modules of kernels, by module and name."""
    found: dict[str, Case] = {}
    for module in pkgutil.iter_modules(tile_testing.kernels.__path__):
        is_of_kernels = module.name.endswith("_kernels") or module.name.startswith("spelled")
        if is_of_kernels and module.name not in OF_THE_CPU:
            cases = getattr(importlib.import_module(f"tile_testing.kernels.{module.name}"), "CASES", {})
            found |= {f"{module.name}.{name}": case for name, case in cases.items() if isinstance(case, Case)}
    return {name: case for name, case in found.items() if name not in CAPTURING}


CASES = _cases()


def moved(value: Any, device: str) -> Any:
    """A copy with the tensors on a device."""
    match value:
        case torch.Tensor():
            whole = (
                torch.empty(0, dtype=value.dtype, device=value.device)
                .set_(value.untyped_storage())
                .to(device, copy=True)
            )
            return whole.as_strided(value.shape, value.stride(), value.storage_offset())
        case list():
            return [moved(part, device) for part in value]
        case tuple():
            return tuple(moved(part, device) for part in value)
        case dict():
            return {key: moved(part, device) for key, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{f.name: moved(getattr(value, f.name), device) for f in dataclasses.fields(value)}
        )
    return value


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xfail(strict=True)) if name in SUBNORMAL else name for name in CASES]
)
def test_case(name: str, mode: str) -> None:
    """Host code that names no device allocates on the GPU here."""
    case, here = CASES[name], target(device_class("cuda"))
    wanted = case.wanted(*moved(case.args, "cpu"))
    lowered: Lowered = case.kernel.lower(moved(case.args, "cuda"), here, mode=mode)
    settled = settled_default(lowered, case.kernel.semantic_hash, lambda source: build(source, here).resources)
    for config in (settled, lowered.space.repair(lowered.default.with_(dict(case.config)))):
        try:
            call = case.kernel.compile(lowered, config, "cuda")
        except OutOfResources:
            assert config != settled
            continue
        args = moved(case.args, "cuda")
        with torch.device("cuda"):
            got = call(*args)
        assert close(got.cpu(), wanted, ROUNDING) == "", config
