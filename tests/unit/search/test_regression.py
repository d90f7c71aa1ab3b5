"""Guided strategies must beat chance at equal trials, on a made-up kernel whose knobs interact."""

from __future__ import annotations

import statistics

import pytest
from tileflow_search import Result, make

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.expr import Expr

SEEDS = range(5)
SMEM, REGISTERS, SMS = 228 << 10, 65536, 132


def matmul_space() -> ConfigSpace:
    m, n, k, stages = (Expr.sym(s) for s in ("m", "n", "k", "stages"))
    return ConfigSpace(
        knobs=(
            Knob("m", "tile_m", (16, 32, 64, 128, 256), "block", 32),
            Knob("n", "tile_n", (16, 32, 64, 128, 256), "block", 32),
            Knob("k", "tile_k", (16, 32, 64, 128), "block", 32),
            Knob("warps", "launch", (1, 2, 4, 8, 16), "launch", 4),
            Knob("stages", "loop", (1, 2, 3, 4, 5, 6), "loop", 2),
            Knob("group", "grid", (1, 2, 4, 8, 16, 32), "group", 1),
            Knob("persistent", "grid", (False, True), "grid", False),
            Knob("eviction", "load:x#0", ("", "evict_first", "evict_last"), "access", ""),
        ),
        constraints=(
            Constraint(
                "shared memory",
                ((m + n) * k * stages * 2).le(SMEM),
                (("stages", "down"), ("k", "down"), ("n", "down")),
                "the tiles must fit in shared memory",
            ),
        ),
    )


def trial(config: Config, size: int = 8192) -> Result:
    """A roofline with waves, latency hiding and reuse; what would spill does not build."""
    m, n, k, warps, stages, group = (int(config[name]) for name in ("m", "n", "k", "warps", "stages", "group"))
    if m * n / (warps * 32) > 192:
        return Result(violated=True)
    blocks = min(SMEM // max((m + n) * k * stages * 2, 1), REGISTERS // (m * n + warps * 32 * 32), 2048 // (warps * 32))
    if blocks == 0:
        return Result(violated=True)
    tiles = (size // m) * (size // n)
    slots = blocks * SMS
    waves = -(-tiles // slots) * slots / tiles
    issue = min(1.0, m / 64) * min(1.0, n / 128) ** 0.5 * min(1.0, k / 64) ** 0.25 * min(1.0, blocks * warps / 8)
    hidden = min(1.0, (stages * blocks) / 4) * (1.0 - 0.02 * max(stages - 4, 0))
    compute = 2 * size**3 / 990e6 / issue / hidden
    reuse = {"": 0.6, "evict_first": 0.5, "evict_last": 0.65}[str(config["eviction"])] * min(group, 8) ** 0.3
    traffic = size * size * 2 * (size / m + size / n) / reuse / 4.8e6
    overhead = 0.0 if config["persistent"] else 0.002 * tiles
    return Result(max(compute, traffic) * (1.0 if config["persistent"] else waves) + overhead)


def median_best(name: str, trials: int) -> float:
    """The median over seeds of the best time found, in microseconds."""
    space = matmul_space()
    bests = []
    for seed in SEEDS:
        strategy = make(name, space, seed, seeds=[space.default])
        best = float("inf")
        for _ in range(trials):
            (config,) = strategy.ask(1)
            result = trial(config)
            strategy.tell(config, result)
            best = min(best, result.time_us or best)
        bests.append(best)
    return statistics.median(bests)


@pytest.mark.parametrize(
    ("name", "trials", "share"),
    # those without a model need more trials, by which chance has come near the best too
    [("default", 60, 0.9), ("tpe", 60, 0.9), ("local", 60, 0.9), ("pattern", 150, 0.98), ("evolution", 150, 0.98)],
)
def test_guided_strategies_beat_chance_at_equal_trials(name: str, trials: int, share: float) -> None:
    found, chance = median_best(name, trials), median_best("random", trials)
    assert found < share * chance, f"{name} found {found:.0f} us, chance {chance:.0f} us"
