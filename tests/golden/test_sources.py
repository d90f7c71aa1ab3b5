"""The Triton source of every gallery kernel, reviewed as diffs, and that it compiles for every architecture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from compiler_gallery import SIZES, kernel, meta

from tileflow.config import Choice, Config
from tileflow.emit.source import TritonSource
from tileflow.lowered import Lowered
from tileflow.target import CATALOGUE, target

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950")
# no size is a power of two, so that masks show; divisible by 16, so that the dynamic mode has two variants
EXAMPLE = (4000, 2992, 1008)
# smaller blocks, which assemble faster
COMPILED = (1000, 752, 240)
# what the default config leaves alone
UNUSUAL: dict[str, Choice] = {
    "persistent": 2, "order": "1,0", "group": 4, "num_warps": 8, "num_stages": 2, "block:tile_m": 16,
    "block:tile_n": 32, "block:tile_k": 16, "block:tile": 1024,
    "reduce:sum#0": 512, "reduce:max#0": 512, "load:x#0.eviction": "evict_last",
}  # fmt: skip


def lower(name: str, mode: str, device: str = "nvidia-h200", sizes: tuple[int, ...] = EXAMPLE) -> Lowered:
    return kernel(name).lower(meta(name, sizes), target(device), mode=mode)


def unusual(lowered: Lowered) -> Config:
    names = {k.name for k in lowered.space.knobs}
    return lowered.space.repair(lowered.default.with_({k: v for k, v in UNUSUAL.items() if k in names}))


def document(config: Config, sources: tuple[TritonSource, ...]) -> str:
    """Everything that a launch depends on, then the text."""
    parts = [f"# config: {config}"]
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


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("variant", ["default", "unusual", "dynamic"])
def test_source(name: str, variant: str, golden: Callable[[str, str], None]) -> None:
    lowered = lower(name, "dynamic" if variant == "dynamic" else "static")
    config = unusual(lowered) if variant == "unusual" else lowered.default
    golden(f"sources/{name.partition(':')[2]}_{variant}.py", document(config, lowered.emit(config)))


@pytest.mark.parametrize("name", SIZES)
def test_equal_graphs_give_equal_text(name: str) -> None:
    first, second = lower(name, "dynamic"), lower(name, "dynamic")
    assert [s.hash for s in first.emit(first.default)] == [s.hash for s in second.emit(second.default)]


def test_no_source_is_left_over() -> None:
    written = {path.stem for path in (Path(__file__).parent / "sources").glob("*.py")}
    assert written == {f"{name.partition(':')[2]}_{v}" for name in SIZES for v in ("default", "unusual", "dynamic")}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing compiled before is found again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("tileflow")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", SIZES)
def test_compiles(name: str, architecture: str) -> None:
    """The default config of either mode (in dynamic mode the variant without divisibility), for one device class."""
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    device = next(t for t in CATALOGUE.values() if t.arch == architecture)
    static = lower(name, "static", device.name, COMPILED)
    dynamic = lower(name, "dynamic", device.name, COMPILED)
    for source in (*static.emit(static.default), dynamic.emit(dynamic.default)[-1]):
        binary = build(source, device)
        assert binary.code.startswith(b"\x7fELF") and binary.mode == source.mode
        assert 0 < binary.resources.registers <= 512
