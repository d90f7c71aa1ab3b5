"""``tileflow.kernels`` against torch: values and gradients, of tensors with several leading dimensions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.kernels as ours
from tileflow.api import load_kernel
from tileflow.errors import CallError
from tileflow.frontend.meaning import serialise
from tileflow.kernels import flash, hopper, linear, scaled_dot
from tileflow.kernels.linear_loss import CHUNK_BYTES, chunk_rows, losses_and_gradient
from tileflow.kernels.losses import cross_entropy_backward, cross_entropy_forward
from tileflow.kernels.rotary import inputs as rope_inputs
from tileflow.kernels.rotary import reference as turned
from tileflow.kernels.rotary import rope_turn
from tileflow.target import target

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
    "layer_norm without a bias": (ours.layer_norm, lambda x, w: F.layer_norm(x, N, w), (ROWS, N)),
    "add_layer_norm without a bias": (
        ours.add_layer_norm, lambda x, r, w: (F.layer_norm(x + r, N, w), x + r), (ROWS, ROWS, N)
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


def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor, activation: str = "silu") -> Tensor:
    act = F.silu if activation == "silu" else lambda a: F.gelu(a, approximate="tanh")
    return F.linear(act(F.linear(x, gate)) * F.linear(x, up), down)


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize("frozen", [(), (0,), (1, 2), (1, 2, 3), (3,)])
def test_gated_mlp(activation: str, frozen: tuple[int, ...]) -> None:
    """Whatever needs gradients; twice, as what is kept stays as it was."""
    torch.manual_seed(0)  # sums that are nearly 0 are off by more than 1e-5, one call in some hundreds
    made = [leaf(2, 5, 37), leaf(23, 37), leaf(23, 37), leaf(37, 23)]
    leaves = [x.requires_grad_(i not in frozen) for i, x in enumerate(made)]
    wanted = mlp(*leaves, activation=activation)
    got = ours.gated_mlp(*leaves, activation=activation)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    asked, grad = [x for x in leaves if x.requires_grad], torch.randn_like(wanted)
    known = torch.autograd.grad(wanted, asked, grad)
    for _ in range(2):
        found = torch.autograd.grad(got, asked, grad, retain_graph=True)
        torch.testing.assert_close(found, known, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(ours.gated_mlp(*leaves, activation=activation), wanted, rtol=1e-4, atol=1e-5)


def test_gated_mlp_keeps_two_wide_tensors() -> None:
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(tuple(x.shape)) or x, lambda x: x):
        ours.gated_mlp(leaf(2, 5, 37), leaf(23, 37), leaf(23, 37), leaf(37, 23))
    assert kept.count((10, 23)) == 2


def test_gated_mlp_in_a_graph() -> None:
    leaves = [leaf(2, 5, 37), leaf(23, 37), leaf(23, 37), leaf(37, 23)]
    compare(torch.compile(ours.gated_mlp, backend="aot_eager", fullgraph=True), mlp, leaves)


def gated_products(x: Tensor, gate: Tensor, up: Tensor, activation: str = "silu") -> Tensor:
    act = F.silu if activation == "silu" else lambda a: F.gelu(a, approximate="tanh")
    return act(F.linear(x, gate)) * F.linear(x, up)


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As on a GPU where one kernel wins; the kernels that are called."""
    called: list[str] = []
    for module, name in ((linear.gated, "gated_linear"), (linear.added, "linear_add")):
        kernel = getattr(module, name)

        def call(*args: Any, kernel: Any = kernel, name: str = name) -> Any:
            called.append(name)
            return kernel(*args)

        monkeypatch.setattr(module, name, call)
    monkeypatch.setattr(linear, "is_fused", lambda *_: True)
    return called


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_products_are_one_kernel_with_what_follows(activation: str, fused: list[str]) -> None:
    """Of any leading dimensions, of rows that are not contiguous, and within a whole gated MLP."""
    x, gate, up, down = leaf(2, 37, 5).transpose(1, 2), leaf(23, 37), leaf(23, 37), leaf(37, 23)
    with torch.no_grad():
        got = ours.gated_linear(x, gate, up, activation=activation)
        whole = ours.gated_mlp(x, gate, up, down, activation=activation)
        summed = ours.linear_add(got, down, x)
    wanted = gated_products(x, gate, up, activation)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole, mlp(x, gate, up, down, activation), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(summed, x + F.linear(wanted, down), rtol=1e-4, atol=1e-4)
    assert fused == ["gated_linear", "gated_linear", "linear_add"]


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_products_with_what_follows_have_gradients(activation: str) -> None:
    mine = lambda x, gate, up: ours.gated_linear(x, gate, up, activation=activation)  # noqa: E731
    compare(mine, lambda *a: gated_products(*a, activation), [leaf(2, 5, 37), leaf(23, 37), leaf(23, 37)])
    compare(ours.linear_add, lambda x, w, r: r + F.linear(x, w), [leaf(2, 5, 37), leaf(23, 37), leaf(2, 5, 23)])


