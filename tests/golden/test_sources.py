"""The Triton source of every gallery kernel, reviewed as diffs, and that it compiles for every architecture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from tile_testing.compiler_gallery import GALLERY, kernel, meta

from tileflow.config import Choice, Config, ConfigSpace
from tileflow.emit.source import TritonSource
from tileflow.errors import ConfigError
from tileflow.lowered import Lowered
from tileflow.target import CATALOGUE, target

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")
WITHOUT_SPILLS = ("sm_90a", "gfx942", "gfx950")
# what the default config leaves alone
UNUSUAL: dict[str, Choice] = {
    "persistent": 2, "order": "1,0", "group": 4, "num_warps": 8, "num_stages": 2, "tunable:split_k": 4,
}  # fmt: skip


# one kernel of a kind is read in three variants; of the others the default one says what is theirs
THREE_WAYS = frozenset({"attention", "layer_norm", "matmul", "matmul_epilogue", "rms_norm", "rms_norm_bwd", "softmax",
                        "softmax_online", "split_k_matmul", "vector_add"})  # fmt: skip
# warps with roles of their own: attention, one product, rows of ragged groups, parts of an inner dimension
_PRODUCT: dict[str, Choice] = {
    "schedule": "warp_specialised", "block:tile_k": 64, "num_stages": 4, "consumers": 2, "group": 4,
}  # fmt: skip
SPECIALISED: dict[str, dict[str, Choice]] = {
    "examples.attention:attention": {
        "schedule": "warp_specialised", "block:tile_m": 128, "block:block_n": 128, "num_stages": 2,
    },
    "examples.attention:attention_backward_fused": {
        "schedule@1": "warp_specialised", "block:tile_n@1": 128, "block:block_m": 128, "num_stages@1": 2,
    },
    "examples.matmul:matmul_epilogue": {
        **_PRODUCT, "block:tile_m": 128, "block:tile_n": 128, "ping_pong": True, "num_stages": 6, "group": 8,
    },
    "examples.gated_matmul:gated_matmul": {
        **_PRODUCT, "block:tile_m": 128, "block:tile_n": 128, "ping_pong": False, "group": 16,
    },
    "examples.grouped_matmul:grouped_matmul": {
        **_PRODUCT, "block:tile_m": 128, "block:tile_n": 256, "ping_pong": False,
    },
    "examples.grouped_matmul:grouped_matmul_flat": {
        **_PRODUCT, "block:block_m": 128, "block:tile_n": 128, "ping_pong": True,
    },
    "examples.split_k:split_k_matmul": {**_PRODUCT, "block:tile_m": 128, "block:tile_n": 128, "ping_pong": False},
    "examples.int4_matmul:int4_matmul": {
        "schedule": "warp_specialised", "block:tile_m": 64, "block:tile_n": 128, "block:block_k": 32, "num_stages": 4,
        "consumers": 2, "ping_pong": False,
    },
}  # fmt: skip
# blocks of a cluster that hold a row together, four for a row of 20000 float32
CLUSTERED: dict[str, Choice] = {"ctas": 4, "num_warps": 8, "block:tile_m": 1, "reduce:max#0": 0}
SOURCES = [
    *((name, "specialised") for name in SPECIALISED),
    ("examples.softmax:softmax", "clustered"),
    *(
        (name, variant)
        for name in GALLERY
        for variant in (("default", "unusual", "dynamic") if name.partition(":")[2] in THREE_WAYS else ("default",))
    ),
]


def lower(name: str, mode: str, device: str = "nvidia-h200", row: str = "example") -> Lowered:
    (sizes,) = GALLERY[name].rows(row)
    return kernel(name).lower(meta(name, sizes), target(device), mode=mode)


def unusual(lowered: Lowered, default: Config) -> Config:
    """Small blocks, looped reductions, a cache hint for each load, and ``UNUSUAL``."""
    changes: dict[str, Choice] = {}
    for knob in lowered.space.knobs:
        if knob.name.partition("@")[0] in UNUSUAL:
            changes[knob.name] = UNUSUAL[knob.name.partition("@")[0]]
        elif knob.role == "block":
            changes[knob.name] = 16 if len(changes) % 2 else 32
        elif knob.role == "reduction":
            changes[knob.name] = 512
        elif knob.name.endswith(".eviction"):
            changes[knob.name] = "evict_last"
    allowed = {k.name: k.choices for k in lowered.space.knobs}
    kept = {name: choice for name, choice in changes.items() if choice in allowed[name]}
    return lowered.space.repair(default.with_(kept))


def document(space: ConfigSpace, config: Config, sources: tuple[TritonSource, ...]) -> str:
    """Everything that a launch depends on, then the text. Knobs at their plain defaults are left out, so that a new one
    changes no file."""
    parts = ["# config: " + ", ".join(f"{k}={c}" for k, c in config.items if c != space.knob(k).default)]
    for source in sources:
        parts += [
            f"# region {source.region}, {source.mode}",
            f"# grid: {', '.join(map(str, source.grid))}",
            f"# guards: {source.guards}",
            f"# options: {', '.join(f'{k}={v}' for k, v in source.options)}",
            f"# constexprs: {', '.join(f'{k}={v}' for k, v in source.constexprs)}",
            *(f"# {a.name}: {a.type}{' % 16' if a.divisible_by_16 else ''} = {a.path or a.value}" for a in source.args),
            source.text,
        ]
    return "\n".join(parts)


@pytest.mark.parametrize(("name", "variant"), SOURCES)
def test_source(name: str, variant: str, golden: Callable[[str, str], None]) -> None:
    lowered = lower(name, "dynamic" if variant == "dynamic" else "static")
    if variant == "clustered":
        lowered = kernel(name).lower((torch.empty(64, 20000, device="meta"),), target("nvidia-h200"))
    config = lowered.default_pipelined
    if variant == "unusual":
        config = unusual(lowered, config)
    elif variant == "specialised":
        config = lowered.space.complete(SPECIALISED[name])
    elif variant == "clustered":
        config = lowered.space.complete(CLUSTERED)
    golden(f"sources/{name.partition(':')[2]}_{variant}.py", document(lowered.space, config, lowered.emit(config)))


@pytest.mark.parametrize("name", GALLERY)
def test_equal_graphs_give_equal_text(name: str) -> None:
    first, second = lower(name, "dynamic"), lower(name, "dynamic")
    assert [s.hash for s in first.emit(first.default)] == [s.hash for s in second.emit(second.default)]


def test_no_source_is_left_over() -> None:
    written = {path.stem for path in (Path(__file__).parent / "sources").glob("*.py")}
    assert written == {f"{name.partition(':')[2]}_{variant}" for name, variant in SOURCES}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing compiled before is found again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("tileflow")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


# Assembling takes most of these tests' time: every kernel for every architecture, the modes in turn. A run that is not
# of the slow tests has each kernel for one architecture, in turn too.
COMPILED = [
    pytest.param(
        name, architecture, ("static", "dynamic")[(row + column) % 2],
        marks=() if row % 2 == 0 and column == row // 2 % len(ARCHITECTURES) else pytest.mark.slow,
    )
    for row, name in enumerate(GALLERY)
    for column, architecture in enumerate(ARCHITECTURES)
]  # fmt: skip


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("name", "architecture", "mode"), COMPILED)
def test_compiles(name: str, architecture: str, mode: str) -> None:
    """The default config (in dynamic mode the variant without divisibility), for one device class."""
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    device = next(t for t in CATALOGUE.values() if t.arch == architecture)
    lowered = lower(name, mode, device.name, "compiled")
    if architecture in GALLERY[name].refused:
        with pytest.raises(ConfigError):
            lowered.emit(lowered.default)
        return
    last_of_each_region = {source.region: source for source in lowered.emit(lowered.default)}
    for source in last_of_each_region.values():
        binary = build(source, device)
        assert binary.code.startswith(b"\x7fELF") and binary.mode == source.mode == mode
        assert 0 < binary.resources.registers <= 512
        if mode == "static" and architecture in WITHOUT_SPILLS:
            assert binary.resources.spills == 0
