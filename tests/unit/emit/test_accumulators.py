"""Accumulators that Triton must not take apart (issue 14, finding 6), seen in the IR that it makes for sm_90."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.build.compile import load_function
from tileflow.emit.source import TritonSource
from tileflow.target import target

DEVICE = target("nvidia-h200")
PARTIAL = "efficient_layout"  # of the view by which OptimizeThreadLocality gives each thread a part of its own


def source(kernel: Kernel, *args: Any) -> TritonSource:
    lowered = kernel.lower(args, DEVICE)
    (only,) = lowered.emit(lowered.space.repair(lowered.default.with_({"block:m": 32, "block:n": 128})))
    return only


def assembly(its: TritonSource) -> dict[str, str]:
    names = [a.name for a in its.args]
    signature = {a.name: a.type for a in its.args} | dict.fromkeys(dict(its.constexprs), "constexpr")
    aligned = {(names.index(a.name),): [["tt.divisibility", 16]] for a in its.args if a.divisible_by_16}
    ast = ASTSource(load_function(its), signature, dict(its.constexprs), aligned)
    compiled = triton.compile(ast, target=GPUTarget("cuda", 90, 32), options=dict(its.options))
    return compiled.asm  # type: ignore[no-any-return]


@tileflow.kernel
def row_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        total = tfl.zeros([m])
        for n in tfl.tile(x.size(1)):
            total += x[m, n].sum(1)
        out[m] = total
    return out


@tileflow.kernel
def running_sums(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, totals = torch.empty_like(x), torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        carry = tfl.zeros([m])
        for n in tfl.tile(x.size(1)):
            out[m, n] = x[m, n] - carry[:, None]
            carry = carry + x[m, n].sum(1)
        totals[m] = carry
    return out, totals


@tileflow.kernel
def running_sums_alone(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for m in tfl.tile(x.size(0)):
        carry = tfl.zeros([m])
        for n in tfl.tile(x.size(1)):
            out[m, n] = x[m, n] - carry[:, None]
            carry = carry + x[m, n].sum(1)
    return out


@tileflow.kernel
def largest_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        top = tfl.full([m], float("-inf"))
        for n in tfl.tile(x.size(1)):
            top = torch.maximum(top, x[m, n].sum(1))
        out[m] = top
    return out


@tileflow.kernel
def less_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        rest = tfl.full([m], 1.0)
        for n in tfl.tile(x.size(1)):
            rest = rest - x[m, n].sum(1)
        out[m] = rest
    return out


@tileflow.kernel
def last_sums(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        last = tfl.zeros([m])
        for n in tfl.tile(x.size(1)):
            last = y[m] + x[m, n].sum(1)
        out[m] = last
    return out


@tileflow.kernel
def sums_before_last(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for m in tfl.tile(x.size(0)):
        last = before = tfl.zeros([m])
        for n in tfl.tile(x.size(1)):
            last, before = before + x[m, n].sum(1), last + y[m]
        out[m] = last
    return out


X, Y = torch.empty(64, 512, device="meta"), torch.empty(64, device="meta")


def test_a_plain_sum_is_summed_by_lanes() -> None:
    """The pass finds nothing to take apart: no turn reduces."""
    its = source(row_sums, X, Y)
    ttgir = assembly(its)["ttgir"]
    assert "_opaque" not in its.text and PARTIAL not in ttgir
    assert ttgir.count("tt.reduce") - ttgir.count("tt.reduce.return") == 1
    assert ttgir.index("scf.yield") < ttgir.index("tt.reduce")


WRONG = (running_sums, largest_sums, less_sums)  # without a word, on 1d0fe62
FAILED = (running_sums_alone, last_sums, sums_before_last)  # in the pass


@pytest.mark.parametrize("kernel", WRONG + FAILED, ids=lambda k: k.name.partition(":")[2])
def test_an_accumulator_that_is_none_of_one_thread_is_carried_whole(kernel: Kernel) -> None:
    assert PARTIAL not in assembly(source(kernel, X, Y))["ttgir"]


def test_the_start_costs_nothing_in_the_machine_code() -> None:
    """LLVM folds what Triton does not: a program's number is never negative."""
    text = assembly(source(running_sums, X, Y))["llir"]
    (number,) = re.findall(r"(%\d+) = .*sreg\.ctaid\.x\(\)", text)
    assert f"icmp slt i32 {number}," not in text
