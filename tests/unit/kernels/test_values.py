"""``tileflow.kernels`` against torch: values and gradients, of tensors with several leading dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.kernels as ours
from tileflow.api import load_kernel
from tileflow.errors import CallError
from tileflow.frontend.meaning import serialise
from tileflow.kernels.linear_loss import CHUNK_BYTES, chunk_rows
from tileflow.kernels.rotary import inputs as rope_inputs
from tileflow.kernels.rotary import reference as turned

Tensor = torch.Tensor
EPS = 1e-5


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def compare(mine: Callable[..., Any], torchs: Callable[..., Any], leaves: Sequence[Tensor]) -> None:
    got, wanted = mine(*leaves), torchs(*leaves)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    outs = [x if isinstance(x, tuple) else (x,) for x in (got, wanted)]
    grads = [torch.randn_like(x) for x in outs[1]]
    found, expected = (torch.autograd.grad(out, leaves, grads) for out in outs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (37,), weight, EPS)


ROWS, N = (2, 5, 37), (37,)
ROW_WISE: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "rms_norm": (lambda x, w: ours.rms_norm(x, w, EPS), rms, (ROWS, N)),
    "gemma's rms_norm": (lambda x, w: ours.rms_norm(x, w, EPS, offset=1.0), lambda x, w: rms(x, 1 + w), (ROWS, N)),
    "add_rms_norm": (
        lambda x, r, w: ours.add_rms_norm(x, r, w, EPS), lambda x, r, w: (rms(x + r, w), x + r), (ROWS, ROWS, N)
    ),
    "layer_norm": (ours.layer_norm, lambda x, w, b: F.layer_norm(x, N, w, b), (ROWS, N, N)),
    "add_layer_norm": (
        ours.add_layer_norm, lambda x, r, w, b: (F.layer_norm(x + r, N, w, b), x + r), (ROWS, ROWS, N, N)
    ),
    "swiglu": (ours.swiglu, lambda a, b: F.silu(a) * b, (ROWS, ROWS)),
    "geglu": (ours.geglu, lambda a, b: F.gelu(a, approximate="tanh") * b, (ROWS, ROWS)),
}  # fmt: skip


@pytest.mark.parametrize("name", ROW_WISE)
def test_row_wise(name: str) -> None:
    mine, torchs, shapes = ROW_WISE[name]
    compare(mine, torchs, [leaf(*shape) for shape in shapes])


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("with_positions", [True, False])
def test_rope(layout: str, with_positions: bool) -> None:
    """Positions of each batch's own; heads in both places."""
    is_interleaved = layout == "interleaved"
    q, k, cos, sin, positions, _ = rope_inputs(
        7, 10, 4, 2, 3, interleaved=is_interleaved, with_positions=with_positions, dtype=torch.float32
    )
    leaves = [q.requires_grad_(), k.requires_grad_()]
    wanted = lambda q, k: turned(q, k, cos, sin, positions, is_interleaved)  # noqa: E731
    compare(lambda q, k: ours.rope(q, k, cos, sin, positions, layout=layout), wanted, leaves)
    late = ours.rope(q.mT.mT.transpose(1, 2), k.transpose(1, 2), cos, sin, positions, layout=layout, head_dim=2)
    torch.testing.assert_close(tuple(x.transpose(1, 2) for x in late), wanted(q, k))


