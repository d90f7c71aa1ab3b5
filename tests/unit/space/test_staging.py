"""What the space says of shared memory and registers against what the compiler needs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.build import compile as build_module
from tileflow.build.compile import build
from tileflow.config import Choice, Config, ConfigSpace
from tileflow.errors import OutOfResources
from tileflow.lowered import Lowered
from tileflow.passes.roll import rollable
from tileflow.space.extents import Extents
from tileflow.space.knobs import PERSISTENT as PERSISTENT_KNOB
from tileflow.space.knobs import SCHEDULE
from tileflow.space.staging import stagings
from tileflow.target import target

H200 = target("nvidia-h200")
BARRIERS = 256  # bytes, of the copy engine's, beside the tiles
BACKWARD = "examples.attention:attention_backward", {"batch": 4, "heads": 32, "m": 4096, "d": 128, "causal": True}
FORWARD = "examples.attention:attention", {"batch": 4, "heads": 32, "m": 4096, "d": 128}
MATMUL = "examples.matmul:matmul", {"m": 8192, "n": 4096, "k": 4096}
SHORT = "examples.matmul:matmul", {"m": 8192, "n": 4096, "k": 1024}
BOXES = {"load:x#0.access": "descriptor", "load:y#0.access": "descriptor", "store:out#0.access": "descriptor"}
PERSISTENT = {"persistent": 1, "flatten": True, "store:out#0.subtile": 2}
Problem = tuple[str, dict[str, Any]]
Choices = dict[str, Choice]


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        build_module.generated_functions.cache_clear()
        yield


_lowered: dict[str, Lowered] = {}


def lowered(problem: Problem) -> Lowered:
    name, sizes = problem
    kernel = load_kernel(name)
    key = f"{name} {sizes}"
    if key not in _lowered:
        _lowered[key] = kernel.lower(kernel.inputs(device="meta", **sizes), H200)
    return _lowered[key]


def pipelined(it: Lowered) -> Config:
    """The default with every launch under Triton's own scheduling, whose memory this is about, and by boxes."""
    plain = {k.name: k.default for k in it.space.knobs if SCHEDULE.matches(k.name) or PERSISTENT_KNOB.matches(k.name)}
    boxes = {k.name: "descriptor" for k in it.space.knobs if k.name.endswith(".access")}
    if all(it.default[name] == choice for name, choice in plain.items()):
        return it.default
    return it.space.repair(it.default.with_({**plain, **boxes}))


def chosen(it: Lowered, choices: Choices) -> Config:
    return it.space.normalise(pipelined(it).with_(choices))


def estimate(it: Lowered, config: Config, region: int) -> int:
    """Bytes of shared memory that the space reckons with for a region."""
    knobs = {k.name: k for k in it.space.knobs}
    values = {name: knobs[name].encode(choice) for name, choice in config.items}
    ir = it.regions[region]
    return max((s.size + s.stored).evaluate(values) for s in stagings(ir, Extents(ir, rollable(ir)), knobs, H200))


def tiles(m: int, n: int, k: int, warps: int, stages: int, **more: Choice) -> Choices:
    return {
        "block:tile_m": m, "block:tile_n": n, "block:tile_k": k, "num_warps": warps, "num_stages": stages,
        **{f"loop:tile_k.{name}": choice for name, choice in more.items()},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "region", "choices"),
    [
        pytest.param(MATMUL, 0, tiles(128, 256, 64, 8, 4) | BOXES | PERSISTENT, id="a store beside the next tile"),
        pytest.param(MATMUL, 0, tiles(128, 64, 32, 4, 3, unroll=2) | BOXES, id="turns written out"),
        pytest.param(MATMUL, 0, tiles(32, 64, 64, 4, 4) | BOXES, id="single warps"),
        pytest.param(FORWARD, 0, {"block:tile_m": 64, "block:block_n": 64, "num_warps": 4, "num_stages": 3}, id="keys"),
        pytest.param(BACKWARD, 1, {"block:block_m": 32, "num_stages@1": 3}, id="four products"),
        pytest.param(BACKWARD, 1, {"block:block_m": 64, "block:tile_n@1": 16, "num_stages@1": 3}, id="in registers"),
        pytest.param(BACKWARD, 2, {"block:block_n": 64, "num_stages@2": 3}, id="two sums of scores"),
    ],
)  # fmt: skip
def test_the_estimate_is_what_the_compiler_takes(problem: Problem, region: int, choices: Choices) -> None:
    it = lowered(problem)
    config = chosen(it, choices)
    it.space.check(config)
    real = build(it.emit(config)[region], H200).abi.shared
    assert 0.85 * estimate(it, config, region) <= real <= estimate(it, config, region) + BARRIERS