def test_a_graph_has_one_kernel_for_a_gate(fused: list[str]) -> None:
    x, gate, up = torch.randn(2, 5, 37), torch.randn(23, 37), torch.randn(23, 37)
    call = torch.compile(ours.gated_linear, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(call(x, gate, up), gated_products(x, gate, up), rtol=1e-4, atol=1e-5)


def test_a_kernel_that_wins_takes_no_transformed_rows(fused: list[str]) -> None:
    x, weight = torch.randn(3, 4, 37), torch.randn(23, 37)
    for call in (lambda x: ours.gated_linear(x, weight, weight), lambda x: ours.linear_add(x, weight, x[:, :23])):
        with pytest.raises(CallError, match="tensors have memory"):
            torch.func.vmap(call)(x)
    assert not fused


def _on_hopper(*shape: int, dtype: torch.dtype = torch.bfloat16, **more: Any) -> Any:
    """What a tensor of a GPU looks like."""
    x = torch.empty(shape, dtype=dtype, device="meta", **more)
    return SimpleNamespace(
        shape=x.shape, size=x.size, dtype=dtype, requires_grad=x.requires_grad, is_contiguous=x.is_contiguous,
        device=torch.device("cuda", 0),
    )  # fmt: skip


def test_where_one_kernel_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows and a weight: not where gradients are recorded, of 32 bits, few rows, unaligned ones, or few tiles."""
    monkeypatch.setattr(linear, "hopper_multiprocessors", lambda _: 132)
    x, weight = _on_hopper(2, 512, 4096), _on_hopper(14336, 4096)
    assert linear.is_fused(x, (weight,), 128)
    recorded = _on_hopper(14336, 4096, requires_grad=True)
    assert not linear.is_fused(x, (recorded,), 128)
    with torch.no_grad():
        assert linear.is_fused(x, (recorded,), 128)
    for rows, other in (
        (_on_hopper(512, 4096, dtype=torch.float32), _on_hopper(14336, 4096, dtype=torch.float32)),
        (_on_hopper(64, 4096), weight),
        (_on_hopper(512, 4100), _on_hopper(14336, 4100)),
        (_on_hopper(512, 4096), _on_hopper(3584, 4096)),
    ):
        assert not linear.is_fused(rows, (other,), 128)
    monkeypatch.setattr(linear, "hopper_multiprocessors", lambda _: 0)
    assert not linear.is_fused(x, (weight,), 128)


@pytest.mark.parametrize(
    ("device", "count"), [("nvidia-h200", 132), ("nvidia-a100", 0), ("nvidia-b200", 0), ("amd-mi300x", 0)]
)
def test_multiprocessors_that_have_such_kernels(device: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled function has them as a constant."""
    monkeypatch.setattr(hopper, "device_properties", lambda _: None)
    monkeypatch.setattr(hopper, "classify", lambda _: target(device))
    hopper._counted.cache_clear()
    assert hopper.hopper_multiprocessors(0) == count
    torch.compiler.reset()
    x = torch.ones(3)
    compiled = torch.compile(lambda x: x * hopper.hopper_multiprocessors(0), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), x * count)
    hopper._counted.cache_clear()


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


