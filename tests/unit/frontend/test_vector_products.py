"""Products of a vector: pairs of elements and their sum, in the matrix's own dimensions."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.errors import ShapeError
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def delta_step(q, k, v, states):
    """Both sides of one state in registers, which another layout for each product would spill."""
    out = torch.empty_like(v)
    for i in tfl.grid(q.size(0)):
        state = states[i, :, :]
        state = state + k[i, :][:, None] * (v[i, :] - k[i, :] @ state)[None, :]
        states[i, :, :] = state
        out[i, :] = q[i, :] @ state + state @ q[i, :] * (q[i, :] @ k[i, :])
    return out


def test_a_vector_is_no_matrix_of_one_row() -> None:
    args = tuple(torch.empty(shape, device="meta") for shape in ((64, 128),) * 3 + ((64, 128, 128),))
    lowered = delta_step.lower(args, H200)
    (ir,) = lowered.regions
    assert max(len(value.dims) for op in ir.walk() for value in op.outputs) == 2
    (source,) = lowered.emit(lowered.default)
    assert build(source, lowered.target).resources.spills == 0


def test_values() -> None:
    torch.manual_seed(0)
    q, k, v, states = torch.randn(3, 5), torch.randn(3, 5), torch.randn(3, 5), torch.randn(3, 5, 5)
    state = states + k[:, :, None] * (v - torch.einsum("nd,nde->ne", k, states))[:, None]
    wanted = torch.einsum("nd,nde->ne", q, state) + torch.einsum("nde,ne->nd", state, q) * (q * k).sum(1, keepdim=True)
    torch.testing.assert_close(delta_step.run_eagerly(q, k, v, states.clone()), wanted)


def test_inner_dimensions_agree() -> None:
    @tileflow.kernel
    def wrong(x, w):
        out = torch.empty_like(x)
        for i in tfl.grid(x.size(0)):
            out[i, :] = w[:, :] @ x[i, :]
        return out

    with pytest.raises(ShapeError, match="inner dimensions"):
        wrong.lower((torch.empty(4, 8, device="meta"), torch.empty(8, 16, device="meta")), H200)