@pytest.mark.parametrize(
    ("problem", "choices"),
    [
        (MATMUL, tiles(128, 256, 64, 8, 4) | BOXES | PERSISTENT),
        (FORWARD, {"block:tile_m": 64, "block:block_n": 64, "num_warps": 4, "num_stages": 3}),
        (FORWARD, {"block:tile_m": 128, "block:block_n": 128, "num_warps": 8, "num_stages": 2}),
        (BACKWARD, {"block:block_m": 32, "block:tile_n@1": 64, "num_warps@1": 4, "num_stages@1": 3}),
        (BACKWARD, {"block:block_n": 32, "block:tile_m@2": 128, "num_warps@2": 8, "num_stages@2": 3}),
    ],
)
def test_configs_that_were_fast_are_valid(problem: Problem, choices: Choices) -> None:
    it = lowered(problem)
    it.space.check(chosen(it, choices))


@pytest.mark.parametrize(
    ("problem", "region", "choices", "reason"),
    [
        # keys and values of every stage at once, neither too large alone
        (FORWARD, 0, {"block:tile_m": 64, "block:block_n": 128, "num_warps": 4, "num_stages": 4}, "staged operands"),
        (MATMUL, 0, tiles(128, 128, 32, 8, 4, unroll=4) | BOXES, "staged operands"),
        (
            SHORT,
            0,
            tiles(64, 32, 256, 4, 3, static=True) | BOXES | {"persistent": 8, "flatten": True},
            "staged operands",
        ),
        (MATMUL, 0, tiles(128, 128, 32, 8, 2) | {"maxnreg": 64}, "registers"),
        (BACKWARD, 2, {"block:tile_m@2": 64, "num_warps@2": 4, "maxnreg@2": 64}, "registers"),
    ],
)
def test_what_the_compiler_refuses_is_no_config(problem: Problem, region: int, choices: Choices, reason: str) -> None:
    """And is mended to one."""
    it = lowered(problem)
    config = pipelined(it).with_(choices)
    assert any(reason in c.reason for c in it.space.violations(config))
    assert it.space.is_valid(it.space.repair(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(it, "space", ConfigSpace(it.space.knobs, (), it.space.environment))
        source = it.emit(config)[region]
    with pytest.raises(OutOfResources):
        build(source, H200)


@tileflow.kernel
def blocks_by_number(q: torch.Tensor, k: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    t, g, d = q.shape
    out = torch.empty_like(q)
    for it in tfl.grid(t):
        acc = tfl.zeros([g, d])
        for j in range(chosen.size(1)):
            start = chosen[it, j] * 64
            key = k[start : start + 64, :]
            acc += (q[it, :, :] @ key.T).to(k.dtype) @ key
        out[it, :, :] = acc
    return out


@pytest.mark.parametrize("turns", [8, 16])
def test_turns_that_are_written_out_do_not_wait_together(turns: int) -> None:
    """Their operands were added up: 12 turns were refused, whose binary takes 24 KB."""
    q, k = (torch.empty(n, device="meta", dtype=torch.bfloat16) for n in ((4096, 16, 128), (4096, 128)))
    it = blocks_by_number.lower((q, k, torch.empty(4096, turns, device="meta", dtype=torch.int32)), H200)
    built = build(it.emit(it.default)[0], H200)
    assert built.resources.shared <= estimate(it, it.default, 0) <= 1 << 16
