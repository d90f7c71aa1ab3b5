"""Kernels of others (tile_testing.strangers): right under the default and random configs, and their defaults build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL
from tile_testing.strangers.sparse import csr_matrix, csr_product, make_csr

from tileflow.build.compile import build
from tileflow.target import target

Interpreter = Callable[..., Any]

QUICK = (  # the rest is slow
    "adam_step", "bitonic_sort", "block_sparse", "compact_rows", "hadamard_transform", "outlier_linear",
    "segment_softmax",
)  # fmt: skip


def test_there_are_many_and_each_is_short() -> None:
    assert len(ALL) >= 859 and set(QUICK) < set(ALL)


def test_some_are_right_under_any_config(interpreter: Interpreter) -> None:
    found = dict(zip(QUICK, interpreter("runs.stranger_runs:check_all", QUICK), strict=True))
    assert {name: text for name, text in found.items() if text} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ALL) - set(QUICK)))
def test_each_is_right_under_any_config(interpreter: Interpreter, name: str) -> None:
    (found,) = interpreter("runs.stranger_runs:check_all", [name])
    assert found == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL))
def test_each_default_builds(name: str) -> None:
    lowered = ALL[name].kernel.lower(ALL[name].arguments(), target("nvidia-h200"))
    assert lowered.space.size > 1
    binaries = [build(source, lowered.target) for source in lowered.emit(lowered.default)]
    assert binaries


@pytest.mark.parametrize("name", ["gated_delta_rule", "segment_softmax", "hadamard_transform"])
def test_their_plain_meaning_is_right_too(name: str) -> None:
    """What a tuning holds results against where an author gives no reference."""
    one = ALL[name]
    got, wanted = one.kernel.run_eagerly(*one.arguments()), one.reference(*one.arguments())
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_matrix_without_columns(mode: str) -> None:
    """Not a vector, which the kernel's host code has an IndexError for."""
    args = make_csr(13, 31, most=9, k=0)
    assert csr_matrix.lower(args, target("nvidia-h200"), mode=mode).regions
    torch.testing.assert_close(csr_matrix.run_eagerly(*args), csr_product(*args))
