"""The strategies one by one: the order of random and exhaustive, what Optuna's samplers are told, local's steps."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, QMCSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from tileflow_search import Result, make
from tileflow_search.codec import Codec
from tileflow_search.local import LocalSampler
from tileflow_search.optuna_strategy import FIRST_PENALTY, REPEATS, OptunaStrategy

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.errors import InternalError, SpecError
from tileflow.expr import Expr

BAD, LOST = Result(violated=True), Result(infrastructure=True)


def block_space(limit: int = 4096) -> ConfigSpace:
    """Blocks of at most ``limit`` elements, and a group size that only counts when grouping is on."""
    return ConfigSpace(
        (
            Knob("m", "m", (16, 32, 64, 128, 256), "block", 16),
            Knob("n", "n", (16, 32, 64, 128, 256), "block", 16),
            Knob("grouped", "grid", (False, True), "grid", False),
            Knob("group", "grid", (2, 4, 8), "group", 2, active=Expr.sym("grouped")),
            Knob("order", "grid", ("rows", "columns"), "order", "rows"),
        ),
        (
            Constraint(
                "size",
                (Expr.sym("m") * Expr.sym("n")).le(limit),
                (("n", "down"), ("m", "down")),
                "blocks must be small",
            ),
        ),
    )


class Spy(BaseSampler):
    """Suggests the same parameters for ever, and remembers what it is told."""

    def __init__(self, params: dict[str, int]) -> None:
        self.params = params
        self.told: list[tuple[dict[str, int], TrialState, list[float] | None, dict[str, float]]] = []

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, object]:
        return {}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, object]) -> dict[str, int]:
        return {}

    def sample_independent(self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: object) -> int:
        return self.params[param_name]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: list[float] | None) -> None:
        self.told.append((trial.params, state, values, trial.constraints))


LARGEST = {"m": 4, "n": 4, "grouped": 0, "group": 2, "order": 0}  # 256 x 256, to be repaired; an idle group of 8
REPAIRED = Config.of({"m": 256, "n": 16, "grouped": False, "group": 2, "order": "rows"})


class TestResult:
    @pytest.mark.parametrize(
        "fields", [{}, {"time_us": 1.0, "violated": True}, {"violated": True, "infrastructure": True}]
    )
    def test_is_exactly_one_of_three(self, fields: dict[str, bool]) -> None:
        with pytest.raises(InternalError, match="exactly one"):
            Result(**fields)

    @pytest.mark.parametrize("time_us", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_time_is_positive_and_finite(self, time_us: float) -> None:
        with pytest.raises(InternalError, match="positive and finite"):
            Result(time_us)


class TestRandom:
    def test_the_order_does_not_depend_on_what_is_told(self) -> None:
        silent = make("random", block_space(), seed=1).ask(30)
        strategy, spoken, rng = make("random", block_space(), seed=1), [], random.Random(0)
        while len(spoken) < 30:
            configs = strategy.ask(5)
            spoken += configs
            for config in rng.sample(configs, 5):
                strategy.tell(config, rng.choice([Result(rng.uniform(1, 9)), BAD, LOST]))
        assert spoken == silent

    def test_a_resumed_run_goes_on_where_it_stopped(self) -> None:
        whole = make("random", block_space(), seed=4).ask(60)
        resumed = make("random", block_space(), seed=4)
        for config in whole[:40]:
            resumed.tell(config, BAD)
        assert resumed.ask(20) == whole[40:]

    def test_draws_are_uniform_over_the_choices(self) -> None:
        space = ConfigSpace(tuple(Knob(n, n, tuple(range(32)), "tunable", 0) for n in ("a", "b")))
        halves = Counter(int(c["a"]) < 16 for c in make("random", space, seed=0).ask(400))
        assert 150 < halves[True] < 250

    def test_seeds_differ(self) -> None:
        assert make("random", block_space(), seed=0).ask(10) != make("random", block_space(), seed=1).ask(10)


def test_exhaustive_keeps_the_enumeration_s_order_around_what_is_known() -> None:
    space = block_space()
    everything = list(space.enumerate())
    strategy = make("exhaustive", space, seed=9, seeds=[everything[7]])
    strategy.tell(everything[0], BAD)
    assert strategy.ask(len(everything)) == [everything[7], *everything[1:7], *everything[8:]]


class TestCodec:
    def test_numbers_are_ordered_and_the_rest_categories(self) -> None:
        codec = Codec(block_space())
        assert codec.distributions["m"] == IntDistribution(0, 4)
        assert codec.distributions["grouped"] == CategoricalDistribution((0, 1))
        assert codec.distributions["order"] == CategoricalDistribution((0, 1))

    def test_configs_survive_the_way_there_and_back(self) -> None:
        space = block_space()
        codec = Codec(space)
        for config in space.enumerate():
            assert codec.config(codec.params(config)) == config

    def test_a_knob_without_a_choice_is_no_parameter(self) -> None:
        space = ConfigSpace((Knob("only", "x", ("one",), "tunable", "one"), Knob("a", "a", (1, 2), "tunable", 1)))
        codec = Codec(space)
        assert set(codec.distributions) == {"a"}
        assert codec.config({"a": 1}) == Config.of({"only": "one", "a": 2})


class TestOptunaStrategy:
    def test_the_sampler_learns_the_repaired_config_once(self) -> None:
        spy = Spy(LARGEST)
        strategy = OptunaStrategy(block_space(), spy, seed=0)
        assert strategy.ask(1) == [REPAIRED]
        strategy.tell(REPAIRED, Result(8.0))
        ((params, state, values, constraints),) = spy.told
        assert params == LARGEST | {"n": 0, "group": 0}
        assert (state, values, constraints) == (TrialState.COMPLETE, [3.0], {"valid": -1.0})

    def test_a_bad_config_is_a_finite_penalty_and_a_violated_constraint(self) -> None:
        spy = Spy(LARGEST)
        strategy = OptunaStrategy(block_space(), spy, seed=0)
        first, second, third = strategy.ask(3)
        strategy.tell(first, BAD)
        strategy.tell(second, Result(16.0))
        strategy.tell(third, BAD)
        told = spy.told[-3:]
        assert [state for _, state, _, _ in told] == [TrialState.COMPLETE] * 3
        assert [values for _, _, values, _ in told] == [[FIRST_PENALTY], [4.0], [5.0]]
        assert [constraints["valid"] > 0 for _, _, _, constraints in told] == [True, False, True]

    def test_a_lost_trial_fails_and_its_later_verdict_is_learnt(self) -> None:
        spy = Spy(LARGEST)
        strategy = OptunaStrategy(block_space(), spy, seed=0)
        (config,) = strategy.ask(1)
        strategy.tell(config, LOST)
        strategy.tell(config, Result(2.0))
        strategy.tell(config, Result(4.0))
        assert [(state, values) for _, state, values, _ in spy.told] == [
            (TrialState.FAIL, None),
            (TrialState.COMPLETE, [1.0]),
        ]

    def test_a_repeated_suggestion_is_told_its_known_value_and_chance_takes_over(self) -> None:
        spy = Spy(LARGEST)
        strategy = OptunaStrategy(block_space(), spy, seed=0)
        (first,) = strategy.ask(1)
        strategy.tell(first, Result(8.0))
        (second,) = strategy.ask(1)
        assert second != first
        repeats = spy.told[1:]
        assert len(repeats) == REPEATS
        assert all(values == [3.0] for _, _, values, _ in repeats)

    def test_a_replayed_config_reaches_the_sampler_as_if_it_had_asked(self) -> None:
        spy = Spy(LARGEST)
        strategy = OptunaStrategy(block_space(), spy, seed=0)
        strategy.tell(REPAIRED.with_({"m": 32, "order": "columns"}), Result(4.0))
        ((params, state, values, _),) = spy.told
        assert params == {"m": 1, "n": 0, "grouped": 0, "group": 0, "order": 1}
        assert (state, values) == (TrialState.COMPLETE, [2.0])

    @pytest.mark.parametrize(
        "sampler", [RandomSampler, QMCSampler, partial(NSGAIISampler, population_size=8), TPESampler], ids=str
    )
    @pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
    def test_takes_any_sampler(self, sampler: Callable[..., BaseSampler]) -> None:
        space = block_space()
        strategy = OptunaStrategy(space, sampler(seed=0), seed=0)
        asked = []
        for _ in range(30):
            (config,) = strategy.ask(1)
            asked.append(config)
            strategy.tell(config, BAD if config["order"] == "columns" else Result(float(config["m"])))
        assert len(set(asked)) == 30
        assert all(space.is_valid(c) for c in asked)

    def test_bad_configs_steer_the_model_away(self) -> None:
        """Half of the space is bad: after the model's start few of its suggestions are."""
        numbers = tuple(Knob(name, name, tuple(range(8)), "tunable", 0) for name in "abcd")
        order = Knob("order", "grid", ("rows", "columns"), "order", "rows")
        strategy = make("tpe", ConfigSpace((*numbers, order)), seed=0)
        bad = []
        for _ in range(50):
            (config,) = strategy.ask(1)
            bad.append(config["order"] == "columns")
            strategy.tell(config, BAD if bad[-1] else Result(1.0 + sum(int(config[k]) for k in "abcd")))
        assert sum(bad[10:]) < 0.25 * len(bad[10:])


