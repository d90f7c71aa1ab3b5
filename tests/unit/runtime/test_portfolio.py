"""Portfolios are chosen by what they do to shapes they have not seen."""

from __future__ import annotations

import random

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.config import Config
from tileflow.errors import TableError
from tileflow.runtime.portfolio import PortfolioEntry, choose_portfolio

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
