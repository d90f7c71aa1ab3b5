"""Random kernels on the GPU, under the default config and a random one, against plain Python over tiles there."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tile_testing.runs.crew import Crew

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

PROGRAMS, IN_ONE_CALL, CONFIGS = 108, 3, 1
GROUPS = [tuple(range(first, first + IN_ONE_CALL)) for first in range(0, PROGRAMS, IN_ONE_CALL)]


@pytest.fixture(scope="module")
def pending(crew: Crew) -> dict[tuple[int, ...], Future[list[str]]]:
    return {seeds: crew.ask("tile_testing.random_kernels.on_device:failures", seeds, CONFIGS) for seeds in GROUPS}


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_random_kernels(pending: dict[tuple[int, ...], Future[list[str]]], seeds: tuple[int, ...]) -> None:
    wrong = pending[seeds].result()
    assert not wrong, "\n\n".join(wrong) if isinstance(wrong, list) else wrong
