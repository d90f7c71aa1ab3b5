"""What every strategy promises, held against each of them."""

from __future__ import annotations

import math
import random

import pytest
from tileflow_search import STRATEGIES, Result, Strategy, make

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.errors import ConfigError
from tileflow.expr import Expr

BAD, LOST = Result(violated=True), Result(infrastructure=True)


def gemm_space() -> ConfigSpace:
    """Thousands of combinations of every kind of knob; many break a constraint or repeat another's binary."""
    m, n, k, stages, warps = (Expr.sym(s) for s in ("m", "n", "k", "stages", "warps"))
    return ConfigSpace(
        knobs=(
            Knob("m", "tile_m", (16, 32, 64, 128, 256), "block", 64),
            Knob("n", "tile_n", (16, 32, 64, 128, 256), "block", 64),
            Knob("k", "tile_k", (16, 32, 64, 128), "block", 32),
            Knob("warps", "launch", (1, 2, 4, 8), "launch", 4),
            Knob("stages", "loop", (1, 2, 3, 4), "loop", 2),
            Knob("order", "grid", ("rows", "columns", "grouped"), "order", "rows"),
            Knob("group", "grid", (2, 4, 8), "group", 4, active=Expr.sym("order").eq(2)),
            Knob("persistent", "grid", (False, True), "grid", False),
        ),
        constraints=(
            Constraint(
                "shared memory",
                ((m + n) * k * stages * 2).le(Expr.sym("target.smem_per_block")),
                (("stages", "down"), ("k", "down"), ("n", "down")),
                "the tiles must fit in shared memory",
            ),
            Constraint("registers", (m * n).le(warps * 8192), (("warps", "up"), ("n", "down")), "must not spill"),
        ),
        environment=(("target.smem_per_block", 96 << 10),),
    )


def small_space() -> ConfigSpace:
    """Forty-eight combinations, of which a few survive the constraint and the idle knob."""
    a, b = Expr.sym("a"), Expr.sym("b")
    return ConfigSpace(
        (
            Knob("a", "a", (1, 2, 4, 8), "block", 2),
            Knob("b", "b", (1, 2, 4), "block", 1),
            Knob("c", "c", (False, True), "loop", False),
            Knob("d", "d", ("x", "y"), "loop", "x", active=Expr.sym("c")),
            Knob("fixed", "e", (7,), "tunable", 7),
        ),
        (Constraint("sum", (a * b).le(8), (("a", "down"),), "must be small"),),
    )


def hostile_space() -> ConfigSpace:
    """One valid config among 2^10, which no draw is likely to find and no repair leads to."""
    names = [f"k{i}" for i in range(10)]
    total = sum((Expr.sym(n) for n in names), Expr.of(0))
    return ConfigSpace(
        tuple(Knob(n, n, (0, 1), "tunable", 0) for n in names),
        (Constraint("all", total.eq(10), (), "every knob must be 1"),),
    )


def time_us(config: Config) -> float:
    """A smooth bowl with wrinkles: a made-up kernel that likes 128 x 128 x 64 tiles, 8 warps, groups of 8."""
    ideal = {"m": 7.0, "n": 7.0, "k": 6.0, "warps": 3.0}
    away = sum((math.log2(int(config[name])) - best) ** 2 for name, best in ideal.items())
    away += (int(config["stages"]) - 3) ** 2
    away += {"rows": 1.0, "columns": 1.5, "grouped": 0.2}[str(config["order"])]
    away += 0.1 * abs(int(config["group"]) - 8) if config["order"] == "grouped" else 0.0
    wrinkle = 0.3 * (int(config.key, 16) % 100) / 100
    return 50.0 * (1 + 0.15 * away + wrinkle) * (0.97 if config["persistent"] else 1.0)


def verdict(config: Config) -> Result:
    """Most configs run; one in nine does not build."""
    return BAD if int(config.key, 16) % 9 == 0 else Result(time_us(config))


def run(strategy: Strategy, budget: int, batch: int = 1) -> list[Config]:
    asked: list[Config] = []
    while len(asked) < budget:
        configs = strategy.ask(min(batch, budget - len(asked)))
        if not configs:
            break
        for config in configs:
            strategy.tell(config, verdict(config))
        asked += configs
    return asked


