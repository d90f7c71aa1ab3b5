"""Constructs of the language on the GPU: the kernels of the interpreter's tests, against what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tile_testing.kernels.descriptor_kernels import REFERENCES
from tile_testing.runs.construct_cells import MODULES, ConstructJob, cases
from tile_testing.runs.crew import is_shared_out

if TYPE_CHECKING:
    from tile_testing.runs.crew import Crew

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

JOBS = [
    ConstructJob(module, name, mode) for module in MODULES for name in cases(module) for mode in ("static", "dynamic")
]
Asked = Callable[[Any], Any]  # the future of a job's result


def _ask(ask: Asked, jobs: Iterable[Any]) -> Asked:
    """A function that asks for a job once: for all at once, or for each as its test comes where other processes have
    the other tests."""
    known = cache(ask)
    for job in () if is_shared_out() else jobs:
        known(job)
    return known


@pytest.fixture(scope="module")
def pending(crew: Crew) -> Asked:
    return _ask(crew.cells, JOBS)


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_construct(pending: Asked, job: ConstructJob) -> None:
    """Under the default config and the case's own."""
    wrong = [f"under {cell.config}: {cell.reason}" for cell in pending(job).result() if cell.status != "ok"]
    assert not wrong, "\n".join(wrong)


@pytest.fixture(scope="module")
def boxes(crew: Crew) -> Asked:
    return _ask(lambda name: crew.ask("tile_testing.kernels.descriptor_kernels:check", name), REFERENCES)


@pytest.mark.parametrize("name", REFERENCES)
def test_access_by_descriptor(boxes: Asked, name: str) -> None:
    assert boxes(name).result() == []