def _views(heads: int, key_heads: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values (2, ..., 12, 16) as slices of what one product gives, (2, 12, all heads, 16)."""
    packed = torch.randn(2, 12, heads + 2 * key_heads, 16)
    return tuple(x.transpose(1, 2) for x in packed.split([heads, key_heads, key_heads], dim=2))


def test_attention_reads_views_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied: not slices, not transposed ones, and not keys for each head. The output lies as the queries
    do, so that what follows views it as (batch, tokens, hidden)."""
    q, k, v = _views(4, 2)
    seen: list[torch.Tensor] = []
    run = flash.attention
    monkeypatch.setattr(scaled_dot.flash, "attention", lambda *args: seen.extend(args[:3]) or run(*args))
    out = ours.attention(q, k, v, causal=True, backend="tileflow")
    assert [x is y for x, y in zip(seen, (q, k, v), strict=True)] == [True] * 3
    assert out.transpose(1, 2).is_contiguous()
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


@pytest.mark.parametrize("kernel", [flash.attention_backward, flash.attention_backward_fused])
def test_gradients_of_heads_that_share_keys(kernel: Any) -> None:
    """Of each head of the queries by the kernels, and summed by what calls them."""
    q, k, v = _views(4, 2)
    out, lse = flash.reference(q, k, v, causal=True, with_lse=True)
    args = (q, k, v, out, lse, torch.randn_like(q), True)
    found = kernel(*args)
    assert found[0].stride() == torch.empty_like(q).stride() and found[1].shape == q.shape
    torch.testing.assert_close(found, flash.backward_reference(*args), atol=1e-4, rtol=1e-4)
    assert scaled_dot.attention_gradients(*args)[1].shape == k.shape


def test_what_the_copy_engine_takes_as_it_lies() -> None:
    rows = torch.randn(2, 3, 8, 16, dtype=torch.bfloat16)
    for view in (rows, rows.transpose(1, 2), rows[:, :, 2:], rows[..., :8]):
        assert scaled_dot.boxable(view) is view
    odd = torch.randn(2, 3, 8, 20, dtype=torch.bfloat16)  # rows of 40 bytes
    for view in (rows.mT, odd, rows[..., :1].expand(2, 3, 8, 16), rows[:1].expand(2, 3, 8, 16)):
        copied = scaled_dot.boxable(view)
        assert copied.is_contiguous() and (copied is not view or view is odd)
        assert torch.equal(copied, view) and copied.stride(-1) == 1


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


def test_where_attention_of_ours_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Hopper whole blocks of rows, of heads of 64 and 128, with gradients of many keys a query."""
    monkeypatch.setattr(scaled_dot, "_checked", lambda q, k, v, *_: (q, k, v))  # stand-ins are none
    monkeypatch.setattr(scaled_dot, "hopper_multiprocessors", lambda _: 132)

    def backend(m: int, d: int, causal: bool = True, heads: int = 32, **more: Any) -> str:
        q = _on_hopper(1, heads, m, d, **more)
        q.ndim = 4
        return ours.attention_backend(q, q, q, causal=causal).name

    assert backend(4096, 128) == backend(4096, 64) == backend(4096, 128, causal=False) == "tileflow"
    for d, causal in ((128, True), (128, False), (64, False)):
        assert backend(4096, d, causal=causal, requires_grad=True) == "tileflow"
    others = ({"m": 4000, "d": 128}, {"m": 4096, "d": 96}, {"m": 512, "d": 128, "heads": 256},
              {"m": 4096, "d": 128, "heads": 2}, {"m": 4096, "d": 128, "dtype": torch.float32},
              {"m": 1024, "d": 128, "heads": 256, "requires_grad": True})  # fmt: skip
    assert {backend(**other) for other in others} == {"torch"}
    monkeypatch.setattr(scaled_dot, "hopper_multiprocessors", lambda _: 0)
    assert backend(4096, 128) == "torch"


def test_which_gradients_are_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of few keys a query, wide heads, few tiles of keys, and elsewhere than on Hopper."""
    monkeypatch.setattr(scaled_dot, "hopper_multiprocessors", lambda _: 132)
    q = _on_hopper(4, 32, 4096, 128)
    assert scaled_dot.is_fused(q, q, causal=True)
    short, wide, few = _on_hopper(8, 32, 1024, 128), _on_hopper(4, 32, 4096, 192), _on_hopper(1, 4, 4096, 128)
    assert scaled_dot.is_fused(short, short, causal=False) and not scaled_dot.is_fused(short, short, causal=True)
    assert not scaled_dot.is_fused(wide, wide, True) and not scaled_dot.is_fused(few, few, True)
    monkeypatch.setattr(scaled_dot, "hopper_multiprocessors", lambda _: 0)
    assert not scaled_dot.is_fused(q, q, causal=True)


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16])
def test_labels_of_any_ints(dtype: torch.dtype) -> None:
    """-100 as uint8 is 156, a class."""
    labels = torch.tensor([[1, 156, 4], [0, 36, 5]]).clamp(max=torch.iinfo(dtype).max).to(dtype)
    x, weight = torch.randn(2, 3, 9), torch.randn(170, 9)
    wanted = F.cross_entropy(F.linear(x, weight).flatten(0, 1), labels.flatten().long())
    torch.testing.assert_close(ours.linear_cross_entropy(x, weight, labels), wanted)
    torch.testing.assert_close(ours.cross_entropy(F.linear(x, weight), labels), wanted)


