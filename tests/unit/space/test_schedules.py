"""Where the knob ``schedule`` is, what it makes of the other knobs, and what its configs must satisfy."""

from __future__ import annotations

import functools

import pytest
import torch
from tile_testing.kernels.schedule_kernels import grouped_queries, inputs

import tileflow
import tileflow.language as tfl
from examples.attention import attention
from examples.matmul import matmul
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.emit.gluon.kernel import GluonKernel
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered
from tileflow.portable import portable_sources
from tileflow.schedule.memory import OVERHEAD, shared_bytes
from tileflow.space.schedules import refusal
from tileflow.target import target

H200 = target("nvidia-h200")
DEPTHS = (64, 80, 96, 128, 192, 256)


@functools.cache
def lowered(d: int = 128, device: str = "nvidia-h200", mode: str = "static", causal: bool = False) -> Lowered:
    args = attention.inputs(batch=1, heads=2, m=1024, d=d, causal=causal, device="meta")
    return attention.lower(args, target(device), mode=mode)


def choose(it: Lowered, **choices: object) -> Config:
    named = {n.replace("block_", "block:", 1): c for n, c in choices.items()}
    return it.space.complete({"schedule": "warp_specialised", **named})  # type: ignore[dict-item]


@tileflow.kernel
def in_either_order(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    order = tfl.register_tunable("order", ["as_is", "turned"])
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        acc = tfl.zeros([tile_n, tile_m] if order == "turned" else [tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            if order == "turned":
                acc = torch.addmm(acc, y[tile_k, tile_n].T, x[tile_m, tile_k].T)
            else:
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc.T if order == "turned" else acc
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("sides", [(4224, 4352), (1001, 1003)])
def test_a_tunable_one_of_whose_ways_has_no_schedule(sides: tuple[int, int], mode: str) -> None:
    """It was an AssertionError, whatever the sizes; the default is the one without it, and so are variants."""
    x, y = (torch.empty(*s, dtype=torch.bfloat16, device="meta") for s in ((sides[0], 4096), (4096, sides[1])))
    it = in_either_order.lower((x, y), H200, mode)
    assert not refusal(it.regions[0], H200) and "schedule" not in [k.name for k in it.space.knobs]
    assert it.default == it.default_pipelined
    for order in ("as_is", "turned"):
        assert it.emit(it.space.repair(it.default.with_({"tunable:order": order})))
    if mode == "dynamic":
        assert {source.language for source in portable_sources(it)} == {"triton"}


@pytest.mark.parametrize("device", ["amd-mi300x", "nvidia-a100", "nvidia-b200"])
def test_other_architectures_have_no_such_knob_and_say_why(device: str) -> None:
    it = lowered(device=device)
    assert "schedule" not in [k.name for k in it.space.knobs]
    assert "warp groups" in refusal(it.regions[0], it.target)


@pytest.mark.parametrize("d", DEPTHS)
@pytest.mark.parametrize("causal", [False, True])
def test_every_width_of_heads_has_a_config(d: int, causal: bool) -> None:
    """And the default is none of them, before one was measured."""
    it = lowered(d, causal=causal)
    assert it.default["schedule"] == "pipelined"
    config = it.space.normalise(it.space.repair(choose(it, block_tile_m=128, block_block_n=512, num_stages=4)))
    assert config["schedule"] == "warp_specialised" and config["block:tile_m"] == 128
    assert it.emit(config)[0].language == "gluon"


def test_knobs_of_the_pipelined_schedule_mean_nothing_in_the_other() -> None:
    it = lowered()
    one = choose(it, block_tile_m=128, block_block_n=128, num_stages=2)
    other = one.with_({"num_warps": 8, "maxnreg": 96, "load:k#0.access": "pointer"})
    assert it.space.normalise(one) == it.space.normalise(other)
    pipelined = it.space.normalise(it.space.repair(other.with_({"schedule": "pipelined"})))
    assert pipelined["num_warps"] == 8 and pipelined["ping_pong"] is True


def test_one_group_has_nobody_to_take_turns_with() -> None:
    it = lowered()
    one = choose(it, block_tile_m=64, block_block_n=128, num_stages=2)
    assert it.space.normalise(one.with_({"ping_pong": False})) == it.space.normalise(one)
    both = choose(it, block_tile_m=128, block_block_n=128, num_stages=2)
    assert it.space.normalise(both.with_({"ping_pong": False})) != it.space.normalise(both)


@pytest.mark.parametrize("d", DEPTHS)
@pytest.mark.parametrize("stages", [2, 3])
def test_the_constraint_counts_the_memory_that_the_schedule_has(d: int, stages: int) -> None:
    """One number, before anything is compiled: a block with that much fits, one byte less does not."""
    it = lowered(d)
    config = choose(it, block_tile_m=128, block_block_n=32, num_stages=stages)
    (ir,) = it.specialised_regions(config)
    kernel = GluonKernel(ir, config, H200, "all")
    kernel.run()
    needed = shared_bytes(kernel.specialised)
    (constraint,) = (c for c in it.space.constraints if c.name == "warp_specialised: buffers fit shared memory")
    *_, bound = constraint.check.args
    knobs = {k.name: k.encode(config[k.name]) for k in it.space.knobs}
    assert bound.args[0].evaluate(knobs) == needed > OVERHEAD


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"block_tile_m": 512, "block_tile_n": 64}, "consumer groups of 64 rows"),
        ({"block_tile_m": 256, "block_tile_n": 64}, "160 of 3 or 112 of 4 groups"),
        ({"block_tile_m": 32, "block_tile_n": 64}, "consumer groups of 64 rows"),
        ({"block_tile_m": 128, "block_tile_n": 16}, "at least 32 keys"),
        ({"block_tile_m": 128, "block_tile_n": 512}, "at most 256 columns"),
        ({"block_tile_m": 128, "block_tile_n": 256}, "232 of 1 or 240 of 2 groups"),
        ({"block_tile_m": 128, "block_tile_n": 128, "num_stages": 1}, "at least 2 stages"),
        ({"block_tile_m": 128, "block_tile_n": 128, "num_stages": 6}, "shared memory"),
    ],
)
def test_constraints_say_their_reason(choices: dict[str, int], words: str) -> None:
    it = grouped_queries.lower(inputs(4, 1024, 1024, 128, groups=2, device="meta"), H200)
    config = choose(it, **choices)
    assert words in " ".join(c.reason for c in it.space.violations(config))
    with pytest.raises(ConfigError, match=words):
        it.emit(config)
    assert it.space.is_valid(it.space.repair(config))


