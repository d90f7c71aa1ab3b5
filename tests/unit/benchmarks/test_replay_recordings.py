"""Recordings from a GPU guard the default strategy: replayed without its own computing they end the same everywhere.

A recording that is stale still guards: its header holds the knobs that it was made with. That it is stale is a warning
here, and said by ``python -m tileflow_benchmarks.search_replay replay``.
"""

from __future__ import annotations

import math
import random
import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import pytest
from tile_testing import DATA
from tileflow_benchmarks.search_replay import transfer
from tileflow_benchmarks.search_replay.compare import NEAR
from tileflow_benchmarks.search_replay.recording import Recording, read_all
from tileflow_benchmarks.search_replay.simulate import MakeStrategy, Replayed, simulate
from tileflow_benchmarks.search_replay.staleness import stale
from tileflow_experiments.tuning_task import prepare
from tileflow_search.base import RandomStrategy
from tileflow_search.default import DefaultStrategy
from tileflow_search.transfer import ProblemFeatures, TransferGroup

from tileflow.config import Config, ConfigSpace

SEEDS, ORDERS = range(2), range(2)
MARGIN = 1.5

# Medians of 12 seeds when the recordings were made: seconds and measurements to within 2 % of the recording's best, and
# measurements until the search ended. Whoever records anew, or makes the strategy better, writes the new ones.
FIGURES = {
    "attention": (0.84, 2, 122),
    "cross_entropy": (0.66, 2, 136),
    "fp8_matmul": (3.1, 91, 201),
    "layer_norm": (3.9, 95, 230),
    "matmul": (0.55, 12, 132),
    "softmax": (1.9, 62, 180),
}


def frozen() -> float:
    return 0.0


@cache
def recordings(folder: str) -> dict[str, Recording]:
    """By kernel and problem."""
    return {recording.header.title: recording for recording in read_all(DATA / folder)}


def kernel(recording: Recording) -> str:
    return recording.header.kernel.rpartition(":")[2]


def default_us(recording: Recording) -> float:
    return next(row.median_us for row in recording.rows if row.config == recording.header.default)


def searches(recording: Recording, make: MakeStrategy) -> list[Replayed]:
    return [simulate(recording, make, seed, seconds=60.0, clock=frozen) for seed in SEEDS]


def near(recording: Recording, runs: Sequence[Replayed]) -> tuple[float, float]:
    """Medians of the seconds and of the measurements to within 2 %."""
    found = [run.first_below(NEAR * recording.best_us) or (math.inf, math.inf) for run in runs]
    return statistics.median(s for s, _ in found), statistics.median(n for _, n in found)


def worse(recording: Recording, runs: Sequence[Replayed]) -> list[str]:
    """Which of the figures are clearly above what they were."""
    names = ("seconds to 2 %", "measurements to 2 %", "measurements")
    now = (*near(recording, runs), statistics.median(run.measured for run in runs))
    return [
        f"{name}: {found:.4g}, was {was}"
        for name, found, was in zip(names, now, FIGURES[kernel(recording)], strict=True)
        if found > MARGIN * was
    ]


class TestDefaultStrategy:
    @pytest.mark.parametrize("recording", recordings("lab").values(), ids=kernel)
    def test_is_as_good_as_it_was_and_far_better_than_chance(self, recording: Recording) -> None:
        ours, chance = searches(recording, DefaultStrategy), searches(recording, RandomStrategy)
        assert not worse(recording, ours)
        assert all(run.finished for run in ours)
        assert max(run.best_at(math.inf) for run in ours) <= 1.03 * recording.best_us
        (seconds, trials), by_chance = near(recording, ours), near(recording, chance)
        if default_us(recording) > NEAR * recording.best_us:  # elsewhere the first measurement is near already
            assert seconds <= by_chance[0] / 1.5 and trials <= by_chance[1] / 2

    def test_recordings_tell_strategies_from_chance(self) -> None:
        assert sum(default_us(r) > NEAR * r.best_us for r in recordings("lab").values()) >= 3

    def test_would_be_noticed_to_have_lost_its_surrogate(self) -> None:
        (recording,) = (r for r in recordings("lab").values() if kernel(r) == "fp8_matmul")
        found = worse(recording, searches(recording, partial(DefaultStrategy, model=False)))
        assert [line.partition(":")[0] for line in found] == ["measurements"]


@pytest.fixture(scope="module", params=["matmul", "rms_norm_bwd"])
def series(request: pytest.FixtureRequest) -> transfer.Series:
    shapes = [recording for recording in recordings("lab_shapes").values() if kernel(recording) == request.param]
    (found,) = transfer.transfer(shapes, ORDERS, 60.0, clock=frozen)
    return found


def of_later(series: transfer.Series, way: str, what: Callable[[transfer.Turn], float]) -> float:
    """The median over the third shape and those after it."""
    return statistics.median(what(t) for number in range(3, series.shapes + 1) for t in series.of(way, number))


@pytest.mark.slow
class TestSharing:
    """Two orders for the time they take; ``replay tests/data/lab_shapes --transfer`` tells of more."""

    def test_later_shapes_are_near_the_best_sooner(self, series: transfer.Series) -> None:
        alone, sharing = (of_later(series, way, lambda turn: turn.near[1]) for way in ("alone", "sharing"))
        assert sharing < 0.75 * alone

    def test_later_shapes_end_sooner_and_not_far_behind(self, series: transfer.Series) -> None:
        alone, sharing = (of_later(series, way, lambda turn: turn.run.measured) for way in ("alone", "sharing"))
        assert sharing < 0.85 * alone
        assert max(turn.regret for turn in series.turns if turn.way == "sharing") < 0.03


def test_a_search_among_siblings_learns_of_its_own_before_it_ends() -> None:
    """The order in which the fourth search once ended after 12 measurements, 5.9 % behind."""
    seed, group = 6, TransferGroup(6)
    shapes = [recording for recording in recordings("lab_shapes").values() if kernel(recording) == "matmul"]
    for recording in random.Random(seed).sample(shapes, len(shapes)):
        header = recording.header
        problem = ProblemFeatures.of(header.problem, bytes=header.traffic_bytes, flops=header.flops)

        def join(
            space: ConfigSpace, seed: int, problem: ProblemFeatures = problem, default: Config = header.default
        ) -> DefaultStrategy:
            return DefaultStrategy(space, seed, peers=group.join(problem, space, default))

        run = simulate(recording, join, seed, seconds=60.0, clock=frozen)
        assert run.finished and run.measured > 50 and run.best_at(math.inf) < 1.02 * recording.best_us


class TestStaleness:
    @pytest.mark.parametrize("folder", ["lab", "lab_shapes"])
    def test_is_a_warning(self, folder: str) -> None:
        for title, recording in recordings(folder).items():
            why = stale(recording.header, prepare)
            if why:
                warnings.warn(f"{title}: {why}; `search_replay record` makes it anew", stacklevel=1)
            assert "cannot be lowered" not in why, why

    def test_names_the_knobs(self) -> None:
        header = next(iter(recordings("lab").values())).header
        first, second, *others = header.knobs
        older = replace(
            header, space_fingerprint="0" * 16, knobs=(replace(first, choices=first.choices[::-1]), *others)
        )
        found = stale(older, prepare)
        assert "its space (" in found and f"new: {second.name}" in found and f"other choices: {first.name}" in found

    def test_names_the_kernel(self) -> None:
        header = next(iter(recordings("lab").values())).header
        assert "the kernel" in stale(replace(header, semantic_hash="0" * 16), prepare)
