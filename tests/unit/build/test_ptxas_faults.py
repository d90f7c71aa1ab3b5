"""Text of which the assembler makes wrong code, and what is assembled in its place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

import tileflow
import tileflow.language as tfl
from tileflow.build import compat, ptxas_faults
from tileflow.build.compile import build
from tileflow.emit.source import TritonSource
from tileflow.target import Target, target

HEAD = (
    ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
    "\t.reg .b16 \t%rs<9>;\n\t.reg .b32 \t%r<9>;\n\tmov.b32 \t%r1, 0;\n\tmov.b32 \t%r2, 0;\n"
)
CONVERTED = "\tcvt.rn.satfinite.e4m3x2.f32  %rs1, %r1, %r2; \n"
PACKED = "\tmov.b32 \t%r3, {%rs1, %rs2};\n"


@tileflow.kernel
def both_ways(x):
    """Float8 as it lies, 16 numbers a store, and turned, each by itself."""
    m, n = x.shape
    lying = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=x.device)
    turned = torch.empty(n, m, dtype=torch.float8_e4m3fn, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        small = torch.tanh(x[tm, tn]).clamp(-448, 448).to(torch.float8_e4m3fn)
        lying[tm, tn] = small
        turned[tn, tm] = small.T
    return lying, turned


def _source(device: Target) -> TritonSource:
    lowered = both_ways.lower((torch.empty(4096, 4096, device="meta"),), device)
    config = lowered.default.with_({"block:tm": 1, "block:tn": 2048, "num_warps": 4})
    (source,) = lowered.emit(config)
    return source


@pytest.mark.parametrize("name", ["nvidia-h100-sxm", "nvidia-l40s", "nvidia-b200", "amd-mi300x"])
def test_faulty_text_is_assembled_anew(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = target(name)
    mended = build(_source(device), device)
    monkeypatch.setattr(ptxas_faults, "mended", lambda ptx: None)
    as_it_is = build(_source(device), device)
    is_faulty = device.vendor == "nvidia" and ptxas_faults.is_at_fault(compat.ptxas_version(device.capability))
    assert (mended.code != as_it_is.code) is is_faulty
    assert mended.resources.spills == 0


def test_bytes_are_converted_alone() -> None:
    text = ptxas_faults.mended(f"{HEAD}{CONVERTED}\tshr.u16 \t%rs3, %rs1, 8;\n{PACKED}}}\n")
    assert text is not None
    assert "cvt.rn.satfinite.e4m3x2.f32 \t%rs1_upper, 0f00000000, %r1;" in text
    assert "mov.b16 \t%rs3, %rs1_upper;" in text and "shr.u16" not in text
    assert PACKED in text and ".reg .b16 \t%rs1_upper, %rs1_lower;" in text


@pytest.mark.parametrize(
    "rest",
    [
        "\tshr.u16 \t%rs3, %rs1, 8;\n\tst.global.b8 \t[%rd1], %rs3;\n\tst.global.b8 \t[%rd1+1], %rs1;\n",  # not packed
        f"{PACKED}\tst.global.b8 \t[%rd1], %rs1;\n",  # the lower byte alone
        f"{PACKED}\tshr.u16 \t%rs3, %rs2, 8;\n",  # of another register
        "\tshr.u16 \t%rs3, %rs1, 8;\n\tst.shared.v2.b8 \t[%r3], {%rs1, %rs3};\n",
    ],
)
def test_what_it_gets_right_stays(rest: str) -> None:
    assert ptxas_faults.mended(f"{HEAD}{CONVERTED}{rest}}}\n") is None


@pytest.mark.parametrize("packed", [PACKED, "\tst.shared.v4.b16 \t[%r3], {%rs1, %rs2, %rs5, %rs6};\n"])
@pytest.mark.parametrize("taken", ["shr.u16 \t%rs3, %rs1, 8;", "shr.s16 \t%rs3, %rs1, 8;", "cvt.u32.u16 \t%r4, %rs1;"])
@pytest.mark.parametrize("convert", [CONVERTED, "\tcvt.rn.satfinite.e5m2x2.f16x2 %rs1, %r1;\n"])
def test_it_is_assembled(convert: str, taken: str, packed: str, tmp_path: Path) -> None:
    text = ptxas_faults.mended(f"{HEAD}{convert}\t{taken}\n{packed}\tret;\n}}\n")
    assert text is not None and taken not in text and packed in text
    source = tmp_path / "k.ptx"
    source.write_text(text)
    command = [compat.tool("ptxas"), "--gpu-name=sm_90a", str(source), "-o", str(tmp_path / "k.cubin")]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""


def test_versions() -> None:
    assert ptxas_faults.is_at_fault("12.8.93") and ptxas_faults.is_at_fault("12.9.86")
    assert not ptxas_faults.is_at_fault("13.0.88")
