"""A row whose config this version's space has no more: the nearest one runs, and that is said and counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow import runtime, serve
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.runtime.table import Entry
from tileflow.runtime.table_lookup import Hit, Step
from tileflow.target import target

GPU = "nvidia-h200"


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.clear()
    runtime.observe.clear_counters()
    monkeypatch.setattr(Kernel, "launchers", lambda *_: {})  # nothing is compiled


def served(changes: dict[str, Any], step: Step = "exact") -> tuple[Config, str, Config]:
    """The config and the reason of a call whose row has the default's config but for ``changes``; and the default."""
    x = torch.empty(16, 32, device="meta")
    lowered = doubled.lower((x,), target(GPU))
    config = Config.of({**lowered.default.to_dict(), **changes})
    row = Entry(GPU, doubled.describe(x), config, "measured")
    hit = Hit(row, step, "tuned here", step == "exact", GPU)
    server = serve._build(doubled, serve.Call((x,), {}, doubled.describe(x), x.device, GPU), hit)
    return server.config, server.reason, lowered.default


@pytest.mark.parametrize("changes", [{"num_warps": 3}, {"gone": 5}, {"block:tile": 1 << 40}])
def test_a_row_of_its_own_problem_says_what_was_lost(changes: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """As after an update: the row counted as exact, and another config than was measured ran without a word."""
    with caplog.at_level(logging.WARNING):
        _, reason, _ = served(changes)
        served(changes)
    ((name, choice),) = changes.items()
    (said,) = [record.getMessage() for record in caplog.records if "another space" in record.getMessage()]
    assert f"{name}={choice!r}" in said and "kernel.tune" in said
    assert reason == "its config is not of this version's space: the nearest one runs"


def test_what_is_there_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config, reason, default = served({})
        assert config == default and reason == "tuned here"
        assert served({"num_warps": 3}, "sibling")[1] == "tuned here", "another device's space is another"
    assert not [record for record in caplog.records if "another space" in record.getMessage()]