@pytest.mark.parametrize("label", [-1, 37, 1 << 40])
def test_what_names_no_row_is_not_a_number(label: int) -> None:
    """Where nobody asks about values, as on a GPU."""
    logits, labels = torch.randn(3, 37), torch.tensor([label, -100, 5])
    losses, lse = cross_entropy_forward(logits, labels)
    grad = cross_entropy_backward(torch.ones(3), logits, labels, lse)
    fused = losses_and_gradient(made := logits.clone(), labels, torch.ones(()))
    for rows in (losses[:, None], grad, fused[:, None], made):
        assert rows[0].isnan().all() and rows[1:].isfinite().all()
    q, table = torch.randn(1, 2, 3, 8), torch.randn(37, 4)
    first, _ = rope_turn(q, q, table, table, torch.tensor([[label, 36, 5]]))
    assert first[:, :, 0].isnan().all() and first[:, :, 1:].isfinite().all()


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


@pytest.mark.parametrize("needs", [True, False])
def test_one_chunk_of_a_linear_loss_is_there_at_a_time(needs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two were: the last one's while the next one's were made."""
    there: list[weakref.ref[torch.Tensor]] = []
    most = []

    def product(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        most.append(sum(one() is not None for one in there))
        made = torch.mm(self, other)
        there.append(weakref.ref(made))
        return made

    x, weight = torch.randn(12, 6, requires_grad=needs), torch.randn(11, 6)
    monkeypatch.setattr(torch.Tensor, "__matmul__", product)
    ours.linear_cross_entropy(x, weight, torch.arange(12) % 11, rows_of_chunk=4)
    assert len(most) >= 3 and set(most) == {0}


def test_a_linear_loss_goes_backward_once() -> None:
    """Its gradients are made in the forward pass: a second multiplication in place would be wrong."""
    x, weight = leaf(6, 9), leaf(37, 9)
    loss = ours.linear_cross_entropy(x, weight, LABELS.flatten())
    torch.autograd.grad(2 * loss, x, retain_graph=True)
    with pytest.raises(CallError, match="asked for once"):
        torch.autograd.grad(loss, x)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("items", "loss_scale"), [(1.0, 1.0), (1e6, 2.0**16)])
def test_a_linear_loss_in_half_precision_keeps_its_gradients(items: float, loss_scale: float, compiled: bool) -> None:
    """A loss scale comes with the backward pass: divided by the rows before, most gradients were rounded to 0. Sums of
    what is not divided pass float16's largest number."""
    leaves = [x.detach().half().requires_grad_() for x in (leaf(24, 9) * 50, leaf(61, 9), leaf(61))]
    labels = torch.arange(24) % 3

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        made = ours.linear_cross_entropy(x, weight, labels, bias=bias, num_items_in_batch=items, rows_of_chunk=16)
        return loss_scale * made

    call = torch.compile(loss, backend="aot_eager", fullgraph=True) if compiled else loss
    found = call(*leaves)
    wide = [x.detach().float().requires_grad_() for x in leaves]
    products, rounded = F.linear(*wide), F.linear(*(x.detach() for x in leaves))
    logits = products + (rounded - products).detach()
    wanted = loss_scale / items * F.cross_entropy(logits, labels, reduction="sum")
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    for mine, exact in zip(torch.autograd.grad(found, leaves), torch.autograd.grad(wanted, wide), strict=True):
        assert mine.dtype == torch.float16 and mine.float().sub(exact).norm() < 1e-3 * exact.norm()


def test_no_row_that_counts_has_gradients_of_0_in_half_precision() -> None:
    x, weight = (torch.randn(*shape).half().requires_grad_() for shape in ((4, 9), (37, 9)))
    loss = ours.linear_cross_entropy(x, weight, torch.full((4,), -100))
    assert loss.isnan() and not any(grad.any() for grad in torch.autograd.grad(2 * loss, (x, weight)))


def test_a_linear_loss_of_a_transposed_weight() -> None:
    """Its gradient lies in memory as it does."""
    x, weight = leaf(6, 9), leaf(9, 37)
    labels = LABELS.flatten()
    compare(
        lambda x, w: 2 * ours.linear_cross_entropy(x, w.T, labels, rows_of_chunk=4),
        lambda x, w: 2 * F.cross_entropy(x @ w, labels),
        [x, weight],
    )
    of_leaf = torch.randn(9, 37).T.requires_grad_()
    (2 * ours.linear_cross_entropy(x, of_leaf, labels)).backward()
    assert of_leaf.grad is not None and of_leaf.grad.stride() == of_leaf.stride()


def test_a_linear_loss_is_returned_as_it_was_made() -> None:
    """Torch 2.11's compiler gives a result that was added to in place a gradient of 0."""
    loss = ours.linear_cross_entropy(leaf(12, 9), leaf(37, 9), torch.arange(12), rows_of_chunk=4)
    assert loss._version == 0


def test_a_linear_loss_is_one_operator_of_a_graph() -> None:
    """A graph has no stores in place: it copied the weight's gradient for each chunk that was added to it."""
    x, weight, bias, labels = leaf(12, 9), leaf(37, 9), leaf(37), torch.arange(12)
    leaves = (x, weight, bias)

    def loss(*of: torch.Tensor) -> torch.Tensor:
        return 2 * ours.linear_cross_entropy(of[0], of[1], labels, bias=of[2], rows_of_chunk=4)

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    wanted = torch.autograd.grad(loss(*leaves), leaves)
    torch.autograd.grad(compiled(*leaves), leaves)  # compiles
    with torch.profiler.profile(record_shapes=True) as seen:
        torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), wanted)
    events = seen.events()
    assert events is not None
    called = [(event.name, tuple(map(tuple, event.input_shapes))) for event in events]
    assert sum(name == "tileflow::linear_cross_entropy_chunks" for name, _ in called) == 1
    assert not [shapes for name, shapes in called if name == "aten::clone" and shapes[0] == weight.shape]


