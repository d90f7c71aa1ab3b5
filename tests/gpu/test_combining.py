"""The interpreter's kernels of atomics, scans and reductions on the GPU, at the default config and a random one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from tile_testing.kernels.atomic_kernels import CASES as ATOMICS
from tile_testing.kernels.scan_kernels import CASES as SCANS
from tile_testing.runs.interpreted import close

from tileflow.runtime.describe import device_class
from tileflow.target import target

pytestmark = pytest.mark.gpu
CASES = {**ATOMICS, **SCANS}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, mode: str) -> None:
    """Host code allocates on the GPU; three calls in a row, so that what is accumulated into must be fresh."""
    case: Any = CASES[name]
    wanted = case.wanted(*case.args)
    with torch.device("cuda"):
        args = tuple(a.cuda() for a in case.args)
        lowered = case.kernel.lower(args, target(device_class(args[0].device)), mode=mode)
        sampled = lowered.space.sample(random.Random(len(name)))
        for config in (lowered.default, lowered.space.repair(lowered.default.with_(dict(case.config))), sampled):
            call = case.kernel.compile(lowered, config, "cuda")
            for _ in range(3):
                got = call(*(a.clone() for a in args))
                assert close(got.cpu(), wanted) == "", str(config)
