"""Resource facts: against the vendor's own tool, on damaged input, and the occupancy rules."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tile_testing.fakes import build_sources as sources

pytest.importorskip("triton")

from tileflow.build import compat
from tileflow.build.compile import build
from tileflow.build.resources import amdgcn_registers, cubin_registers, instruction_mix, occupancy
from tileflow.errors import BuildError
from tileflow.runtime.abi import Binary, Resources
from tileflow.target import CATALOGUE, target


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("name", ["nvidia-a100", "nvidia-h200", "nvidia-b200"])
def test_the_cubin_reader_agrees_with_cuobjdump(name: str, tmp_path: Path) -> None:
    for source in (sources.vector_add(), sources.centre(maxnreg=32)):
        binary = build(source, target(name))
        assert (binary.resources.registers, binary.resources.spills) == dumped(binary, tmp_path)


def dumped(binary: Binary, folder: Path) -> tuple[int, int]:
    """Registers and bytes of local memory a thread."""
    path = folder / "kernel.cubin"
    path.write_bytes(binary.code)
    command = [compat.tool("cuobjdump"), "--dump-resource-usage", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert match is not None
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("double", [False, True])
def test_arrays_of_sines_are_no_spills(double: bool, tmp_path: Path) -> None:
    """A search dropped the default of `attitude_slerp`, and all small blocks, for 32 bytes that no angle reaches."""
    angle = "tl.load(x + i, mask=m) * scale"
    sine = f"tl.sin(({angle}).to(tl.float64)).to(tl.float32)" if double else f"tl.sin({angle})"
    free, capped = (
        build(sources.add_with(angle, sine, **options), target("nvidia-h100-sxm"))
        for options in ({}, {"num_warps": 1, "maxnreg": 32})
    )
    assert dumped(free, tmp_path)[1] > 0 and free.resources.spills == 0
    assert 0 < capped.resources.spills < dumped(capped, tmp_path)[1]


def test_a_register_cap_makes_spills() -> None:
    capped = build(sources.centre(maxnreg=32), target("nvidia-h200")).resources
    free = build(sources.centre(), target("nvidia-h200")).resources
    assert capped.registers <= 32 and capped.spills > 0
    assert free.registers > 32 and free.spills < capped.spills


def test_a_damaged_cubin_is_refused() -> None:
    code = build(sources.vector_add(), target("nvidia-h200")).code
    for damaged in (b"", b"not an elf", code[:100], code.replace(b".nv.info\0", b".nv.inf_\0")):
        with pytest.raises(BuildError, match="must state the registers"):
            cubin_registers(damaged, "add")
    with pytest.raises(BuildError, match="subtract"):
        cubin_registers(code, "subtract")


def test_amd_assembly_without_metadata_is_refused() -> None:
    with pytest.raises(BuildError, match="vgpr_count"):
        amdgcn_registers("s_endpgm\n")


def test_the_mix_of_a_few_lines_of_ptx() -> None:
    ptx = """
	ld.param.b64 	%rd1, [add_param_0];
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	@!%p2 st.global.b32 [ %rd1 + 0 ], { %r1 };
	ld.shared.b32 	%r5, [%r6];
	ex2.approx.ftz.f32 	%f1, %f2;
	fma.rn.f32 	%f1, %f2, %f3, %f4;
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10;
	cp.async.commit_group;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd2, %rd3, p, 1, 1, 0;
	bar.sync 	0;
"""
    mix = dict(instruction_mix(ptx, target("nvidia-h200")))
    assert mix == {
        "total": 10, "load_global": 1, "store_global": 1, "load_shared": 1, "sfu": 1, "fma": 1,
        "async_copy": 1, "wgmma": 1, "barrier": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (Resources(32, 0, 0, 128), 1.0),  # 16 blocks of 4 warps
        (Resources(64, 0, 0, 256), 0.5),  # 4 blocks: 65536 registers
        (Resources(255, 0, 0, 256), 0.125),  # 1 block
        (Resources(32, 0, 100 * 1024, 256), 0.25),  # 2 blocks: 228 KiB of shared memory
        (Resources(32, 0, 0, 32), 0.5),  # 32 block slots of one warp
        (Resources(255, 0, 0, 1024), 0.0),  # not one block: 261120 registers
    ],
)
def test_occupancy_on_an_h200(facts: Resources, expected: float) -> None:
    assert occupancy(facts, target("nvidia-h200")) == expected


@given(
    registers=st.integers(1, 255), shared=st.integers(0, 232448), warps=st.sampled_from((1, 2, 4, 8, 16)),
    name=st.sampled_from(sorted(CATALOGUE)),
)  # fmt: skip
def test_more_of_anything_never_raises_occupancy(registers: int, shared: int, warps: int, name: str) -> None:
    device = target(name)
    facts = Resources(registers, 0, shared, warps * device.warp_size)
    here = occupancy(facts, device)
    assert 0 <= here <= 1
    assert occupancy(replace(facts, registers=registers + 8), device) <= here
    assert occupancy(replace(facts, shared=shared + 4096), device) <= here
