"""Processes that share the GPU, and what the cells of a run add up to: the last line, and a report as JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from tile_testing.runs.cells import Cell
    from tile_testing.runs.crew import Crew

    from tileflow.target import Target

REPORT = "TILEFLOW_GALLERY_REPORT"  # a path: where the gallery's cells go as JSON
PROCESS_BYTES = 4 << 30  # of a device's memory: each process holds a context on it, some 600 MB, and a call's tensors
CELLS: pytest.StashKey[list[Cell]] = pytest.StashKey()


@pytest.fixture
def card() -> Target:
    """The card, which multiplies by warp groups."""
    from tileflow.measure.device import identity
    from tileflow.target import target

    found = target(identity().device_class)
    if not found.has_wgmma:
        pytest.skip(f"{found.name} has no warp groups that multiply into registers")
    return found


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """A process a core, or one where the tests have processes of their own, the GPUs shared out between them. Nothing
    compiled before is found again in them."""
    from tile_testing.runs.crew import Crew, is_shared_out

    folders = {name: str(tmp_path_factory.mktemp(name.lower())) for name in ("TILEFLOW_CACHE", "TRITON_CACHE_DIR")}
    asked = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    gpus = asked.split(",") if asked else [str(n) for n in range(torch.cuda.device_count())]
    memory = sum(torch.cuda.get_device_properties(n).total_memory for n in range(len(gpus)))
    size = 1 if is_shared_out() else min(len(os.sched_getaffinity(0)), max(memory // PROCESS_BYTES, 1))
    with Crew(size, "cuda", folders, gpus=gpus) as crew:
        yield crew


@pytest.fixture(scope="session")
def gallery_cells(pytestconfig: pytest.Config) -> list[Cell]:
    """Where the gallery's test puts its cells, for the summary."""
    return pytestconfig.stash.setdefault(CELLS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    cells = config.stash.get(CELLS, [])
    if not cells:
        return
    counts = Counter(cell.status for cell in cells)
    terminalreporter.write_line(
        f"gallery: {len(cells)} cells, {counts['failed']} failed,"
        f" {counts['refused']} configs refused by the compiler (out of resources)"
    )
    if REPORT in os.environ:
        unlike = [asdict(cell) for cell in cells if cell.status != "ok"]
        summary = {"cells": len(cells), "failed": counts["failed"], "refused": counts["refused"], "not_ok": unlike}
        Path(os.environ[REPORT]).write_text(json.dumps(summary, indent=1))
