"""Products of which a multiprocessor holds several programs: these do not walk, and small ones have no stages."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def lowered(name: str) -> Lowered:
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    found: Lowered = ALL[name].kernel.lower(meta, H100)
    return found


@pytest.mark.parametrize(
    ("name", "knob", "walks"),
    [
        ("sign_hashes", "persistent", 0),  # 64 x 32 sums: 183 us walking, 94 so
        ("softmax_regression", "persistent", 0),
        ("monarch_product", "persistent", 0),
        ("outer_product_mean", "persistent@1", 0),  # a loop over slices that are whole along the inner dimension
        ("submanifold_convolution", "persistent", 0),  # what it stores lies where the loop's stages were
        ("edge_conv", "persistent", 1),  # two tiles are carried beside the product's
        ("merge_hadamard", "persistent", 1),  # two products of 128 x 128: one program a multiprocessor
        ("dora_linear", "persistent@1", 1),  # the author's own loop over the inner dimension
    ],
)
def test_products_walk_where_one_program_fits(name: str, knob: str, walks: int) -> None:
    assert lowered(name).default[knob] == walks


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("covariance_adaptation", 1),  # 64 x 64
        ("attention_free", 1),  # 64 x 32, both operands computed
        ("chunk_state", 1),
        ("log_mel", 3),  # 128 x 128
    ],
)
def test_small_tiles_of_made_operands_have_one_stage(name: str, stages: int) -> None:
    default = lowered(name).default
    precisions = {choice for knob, choice in default.items if knob.startswith("product:") and "precision" in knob}
    assert precisions == {"bf16x6"} and default["num_stages"] == stages


@tileflow.kernel
def tapered_correlation(x, window, lags: tfl.constexpr):
    """As ``ambient_correlation``, whose halves are multiplied as they are; here one operand is computed."""
    s, n = x.shape
    out = torch.empty(s, s, 2 * lags + 1, dtype=torch.float32, device=x.device)
    for ti, tj, lag in tfl.tile([s, s, 2 * lags + 1], block_size=[None, None, 1]):
        total = tfl.zeros([ti, tj])
        for tt in tfl.tile(n):
            total += (x[ti, tt].float() * window[tt]) @ x[tj, tt + (lag.begin - lags)].float().T
        out[ti, tj, lag.begin] = total
    return out


def test_made_operands_of_few_programs_have_stages() -> None:
    """98 programs."""
    x, window = torch.empty(128, 1 << 15, dtype=torch.float16, device="meta"), torch.empty(1 << 15, device="meta")
    default = tapered_correlation.lower((x, window, 24), H100).default
    assert default["product:dot#0.precision"] == "bf16x6" and default["num_stages"] == 3
