"""A recording made by a formula: a matrix product on a made-up GPU, with spills, waves, noise and compile costs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from tileflow_benchmarks.search_replay.plan import plan
from tileflow_benchmarks.search_replay.recording import Header, Recording, Row

from tileflow.config import Config, ConfigSpace, Constraint, Knob
from tileflow.cost import Launch, StaticFacts, static_facts
from tileflow.expr import Expr
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Status
from tileflow.runtime.abi import Resources
from tileflow.target import target

H200 = target("nvidia-h200")
SMEM = 227 << 10


@dataclass(frozen=True, slots=True)
class Shape:
    """Of the product: ``m`` by ``k`` times ``k`` by ``n``."""

    m: int = 4096
    n: int = 4096
    k: int = 4096

    @property
    def traffic(self) -> Traffic:
        m, n, k = self.m, self.n, self.k
        return Traffic((m * k + k * n + m * n) * 2, 2 * m * n * k, "bfloat16")

    def tiles(self, m: int, n: int) -> int:
        return -(-self.m // m) * -(-self.n // n)


SQUARE = Shape()


def space() -> ConfigSpace:
    m, n, k, stages = (Expr.sym(s) for s in ("block:m", "block:n", "block:k", "num_stages"))
    sizes = (16, 32, 64, 128, 256, 512)
    return ConfigSpace(
        knobs=(
            Knob("block:m", "tile_m", sizes, "block", 128),
            Knob("block:n", "tile_n", sizes, "block", 64),
            Knob("block:k", "tile_k", (16, 32, 64, 128, 256), "block", 32),
            Knob("persistent", "grid", (0, 1, 2, 4), "grid", 0),
            Knob("order", "grid", ("0,1", "1,0"), "order", "0,1"),
            Knob("group", "grid", (1, 2, 4, 8, 16), "group", 1),
            Knob("load:x#0.eviction", "load:x#0", ("", "evict_first", "evict_last"), "access", ""),
            Knob("load:x#0.access", "load:x#0", ("pointer", "descriptor"), "access", "pointer"),
            Knob("load:y#0.access", "load:y#0", ("pointer", "descriptor"), "access", "pointer"),
            Knob("num_warps", "launch", (1, 2, 4, 8, 16), "launch", 4),
            Knob("num_stages", "loop", (1, 2, 3, 4, 5), "launch", 2),
        ),
        constraints=(
            Constraint("shared", ((m + n) * k * stages * 2).le(SMEM), (("num_stages", "down"), ("block:k", "down")),
                       "must fit"),
            Constraint("tile", (m * n).le(1 << 16), (("block:n", "down"), ("block:m", "down")), "must fit"),
        ),
    )  # fmt: skip


def facts(config: Config, shape: Shape = SQUARE) -> StaticFacts:
    m, n, k, warps, stages, persistent = _numbers(config)
    wanted = m * n // (warps * 32) + 40
    mix = {"wgmma": k // 16} if m >= 64 and warps >= 4 else {"mma": m * n * k // (4096 * warps)}
    resources = Resources(min(wanted, 255), max(wanted - 255, 0) * 4, (m + n) * k * stages * 2, warps * 32,
                          tuple(sorted({"total": wanted * 4, **mix}.items())))  # fmt: skip
    programs = 132 * persistent if persistent else shape.tiles(m, n)
    return static_facts(shape.traffic, [Launch(resources, programs)], H200)


def time_us(config: Config, shape: Shape = SQUARE) -> float:
    m, n, k, warps, stages, persistent = _numbers(config)
    known = facts(config, shape)
    tiles = shape.tiles(m, n)
    waves = -(-tiles // 132) * 132 / tiles * (1.02 + 0.01 * abs(persistent - 1) if persistent else 1.1)
    intensity = min(m * n / (m + n) / 64, 1.0) ** 0.7
    hidden = min(stages * k / 256, 1.0) ** 0.4
    boxes = sum(config[name] == "descriptor" for name in ("load:x#0.access", "load:y#0.access"))
    group = 1.0 + 0.02 * abs(math.log2(int(config["group"])) - 3)
    order = 1.0 if config["order"] == "0,1" else 1.03
    evicted = {"": 1.01, "evict_first": 1.04, "evict_last": 1.0}[str(config["load:x#0.eviction"])]
    spilled = 1.0 + 4.0 * known.spilled
    wrinkle = 1.0 + 0.01 * (int(config.key, 16) % 100) / 100
    lost = 1.25 - 0.1 * boxes if warps * 16 <= m else 1.4
    return known.least_us * waves / intensity / hidden * group * order * evicted * spilled * wrinkle * lost


def synthetic(count: int, seed: int, cores: int = 16, shape: Shape = SQUARE) -> Recording:
    """``count`` configs of the plan that a real recording follows."""
    whole, rng = space(), random.Random(seed)
    times: dict[Config, float] = {}
    rows: list[Row] = []
    for part, config in plan(whole, whole.default, seed, lambda: sorted(times, key=times.__getitem__)[:5]):
        if len(rows) == count:
            break
        row = Row(config, part, len(rows), Status.COMPILE_ERROR, compile_s=rng.uniform(0.3, 1.5))
        if int(config.key, 16) % 23:
            times[config] = time = time_us(config, shape)
            row = Row(config, part, len(rows), Status.OK, time, 0.002 * time, 40, row.compile_s, 0.03, 0.04,
                      rng.uniform(0.07, 0.12), facts(config, shape))  # fmt: skip
        rows.append(row)
    header = Header(
        "formula:matmul", {"m": shape.m, "n": shape.n, "k": shape.k}, H200.name, "0" * 16, whole.fingerprint,
        whole.size, whole.knobs, whole.default, shape.traffic.bytes, shape.traffic.flops, 139.0, seed, cores, 60.0, 0.5,
        {}, "2000-01-01",
    )  # fmt: skip
    return Recording(header, tuple(rows))


def _numbers(config: Config) -> tuple[int, int, int, int, int, int]:
    m, n, k, warps, stages, persistent = (
        int(config[name]) for name in ("block:m", "block:n", "block:k", "num_warps", "num_stages", "persistent")
    )
    return m, n, k, warps, stages, persistent
