"""A default whose binary spills gives its place to a neighbour that holds less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.default.lighter import lighter_configs
from tileflow.errors import BuildError, OutOfResources
from tileflow.lowered import Lowered
from tileflow.runtime.abi import Resources
from tileflow.settled import (
    LONG_CODE,
    MOST_BUILDS,
    SHORTER,
    SPILLS,
    SPILLS_BESIDE_PRODUCTS,
    known_default,
    settled_default,
)
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def rows(x):
    out, sums = torch.empty_like(x), torch.empty_like(x[:, 0])
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.softmax(x[t, :], -1)
    for t in tfl.tile(x.size(0)):
        sums[t] = x[t, :].sum(-1)
    return out, sums


def lowered() -> Lowered:
    return rows.lower((torch.empty(4096, 2048, device="meta"),), H200)


def settle(
    found: Callable[[Mapping[str, Any], int], tuple[int, ...] | Exception], it: Lowered | None = None
) -> tuple[Config, Config, list[Any]]:
    """The default, what takes its place, and all that was built, where ``found`` says what a config of a launch spills,
    takes of registers, and has of instructions."""
    it, seen = lowered() if it is None else it, list[Any]()
    real, configs = it.emit, list[Config]()

    def emit(config: Config) -> Any:
        configs.append(config)
        return real(config)

    def resources_of(source: Any) -> Resources:
        answer = found(configs[-1].to_dict(), source.region)
        seen.append((configs[-1], source.region))
        if isinstance(answer, Exception):
            raise answer
        spills, registers, *total = answer
        return Resources(registers, spills, shared=0, threads=128, instructions=tuple(("total", n) for n in total))

    object.__setattr__(it, "emit", emit)
    key = f"test {len(_KEYS)}"
    _KEYS.append(key)
    chosen = settled_default(it, key, resources_of)
    assert known_default(it, key) == chosen and known_default(it, "none") == it.default
    return it.default, chosen, seen


_KEYS: list[str] = []


@tileflow.kernel
def in_groups(x, groups: int):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :, :] = torch.nn.functional.group_norm(x[t, :, :], groups)
    return out


def test_the_same_problem_with_an_int_that_chooses_code_settles_by_itself() -> None:
    """The first one's config has knobs of sums that the second does not have."""
    x = torch.empty(4, 6, 10, device="meta")
    one, two = (in_groups.lower((x, groups), H200) for groups in (1, 2))
    assert one.problem.key == two.problem.key and {k.name for k in one.space.knobs} != {k.name for k in two.space.knobs}
    for it in (one, two):
        assert settled_default(it, "in_groups", lambda source: Resources(30, 0, 0, 128)) == it.default


def test_a_default_that_fits_its_registers_stays() -> None:
    default, chosen, seen = settle(lambda config, region: (SPILLS, 255))
    assert chosen == default and [region for _, region in seen] == [0, 1]


def test_the_first_neighbour_with_room_takes_its_place() -> None:
    default, chosen, seen = settle(lambda c, region: (900 if region == 0 and c["num_warps"] < 16 else 0, 80))
    assert {name: choice for name, choice in chosen.items if choice != default[name]} == {"num_warps": 16}
    assert 2 < len([region for _, region in seen if region == 0]) <= 1 + MOST_BUILDS


@tileflow.kernel
def scored(x, w):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.softmax((x[t, :] @ w[:, :]).float(), -1).to(x.dtype)
    return out


@pytest.mark.parametrize("kernel", [scored, rows], ids=["products", "none"])
def test_products_that_still_spill_have_twice_the_warps(kernel: Any) -> None:
    """Half the block and twice the warps: 1320 bytes a thread of talking heads became 64, by either alone 1320."""
    halves = torch.empty(4096, 128, device="meta", dtype=torch.float16)
    args = (halves, halves[:128]) if kernel is scored else (torch.empty(4096, 2048, device="meta"),)
    first = kernel.lower(args, H200).default.to_dict()

    def spills(config: Mapping[str, Any]) -> int:
        smaller = any(config[name] != choice for name, choice in first.items() if not name.startswith("num_warps"))
        return (0 if config["num_warps"] > first["num_warps"] else 900) if smaller else 9000

    default, chosen, seen = settle(lambda c, region: (spills(c) if region == 0 else 0, 255), kernel.lower(args, H200))
    changed = {name for name, choice in chosen.items if choice != default[name]}
    assert ("num_warps" in changed) is (kernel is scored) and changed != {"num_warps"}
    assert len([region for _, region in seen if region == 0]) <= 2 + MOST_BUILDS


