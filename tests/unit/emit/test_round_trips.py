"""Numbers that are rounded to fp8, stored and read again: no register of the store is read (emit/round_trips.py)."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import triton
from tile_testing.strangers import ALL
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build, load_function
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def dequantised(x):
    scales = torch.empty(x.size(0), dtype=torch.float8_e4m3fn, device=x.device)
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        scale = (row.abs().amax(1) / 448).to(torch.float8_e4m3fn)
        scales[t] = scale
        out[t, :] = row / scale[:, None].float()
    return scales, out


@tileflow.kernel
def only_stored(x):
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    for t in tfl.tile(x.size(0)):
        out[t, :] = x[t, :].to(torch.float8_e4m3fn)
    return out


def texts(kernel: Any, args: tuple[Any, ...], region: int = 0) -> tuple[str, str]:
    """The source, and what Triton makes of it for a Hopper."""
    lowered = kernel.lower(args, H200)
    source = lowered.emit(lowered.default)[region]
    signature = {a.name: a.type for a in source.args} | dict.fromkeys(dict(source.constexprs), "constexpr")
    ast = ASTSource(load_function(source), signature, dict(source.constexprs))
    compiled = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=dict(source.options))
    return source.text, compiled.asm["ptx"]


@pytest.mark.parametrize("name", ["nvfp4_pack", "dequantised"])
def test_what_is_stored_is_not_read_again(name: str) -> None:
    """Each pair of numbers that the code before converted was stored from the register that it was read from."""
    if name == "dequantised":
        _, ptx = texts(dequantised, (torch.empty(4096, 64, device="meta"),))
    else:
        _, ptx = texts(ALL[name].kernel, ALL[name].arguments("large", "meta"), region=1)
    made = set(re.findall(r"cvt\.rn\.satfinite\.e4m3x2\.f32\s+(%\w+)", ptx))
    read = set(re.findall(r"cvt\.rn\.f16x2\.e4m3x2\s+%?\w+,\s*(%\w+)", ptx))
    assert made
    assert not made & read


def test_what_is_only_stored_is_converted_once() -> None:
    text, _ = texts(only_stored, (torch.empty(4096, 64, device="meta"),))
    assert "rounded_to_fp8" not in text


def test_other_vendors_round_as_before() -> None:
    lowered = dequantised.lower((torch.empty(4096, 64, device="meta"),), target("amd-mi300x"))
    assert "rounded_to_fp8" not in lowered.emit(lowered.default)[0].text


@tileflow.kernel
def product_and_its_error(a, b):
    (m, k), n = a.shape, b.size(1)
    out = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=a.device)
    error = torch.empty(m, n, dtype=a.dtype, device=a.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(k):
            acc = tfl.dot(a[tm, tk], b[tk, tn], acc=acc)
        short = acc.to(torch.float8_e4m3fn)
        out[tm, tn] = short
        error[tm, tn] = acc - short.float()
    return out, error


def test_warp_specialised_epilogues_build() -> None:
    """Gluon's text has no interpreter to ask for."""
    args = tuple(torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta") for _ in range(2))
    lowered, rng = product_and_its_error.lower(args, H200), random.Random(0)
    drawn = (lowered.space.sample(rng).with_({"schedule": "warp_specialised"}) for _ in range(200))
    config = next(c for c in map(lowered.space.repair, drawn) if c["schedule"] == "warp_specialised")
    (source,) = lowered.emit(config)
    assert source.language == "gluon"
    assert "rounded_to_fp8(" in source.text
    assert build(source, H200).resources.spills == 0
