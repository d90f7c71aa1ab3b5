"""Variables that loops carry: what Triton makes of those that begin as one value."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import load_function
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def handed_on(c, x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        new = old = torch.zeros_like(x[t])
        for j in range(c.size(0)):
            new, old = c[j] + x[t] * new - old, new
        out[t] = old
    return out


@tileflow.kernel
def handed_on_in_a_branch(c, x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        new = old = torch.zeros_like(x[t])
        for j in range(c.size(0)):
            if c[j] > 0:
                old = new
            new = c[j] + x[t] * new
        out[t] = old
    return out


@pytest.mark.parametrize("kernel", [handed_on, handed_on_in_a_branch], ids=lambda k: k.__name__)
def test_variables_that_begin_as_one_are_two(kernel: Any) -> None:
    """Triton's first reading of a loop took ``old`` for what never changes, and the kernels stored zeros."""
    args = torch.empty(32, device="meta"), torch.empty(1 << 16, device="meta")
    lowered = kernel.lower(args, H200)
    (source,) = lowered.emit(lowered.default)
    signature = {a.name: a.type for a in source.args} | dict.fromkeys(dict(source.constexprs), "constexpr")
    ast = ASTSource(load_function(source), signature, dict(source.constexprs))
    ttir = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=dict(source.options)).asm["ttir"]
    (loop,) = [line for line in ttir.splitlines() if "scf.for" in line]
    assert loop.split("->")[1].count("tensor<") == 2
