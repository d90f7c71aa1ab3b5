"""Numbers of the author's are doubles where they would lose digits, and in float32 where they do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels import number_kernels

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import compile_source
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def scaled(x, scale: float, step: int):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * (scale * 1.5 / step)
    return out


@tileflow.kernel
def product(a, b, beta: float):
    out = torch.empty(a.size(0), b.size(1), dtype=a.dtype)
    for i, j in tfl.tile([a.size(0), b.size(1)]):
        out[i, j] = (a[i, :] @ b[:, j]) * (1 - beta)
    return out


def source_of(kernel: Any, *args: Any) -> Any:
    lowered = kernel.lower(args, H200)
    (source,) = lowered.emit(lowered.default)
    return source


def test_products_and_quotients_stay_in_float32():
    assert "float64" not in source_of(scaled, torch.zeros(300), 0.5, 3).text


@pytest.mark.parametrize("name", ["near_one", "corrected", "powers_of_numbers"])
def test_what_loses_digits_compiles_in_doubles(name):
    case = number_kernels.CASES[name]
    source = source_of(case.kernel, *case.args)
    assert "float64" in source.text
    assert compile_source(source, H200).code[:4] == b"\x7fELF"


def test_a_product_with_such_a_number_compiles():
    half = torch.zeros(512, 512, dtype=torch.float16)
    source = source_of(product, half, half, 0.999)
    assert "1.0 - " in source.text and "float64" in source.text
    assert compile_source(source, H200).code[:4] == b"\x7fELF"


@tileflow.kernel
def averaged(old, a, beta: float):
    new = torch.empty_like(old)
    for i, j in tfl.tile(old.shape):
        acc = tfl.zeros([i, j])
        for k in tfl.tile(a.size(1)):
            acc = torch.addmm(acc, a[i, k], a[j, k].T)
        new[i, j] = beta * old[i, j] + (1.1 - beta) * acc
    return new


def test_a_warp_specialised_product_with_such_a_number_compiles():
    a = torch.zeros(4096, 4096, dtype=torch.bfloat16, device="meta")
    source = source_of(averaged, a.float(), a, 0.999)
    assert "gluon" in source.text and "tl.float64" in source.text
    assert compile_source(source, H200).code[:4] == b"\x7fELF"