class TestLocal:
    def test_steps_to_neighbours_of_the_best(self) -> None:
        space = block_space()
        strategy = OptunaStrategy(space, LocalSampler(Codec(space), 0, startup=0, restart=1000, beam=1), seed=0)
        strategy.tell(space.default, Result(1.0))
        around = set(space.neighbours(space.default))
        asked = strategy.ask(len(around))
        assert set(asked) == around

    def test_never_steps_from_a_bad_config(self) -> None:
        space = block_space()
        strategy = OptunaStrategy(space, LocalSampler(Codec(space), 0, startup=0, restart=1000, beam=4), seed=0)
        corner = space.complete({"m": 16, "n": 256})
        strategy.tell(space.default, Result(100.0))
        strategy.tell(corner, BAD)
        (config,) = strategy.ask(1)
        assert config in set(space.neighbours(space.default))

    def test_leaves_a_local_optimum(self) -> None:
        """Nothing near the best is better; kicks and restarts still find the far corner that is."""
        space = block_space(limit=1 << 16)
        best = space.complete({"m": 256, "n": 256, "order": "columns"})
        strategy = make("local", space, seed=0, seeds=[space.default])
        asked = []
        while best not in asked:
            (config,) = strategy.ask(1)
            asked.append(config)
            distance = sum(config[name] != space.default[name] for name in config.to_dict())
            strategy.tell(config, Result(0.5 if config == best else 1.0 + distance))
        assert len(asked) < space.size / 2


def test_an_unknown_strategy_gives_the_known_ones() -> None:
    with pytest.raises(SpecError, match="'annealing'") as caught:
        make("annealing", block_space(), seed=0)
    assert "default, random, exhaustive, tpe, cma-es, evolution, pattern, local" in str(caught.value)


def test_a_warm_strategy_loads_nothing_in_the_midst_of_a_search() -> None:
    """Seen from a fresh process: what other tests loaded does not count."""
    program = (
        "import sys\n"
        "from tileflow_search.registry import warm_up\n"
        "from tileflow_search.forest import Forest\n"
        "from tileflow_search.surrogate import FEWEST\n"
        "before = set(sys.modules)\n"
        "warm_up('random')\n"
        "assert not any(name.startswith('sklearn') for name in sys.modules), 'only who needs it'\n"
        "warm_up('default')\n"
        "warm = set(sys.modules)\n"
        "rows = [[float(n), float(n % 3)] for n in range(FEWEST)]\n"
        "Forest(rows, [float(n) for n in range(FEWEST)], 1).predict(rows)\n"
        "print(any(name.startswith('sklearn') for name in warm - before), len(set(sys.modules) - warm))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]
