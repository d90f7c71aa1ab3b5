"""Rows over clusters, compiled for Hopper: what a block takes, what the PTX says, what is launched."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("triton")

from examples.rms_norm import rms_norm
from examples.softmax import softmax
from tileflow.api import Kernel
from tileflow.build.compile import build, compile_source
from tileflow.emit.source import TritonSource
from tileflow.runtime.abi import LaunchAbi
from tileflow.target import target

H200 = target("nvidia-h200")
LONG = 131072


def source_of(kernel: Kernel, ctas: int, warps: int, n: int = LONG, mode: str = "static") -> TritonSource:
    lowered = kernel.lower(kernel.inputs(device="meta", m=64, n=n, dtype=torch.float32), H200, mode=mode)
    rows = {k.name: 0 if k.role == "reduction" else 1 for k in lowered.space.knobs if k.role in ("reduction", "block")}
    return lowered.emit(lowered.space.complete({**rows, "ctas": ctas, "num_warps": warps}))[0]


@pytest.mark.parametrize(
    ("kernel", "ctas", "warps"), [(softmax, 8, 8), (softmax, 8, 16), (softmax, 4, 16), (rms_norm, 8, 8)]
)
def test_a_long_row_is_held_without_spills(kernel: Kernel, ctas: int, warps: int) -> None:
    binary = build(source_of(kernel, ctas, warps), H200)
    assert binary.resources.spills == 0
    assert LONG // (ctas * warps * 32) < binary.resources.registers <= 65536 // (warps * 32)
    assert binary.abi.cluster == (ctas, 1, 1) and binary.abi.threads == warps * 32
    assert LaunchAbi.from_json(binary.abi.to_json()) == binary.abi


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_exchanges_take_two_boxes_in_turn(mode: str) -> None:
    """Their memory is in the PTX, which no launch asks for; each element is loaded once."""
    compiled = compile_source(source_of(softmax, 8, 16, mode=mode), H200)
    ptx = compiled.assembly
    assert len(re.findall(r"mapa\.shared::cluster", ptx)) == len(re.findall(r"st\.shared::cluster", ptx)) == 2
    assert len(re.findall(r"barrier\.cluster\.wait", ptx)) == 3  # one where it begins
    assert ptx.index("barrier.cluster.wait") < ptx.index("ld.global") < ptx.index("mapa")
    assert len(re.findall(r"\.shared \.align 1024 \.b8 cluster_boxes\[2048\]", ptx)) == 1
    assert len(re.findall(r"\.shared \.align", ptx)) == 2  # and Triton's own
    lanes = sum(int(n) for n in re.findall(r"ld\.global[\w.:]*\.v(\d)\.b32", ptx))
    assert lanes == LONG // (8 * 16 * 32)
    assert compiled.ctas == 1 and compiled.shared < 1024
