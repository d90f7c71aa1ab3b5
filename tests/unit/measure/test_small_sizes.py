"""The sizes at which a config is checked without a GPU: there are some for every config of the demo."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tileflow_experiments.open_studies import study_keys
from tileflow_experiments.spec import read
from tileflow_experiments.tuning_task import prepare

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.measure.inputs import tensors
from tileflow.measure.interpret import InterpretRequest, emit_small, grown_sizes
from tileflow.measure.types import Outcome, Status
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


@tileflow.kernel
def table(rows, columns):
    out = torch.empty(rows.size(0), columns.size(0))
    for tile_r, tile_c in tfl.tile(out.shape):
        out[tile_r, tile_c] = rows[tile_r][:, None] * columns[tile_c][None, :]
    return out


class OneSize:
    """A kernel that is tuned where it stands: its call has no smaller size."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __getattr__(self, name: str) -> Any:
        return getattr(table, name)

    def small(self, problem: dict[str, Any]) -> dict[str, Any]:
        return {**problem, "interpreted": True}

    def inputs(self, **problem: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(self.n), torch.ones(self.n)


@pytest.mark.parametrize(("n", "is_made"), [(100, True), (4096, False)])
def test_a_call_with_small_arguments_and_large_results_is_not_interpreted(n: int, is_made: bool) -> None:
    """A picture of 16 million points, from 32 KB of coordinates, took Triton's interpreter longer than the tuning."""
    device = target("nvidia-h200")
    lowered = table.lower(OneSize(n).inputs(), device)
    ready = emit_small(OneSize(n), InterpretRequest("m:table", (), lowered.default, device.name), device)
    assert isinstance(ready, Outcome) is not is_made
    assert is_made or (ready.status is Status.CANCELLED and "bytes" in ready.error_digest)


def test_sizes_grow_in_both_forms_and_end_at_the_full_one() -> None:
    grown = [problem["n"] for problem in grown_sizes({"n": 33, "dtype": "int8"}, {"n": 8192, "dtype": "int8"})]
    assert grown == [33, 48, 165, 176, 825, 848, 4125, 4144, 8192]
    assert [p["n"] for p in grown_sizes({"n": 33}, {"n": 1 << 20})][-1] == 4144
    assert [p["n"] for p in grown_sizes({"n": 33}, {"n": 99})] == [33, 99]
    pairs = [(p["m"], p["n"]) for p in grown_sizes({"m": 7, "n": 33}, {"m": 7, "n": 8192})]
    assert pairs[:2] == [(7, 33), (7, 48)]
