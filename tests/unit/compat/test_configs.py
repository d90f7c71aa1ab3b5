"""The dialect's Config in terms of sites, there and back."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_testing.kernels import compat_kernels

import tileflow.compat.helion as helion
from tileflow import errors
from tileflow.compat.helion.sites import sites_of
from tileflow.compat.helion.translate import from_native, to_native
from tileflow.lowered import Lowered

META = torch.empty(256, 512, device="meta")


@pytest.fixture(scope="module")
def matmul() -> Lowered:
    return compat_kernels.matmul.bind((META, torch.empty(512, 256, device="meta"))).lowered


@pytest.fixture(scope="module")
def several() -> Lowered:
    return compat_kernels.several.bind((META, torch.empty(3, 64, device="meta"))).lowered


def test_block_sizes_go_to_loops_and_registered_sizes_in_the_order_of_their_lines(several: Lowered) -> None:
    assert sites_of(several).blocks == ("block:tile_first", "block:block_n", "block:tile_a@1", "block:tile_inner@1")
    chosen = to_native({"block_sizes": [2, 16, 4, 8], "repeats": 4}, several)
    assert [chosen[name] for name in sites_of(several).blocks] == [2, 16, 4, 8]
    assert chosen["tunable:repeats"] == 4


@pytest.mark.parametrize("sizes", [[], [16, 16], [16, 16, 16, 16]])
def test_a_wrong_number_of_block_sizes_names_the_sites(matmul: Lowered, sizes: list[int]) -> None:
    with pytest.raises(helion.exc.InvalidConfig, match="block:tile_m, block:tile_n, block:tile_k"):
        to_native(helion.Config(block_sizes=sizes), matmul)


@pytest.mark.parametrize(
    ("order", "group", "expected"),
    [(None, 1, "1,0"), ([0, 1], 1, "1,0"), ([1, 0], 1, "0,1"), ([0, 1], 4, "0,1"), ([1, 0], 4, "1,0")],
)
def test_the_axis_that_is_fastest_there_is_fastest_here(
    matmul: Lowered, order: list[int] | None, group: int, expected: str
) -> None:
    """There the first of ``loop_orders`` varies fastest, and groups band it; here the last, and they band the other."""
    chosen = to_native(helion.Config(loop_orders=order and [order], l2_groupings=[group]), matmul)
    assert (chosen["order"], chosen["group"]) == (expected, group)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [({}, 0), ({"pid_type": "flat"}, 0), ({"pid_type": "xyz"}, 0), ({"pid_type": "persistent_blocked"}, 1),
     ({"pid_type": "persistent_interleaved", "num_sm_multiplier": 4}, 4), ({"num_sm_multiplier": 4}, 0)],
)  # fmt: skip
def test_program_ids(matmul: Lowered, keys: dict[str, Any], expected: int) -> None:
    assert to_native(keys, matmul)["persistent"] == expected


def test_keys_of_the_first_and_of_the_newest_configs(matmul: Lowered, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        first = to_native({"use_yz_grid": True}, matmul)
        newest = to_native({"xcd_remap": True, "reduction_fusion": False}, matmul)
    assert (first["grid"], newest["grid"]) == ("axes", "flat")
    assert [r.getMessage().split(":")[1].strip() for r in caplog.records] == ["xcd_remap"]
    assert helion.Config().xcd_remap is helion.Config().reduction_fusion is False


def test_reductions_and_evictions(several: Lowered) -> None:
    sites = sites_of(several)
    assert sites.reductions == ("reduce:sum#0",) and len(sites.evictions) == 3
    chosen = to_native({"reduction_loop": 128, "load_eviction_policies": ["first", "", "last"]}, several)
    assert chosen["reduce:sum#0"] == 128
    assert [chosen[name] for name in sites.evictions] == ["evict_first", "", "evict_last"]
    assert to_native({"reduction_loops": [None]}, several)["reduce:sum#0"] == 0
    every = to_native({"load_eviction_policies": "last"}, several)
    assert {every[name] for name in sites.evictions} == {"evict_last"}


def test_indexing_names_all_loads_and_then_all_stores(matmul: Lowered, caplog: pytest.LogCaptureFixture) -> None:
    sites = ["load:x#0.access", "load:y#0.access", "store:out#0.access"]
    for indexing, expected in (
        (["tensor_descriptor", "pointer", "block_ptr"], ["descriptor", "pointer", "pointer"]),
        ("tensor_descriptor", ["descriptor"] * 3),
        (["tensor_descriptor"], ["pointer"] * 3),
    ):
        chosen = to_native(helion.Config(block_sizes=[64, 64, 64], indexing=indexing), matmul)
        assert [chosen[name] for name in sites] == expected
    assert caplog.text.count("the call sites here are load:x#0.access, load:y#0.access, store:out#0.access") == 1


def test_warps_and_stages_are_those_of_every_launch_and_default_to_theirs(several: Lowered) -> None:
    chosen = to_native({"num_warps": 8, "num_stages": 3}, several)
    assert (chosen["num_warps"], chosen["num_warps@1"], chosen["num_stages@1"]) == (8, 8, 3)
    plain = to_native({}, several)
    assert (plain["num_warps"], plain["num_stages@1"]) == (4, 1)


@pytest.mark.parametrize(
    "wrong", [{"blocksizes": [16]}, {"split_k": 2}, {"pid_type": "round"}, {"load_eviction_policies": ["never"] * 2}]
)
def test_what_is_no_key_or_no_choice_is_an_error(matmul: Lowered, wrong: dict[str, Any]) -> None:
    with pytest.raises(helion.exc.InvalidConfig):
        to_native(wrong, matmul)


def test_keys_without_a_meaning_are_noted_once(matmul: Lowered, caplog: pytest.LogCaptureFixture) -> None:
    config = helion.Config(
        block_sizes=[16, 16, 16], indexing=["pointer", "block_ptr"], range_unroll_factors=[0, 2], maxnreg=None,
        range_flattens=[None, None], cute_pdl=True, num_threads=[32],
    )  # fmt: skip
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        for _ in range(3):
            to_native(config, matmul)
    said = [record.getMessage() for record in caplog.records]
    assert sorted(m.split(":")[1].strip() for m in said) == ["cute_pdl", "num_threads", "range_unroll_factors"]


def test_a_size_that_is_no_choice_moves_with_a_note(matmul: Lowered, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        assert to_native({"block_sizes": [4, 64, 32]}, matmul)["block:tile_m"] == 16
    assert "block:tile_m=4" in caplog.text and "16 instead" in caplog.text


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32))
def test_there_and_back(matmul: Lowered, several: Lowered, seed: int) -> None:
    """What the dialect can say of a config, it says so that it comes back; unless that breaks a constraint beside the
    defaults of what it cannot say."""
    for lowered in (matmul, several):
        drawn = lowered.space.sample(random.Random(seed))
        config = to_native(from_native(drawn, lowered), lowered)
        said = from_native(config, lowered)
        again = to_native(said, lowered)
        assert from_native(again, lowered) == said
        one = len(lowered.regions) == 1
        names = [k.name for k in lowered.space.knobs if k.role in ("block", "reduction", "tunable")]
        names += [k.name for k in lowered.space.knobs if k.name.endswith((".access", ".eviction"))]
        names += [
            n for n in ("persistent", "walk", "order", "group", "grid", "num_warps", "num_stages", "maxnreg") if one
        ]
        assert [again[n] for n in names] == [config[n] for n in names]
        if lowered.space.is_valid(config.with_({n: drawn[n] for n in names})):
            assert [config[n] for n in names] == [drawn[n] for n in names]


def test_a_config_reads_and_saves_as_theirs(tmp_path: Any) -> None:
    config = helion.Config(block_sizes=[64, 32], num_warps=8, split_k=4, indexing=None)
    assert config["block_sizes"] == config.block_sizes == [64, 32] and config.split_k == 4
    assert (config.num_stages, config.loop_orders, config.pid_type) == (1, [], "flat")
    assert "indexing" not in config and dict(config)["num_warps"] == 8
    config.save(tmp_path / "folder" / "config.json")
    assert helion.Config.load(tmp_path / "folder" / "config.json") == config == helion.Config(**config)
    assert len({config, helion.Config.from_json(config.to_json())}) == 1
    with pytest.raises(AttributeError):
        config.no_such_key  # noqa: B018


def test_scalars_and_lists_stand_for_one_another_in_a_config(matmul: Any) -> None:
    lists = helion.Config(block_sizes=[16, 16, 16], num_warps=4, num_stages=2, l2_groupings=[2], pid_type="flat")
    scalars = helion.Config(block_sizes=16, num_warps=[4], num_stages=(2,), l2_groupings=2, pid_type=["flat"])
    assert to_native(scalars, matmul) == to_native(lists, matmul)
    orders = [helion.Config(block_sizes=16, loop_orders=order) for order in ([1, 0], [[1, 0]])]
    assert to_native(orders[0], matmul) == to_native(orders[1], matmul)
    with pytest.raises(errors.ConfigError, match=r"num_warps is one choice.*\[4, 8\]"):
        to_native(helion.Config(num_warps=[4, 8]), matmul)


@pytest.mark.parametrize("wrong", [{"maxnreg": "a"}, {"maxnreg": -3}, {"num_sm_multiplier": "x"}])
def test_a_count_of_another_kind_is_refused(matmul: Lowered, wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigError, match=f"{next(iter(wrong))} is an int of 1 or more"):
        to_native({"pid_type": "persistent_blocked", **wrong}, matmul)