def test_rows_of_three_groups_are_a_choice_of_what_groups_share() -> None:
    """A tile of Triton's has a power of two of rows."""
    it = lowered(64)
    three = choose(it, block_tile_m=192, block_block_n=128, num_stages=2)
    assert it.space.is_valid(three) and "GROUPS = gl.constexpr(3)" in it.emit(three)[0].text
    pipelined = three.with_({"schedule": "pipelined"})
    (reason,) = (c.reason for c in it.space.violations(pipelined) if "power of two" in c.reason)
    assert "3 consumer groups" in reason
    repaired = it.space.repair(pipelined)
    assert it.space.is_valid(repaired) and repaired["block:tile_m"] in (64, 128, 256)
    for device, kernel in (("nvidia-a100", attention), ("nvidia-h200", matmul)):
        sizes = {"batch": 1, "heads": 2, "m": 1024, "d": 64} if kernel is attention else {"m": 1024, "n": 1024, "k": 64}
        space = kernel.lower(kernel.inputs(device="meta", **sizes), target(device)).space
        assert all(192 not in knob.choices for knob in space.knobs)


@pytest.mark.parametrize(
    ("causal", "mode", "rows", "keys", "is_valid"),
    [
        (False, "static", 192, 128, True), (False, "dynamic", 192, 128, False), (False, "dynamic", 192, 64, True),
        (True, "static", 256, 64, True), (True, "dynamic", 256, 64, False), (True, "dynamic", 192, 64, True),
        (True, "static", 192, 128, False),
    ],
)  # fmt: skip
def test_many_groups_have_few_registers_for_masks(
    causal: bool, mode: str, rows: int, keys: int, is_valid: bool
) -> None:
    """What is refused spilled; or has keys past a tile of rows."""
    it = lowered(64, causal=causal, mode=mode)
    config = choose(it, block_tile_m=rows, block_block_n=keys, num_stages=3)
    assert it.space.is_valid(config) == is_valid
    repaired = it.space.repair(config)
    assert repaired["schedule"] == "warp_specialised" and build(it.emit(repaired)[0], H200).resources.spills == 0


def test_a_partial_block_of_keys_takes_registers() -> None:
    args = attention.inputs(batch=1, heads=2, m=1000, d=64, device="meta")
    it = attention.lower(args, H200)
    assert not it.space.is_valid(choose(it, block_tile_m=192, block_block_n=128, num_stages=2))
    assert it.space.is_valid(choose(it, block_tile_m=128, block_block_n=128, num_stages=2))


def test_variants_of_64_bits_and_without_boxes_stay_pipelined() -> None:
    """The schedule counts in 32 bits, and has boxes."""
    it = lowered(64, mode="dynamic")
    config = choose(it, block_tile_m=128, block_block_n=64, num_stages=2)
    sources = attention.portable(*it.args, target=H200, config=config)
    assert [s.language for s in sources][:1] == ["gluon"] and {s.language for s in sources} == {"gluon", "triton"}
