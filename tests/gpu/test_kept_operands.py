"""Computed queries stay what they are through all turns: ptxas 12.8 gave their registers away (emit.kept_operands)."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.kept_kernels import all_keys, arguments, shifted_queries, wanted

from tileflow.api import Kernel
from tileflow.measure.device import identity
from tileflow.target import target

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("kernel", "count"), [(shifted_queries, 5), (all_keys, 4)], ids=["masked", "all keys"])
def test_they_do(kernel: Kernel, count: int, warps: int, full: bool) -> None:
    args = arguments(2, 700, 4, 64, "cuda")[:count]
    lowered = kernel.lower(args, target(identity().device_class))
    rows = next(knob.name for knob in lowered.space.knobs if knob.name.startswith("block:"))
    changes = {"num_warps": warps, rows: 16 * warps}
    changes |= {knob.name: full for knob in lowered.space.knobs if knob.name.endswith(".full_blocks")}
    config = lowered.space.normalise(lowered.default_pipelined.with_(changes))
    assert lowered.space.is_valid(config)
    found = kernel.compile(lowered, config, "cuda")(*args)
    torch.testing.assert_close(found.float(), wanted(*args), rtol=0.03, atol=0.03)
