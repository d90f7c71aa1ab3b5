"""Spaces: every config of one emits, every constraint can be repaired, the default is valid everywhere."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tile_testing.compiler_gallery import GALLERY, PROBLEMS, kernel, meta
from tile_testing.strangers import ALL
from tile_testing.tiers import every_other

import tileflow
import tileflow.language as tfl
from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered
from tileflow.space.knobs import FULL_BLOCKS
from tileflow.target import CATALOGUE, target

H200 = target("nvidia-h200")
MANY_GROUPS = (192, 256)  # rows
EACH_PROBLEM = range(len(PROBLEMS["space"]))
FULLY = ("nvidia-h200", "amd-mi300x")  # one of each vendor meets every problem, the others one each in turn
# One device class of each architecture.
EACH_ARCH = tuple({target(name).arch: name for name in (*reversed(CATALOGUE), *FULLY)}.values())

_lowered: dict[tuple[str, tuple[int, ...], str, str], Lowered] = {}


def sizes_of(name: str, number: int) -> tuple[int, ...]:
    rows = GALLERY[name].rows("space")
    return rows[number % len(rows)]


def lowered(name: str, sizes: tuple[int, ...], device: str = "nvidia-h200", mode: str = "static") -> Lowered:
    key = name, sizes, device, mode
    if key not in _lowered:
        _lowered[key] = kernel(name).lower(meta(name, sizes), target(device), mode=mode)
    return _lowered[key]


def is_served(space: ConfigSpace) -> bool:
    """No constraint excludes every config, as one does where a device lacks a dtype."""
    return all(c.check.constant != 0 for c in space.constraints)


# A run without the slow tests has each kernel on one device, the devices in turn.
EVERYWHERE = [
    pytest.param(name, device, marks=() if column == row % len(EACH_ARCH) else pytest.mark.slow)
    for row, name in enumerate(GALLERY)
    for column, device in enumerate(EACH_ARCH)
]


@pytest.mark.parametrize(("name", "device"), EVERYWHERE)
def test_the_default_is_valid_everywhere(name: str, device: str) -> None:
    problems, turn = GALLERY[name].rows("space"), list(GALLERY).index(name) + EACH_ARCH.index(device)
    for sizes in problems if device in FULLY else (problems[turn % len(problems)],):
        it = lowered(name, sizes, device)
        if not is_served(it.space):
            with pytest.raises(ConfigError, match="needs"):
                it.space.repair(tileflow.Config.of({k.name: k.default for k in it.space.knobs}))
            continue
        it.space.check(it.default)
        assert it.space.is_valid(it.default) and it.space.normalise(it.default) == it.default
        for source in it.emit(it.default):
            assert all(extent.constant is not None and extent.constant >= 1 for extent in source.grid)


@pytest.mark.parametrize("name", every_other(GALLERY))
def test_the_default_does_not_depend_on_the_mode(name: str) -> None:
    """A table row of one mode then serves the other. Static sizes that all blocks divide leave no masks, and no knob of
    where they stand: such a row is completed, and so is one of sizes whose rows of two tensors are rolled alike, which
    as symbols are two knobs of one choice. Threads of many consumer groups have no registers for masks: such a row is
    adapted, to fewer rows and the same schedule."""
    for sizes in GALLERY[name].rows("space")[1:]:
        static, dynamic = lowered(name, sizes), lowered(name, sizes, mode="dynamic")
        there = {knob.name for knob in static.space.knobs}
        more = [knob for knob in dynamic.space.knobs if knob.name not in there]
        assert all(FULL_BLOCKS.matches(knob.name) or len(knob.choices) == 1 for knob in more)
        if static.default.to_dict().get("schedule") == "warp_specialised" and static.default != dynamic.default:
            assert static.default["block:tile_m"] in MANY_GROUPS
            adapted = dynamic.space.adapt(static.default.to_dict())
            assert adapted["schedule"] == "warp_specialised" and dynamic.emit(adapted)
            continue
        assert static.default.to_dict() == {n: c for n, c in dynamic.default.items if n in there}
        assert dynamic.space.is_valid(dynamic.space.complete(static.default.to_dict()))
        assert dynamic.emit(dynamic.default)


@settings(max_examples=120)
@given(
    st.sampled_from(sorted(GALLERY)), st.sampled_from(EACH_PROBLEM), st.sampled_from(sorted(CATALOGUE)),
    st.sampled_from(["static", "dynamic"]), st.integers(0, 2**32),
)  # fmt: skip
def test_every_config_emits(name: str, number: int, device: str, mode: str, seed: int) -> None:
    it = lowered(name, sizes_of(name, number), device, mode)
    assume(is_served(it.space))
    config = it.space.sample(random.Random(seed))
    sources = it.emit(config)
    assert sources and all(compile(s.text, s.name, "exec") for s in sources)
    numbers = {n: c for n, c in config.items if isinstance(c, int)}
    for source in sources:
        suffix = f"@{source.region}" if source.region else ""
        options = dict(source.options)
        if source.language == "triton":  # a schedule has its own
            assert all(options[o] == config[f"{o}{suffix}"] for o in ("num_warps", "num_stages"))
        assert set(dict(source.constexprs).values()) <= set(numbers.values())
        assert not {s for e in (*source.grid, source.guards) for s in e.symbols()} & numbers.keys()


def unconstrained(space: ConfigSpace, seed: int) -> tileflow.Config:
    rng = random.Random(seed)
    return tileflow.Config.of({k.name: rng.choice(k.choices) for k in space.knobs})


@settings(max_examples=200)
@given(
    st.sampled_from(sorted(GALLERY)), st.sampled_from(EACH_PROBLEM), st.sampled_from(sorted(CATALOGUE)),
    st.integers(0, 2**32),
)  # fmt: skip
def test_every_constraint_can_be_repaired(name: str, number: int, device: str, seed: int) -> None:
    space = lowered(name, sizes_of(name, number), device).space
    assume(is_served(space))
    config = unconstrained(space, seed)
    repaired = space.repair(config)
    assert space.is_valid(repaired)
    space.check(repaired)
    normal = space.normalise(config)
    if space.is_valid(normal):
        assert repaired == normal


def test_constraints_bite() -> None:
    """Each kind excludes something, and says why."""
    it = lowered("examples.matmul:matmul", (4096, 4096, 4096))
    widest = {k.name: k.choices[-1] for k in it.space.knobs if k.role == "block"}
    wide = it.default.with_({**widest, "num_stages": 6, "num_warps": 1})
    reasons = " ".join(c.reason for c in it.space.violations(wide))
    assert "registers" in reasons and "staged operands" in reasons
    with pytest.raises(ConfigError, match=r"space.repair\(config\) mends it"):
        it.emit(wide)
    amd = lowered("examples.vector_add:vector_add", (4096,), "amd-mi300x")
    assert amd.space.knob("num_warps").choices[-1] == 16


def test_products_without_matrix_units_count_together() -> None:
    """Each has its own instructions in one assembly, which a program of several takes minutes to make."""
    name = "examples.attention:attention_backward"
    it = kernel(name).lower(meta(name, (1024, 64, 8, 2), "float32"), H200)
    precise = {k.name: "ieee" for k in it.space.knobs if k.name.endswith(".precision")}
    few = it.default.with_({"block:block_n": 128, "block:tile_n@1": 64, "num_warps@1": 1, **precise})
    assert any("multiply-adds a thread together" in c.reason for c in it.space.violations(few))
    assert it.space.is_valid(it.space.repair(few))


def test_products_without_matrix_units_count_in_each_turn_that_is_written_out() -> None:
    name = "examples.matmul:matmul"
    it = kernel(name).lower(meta(name, (4096, 4096, 4096), "float32"), H200)
    blocks = {"block:tile_m": 64, "block:tile_n": 64, "block:tile_k": 64, "num_warps": 4}
    once = it.default_pipelined.with_({**blocks, "product:dot#0.precision": "ieee"})
    unrolled = once.with_({"loop:tile_k.unroll": 4})
    assert not it.space.violations(unrolled.with_({"product:dot#0.precision": "bf16x6", "loop:tile_k.unroll": 1}))

    def long(config: Config) -> bool:
        return any("multiply-adds a thread together" in c.reason for c in it.space.violations(config))

    assert not long(once) and long(unrolled)
    assert it.space.repair(unrolled)["loop:tile_k.unroll"] < 4


def test_results_of_few_columns_have_no_bfloat16_parts() -> None:
    """Of 16 columns after another product ptxas made wrong code: infinities, addresses elsewhere."""
    name = "examples.matmul:matmul"
    it = kernel(name).lower(meta(name, (4096, 4096, 4096), "float32"), H200)
    parts = {"product:dot#0.precision": "bf16x6", "block:tile_k": 32}
    assert not it.space.violations(it.default_pipelined.with_({**parts, "block:tile_n": 32}))
    narrow = it.default_pipelined.with_({**parts, "block:tile_n": 16})
    assert any("at least 32 columns" in c.reason for c in it.space.violations(narrow))
    assert it.space.is_valid(it.space.repair(narrow))


def test_products_have_floors() -> None:
    """The matrix units' smallest shapes, also where a size is 1."""
    space = lowered("examples.matmul:matmul", (1, 1, 1)).space
    least = [min(k.choices) for k in space.knobs if k.role == "block"]
    assert len(least) == 3 and min(least) >= 16


