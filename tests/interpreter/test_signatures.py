"""The ways of passing arguments, through Triton's interpreter, eagerly, and as metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

import tileflow
import tileflow.language as tfl
from tileflow.errors import SplitError
from tileflow.runtime.argtree import flatten, unflatten

KERNELS = path_of("signature_kernels")
MODULE = load_module(KERNELS)
MODES = ("static", "dynamic")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODULE.CASES)
def test_arguments(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", MODULE.CASES)
def test_arguments_eagerly(name: str) -> None:
    case = MODULE.CASES[name]
    assert close(case.kernel.run_eagerly(*case.args), case.wanted(*case.args)) == ""


def test_an_int_may_select_other_code_later(interpreter: Callable[..., Any]) -> None:
    assert interpreter("kernels.signature_kernels:other_ints") == []


def test_no_call_s_tensors_outlive_it(interpreter: Callable[..., Any]) -> None:
    """The first call of each kind kept its arguments: a training step held its first gradients, 2.8 GiB."""
    assert interpreter("kernels.signature_kernels:arguments_are_let_go") == []


def test_keywords_are_still_keywords() -> None:
    x, y = torch.randn(2, 9)
    with tileflow.interpret():
        assert torch.equal(MODULE.by_keyword(x, bias=y), x * 2 + y)
    assert MODULE.by_keyword.describe(x, bias=y) == MODULE.by_keyword.describe(x, 2.0, y)


def test_a_record_is_described_by_its_fields() -> None:
    weights = MODULE.Weights(torch.empty(4), names=["a"])
    names = dict(MODULE.record.describe(weights).args)
    assert "weights.attr:x" in names and "weights.attr:names.item:0" in names
    other = MODULE.record.describe(replace(weights, names=["b"]))
    assert other.key != MODULE.record.describe(weights).key


def test_leaves_of_records_and_dictionaries_come_back() -> None:
    value = {"w": MODULE.Weights(torch.ones(2), 3.0), 1: [torch.zeros(1)]}
    leaves: list[Any] = []
    template = flatten(value, "value", leaves)
    again = unflatten(template, leaves)
    assert again["w"] == value["w"] and again[1][0] is value[1][0]
    assert hash(template) == hash(flatten(again, "value", []))


def options(x, **rest):
    for tile in tfl.tile(x.size(0)):
        x[tile] = 0


def named_behind_several(*xs, scale=1.0):
    for tile in tfl.tile(xs[0].size(0)):
        xs[0][tile] = scale


def default_before(x, y=1.0, *, scale):
    for tile in tfl.tile(x.size(0)):
        x[tile] = scale * y


@pytest.mark.parametrize(
    ("fn", "hint"), [(options, r"what \*\* holds"), (named_behind_several, "tuple"), (default_before, "a default too")]
)
def test_signatures_that_no_position_reaches(fn: Any, hint: str) -> None:
    with pytest.raises(SplitError, match=hint):
        tileflow.kernel(fn)
