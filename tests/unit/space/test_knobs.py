"""Knobs: each changes the source as documented, matters where it says that it does, and is defined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from tile_testing.compiler_gallery import GALLERY, kernel, meta
from tile_testing.kernels.histogram_kernels import vector
from tile_testing.kernels.rolled_kernels import projected
from tile_testing.knob_configs import base, choices

from tileflow.config import Choice
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.space.knob import KnobDef
from tileflow.space.knobs import KNOBS, TUNABLE, definition
from tileflow.target import CATALOGUE, target

MATMUL, SOFTMAX, ATTENTION = "examples.matmul:matmul", "examples.softmax:softmax", "examples.attention:attention"
EPILOGUE, LAYER_NORM_BWD = "examples.matmul:matmul_epilogue", "examples.layer_norm:layer_norm_bwd"
MIXED, ONLINE = "examples.mixed_matmul:mixed_matmul", "examples.softmax:softmax_online"
SIZES = {MATMUL: (512, 512, 256), EPILOGUE: (512, 512, 256), SOFTMAX: (512, 1024), ATTENTION: (512, 64, 2, 2),
         LAYER_NORM_BWD: (512, 1024), MIXED: (512, 512, 256), ONLINE: (512, 1024)}  # fmt: skip
DEVICES = ("nvidia-a100", "nvidia-h200", "nvidia-b200", "nvidia-rtx5090", "amd-mi300x", "amd-mi350x")

_lowered: dict[tuple[str, str], Lowered] = {}


def lowered(name: str, device: str = "nvidia-h200") -> Lowered:
    if (name, device) not in _lowered:
        _lowered[name, device] = kernel(name).lower(meta(name, SIZES[name]), target(device))
    return _lowered[name, device]


def identity(sources: tuple[TritonSource, ...]) -> list[object]:
    """All that a binary and its launch are made from."""
    return [(s.code, s.options, s.grid, s.constexprs) for s in sources]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SIZES)
def test_each_choice_changes_the_source(name: str, device: str) -> None:
    """Every knob can be reached, and none that is active leaves everything as it was."""
    it = lowered(name, device)
    reached = set()
    for knob, choice, plain, changed in choices(it):
        reached.add(knob.name)
        assert identity(it.emit(plain)) != identity(it.emit(changed)), f"{knob.name}={choice} under {changed}"
    sizes = {"block", "reduction", "tunable"}
    never = {k.name for k in it.space.knobs if k.role not in sizes and len(k.choices) > 1} - reached
    assert never == set()


def emitted(name: str, changes: Mapping[str, Choice], device: str = "nvidia-h200") -> TritonSource:
    it = lowered(name, device)
    config = it.space.normalise(base(it).with_(changes))
    assert all(config[k] == c for k, c in changes.items()), f"inactive under {config}"
    return it.emit(config)[0]


LARGE: Mapping[str, Choice] = {"block:tile_m": 128, "block:tile_n": 128, "num_warps": 8}
BOXES: Mapping[str, Choice] = {"load:x#0.access": "descriptor", "load:y#0.access": "descriptor", "num_stages": 3}
CASES: list[tuple[str, str, dict[str, Choice], str]] = [
    (MATMUL, "nvidia-h200", {"loop:tile_k.unroll": 4}, "tl.range(0, 256, BLOCK_TILE_K, loop_unroll_factor=4)"),
    (MATMUL, "nvidia-h200", {"loop:tile_k.static": True}, "in tl.static_range(0, 256, BLOCK_TILE_K):"),
    (ONLINE, "nvidia-h200", {"loop:tile_n.stages": 4}, "tl.range(0, 1024, BLOCK_BLOCK_N, num_stages=4)"),
    (MATMUL, "nvidia-b200", {**LARGE, "loop:tile_k.multi_buffer": False}, "disallow_acc_multi_buffer=True"),
    (MATMUL, "nvidia-b200", {**LARGE, **BOXES, "loop:tile_k.warp_specialize": True}, "warp_specialize=True"),
    (MATMUL, "nvidia-h200", {"persistent": 1, "flatten": True}, "tl.num_programs(0), flatten=True):"),
    (
        MATMUL,
        "nvidia-h200",
        {"persistent": 1, "walk": "blocked"},
        "tl.minimum(first + run, tile_m_count * tile_n_count)):",
    ),
    (MATMUL, "nvidia-h200", {"group": 1, "grid": "axes"}, "tile_m_begin = pid_1 * BLOCK_TILE_M"),
    (
        ATTENTION,
        "nvidia-h200",
        {"block:tile_m": 64, "group": 1, "descending": True},
        "(tile_m_count - 1) - (pid % tile_m_count)",
    ),
    (MATMUL, "amd-mi300x", {"xcd": True}, "program = before + tl.program_id(0) // 8"),
    (MATMUL, "nvidia-h200", {"load:x#0.cache": ".cg"}, "cache_modifier='.cg')"),
    (MATMUL, "nvidia-h200", {"store:out#0.cache": ".cs"}, "cache_modifier='.cs')"),
    (MATMUL, "amd-mi350x", {"store:out#0.cache": ".wt"}, "cache_modifier='.wt')"),
    (
        EPILOGUE,
        "nvidia-h200",
        {**LARGE, "store:out#0.subtile": 2},
        "tile_n_half1_begin = tile_n_begin + (BLOCK_TILE_N // 2)",
    ),
    (MATMUL, "nvidia-a100", {"cutlass_name": True}, "def matmul_0_cutlass("),
    (MIXED, "nvidia-h200", {**LARGE, "product:dot#0.transposed": True}, "tl.permute(c0, (1, 0))"),
]


@pytest.mark.parametrize(("name", "device", "changes", "text"), CASES)
def test_the_text_says_it(name: str, device: str, changes: dict[str, Choice], text: str) -> None:
    assert text in emitted(name, changes, device).text


@pytest.mark.parametrize(
    ("device", "option", "choice"),
    [("nvidia-h200", "maxnreg", 128), ("amd-mi300x", "waves_per_eu", 2), ("amd-mi350x", "matrix_instr_nonkdim", 16),
     ("amd-mi300x", "kpack", 2)],
)  # fmt: skip
def test_the_options_say_it(device: str, option: str, choice: int) -> None:
    assert dict(emitted(MATMUL, {option: choice}, device).options)[option] == choice
    assert option not in dict(lowered(MATMUL, device).emit(base(lowered(MATMUL, device)))[0].options)


def test_axes_of_a_launch_are_the_fastest_first() -> None:
    x, y, z = emitted(MATMUL, {"group": 1, "grid": "axes", "order": "1,0", "block:tile_m": 64}).grid
    assert (x.constant, y.constant, z.constant) == (8, 16, 1)


def test_a_half_is_stored_without_a_wait() -> None:
    text = emitted(EPILOGUE, {**LARGE, "store:out#0.subtile": 2}).text
    assert "barrier" not in text
    assert text.count("tl.erf") == 2 and text.count("tl.store(") == 2


IDLE: list[tuple[str, str, dict[str, Choice]]] = [
    (MATMUL, "nvidia-h200", {"persistent": 0, "walk": "blocked"}),
    (MATMUL, "nvidia-h200", {"persistent": 0, "flatten": True}),
    (MATMUL, "nvidia-h200", {"persistent": 1, "grid": "axes"}),
    (MATMUL, "nvidia-h200", {"group": 4, "grid": "axes"}),
    (MATMUL, "amd-mi300x", {"persistent": 0, "group": 1, "grid": "axes", "xcd": True}),
    (MATMUL, "nvidia-h200", {"num_warps": 16, "maxnreg": 128}),
    (MATMUL, "amd-mi300x", {"num_warps": 16, "waves_per_eu": 2}),
    (MATMUL, "nvidia-h200", {"block:tile_m": 64, "cutlass_name": True}),
    (MATMUL, "nvidia-h200", {"block:tile_m": 64, "store:out#0.subtile": 2}),
    (MATMUL, "nvidia-h200", {"load:x#0.access": "descriptor", "load:x#0.cache": ".cg"}),
    (MATMUL, "nvidia-h200", {"load:x#0.eviction": "evict_last", "load:x#0.cache": ".cg"}),
    (MATMUL, "nvidia-h200", {"block:tile_k": 256, "loop:tile_k.unroll": 2}),
    (MATMUL, "nvidia-h200", {"loop:tile_k.static": True, "loop:tile_k.unroll": 2}),
    (MATMUL, "nvidia-h200", {"block:tile_k": 16, "loop:tile_k.static": True}),
    (ONLINE, "nvidia-h200", {"num_stages": 3, "loop:tile_n.stages": 3}),
    (MIXED, "nvidia-h200", {"block:tile_n": 32, "num_warps": 8, "product:dot#0.transposed": True}),
    (MATMUL, "nvidia-b200", {**LARGE, "num_warps": 16, **BOXES, "loop:tile_k.warp_specialize": True}),
    (MATMUL, "amd-mi300x", {"block:tile_m": 16, "matrix_instr_nonkdim": 16}),
]


@pytest.mark.parametrize(("name", "device", "changes"), IDLE)
def test_a_knob_without_effect_is_at_its_default(name: str, device: str, changes: dict[str, Choice]) -> None:
    """Of two configs that give one source, only one is a config: the last of ``changes`` does not count."""
    space = lowered(name, device).space
    *needs, idle = changes
    config = base(lowered(name, device)).with_({k: changes[k] for k in needs})
    assert space.normalise(config.with_({idle: changes[idle]})) == space.normalise(config)


@pytest.mark.parametrize(
    ("name", "device", "absent"),
    [(MATMUL, "nvidia-h200", "xcd"), (MATMUL, "nvidia-h200", "loop:tile_k.warp_specialize"),
     (MATMUL, "nvidia-h200", "loop:tile_k.stages"), (MATMUL, "amd-mi350x", "kpack"), (MATMUL, "amd-mi300x", "maxnreg"),
     (MATMUL, "amd-mi300x", "load:x#0.eviction"), (SOFTMAX, "nvidia-h200", "grid"), (SOFTMAX, "nvidia-h200", "flatten"),
     (SOFTMAX, "nvidia-a100", "cutlass_name"), (SOFTMAX, "amd-mi300x", "matrix_instr_nonkdim")],
)  # fmt: skip
def test_no_knob_where_it_could_change_nothing(name: str, device: str, absent: str) -> None:
    assert absent not in {k.name for k in lowered(name, device).space.knobs}


def test_long_axes_are_the_first_of_a_launch() -> None:
    name = "examples.matmul:matmul"
    it = kernel(name).lower(meta(name, (1 << 21, 64, 64)), target("nvidia-h200"))
    tall = it.space.default.with_({"block:tile_m": 16, "persistent": 0, "group": 1, "grid": "axes", "order": "0,1"})
    assert "65535 programs" in " ".join(c.reason for c in it.space.violations(tall))
    assert it.space.is_valid(tall.with_({"order": "1,0"}))
    assert it.space.repair(tall)["grid"] == "flat"


def test_each_knob_of_the_gallery_is_a_defined_one() -> None:
    """Each knob of the gallery's spaces has a definition, of its role, and each definition a knob."""
    found: set[KnobDef[Any]] = set()
    for name in GALLERY:
        for device in {target(entry).arch: entry for entry in (*CATALOGUE, "nvidia-h200", "amd-mi300x")}.values():
            if name in SIZES or device in ("nvidia-h200", "amd-mi300x"):
                it = kernel(name).lower(meta(name, GALLERY[name].rows("compiled")[0]), target(device))
                for knob in it.space.knobs:
                    defined = definition(knob.name)
                    found.add(defined)
                    assert knob.role == defined.role and type(knob.default) is type(defined.default)
                    assert not defined.choices or {*knob.choices} <= {*defined.choices, *defined.amd}
    name = "examples.matmul:matmul"
    precise = kernel(name).lower(meta(name, (512, 512, 512), "float32"), target("nvidia-h200"))
    found |= {definition(knob.name) for knob in precise.space.knobs}
    row = kernel("examples.long_sum:long_sum.backward")  # of rows that are stored alone
    spread_sum = row.lower(row.inputs(device="meta", m=64, n=4096), target("nvidia-h200"))
    found |= {definition(knob.name) for knob in spread_sum.space.knobs}
    softmax = kernel("examples.softmax:softmax")  # of rows that a cluster may hold
    long_rows = softmax.lower(softmax.inputs(device="meta", m=64, n=65536), target("nvidia-h200"))
    found |= {definition(knob.name) for knob in long_rows.space.knobs}
    rows = tuple(
        torch.empty(shape, device="meta") for shape in ((64, 512), (512, 64), (64,))
    )  # of products, in one piece
    found |= {definition(knob.name) for knob in projected.lower(rows, target("nvidia-h200")).space.knobs}
    numbers = torch.empty(64, device="meta")  # that choose what is added to
    found |= {definition(knob.name) for knob in vector.lower((numbers,), target("nvidia-h200")).space.knobs}
    assert found | {TUNABLE} == set(KNOBS)