def test_only_the_knobs_of_the_launch_that_spills_change() -> None:
    default, chosen, _ = settle(lambda c, region: (900 if region == 1 and c == lowered().default.to_dict() else 0, 80))
    changed = {name for name, choice in chosen.items if choice != default[name]}
    assert changed and all("@1" in name for name in changed)


def test_the_default_stays_where_neighbours_spill_nearly_as_much() -> None:
    default, chosen, seen = settle(lambda c, region: (900 if c == lowered().default.to_dict() else 400, 80))
    assert chosen == default and len(seen) > 4


@pytest.mark.parametrize("error", [OutOfResources("a kernel must fit", got="more"), BuildError("no", got="such")])
def test_what_does_not_build_is_no_neighbour(error: Exception) -> None:
    """Nor does it hide the others."""

    def found(config: Mapping[str, Any], region: int) -> tuple[int, int] | Exception:
        it = lowered().default
        if region == 1 or config["num_warps"] != it["num_warps"]:
            return 0, 200
        return (900, 255) if config == it.to_dict() else error

    default, chosen, _ = settle(found)
    assert chosen["num_warps"] != default["num_warps"] and chosen["block:t"] == default["block:t"]


def test_a_default_that_the_device_has_no_memory_for_is_settled_too() -> None:
    default, chosen, _ = settle(
        lambda c, region: (
            OutOfResources("a kernel must fit", got="more") if c == lowered().default.to_dict() else (0, 80)
        )
    )
    assert chosen != default


def test_a_default_with_more_code_than_its_cache_holds_has_fewer_elements_a_lane() -> None:
    default, chosen, seen = settle(
        lambda c, region: (
            (0, 80, LONG_CODE // 2 if c["num_warps"] > lowered().default["num_warps"] else LONG_CODE)
            if region == 0
            else (0, 80, LONG_CODE - 1)
        )
    )
    assert {name for name, choice in chosen.items if choice != default[name]} == {"num_warps"}
    assert [region for _, region in seen].count(1) == 1


def test_a_neighbour_that_spills_or_is_hardly_shorter_changes_no_code() -> None:
    for near in ((SPILLS + 1, 80, 1), (0, 80, int(SHORTER * LONG_CODE) + 1), BuildError("no", got="such")):
        default, chosen, _ = settle(
            lambda c, region, near=near: (0, 80, LONG_CODE) if c == lowered().default.to_dict() else near
        )
        assert chosen == default


def test_a_product_of_tensors_is_shorter_by_half_its_elements() -> None:
    """11312 instructions and 384 us, 6016 and 237 (H100)."""
    one = ALL["tensor_product"]
    it = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm"))

    def instructions(config: Config) -> int:
        return max(dict(build(source, it.target).resources.instructions)["total"] for source in it.emit(config))

    chosen = settled_default(it, one.kernel.semantic_hash, lambda source: build(source, it.target).resources)
    assert instructions(it.default) >= LONG_CODE and instructions(chosen) <= SHORTER * instructions(it.default)


def test_each_neighbour_is_valid_and_once() -> None:
    it = lowered()
    for region in (0, 1):
        found = list(lighter_configs(it.default, it.space, it.regions[region]))
        assert found and len(set(found)) == len(found) and all(map(it.space.is_valid, found))
        assert it.default not in found


def test_a_short_run_along_memory_stays() -> None:
    """5896 bytes spilled: a fourth of the rows take 770 us, a fourth of each row's 64 neighbours 2780 (H200)."""
    one = ALL["cell_clusters"]
    it = one.kernel.lower(one.arguments("large", "meta"), H200)
    chosen = settled_default(it, one.kernel.semantic_hash, lambda source: build(source, it.target).resources)
    (source,) = it.emit(chosen)
    assert build(source, it.target).resources.spills <= SPILLS
    assert chosen != it.default and chosen["block:tx"] == it.default["block:tx"]


@pytest.mark.parametrize("name", ["stick_breaking", "bilateral_filter"])
def test_a_binary_that_spills_is_not_what_a_call_runs(name: str) -> None:
    """At 0.29 and 0.40 times the speed of what takes their places (H100)."""
    one = ALL[name]
    args = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in one.arguments("large"))
    it = one.kernel.lower(args, target("nvidia-h100-sxm"))

    def spills(config: Config) -> int:
        return max(build(source, it.target).resources.spills for source in it.emit(config))

    chosen = settled_default(it, one.kernel.semantic_hash, lambda source: build(source, it.target).resources)
    assert spills(it.default) > 4 * SPILLS_BESIDE_PRODUCTS >= 4 * spills(chosen)