@pytest.mark.filterwarnings("ignore:Constraints have been set:UserWarning")  # CMA-ES learns from the penalty alone
@pytest.mark.parametrize("name", STRATEGIES)
class TestStrategy:
    @pytest.mark.parametrize("batch", [1, 7])
    def test_meets_its_budget_with_valid_distinct_configs(self, name: str, batch: int) -> None:
        space = gemm_space()
        asked = run(make(name, space, seed=0), 60, batch)
        assert len(asked) == len(set(asked)) == 60
        for config in asked:
            space.check(config)
            assert space.is_valid(config)
            assert space.normalise(config) == config

    def test_asks_for_more_than_it_was_told_about(self, name: str) -> None:
        asked = make(name, gemm_space(), seed=0).ask(40)
        assert len(set(asked)) == 40

    def test_is_deterministic_under_a_seed(self, name: str) -> None:
        first, second = (run(make(name, gemm_space(), seed=3), 40, batch=4) for _ in range(2))
        assert first == second

    def test_exhausts_a_small_space_and_then_is_empty(self, name: str) -> None:
        space = small_space()
        strategy = make(name, space, seed=1)
        asked = []
        while configs := strategy.ask(3):
            asked += configs
            for config in configs:
                strategy.tell(config, Result(float(sum(map(ord, config.key)))))
        assert len(asked) == len(set(asked))
        assert set(asked) == set(space.enumerate())
        assert strategy.ask(1) == []

    def test_finds_what_neither_draws_nor_repairs_find(self, name: str) -> None:
        strategy = make(name, hostile_space(), seed=0)
        assert strategy.ask(5) == [Config.of({f"k{i}": 1 for i in range(10)})]

    def test_has_nothing_to_say_of_a_space_without_valid_configs(self, name: str) -> None:
        space = ConfigSpace((Knob("a", "a", (1, 2), "tunable", 1),), (Constraint("no", Expr.of(0), (), "never"),))
        assert make(name, space, seed=0).ask(1) == []

    def test_a_space_without_knobs_has_one_config(self, name: str) -> None:
        strategy = make(name, ConfigSpace(()), seed=0)
        assert strategy.ask(2) == [Config(())]

    @pytest.mark.parametrize("result", [BAD, LOST])
    def test_survives_spaces_where_nothing_works(self, name: str, result: Result) -> None:
        strategy = make(name, gemm_space(), seed=0)
        asked = []
        for _ in range(40):
            (config,) = strategy.ask(1)
            strategy.tell(config, result)
            asked.append(config)
        assert len(set(asked)) == 40

    def test_seeds_come_first_repaired_and_once(self, name: str) -> None:
        space = gemm_space()
        broken = space.complete({"m": 256, "n": 256, "k": 128, "stages": 4})
        idle = space.default.with_({"group": 8})  # changes nothing while the order is by rows
        strategy = make(name, space, seed=0, seeds=[space.default, broken, idle])
        asked = strategy.ask(5)
        assert asked[:2] == [space.default, space.repair(broken)]
        assert len(set(asked)) == 5
        with pytest.raises(ConfigError, match="'block:m'"):
            make(name, space, seed=0, seeds=[Config.of({"block:m": 64})])

    def test_a_replayed_journal_is_not_asked_again(self, name: str) -> None:
        space = gemm_space()
        before = run(make(name, space, seed=5), 50, batch=5)
        resumed = make(name, space, seed=5, seeds=before[:3])
        for config in before:
            resumed.tell(config, verdict(config))
        after = run(resumed, 30, batch=5)
        assert len(after) == len(set(after)) == 30
        assert not set(after) & set(before)

    def test_tells_come_in_any_order_late_and_twice(self, name: str) -> None:
        strategy = make(name, gemm_space(), seed=2)
        pending: list[Config] = []
        asked: list[Config] = []
        rng = random.Random(0)
        for _ in range(12):
            configs = strategy.ask(4)
            asked += configs
            pending += configs
            rng.shuffle(pending)
            while len(pending) > 6:
                config = pending.pop()
                strategy.tell(config, LOST)
                strategy.tell(config, verdict(config))
                strategy.tell(config, verdict(config))
        assert len(set(asked)) == 48

    def test_an_unnormalised_config_told_counts_as_its_binary(self, name: str) -> None:
        space = small_space()
        strategy = make(name, space, seed=0)
        for config in space.enumerate():
            strategy.tell(config if config["c"] else config.with_({"d": "y"}), Result(1.0))
        assert strategy.ask(1) == []

    def test_refuses_a_config_of_another_space(self, name: str) -> None:
        with pytest.raises(ConfigError, match="only name knobs"):
            make(name, gemm_space(), seed=0).tell(small_space().default, Result(1.0))