def test_rope_takes_the_angles_of_transformers_and_refuses_others() -> None:
    q, k = leaf(2, 3, 5, 8), leaf(2, 1, 5, 8)
    angles = torch.randn(1, 5, 4)
    wide = torch.cat([angles, angles], dim=-1)
    narrow = ours.rope(q, k, angles.cos(), angles.sin())
    torch.testing.assert_close(ours.rope(q, k, wide.cos(), wide.sin()), narrow)
    with pytest.raises(CallError, match="an angle for each pair"):
        ours.rope(q, k, angles[..., :3], angles[..., :3])
    with pytest.raises(CallError, match="half or interleaved"):
        ours.rope(q, k, angles, angles, layout="neox")


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    """Heads that share keys, a scale of the caller's, transposed tensors."""
    compare(
        lambda q, k, v: ours.attention(q.mT, k.mT, v.mT, causal=causal, scale=0.3, backend="tileflow"),
        lambda q, k, v: F.scaled_dot_product_attention(q.mT, k.mT, v.mT, is_causal=causal, scale=0.3, enable_gqa=True),
        [leaf(1, 4, 16, 11), leaf(1, 2, 16, 11), leaf(1, 2, 16, 11)],
    )


def test_attention_says_what_runs_it() -> None:
    q, wide = torch.randn(1, 2, 5, 16), torch.randn(1, 2, 5, 128)
    mask = torch.ones(5, 5).tril().bool()
    assert ours.attention_backend(q, q, q).name == "tileflow"
    assert ours.attention_backend(q, q, q, backend="torch").name == "torch"
    assert ours.attention_backend(wide, wide, wide).name == "torch"
    assert ours.attention_backend(leaf(1, 2, 5, 16), q, q).name == "torch"
    masked = ours.attention_backend(q, q, q, mask=mask)
    assert (masked.name, masked.why) == ("torch", "a mask")
    torch.testing.assert_close(
        ours.attention(q, q, q, mask=mask), F.scaled_dot_product_attention(q, q, q, is_causal=True)
    )
    with pytest.raises(CallError, match="a mask"):
        ours.attention(q, q, q, mask=mask, backend="tileflow")
    with pytest.raises(CallError, match="auto, tileflow or torch"):
        ours.Attention(backend="flash")(q, q, q)


LABELS = torch.tensor([[1, -100, 4], [0, 36, 5]])
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"reduction": "sum"}, {"label_smoothing": 0.1}, {"num_items_in_batch": torch.tensor(11)}, {"softcap": 3.0},
    {"softcap": 3.0, "label_smoothing": 0.2, "num_items_in_batch": 7}, {"ignore_index": 5},
)  # fmt: skip


def torchs_loss(logits: Tensor, **options: Any) -> Tensor:
    cap, items = options.pop("softcap", None), options.pop("num_items_in_batch", None)
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    if items is not None:
        options["reduction"] = "sum"
    labels = LABELS.where(LABELS >= 0, options.get("ignore_index", -100))
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)
    return loss if items is None else loss / items


def labels_for(options: dict[str, Any]) -> Tensor:
    return LABELS.where(LABELS >= 0, options.get("ignore_index", -100))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_losses(options: dict[str, Any]) -> None:
    labels = labels_for(options)
    compare(lambda x: ours.cross_entropy(x, labels, **options), lambda x: torchs_loss(x, **options), [leaf(2, 3, 37)])
    compare(
        lambda x, w, b: ours.linear_cross_entropy(x, w, labels, bias=b, rows_of_chunk=4, **options),
        lambda x, w, b: torchs_loss(F.linear(x, w, b), **options),
        [leaf(2, 3, 9), leaf(37, 9), leaf(37)],
    )


def test_the_losses_of_rows() -> None:
    x = leaf(2, 3, 37)
    wanted = F.cross_entropy(x.flatten(0, 1), LABELS.flatten(), reduction="none").view(2, 3)
    torch.testing.assert_close(ours.cross_entropy(x, LABELS, reduction="none"), wanted)


def test_a_linear_loss_without_gradients() -> None:
    x, weight = torch.randn(6, 9), torch.randn(37, 9)
    wanted = F.cross_entropy(x @ weight.T, LABELS.flatten())
    torch.testing.assert_close(ours.linear_cross_entropy(x, weight, LABELS.flatten(), rows_of_chunk=4), wanted)