def test_a_launch_without_sources_spills_nothing() -> None:
    """As one of a loop in host code has none, whose turns another one's code serves."""
    one = ALL["clip_global_norm"]
    it = one.kernel.lower(one.arguments("large", "meta"), H200)
    regions = {source.region for source in it.emit(it.default)}
    assert len(regions) < len(it.regions)
    settled_default(it, one.kernel.semantic_hash, lambda source: build(source, it.target).resources)


def test_what_a_product_s_epilogue_spills_stays() -> None:
    """432 bytes a thread, once: 200 us, where a quarter of the columns take 247 (H100)."""
    one, device = ALL["turned_adam"], target("nvidia-h100-sxm")
    it = one.kernel.lower(one.arguments("large", "meta"), device)
    found = [build(source, device).resources for source in it.emit(it.default)]
    assert found[0].spills > 2 * SPILLS_BESIDE_PRODUCTS
    assert settled_default(it, one.kernel.semantic_hash, lambda source: build(source, device).resources) == it.default


def by_multiply_adds(lowered: Lowered) -> Config:
    """As the default of whole inner dimensions was before it had parts, and still is where these have no room."""
    precisions = {name: "ieee" for name, _ in lowered.default.items if name.endswith(".precision")}
    own: dict[str, Choice] = {"block:t": 32, "num_warps": 8, "num_stages": 3, "maxnreg": 128, **precisions}
    own |= {name: 0 for name, _ in lowered.default.items if name.startswith("reduce:")}
    return lowered.space.normalise(lowered.default.with_(own))


def test_products_that_spill_as_multiply_adds_are_in_parts() -> None:
    """Four of 96 x 96 a turn, whole: 4536 bytes a thread spilled as multiply-adds, 21 ms; in parts 0.8 ms (H200)."""
    one = ALL["community_growth"]
    lowered = one.kernel.lower(one.arguments("large", "meta"), H200)
    whole, smaller, *_ = lighter_configs(by_multiply_adds(lowered), lowered.space, lowered.regions[0])
    for near in (whole, smaller):
        assert {choice for name, choice in near.items if name.endswith(".precision")} == {"bf16x6"}
        assert near["maxnreg"] == 0
    assert (whole["block:t"], smaller["block:t"]) == (32, 16)
    (source,) = lowered.emit(smaller)
    assert build(source, H200).resources.spills <= SPILLS_BESIDE_PRODUCTS


def test_products_in_parts_take_a_smaller_block_where_their_operands_need_it() -> None:
    """Two products of whole rows, one of the other's result: 2064 bytes a thread spilled as multiply-adds; in parts
    their operands are staged, for which blocks of 32 rows have no room, and such a config was none."""
    lowered = ALL["turbo_quantise"].kernel.lower(ALL["turbo_quantise"].arguments("large", "meta"), H200)
    plain = by_multiply_adds(lowered)
    near = next(iter(lighter_configs(plain, lowered.space, lowered.regions[0])))
    assert {near[f"product:dot#{n}.precision"] for n in (0, 1)} == {"bf16x6"}
    assert near["block:t"] < plain["block:t"] == 32
    (source,) = lowered.emit(near)
    assert build(source, H200).resources.spills == 0


def test_two_sides_of_products_may_be_halved() -> None:
    """Sixteen products of bits a turn: a side of 32 rows spills 304 bytes a thread, half of each side 72."""
    lowered = ALL["crossbar_product"].kernel.lower(ALL["crossbar_product"].arguments("large", "meta"), H200)
    sides = lowered.default["block:tm"], lowered.default["block:tn"]
    assert isinstance(sides[0], int) and isinstance(sides[1], int)
    halves = {"block:tm": sides[0] // 2, "block:tn": sides[1] // 2}
    found = list(lighter_configs(lowered.default, lowered.space, lowered.regions[0]))[:MOST_BUILDS]
    (near,) = (config for config in found if halves == {name: config[name] for name in halves})
    (source,) = lowered.emit(near)
    assert build(source, H200).resources.spills <= SPILLS_BESIDE_PRODUCTS


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        *(("rwkv", 4), ("selective_state_space", 4), ("gated_slot_attention", 1), ("dtw", 2), ("kalman_filter", 1)),
        ("sponge_permutation", 1),  # six times the code by two turns, and all registers
    ],
)
def test_short_recurrences_are_unrolled(name: str, turns: int) -> None:
    """Four turns at once take 0.49, 0.81 and 1.20 of the time of the first three, two 0.69 and 1.0 of the others'
    (H200), which load nothing ahead; LLVM unrolls the last one by itself."""
    one = ALL[name]
    it = one.kernel.lower(one.arguments("large", "meta"), H200)
    found = settled_default(it, one.kernel.semantic_hash, lambda source: build(source, H200).resources)
    assert [choice for knob, choice in found.items if knob.endswith(".unroll")] == [turns]