def test_a_linear_loss_without_gradients_compiles() -> None:
    """Torch's tracer of a differentiable function has no ``needs_input_grad`` where nothing needs one."""
    x, weight, labels = leaf(12, 9), leaf(37, 9), torch.arange(12)
    compiled = torch.compile(ours.linear_cross_entropy, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, weight, labels), ours.linear_cross_entropy(x, weight, labels))


def test_a_linear_loss_without_grad_mode_makes_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(torch.Tensor, "addmm_", lambda self, *_, **__: made.append(self))
    with torch.no_grad():
        loss = ours.linear_cross_entropy(leaf(12, 9), leaf(37, 9), torch.arange(12), rows_of_chunk=4)
    assert not made and not loss.requires_grad


def test_a_chunk_s_logits_stay_within_their_bytes() -> None:
    rows = chunk_rows(128_256, 2)
    assert rows == 512 and rows * 128_256 * 2 <= CHUNK_BYTES
    with pytest.raises(CallError, match="added up"):
        ours.linear_cross_entropy(torch.randn(2, 3), torch.randn(5, 3), torch.tensor([1, 2]), reduction="none")


def test_modules() -> None:
    x, residual = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    gemma, norm, positions = ours.RMSNorm(8, offset=1.0), ours.LayerNorm(8), torch.arange(3).expand(2, 3)
    torch.testing.assert_close(gemma(x), F.rms_norm(x, (8,), eps=1e-6))
    torch.testing.assert_close(norm(x, residual), (F.layer_norm(x + residual, (8,)), x + residual))
    q = torch.randn(2, 4, 3, 8)
    turned_q, _ = ours.RotaryEmbedding(8, 16)(q, q, positions)
    assert [*ours.LayerNorm(8, bias=False).state_dict()] == ["weight"]
    torch.testing.assert_close(ours.LayerNorm(8, bias=False)(x), F.layer_norm(x, (8,)))
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
    assert "FunctionDef s12:sums_of_rows" in serialise(cross_entropy_forward.scope)


def test_losses_on_the_meta_device_have_shapes() -> None:
    """torch has no autocast there, and raises where one asks for it."""
    x, weight = torch.empty(2, 7, 32, device="meta"), torch.empty(11, 32, device="meta", requires_grad=True)
    labels = torch.empty(2, 7, dtype=torch.int64, device="meta")
    ours.linear_cross_entropy(x, weight, labels).backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    with tileflow.interpret():
        assert ours.swiglu(x, x).shape == x.shape
