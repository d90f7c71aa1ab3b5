"""Portfolios are chosen by what they do to shapes they have not seen."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.config import Config
from tileflow.errors import TableError
from tileflow.runtime.portfolio import (
    PortfolioEntry,
    Times,
    choose_portfolio,
    choose_with_regrets,
    held_out_nearest,
)
from tileflow.runtime.problem import Problem

problem = examples.problem

SMALL, LARGE, ROUND = (Config.of({"block": b}) for b in (32, 256, 64))
SHAPES = [problem(1 << i, 1024) for i in range(4, 16)]


def test_one_all_round_config_beats_many_that_fit_noise() -> None:
    rng = random.Random(0)
    lucky = [Config.of({"block": 1000 + i}) for i in range(len(SHAPES))]
    times = {
        shape: {ROUND: 10.2} | {c: 10.0 if i == j else rng.uniform(14.0, 20.0) for j, c in enumerate(lucky)}
        for i, shape in enumerate(SHAPES)
    }
    (member,) = choose_portfolio(times)
    assert member.config == ROUND  # training error would take the twelve lucky ones: none is best anywhere else


def test_two_regimes_need_two_members_at_home_in_them() -> None:
    times = {}
    for shape in SHAPES:
        small = shape.sizes["x.shape.0"] < 1 << 9
        times[shape] = {SMALL: 10.0 if small else 30.0, LARGE: 30.0 if small else 10.0, ROUND: 17.0}
    members = choose_portfolio(times)
    assert {m.config for m in members} == {SMALL, LARGE}
    for m in members:
        assert (m.home.sizes["x.shape.0"] < 1 << 9) == (m.config == SMALL)


def test_a_config_not_timed_somewhere_counts_as_the_slowest_there() -> None:
    times = {shape: {ROUND: 10.0, LARGE: 12.0} for shape in SHAPES[:4]} | {SHAPES[5]: {LARGE: 10.0, SMALL: 50.0}}
    assert [m.config for m in choose_portfolio(times, limit=1)] == [LARGE]


def test_small_cases() -> None:
    assert choose_portfolio({}) == ()
    assert choose_portfolio({SHAPES[0]: {SMALL: 1.0, LARGE: 2.0}}) == (PortfolioEntry(SMALL, SHAPES[0]),)
    with pytest.raises(TableError, match="same categories"):
        choose_portfolio({SHAPES[0]: {SMALL: 1.0}, problem(8, 8, dtype="float32"): {SMALL: 1.0}})
    with pytest.raises(TableError, match="must have been timed"):
        choose_portfolio({SHAPES[0]: {}})


def _regret(times: Times, problem: Problem, members: Sequence[PortfolioEntry]) -> float:
    row, nearest = times[problem], min(members, key=lambda m: m.home.distance(problem))
    return math.log(row.get(nearest.config, max(row.values())) / min(row.values()))


def _chosen_by_hand(times: Times, size: int) -> list[PortfolioEntry]:
    """Each member tried beside those before it, on each problem."""

    def overall(members: Sequence[PortfolioEntry]) -> float:
        return sum(_regret(times, problem, members) for problem in times)

    configs = dict.fromkeys(config for row in times.values() for config in row)
    allround = min(configs, key=lambda config: overall([PortfolioEntry(config, next(iter(times)))]))
    chosen: list[PortfolioEntry] = []
    while len(chosen) < min(size, len(times)):
        homes = [home for home in times if all(m.home != home for m in chosen)]
        every = [PortfolioEntry(c, h) for h in homes for c in (min(times[h], key=times[h].__getitem__), allround)]
        chosen.append(min(every, key=lambda m: (round(overall([*chosen, m]), 9), _regret(times, m.home, [m]))))
    return chosen


@pytest.mark.parametrize("seed", range(20))
def test_a_choice_is_what_trying_each_member_on_each_problem_finds(seed: int) -> None:
    rng = random.Random(seed)
    shapes = dict.fromkeys(problem(rng.choice((64, 100, 128, 1000)), rng.choice((64, 96, 1024))) for _ in range(9))
    configs = [Config.of({"block": b}) for b in range(rng.randint(1, 6))]
    times = {
        shape: {c: rng.uniform(1.0, 3.0) for c in configs if rng.random() < 0.8} | {Config.of({"alone": n}): 2.0}
        for n, shape in enumerate(shapes)
    }
    members, regrets = choose_with_regrets(times, limit=4)
    assert list(members) == _chosen_by_hand(times, len(members))
    logs = [0.0] * len(regrets)
    for left_out in times:
        others = _chosen_by_hand({p: row for p, row in times.items() if p != left_out}, len(regrets))
        for k in range(len(regrets)):
            logs[k] += _regret(times, left_out, others[: k + 1]) / len(times)
    assert regrets == pytest.approx([math.exp(log) for log in logs])


def test_a_choice_among_many_problems_compares_each_pair_of_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of 125 problems took 150 s, of 250 more than ten minutes: leaving each out chose all anew, and each
    choice compared all candidates with all problems."""
    compared = 0
    distance = Problem.distance

    def counting(one: Problem, other: Problem) -> float:
        nonlocal compared
        compared += 1
        assert compared <= 2 * len(times) ** 2
        return distance(one, other)

    rng = random.Random(0)
    times = {problem(64 + i, 1024): {c: rng.uniform(1.0, 3.0) for c in (SMALL, LARGE, ROUND)} for i in range(125)}
    monkeypatch.setattr(Problem, "distance", counting)
    members, regrets = choose_with_regrets(times)
    assert members and len(regrets) == 8
    assert held_out_nearest(times) >= 1.0