@pytest.mark.parametrize("rows", [8, 0])
def test_a_linear_loss_reads_no_memory_that_nothing_wrote(rows: int) -> None:
    """Deterministic algorithms fill such memory with NaN."""
    x, weight = torch.randn(rows, 6), torch.randn(11, 6, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        ours.linear_cross_entropy(x, weight, torch.arange(rows), rows_of_chunk=4, reduction="sum").backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert weight.grad is not None and weight.grad.isfinite().all() and bool(weight.grad.any()) == bool(rows)


def test_a_linear_loss_goes_backward_once() -> None:
    """Its gradients are made in the forward pass: a second multiplication in place would be wrong."""
    x, weight = leaf(6, 9), leaf(37, 9)
    loss = ours.linear_cross_entropy(x, weight, LABELS.flatten())
    torch.autograd.grad(2 * loss, x, retain_graph=True)
    with pytest.raises(CallError, match="asked for once"):
        torch.autograd.grad(loss, x)


def test_a_chunk_s_logits_stay_within_their_bytes() -> None:
    rows = chunk_rows(1 << 20, 128_256, 2)
    assert rows == 1024 and rows * 128_256 * 2 <= CHUNK_BYTES
    assert chunk_rows(5, 128_256, 2) == 5
    with pytest.raises(CallError, match="added up"):
        ours.linear_cross_entropy(torch.randn(2, 3), torch.randn(5, 3), torch.tensor([1, 2]), reduction="none")


def test_modules() -> None:
    x, residual = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    gemma, norm, positions = ours.RMSNorm(8, offset=1.0), ours.LayerNorm(8), torch.arange(3).expand(2, 3)
    torch.testing.assert_close(gemma(x), F.rms_norm(x, (8,), eps=1e-6))
    torch.testing.assert_close(norm(x, residual), (F.layer_norm(x + residual, (8,)), x + residual))
    q = torch.randn(2, 4, 3, 8)
    turned_q, _ = ours.RotaryEmbedding(8, 16)(q, q, positions)
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1))
    labels = torch.tensor([[1, 2, 3], [4, 5, 6]])
    wanted = F.cross_entropy(x.flatten(0, 1), labels.flatten(), reduction="sum") / 9
    torch.testing.assert_close(ours.CrossEntropyLoss()(x, labels, num_items_in_batch=9), wanted)
    linear = ours.LinearCrossEntropyLoss()(x, torch.eye(8), labels, num_items_in_batch=torch.tensor(9))
    torch.testing.assert_close(linear, wanted)
    torch.testing.assert_close(ours.SwiGLU()(x, residual), F.silu(x) * residual)
    torch.testing.assert_close(ours.GeGLU()(x, residual), F.gelu(x, approximate="tanh") * residual)


def test_a_gallery_kernel_that_moved_keeps_its_name_and_hash() -> None:
    """Tables that name examples.swiglu go on to be found."""
    old, new = load_kernel("examples.swiglu:swiglu"), load_kernel("tileflow.kernels.gated:swiglu")
    assert (old.name, old.semantic_hash) == ("examples.swiglu:swiglu", new.semantic_hash)
    assert new.name == "tileflow.kernels.gated:swiglu"


def test_a_helper_s_text_is_part_of_a_kernel_of_this_package() -> None:
    """Kernels in tileflow.kernels count as users' text: their helpers are rewritten, and are part of the hash."""
    from tileflow.kernels.losses import cross_entropy_forward

    assert "FunctionDef s12:sums_of_rows" in serialise(cross_entropy_forward.scope)


def test_losses_on_the_meta_device_have_shapes() -> None:
    """torch has no autocast there, and raises where one asks for it."""
    x, weight = torch.empty(2, 7, 32, device="meta"), torch.empty(11, 32, device="meta", requires_grad=True)
    labels = torch.empty(2, 7, dtype=torch.int64, device="meta")
    ours.linear_cross_entropy(x, weight, labels).backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    with tileflow.interpret():
        assert ours.swiglu(x, x).shape == x.shape
