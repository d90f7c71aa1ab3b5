"""What a forward pass saves for its derived backward: the choice by bytes, its texts, and autograd's use of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
from tileflow.derive.kernel import SavingKernel
from tileflow.ir.analysis import moved
from tileflow.target import target

MB = 1e6


def saving(name: str) -> SavingKernel:
    found = tileflow.load_kernel(f"examples.{name}.saving")
    assert isinstance(found, SavingKernel)
    return found


def megabytes(kernel: Any, args: Any) -> int:
    return round(moved(kernel.lower(args, target("nvidia-h200")).regions) / MB)


ROWS = {"m": 8192, "n": 4096}
CHOSEN: dict[str, tuple[dict[str, int], tuple[int | None, ...]]] = {
    "softmax:softmax": (ROWS, (0,)),  # its result, and no statistic beside it
    "softmax:softmax_online": (ROWS, (None, None)),  # in float32, which its result in bfloat16 does not hold
    "cross_entropy:cross_entropy": ({"m": 512, "v": 32000}, (None, None)),
    "layer_norm:layer_norm": (ROWS, (None, None)),
    "rms_norm:rms_norm": (ROWS, (None,)),
    "exp:exp": (ROWS, ()),  # lane by lane of what is read anyway: as many bytes
    "swiglu:swiglu": (ROWS, ()),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_saved_is_what_moves_less(name: str) -> None:
    problem, results = CHOSEN[name]
    forward = saving(name)
    args = forward.inputs(device="meta", **problem)
    assert tuple(one.result for one in forward.planned(*args).saved) == results
    assert (forward.kind(*args) is forward.forward) == (None not in results)


def test_a_statistic_of_rows_of_two_is_computed_again() -> None:
    """It has more bytes than the row."""
    forward = saving("rms_norm:rms_norm")
    assert not forward.planned(*forward.inputs(device="meta", m=8192, n=2)).saved


def test_the_logits_are_read_once() -> None:
    """They were read twice: 3152 MB where the gradient by hand moves 2101."""
    again = tileflow.load_kernel("examples.cross_entropy:cross_entropy.backward")
    once = saving("cross_entropy:cross_entropy").backward
    problem = {"m": 4096, "v": 128256}
    counts = [megabytes(kernel, kernel.inputs(device="meta", **problem)) for kernel in (again, once)]
    assert counts == [3152, 2101]


def test_softmaxs_gradient_from_its_result_has_no_exponential() -> None:
    forward = saving("softmax:softmax")
    text = forward.backward.source(*forward.inputs(device="meta", **ROWS))
    assert "torch.exp" not in text and text.count(".sum(") == 1 and " x[" not in text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["softmax:softmax", "layer_norm:layer_norm", "cross_entropy:cross_entropy"])
def test_both_forms_give_the_same(name: str, dtype: str) -> None:
    columns = "v" if "cross" in name else "n"
    backward = saving(name).backward
    assert tileflow.load_kernel(backward.name) is backward
    args = backward.inputs(m=7, dtype=dtype, **{columns: 40})
    tolerance = 3e-2 if dtype == "bfloat16" else 1e-4
    torch.testing.assert_close(backward.run_eagerly(*args), backward.reference(*args), rtol=tolerance, atol=tolerance)


def test_a_saved_result_that_was_changed_is_refused() -> None:
    op, x = tileflow.differentiable(tileflow.load_kernel("examples.softmax:softmax")), torch.randn(4, 6)
    with tileflow.interpret():
        out = op(x.requires_grad_())
        out.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_nothing_is_saved_where_autograd_records_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    norm = tileflow.load_kernel("examples.rms_norm:rms_norm")
    monkeypatch.setattr(SavingKernel, "planned", lambda *_: pytest.fail("a call without gradients was planned"))
    with tileflow.interpret(), torch.no_grad():
        tileflow.differentiable(norm)(torch.randn(4, 6, requires_grad=True), torch.randn(6))


def test_a_compiled_call_saves_at_any_size() -> None:
    """A graph holds one kernel with its statistics, whatever another size would have chosen."""
    op = tileflow.differentiable(tileflow.load_kernel("examples.layer_norm:layer_norm"))
    weight, bias = torch.randn(24), torch.randn(24)
    compiled = torch.compile(lambda x: op(x, weight, bias).square().sum(), dynamic=True, backend="aot_eager")
    with tileflow.interpret():
        for m in (5, 9, 33):
            x = torch.randn(m, 24, requires_grad=True)
            (got,) = torch.autograd.grad(compiled(x), x)
            plain = torch.nn.functional.layer_norm(x, (24,), weight, bias).square().sum()
            torch.testing.assert_close(got, torch.autograd.grad(plain, x)[0], rtol=1e-3, atol=1e-3)
