"""Portable variants compile for every vendor: a few kernels always, the whole gallery where there is time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tile_testing.compiler_gallery import GALLERY, kernel, meta

from tileflow.target import CATALOGUE, Target

ARCHITECTURES = ("sm_90a", "gfx942")
FEW = ("examples.vector_add:vector_add", "examples.long_sum:long_sum")
MOST_S = 150.0  # of one core, for all variants of one kernel


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing compiled before is found again."""
    pytest.importorskip("triton")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEFLOW_CACHE", str(tmp_path_factory.mktemp("tileflow")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def device(architecture: str) -> Target:
    return next(t for t in CATALOGUE.values() if t.arch == architecture)


def build_all(name: str, architecture: str) -> float:
    """Every variant, in seconds; each has all that a launch needs."""
    from tileflow.build.compile import build

    begin = time.perf_counter()
    (sizes,) = GALLERY[name].rows("example")
    sources = kernel(name).portable(*meta(name, sizes), target=device(architecture))
    binaries = [build(source, device(architecture)) for source in sources]
    assert all(b.mode == "dynamic" and b.resources.registers > 0 for b in binaries)
    assert {b.abi.version for b in binaries} <= {3, 4}  # 4 where a launch copies
    modes = {source.region: 0 for source in sources}
    for source in sources:
        modes[source.region] += 1
    assert all(count >= 3 for count in modes.values()), "32 bits, 64 bits, and what assumes nothing"
    return time.perf_counter() - begin


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", FEW)
def test_a_few_kernels_build(name: str, architecture: str) -> None:
    build_all(name, architecture)


def test_a_narrow_tile_beside_wide_ones_has_a_narrow_number() -> None:
    """A descriptor takes offsets of 32 bits: that of a part of the sum, whose number is divided out of wide counts."""
    from tileflow.build.compile import build

    name = "examples.int4_matmul:int4_matmul"
    sources = kernel(name).portable(*meta(name, (512, 1024, 512)), target=device("sm_90a"))
    found = [s for s in sources if "part_begin = tl.cast(" in s.text and "_desc" in s.text]
    assert found, "a variant of 64 bits that stores through a descriptor"
    build(found[0], device("sm_90a"))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", sorted(GALLERY.keys() - set(FEW)))
def test_every_kernel_builds(name: str, architecture: str) -> None:
    """Each kernel of the gallery has a variant that assumes nothing, in a time that a farm can spend."""
    if architecture in GALLERY[name].refused:
        pytest.skip(f"{architecture} lacks what the kernel needs")
    assert build_all(name, architecture) < MOST_S
