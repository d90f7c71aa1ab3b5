"""The cases of the interpreter's tests that no other file takes, on the GPU: in both modes, under their own config and
under what a call without one runs."""

from __future__ import annotations

import pkgutil

import pytest
import tile_testing.kernels
import torch
from tile_testing.kernels import path_of
from tile_testing.kernels.cases import Case
from tile_testing.runs.construct_cells import MODULES
from tile_testing.runs.interpreted import close, load_module
from tile_testing.runs.placing import place

from tileflow.build.compile import build
from tileflow.errors import OutOfResources
from tileflow.lowered import Lowered
from tileflow.runtime.describe import device_class
from tileflow.settled import settled_default
from tileflow.target import target

pytestmark = pytest.mark.gpu

# test_language, test_combining and test_partial_blocks have theirs; stacks are of addresses of the host's memory
ELSEWHERE = {f"{name}_kernels" for name in (*MODULES, "atomic", "scan", "masked", "stack")}
# libdevice's fmod takes what is less than the least normal number for 0
SUBNORMAL = ("remainder_kernels.by_6_float32", "remainder_kernels.by_1099511627776_float32")
ROUNDING = 5  # times that of the interpreter: a GPU's exponentials and quotients are others


def _cases() -> dict[str, Case]:
    """The cases of modules of kernels, by module and name."""
    found: dict[str, Case] = {}
    for module in (m.name for m in pkgutil.iter_modules(tile_testing.kernels.__path__)):
        if module not in ELSEWHERE and module.endswith(("_kernels", "_numbers")):
            cases = getattr(load_module(path_of(module)), "CASES", {})
            found |= {f"{module}.{name}": case for name, case in cases.items() if isinstance(case, Case)}
    return found


CASES = _cases()


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xfail(strict=True)) if name in SUBNORMAL else name for name in CASES]
)
def test_case(name: str, mode: str) -> None:
    """Host code that names no device allocates on the GPU here."""
    case, here = CASES[name], target(device_class("cuda"))
    wanted = case.wanted(*place(case.args, "cpu"))
    lowered: Lowered = case.kernel.lower(place(case.args, "cuda"), here, mode=mode)
    settled = settled_default(lowered, case.kernel.semantic_hash, lambda source: build(source, here).resources)
    for config in (settled, lowered.space.repair(lowered.default.with_(dict(case.config)))):
        try:
            call = case.kernel.compile(lowered, config, "cuda")
        except OutOfResources:
            assert config != settled
            continue
        args = place(case.args, "cuda")
        with torch.device("cuda"):
            got = call(*args)
        assert close(got.cpu(), wanted, ROUNDING) == "", config