def names(function: object) -> list[str]:
    x = torch.empty(64, 96, device="meta")
    return [k.name for k in tileflow.kernel(function).lower((x, x), H200).space.knobs]


def before(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        row = x[tile_m, :]
        out[tile_m, :] = torch.softmax(row, 1)
    return out


def after(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """An unrelated load, more lines, other arithmetic, other names for what is neither loop variable nor tensor."""
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        bias = y[tile_m, 0][:, None] * 2

        values = x[tile_m, :]
        out[tile_m, :] = torch.softmax(values, 1) + bias
    return out


def test_knob_names_survive_an_unrelated_edit() -> None:
    old, new = names(before), names(after)
    assert "block:tile_m" in old and "load:x#0.eviction" in old and "reduce:max#0" in old
    assert [n for n in new if n in old] == old
    assert set(new) - set(old) == {"load:y#0.eviction", "load:y#0.cache"}


def test_launches_after_the_first_have_knobs_of_their_own() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = y[tile, :]
        for tile in tfl.tile(x.size(0)):
            y[tile, :] = x[tile, :] + 1
        return y

    found = names(twice)
    assert {"block:tile", "block:tile@1", "num_warps", "num_warps@1", "load:y#0.eviction"} <= set(found)


def test_host_knobs_are_in_the_space() -> None:
    def tuned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        block = tfl.register_block_size(8, 64)
        flavour = tfl.register_tunable("flavour", ["plain", "doubled"])
        for tile in tfl.tile(x.size(0), block_size=block):
            x[tile, :] = y[tile, :] * (2 if flavour == "doubled" else 1)
        return x

    x = torch.empty(64, 96, device="meta")
    it = tileflow.kernel(tuned).lower((x, x), H200)
    assert it.space.knob("block:block").choices == (8, 16, 32, 64)
    assert it.space.knob("tunable:flavour").choices == ("plain", "doubled")
    texts = [it.emit(it.space.complete({"tunable:flavour": f}))[0].text for f in ("plain", "doubled")]
    assert texts[0] != texts[1] and "* 2" in texts[1]


@pytest.mark.parametrize("changes", [{"block:tile": 3}, {"block:nothing": 4}, {"num_warps": "4"}])
def test_illegal_configs_are_refused(changes: dict[str, object]) -> None:
    it = lowered("examples.vector_add:vector_add", (4096,))
    with pytest.raises(ConfigError, match="knob"):
        it.emit(it.default.with_(changes))  # type: ignore[arg-type]


def test_an_inactive_knob_changes_nothing() -> None:
    """Stages without a loop are one trial."""
    it = lowered("examples.softmax:softmax", (4096, 4096))
    whole = it.default.with_({"reduce:max#0": 0})
    assert len({it.space.normalise(whole.with_({"num_stages": n})).key for n in (1, 2, 3)}) == 1
    looped = it.default.with_({"reduce:max#0": 1024})
    assert len({it.space.normalise(looped.with_({"num_stages": n})).key for n in (1, 2, 3)}) == 3


@tileflow.kernel
def summed_in_pairs(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1) // 2, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        half = tile_n.block_size // 2
        pairs = x[tile_m, tile_n].reshape(tile_m, half, 2)
        out[tile_m, tile_n.begin // 2 + tfl.arange(half)] = pairs.amax(-1)
    return out


def test_a_reshape_that_cuts_a_tile_leaves_blocks_that_divide_its_loop() -> None:
    """Issue 14, reshapes that halve blocks: a shorter tile's other lanes would count in the largest of a pair."""
    call = summed_in_pairs.lower((torch.empty(24, 96, device="meta"),), target("nvidia-h200"))
    configs = [call.default, *(call.space.sample(random.Random(n)) for n in range(20))]
    assert {config["block:tile_n"] for config in configs} <= {2, 4, 8, 16, 32}
    with pytest.raises(ConfigError, match=r"whole tiles only|come out even"):
        call.emit(call.default.with_({"block:tile_n": 64}))


def test_products_beside_each_other_have_the_same_parts() -> None:
    """Three tf32 products beside six bfloat16 ones gave NaN, or read memory of no tensor (Triton 3.6, H100)."""
    one = ALL["attention_free"]
    lowered = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h200"))
    names = [k.name for k in lowered.space.knobs if k.name.endswith(".precision")]
    assert len(names) == 2
    for first, second in itertools.product(("ieee", "tf32x3", "bf16x6"), repeat=2):
        config = lowered.default.with_(dict(zip(names, (first, second), strict=True)))
        are_mixed = {first, second} == {"tf32x3", "bf16x6"}
        assert lowered.space.is_valid(lowered.space.normalise(config)) is not are_mixed
        repaired = lowered.space.repair(config)
        assert {repaired[name] for name in names} == ({"tf32x3"} if are_mixed else {first, second})


def test_a_kernel_that_no_config_fits_says_its_line() -> None:
    """A row that a loop carries stays whole: which one it is, the author sees."""

    @tileflow.kernel
    def mixed(x: torch.Tensor, keys: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), value.size(1), device=x.device)
        for tile in tfl.tile(x.size(0)):
            total = tfl.zeros([tile, value.size(1)])
            for h in tfl.grid(keys.size(0)):
                score, place = torch.topk(tfl.dot(x[tile, h, :], keys[h, :, :].T), 8, dim=1)
                total += (score[:, :, None] * value[place, :]).sum(1)  # this one
            out[tile, :] = total
        return out

    sizes = ((8192, 20, 64), (20, 256, 64), (256, 768))
    call = mixed.lower(tuple(torch.empty(s, dtype=torch.bfloat16, device="meta") for s in sizes), H200)
    with pytest.raises(ConfigError, match=r"registers a thread(.|\n)*# this one"):
        _ = call.default


def test_what_a_device_lacks_says_its_line() -> None:
    @tileflow.kernel
    def scaled(x: torch.Tensor, out: torch.Tensor) -> None:
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile].float() * 2  # this one

    call = scaled.lower(
        (torch.empty(64, dtype=torch.float8_e4m3fnuz, device="meta"), torch.empty(64, device="meta")), H200
    )
    with pytest.raises(ConfigError, match=r"float8_e4m3fnuz is AMD's(.|\n)*# this one"):
        _ = call.default
