"""The sizes at which a config is checked without a GPU: there are some for every config of the demo."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tile_testing import ROOT
from tileflow_experiments.driver import study_keys
from tileflow_experiments.spec import read
from tileflow_experiments.tuning_task import prepare

from tileflow.api import load_kernel
from tileflow.measure.inputs import tensors
from tileflow.measure.interpret import InterpretRequest, emit_small, grown_sizes
from tileflow.measure.types import Outcome
from tileflow.target import target

pytest.importorskip("triton")

DEMO = study_keys(read(ROOT / "configs/demo.yaml"))


@pytest.mark.parametrize("key", DEMO, ids=lambda key: key.title)
def test_every_config_of_the_demo_can_be_checked(key: Any) -> None:
    """6 of its 16 winners were not: at 33, 165, 825 and 4125 columns there is no knob of the copy engine."""
    task = prepare(key, "static")
    kernel, device = load_kernel(key.kernel), target(key.device_class)
    for config in (task.default, task.space.sample(random.Random(1))):
        ready = emit_small(kernel, InterpretRequest(key.kernel, key.problem, config, key.device_class), device)
        assert not isinstance(ready, Outcome), ready.error_digest
        assert max(max(a.shape) for a in tensors(ready.args)) <= max(
            size for _, size in key.problem if isinstance(size, int)
        )


def test_sizes_grow_in_both_forms_and_end_at_the_full_one() -> None:
    grown = [problem["n"] for problem in grown_sizes({"n": 33, "dtype": "int8"}, {"n": 8192, "dtype": "int8"})]
    assert grown == [33, 48, 165, 176, 825, 848, 4125, 4144, 8192]
    assert [p["n"] for p in grown_sizes({"n": 33}, {"n": 1 << 20})][-1] == 4144
    assert [p["n"] for p in grown_sizes({"n": 33}, {"n": 99})] == [33, 99]
    pairs = [(p["m"], p["n"]) for p in grown_sizes({"m": 7, "n": 33}, {"m": 7, "n": 8192})]
    assert pairs[:2] == [(7, 33), (7, 48)]
