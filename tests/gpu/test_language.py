"""Constructs of the language on the GPU: the kernels of the interpreter's tests, against what they say."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest
from tile_testing.kernels.descriptor_kernels import REFERENCES
from tile_testing.runs.construct_cells import MODULES, ConstructJob, cases

if TYPE_CHECKING:
    from tile_testing.runs.cells import Cell
    from tile_testing.runs.crew import Crew

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

JOBS = [
    ConstructJob(module, name, mode) for module in MODULES for name in cases(module) for mode in ("static", "dynamic")
]


@pytest.fixture(scope="module")
def pending(crew: Crew) -> dict[ConstructJob, Future[list[Cell]]]:
    return {job: crew.cells(job) for job in JOBS}


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_construct(pending: dict[ConstructJob, Future[list[Cell]]], job: ConstructJob) -> None:
    """Under the default config and the case's own."""
    wrong = [f"under {cell.config}: {cell.reason}" for cell in pending[job].result() if cell.status != "ok"]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def boxes(crew: Crew) -> dict[str, Future[list[str]]]:
    return {name: crew.ask("tile_testing.kernels.descriptor_kernels:check", name) for name in REFERENCES}


@pytest.mark.parametrize("name", REFERENCES)
def test_access_by_descriptor(boxes: dict[str, Future[list[str]]], name: str) -> None:
    assert boxes[name].result() == []
