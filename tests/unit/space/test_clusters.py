"""Which launches have rows that a cluster may hold, and which configs of them are valid."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from tile_testing.kernels import cluster_kernels
from tile_testing.kernels.cluster_kernels import norm_gradient

from examples.layer_norm import layer_norm
from examples.long_sum import long_sum
from examples.matmul import matmul
from examples.rms_norm import rms_norm, rms_norm_bwd
from examples.softmax import softmax, softmax_bwd, softmax_online
from tileflow.api import Kernel
from tileflow.config import Choice, Config
from tileflow.default import default_config
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered
from tileflow.space.clusters import cluster_refusal, without_clusters
from tileflow.target import target

H200 = target("nvidia-h200")
LONG = 131072
PLAIN: dict[str, Choice] = {"block:tile_m": 1, "num_warps": 16}


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def rows(length: int = LONG, kernel: Kernel = softmax, device: str = "nvidia-h200", mode: str = "static") -> Lowered:
    args = kernel.inputs(device="meta", m=4096, n=length, dtype=torch.float32)
    return kernel.lower(args, target(device), mode=mode)


def config_of(lowered: Lowered, **choices: Choice) -> Config:
    reductions = {k.name: 0 for k in lowered.space.knobs if k.name.startswith("reduce:")}
    return lowered.space.complete({**PLAIN, **reductions, **choices})


def reasons(lowered: Lowered, config: Config) -> str:
    return "; ".join(c.reason for c in lowered.space.violations(config))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("kernel", [softmax, softmax_bwd, layer_norm, rms_norm], ids=lambda k: k.name)
def test_long_rows_have_the_knob(kernel: Kernel, mode: str) -> None:
    knob = rows(kernel=kernel, mode=mode).space.knob("ctas")
    assert (knob.choices, knob.default) == ((1, 2, 4, 8), 1)


def test_a_row_that_no_multiprocessor_holds_is_in_one_piece_with_a_cluster() -> None:
    lowered = rows()
    assert not lowered.space.is_valid(config_of(lowered, ctas=1, num_warps=32))
    assert [c for c in (2, 4, 8) if lowered.space.is_valid(config_of(lowered, ctas=c, num_warps=32))] == [2, 4, 8]
    assert "registers" in reasons(lowered, config_of(lowered, ctas=2, num_warps=8))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"block:tile_m": 2}, "a program has one row"), ({"persistent": 2}, "not persistent"),
     ({"num_warps": 32, "ctas": 8}, "at least 4 elements of a row")],
)  # fmt: skip
def test_a_config_that_no_cluster_runs_is_refused_and_mended(changes: dict[str, Choice], reason: str) -> None:
    lowered = rows(16384)
    config = config_of(lowered, **{"ctas": 4, **changes})
    assert reason in reasons(lowered, config)
    with pytest.raises(ConfigError, match=reason):
        lowered.emit(config)
    mended = lowered.space.repair(config)
    assert lowered.space.is_valid(mended) and mended != config


def test_a_looped_row_has_no_cluster() -> None:
    lowered = rows()
    looped = config_of(lowered, ctas=8, **{"reduce:max#0": 4096})
    assert lowered.space.normalise(looped)["ctas"] == 1
    (source,) = lowered.emit(looped)
    assert source.cluster == 1 and "cluster" not in source.code


def test_sampled_configs_with_clusters_hold_a_row_each() -> None:
    lowered, rng, seen = rows(), random.Random(0), set()
    for _ in range(1500):
        config = lowered.space.sample(rng)
        ctas, warps = int(config["ctas"]), int(config["num_warps"])
        seen.add(ctas)
        if ctas > 1:
            assert (config["block:tile_m"], config["persistent"], config["reduce:max#0"]) == (1, 0, 0)
            assert LONG // ctas <= 128 * 32 * warps
    assert seen == {1, 2, 4, 8}


@pytest.mark.parametrize("device", ["nvidia-a100", "nvidia-l40s", "nvidia-b200", "nvidia-rtx5090", "amd-mi300x"])
def test_other_targets_have_no_such_knob(device: str) -> None:
    lowered = rows(device=device)
    assert "ctas" not in {k.name for k in lowered.space.knobs}
    assert "no clusters" in cluster_refusal(lowered.regions[0], lowered.target)


X = (meta(64, LONG),)
NUMBERS = meta(64)
REFUSED: list[Any] = [
    pytest.param(cluster_kernels.places, X, "not argmax", id="arg-reductions"),
    pytest.param(cluster_kernels.any_of_rows, X, "not any", id="flags"),
    pytest.param(cluster_kernels.two_at_once, X, "one for each lane", id="two rows a program"),
    pytest.param(cluster_kernels.added, (*X, NUMBERS), "do it once more: atomic", id="atomics"),
    pytest.param(cluster_kernels.given_sums, (*X, NUMBERS, meta(64)), "before another loads it", id="maybe in place"),
    pytest.param(cluster_kernels.given_sums, (*X, NUMBERS, NUMBERS), "before another loads it", id="in place"),
    pytest.param(cluster_kernels.given_places, (*X, NUMBERS.long(), NUMBERS), "another loads it", id="by places"),
    pytest.param(cluster_kernels.in_a_loop, (meta(8, 8, LONG),), "", id="loops have it"),
    pytest.param(cluster_kernels.in_a_loop, (meta(8, 8, 4096),), "fewer than 8192", id="short rows in a loop"),
    pytest.param(cluster_kernels.norm_gradient, (meta(64, 8192), meta(64, 8192)), "", id="rows that a loop carries"),
    pytest.param(cluster_kernels.in_a_branch, (*X, meta(64, dtype=torch.int32)), "in a branch", id="branches"),
    pytest.param(cluster_kernels.of_jagged_rows, (*X, meta(9, dtype=torch.int64)), "jagged", id="jagged loops"),
    pytest.param(cluster_kernels.running, (meta(64, LONG),), "before another loads it", id="what a turn stored"),
    pytest.param(cluster_kernels.running_number, (*X, meta(1)), "before another loads it", id="a number of all turns"),
    pytest.param(cluster_kernels.overlapping, (*X, meta(64, LONG + 1)), "another stores it", id="lanes of two blocks"),
    pytest.param(cluster_kernels.of_squares, (meta(8, LONG),), "one for each lane", id="the dimension twice"),
    pytest.param(cluster_kernels.of_columns, (meta(64, LONG, 4),), "one for each lane", id="other lanes"),
    pytest.param(softmax_online, X, "not 0", id="the author's loop"),
    pytest.param(softmax, (meta(64, 8192),), "shorter than 16384", id="short rows"),
    pytest.param(softmax, (meta(64, LONG, dtype=torch.bfloat16),), "", id="half types have it"),
    pytest.param(cluster_kernels.extremes, X, "", id="numbers alone have it"),
    pytest.param(matmul, (meta(64, 64), meta(64, 64)), "a product once more", id="products"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "args", "reason"), REFUSED)
def test_refusals_say_why(kernel: Kernel, args: tuple[torch.Tensor, ...], reason: str) -> None:
    lowered = kernel.lower(args, H200)
    found = cluster_refusal(lowered.regions[0], H200)
    assert reason in found if reason else not found
    assert ("ctas" in {k.name for k in lowered.space.knobs}) is (not found)


def test_what_launches_through_triton_has_no_clusters() -> None:
    lowered = rows()
    config = config_of(lowered, ctas=8)
    plain = without_clusters(lowered.space, config)
    assert lowered.interpretable(config) == plain
    assert plain["ctas"] == 1 and plain["reduce:max#0"] != 0 and lowered.space.is_valid(plain)
    assert without_clusters(lowered.space, plain) is plain


@pytest.mark.parametrize(
    ("length", "dtype", "ctas"),
    [(LONG, torch.float32, 8), (100_000, torch.float32, 8), (100_003, torch.float32, 1), (65536, torch.float32, 8),
     (LONG, torch.bfloat16, 8), (65536, torch.bfloat16, 8), (100_003, torch.bfloat16, 1),
     (262144, torch.float32, 1), (262144, torch.bfloat16, 1), (66_000, torch.float32, 1)],
)  # fmt: skip
def test_the_default_has_clusters_where_they_were_faster(length: int, dtype: torch.dtype, ctas: int) -> None:
    lowered = softmax.lower((meta(4096, length, dtype=dtype),), H200)
    assert lowered.default["ctas"] == ctas
    assert (lowered.default["reduce:max#0"] == 0) is (ctas > 1)
    without = default_config(lowered.regions, lowered.space, H200, pipelined=True)
    assert without["ctas"] == 1 and (without == lowered.default) is (ctas == 1)


def test_the_default_has_none_where_the_row_is_read_once() -> None:
    """Nor for the short rows that a block holds."""
    for n, dtype in ((LONG, torch.float32), (65536, torch.bfloat16)):
        args = long_sum.inputs(device="meta", m=4096, n=n, dtype=dtype)
        assert long_sum.lower(args, H200).default["ctas"] == 1
    assert softmax.lower((meta(4096, 32768),), H200).default["ctas"] == 1


@pytest.mark.parametrize(
    ("kernel", "n", "ctas"),
    [(rms_norm_bwd, 16384, 1), (rms_norm_bwd, 32768, 2), (rms_norm_bwd, 65536, 4), (norm_gradient, 16384, 1),
     (norm_gradient, 65536, 4)],
)  # fmt: skip
def test_the_default_has_the_fewest_blocks_that_hold_what_a_loop_hands_on(kernel: Kernel, n: int, ctas: int) -> None:
    row = meta(2048, n, dtype=torch.bfloat16)
    args = (row, row) if kernel is norm_gradient else (row, row, meta(n, dtype=torch.bfloat16), meta(2048))
    lowered = kernel.lower(args, H200)
    default = lowered.default
    assert default["ctas"] == ctas
    without = default_config(lowered.regions, lowered.space, H200, pipelined=True)
    assert without["ctas"] == 1 and (without == default) is (ctas == 1)
    if ctas > 1:
        (source,) = lowered.emit(default)
        programs = source.grid[0].evaluate(lowered.regions[0].hints)
        assert 0.9 * H200.sm_count <= programs * ctas <= 2 * H200.sm_count


def test_a_loop_that_hands_no_row_on_keeps_its_default() -> None:
    assert cluster_kernels.in_a_loop.lower((meta(8, 8, LONG),), H200).default["ctas"] == 1
