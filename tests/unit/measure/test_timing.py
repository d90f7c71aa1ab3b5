"""Statistics and the adaptive repeat count, on distributions with known answers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileflow.measure.timing import Effort, measure, percentile, summarise


class Distribution:
    """A sampler that counts what was asked of it."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw
        self.drawn = 0

    def __call__(self, count: int) -> list[float]:
        self.drawn += count
        return [self.draw() for _ in range(count)]


def normal(mean: float, deviation: float, seed: int = 0) -> Distribution:
    source = random.Random(seed)
    return Distribution(lambda: source.gauss(mean, deviation))


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60))
def test_the_summary_is_ordered(samples: list[float]) -> None:
    result = summarise(samples)
    assert min(samples) <= result.p20_us <= result.median_us <= result.p80_us <= max(samples)
    assert 0 <= result.ci95_us <= max(samples) - min(samples)
    assert result.samples_us == tuple(samples)


def test_percentiles_interpolate() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert percentile([1.0, 2.0], 0.25) == 1.25
    assert percentile([7.0], 0.8) == 7.0


def test_the_interval_covers_the_median_nineteen_times_in_twenty() -> None:
    covered = 0
    for seed in range(400):
        result = summarise(normal(100.0, 5.0, seed)(25))
        covered += abs(result.median_us - 100.0) <= result.ci95_us
    assert 0.88 <= covered / 400 <= 0.99


def test_a_steady_kernel_needs_few_samples_and_a_noisy_one_more() -> None:
    steady, noisy = normal(50.0, 0.01), normal(50.0, 5.0)
    assert measure(steady, Effort()).median_us == pytest.approx(50.0, rel=1e-3)
    measure(noisy, Effort())
    assert steady.drawn < 30 < noisy.drawn <= 103


def test_a_slow_kernel_is_measured_as_often_as_the_budget_allows() -> None:
    slow = normal(50_000.0, 5_000.0)
    assert len(measure(slow, Effort()).samples_us) == 7


def test_it_stops_early_where_it_cannot_beat_the_incumbent() -> None:
    hopeless, close = normal(200.0, 20.0), normal(101.0, 20.0)
    assert len(measure(hopeless, Effort(), incumbent_us=100.0).samples_us) == hopeless.drawn == 3
    assert len(measure(close, Effort(), incumbent_us=100.0).samples_us) > 50


def test_one_slow_launch_among_the_first_does_not_decide() -> None:
    times = iter([500.0, 101.0, 500.0])
    winner = Distribution(lambda: next(times, 90.0))
    assert measure(winner, Effort(), incumbent_us=100.0).median_us == 90.0


def test_what_is_a_little_slower_is_stopped_after_the_first_round() -> None:
    source = random.Random(2)
    slower = Distribution(lambda: 110.0 if slower.drawn <= 3 else source.gauss(125.0, 1.0))
    assert len(measure(slower, Effort(), incumbent_us=100.0).samples_us) == 7


def test_an_outlier_does_not_move_the_median() -> None:
    source = random.Random(1)
    spiky = Distribution(lambda: 5000.0 if source.random() < 0.05 else source.gauss(100.0, 1.0))
    assert measure(spiky, Effort()).median_us == pytest.approx(100.0, rel=0.01)
