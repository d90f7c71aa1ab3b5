"""What is compiled for a shape that nobody tuned: a tuned one's config, or its own zero-search config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.softmax import softmax
from tileflow.config import Config
from tileflow.expr import TRUE
from tileflow.lowered import Lowered
from tileflow.runtime import clear, load
from tileflow.runtime.table import Entry, KernelId, Table, Unseen
from tileflow.runtime.table_files import dump_table
from tileflow.target import target

DEVICE = "nvidia-h200"
TUNED = (8, 64)  # rows


@pytest.fixture(autouse=True)
def no_tables() -> Iterator[None]:
    clear()
    yield
    clear()


def rows(m: int) -> torch.Tensor:
    return torch.randn(m, 64)


def row(m: int) -> Entry:
    """Says that the config of eight warps is the best."""
    lowered = softmax.lower((rows(m),), target(DEVICE))
    config = lowered.space.normalise(lowered.default.with_({"num_warps": 8}))
    return Entry(DEVICE, lowered.problem, config, "measured", 10.0, 12.0, 0.1, 50, measured_on=DEVICE)


class Launched:
    guards = TRUE

    def __call__(self, *place: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("unseen", "m", "warps"),
    [
        ({}, 32, 8),
        ({DEVICE: Unseen(3, 1.05, 1.2)}, 32, 8),
        ({DEVICE: Unseen(3, 1.2, 1.05)}, 32, None),
        ({DEVICE: Unseen(3, 1.2, 1.05)}, 64, 8),  # which was tuned
        ({"nvidia-a100": Unseen(3, 1.2, 1.05)}, 32, 8),
    ],
)
def test_by_what_served_better_when_it_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unseen: dict[str, Unseen], m: int, warps: int | None
) -> None:
    entries = [row(tuned) for tuned in TUNED]
    kernel = KernelId.of(softmax.name, softmax.semantic_hash)
    dump_table(Table.of(kernel, entries, unseen=unseen), tmp_path / "table.json")
    load(tmp_path / "table.json", as_device=DEVICE)
    compiled: list[tuple[Lowered, Config]] = []

    def noted(lowered: Lowered, config: Config, device: torch.device) -> dict[int, list[Any]]:
        compiled.append((lowered, config))
        return {0: [Launched()]}

    monkeypatch.setattr(softmax, "launchers", noted)
    monkeypatch.setattr("tileflow.serve.triton_interprets", lambda: True)
    softmax(rows(m))
    ((lowered, config),) = compiled
    assert config["num_warps"] == 8 if warps else config == lowered.default
    assert lowered.default["num_warps"] != 8
