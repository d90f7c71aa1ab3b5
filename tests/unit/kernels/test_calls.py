"""What ``tileflow.kernels`` refuse, by name and before a kernel reads past the end of a tensor; and odd calls that they
serve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import tileflow
import tileflow.kernels as ours
from tileflow.errors import CallError

Tensor = torch.Tensor
R = torch.randn
LABELS = torch.tensor([0, 1, 2, -100])


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.long)


def attended(keys: Tensor, queries: Tensor | None = None) -> Tensor:
    return ours.attention(keys if queries is None else queries, keys, keys, backend="tileflow")


def by_torch(queries: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    return ours.attention(queries, keys, keys, mask=mask)


def meta(*shape: int) -> Tensor:
    return R(*shape, device="meta")


Q, K, ANGLES, TABLE = R(2, 4, 3, 8), R(2, 1, 3, 8), R(2, 3, 4), R(9, 4)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "fewer values than gates": (lambda: ours.swiglu(R(4, 8), R(2, 8)), "both tensors have one shape"),
    "values that would broadcast": (lambda: ours.geglu(R(4, 8), R(1, 8)), "both tensors have one shape"),
    "values in another order": (lambda: ours.swiglu(R(2, 3, 8), R(3, 2, 8)), r"\(3, 2, 8\), not \(2, 3, 8\)"),
    "ints": (lambda: ours.swiglu(zeros(4, 8), zeros(4, 8)), "a is a floating tensor"),
    "a scalar": (lambda: ours.rms_norm(R(()), R(1)), "x is a floating tensor of one dimension or more"),
    "a short weight": (lambda: ours.rms_norm(R(4, 8), R(4)), r"weight of \(4,\), not \(8,\)"),
    "no weight": (lambda: ours.rms_norm(R(4, 8), None), "weight=None"),  # type: ignore[arg-type]
    "a weight of a column": (lambda: ours.rms_norm(R(4, 8), R(8, 1)), "an element for each of a row"),
    "a short residual": (lambda: ours.add_rms_norm(R(4, 8), R(2, 8), R(8)), "a residual has the shape"),
    "a residual in another order": (lambda: ours.add_rms_norm(R(2, 3, 8), R(3, 2, 8), R(8)), "a residual has"),
    "a short residual of layers": (lambda: ours.add_layer_norm(R(4, 8), R(2, 8), R(8), R(8)), "a residual has"),
    "a short bias": (lambda: ours.layer_norm(R(4, 8), R(8), R(4)), "bias of"),
    "no weight of layers": (lambda: ours.layer_norm(R(4, 8), None, R(8)), "weight=None"),  # type: ignore[arg-type]
    "fewer labels": (lambda: ours.cross_entropy(R(4, 8), zeros(2)), "a label for each row"),
    "labels in another order": (lambda: ours.cross_entropy(R(2, 3, 8), zeros(3, 2)), "a label for each row"),
    "probabilities": (lambda: ours.cross_entropy(R(4, 8), R(4)), "labels are numbers of classes"),
    "a negative label": (lambda: ours.cross_entropy(R(4, 8), zeros(4) - 1), "from 0 to 7, or ignore_index=-100, but g"),
    "a label of no class": (lambda: ours.cross_entropy(R(4, 8), torch.arange(5, 9)), r"got 8 at \(3,\)"),
    "a negative label of a product": (
        lambda: ours.linear_cross_entropy(R(4, 8), R(5, 8), zeros(4) - 1), "from 0 to 4, or ignore_index=-100"),
    "a label of no row of the weight": (
        lambda: ours.linear_cross_entropy(R(2, 2, 8), R(5, 8), zeros(2, 2) + 5), r"got 5 at \(0, 0\)"),
    "labels to ignore that are none": (
        lambda: ours.cross_entropy(R(4, 8), zeros(4), ignore_index=0.5), "ignore_index is an int"),  # type: ignore[arg-type]
    "transformed labels": (
        lambda: torch.vmap(lambda of: ours.cross_entropy(ANGLES[0, :1], of))(zeros(2, 1)), "tensors have memory"),
    "a softcap of 0": (lambda: ours.cross_entropy(R(4, 8), zeros(4), softcap=0.0), "softcap is above 0"),
    "much smoothing": (lambda: ours.cross_entropy(R(4, 8), zeros(4), label_smoothing=2.0), "from 0 to 1"),
    "fewer labels of a product": (lambda: ours.linear_cross_entropy(R(4, 8), R(5, 8), zeros(2)), "a label for each"),
    "a narrow weight": (lambda: ours.linear_cross_entropy(R(4, 8), R(5, 4), zeros(4)), "vocabulary, hidden"),
    "a long bias": (lambda: ours.linear_cross_entropy(R(4, 8), R(5, 8), zeros(4), bias=R(8)), "a bias has"),
    "an empty chunk": (lambda: ours.linear_cross_entropy(R(4, 8), R(5, 8), zeros(4), rows_of_chunk=-1), "a chunk has"),
    "another inner size": (lambda: ours.gated_mlp(R(4, 8), R(6, 8), R(6, 8), R(8, 5)), "the last weight is"),
    "another gate": (lambda: ours.gated_mlp(R(4, 8), R(6, 8), R(5, 8), R(8, 6)), "both first weights"),
    "a half weight": (lambda: ours.gated_mlp(R(4, 8), R(6, 8), R(6, 8), R(8, 6).half()), "have one dtype"),
    "an activation": (lambda: ours.gated_mlp(R(4, 8), R(6, 8), R(6, 8), R(8, 6), activation="relu"), "silu or gelu"),
    "a narrow gate": (lambda: ours.gated_linear(R(4, 8), R(6, 7), R(6, 7)), "a weight is"),
    "another up": (lambda: ours.gated_linear(R(4, 8), R(6, 8), R(5, 8)), "both weights have one shape"),
    "a half up": (lambda: ours.gated_linear(R(4, 8), R(6, 8), R(6, 8).half()), "have one dtype"),
    "a gate's activation": (lambda: ours.gated_linear(R(4, 8), R(6, 8), R(6, 8), activation="relu"), "silu or gelu"),
    "a row to add": (lambda: ours.linear_add(R(4, 8), R(6, 8), R(6)), "a residual has the product's shape"),
    "a narrow weight of a sum": (lambda: ours.linear_add(R(4, 8), R(6, 7), R(4, 6)), "a weight is"),
    "a half residual": (lambda: ours.linear_add(R(4, 8), R(6, 8), R(4, 6).half()), "have one dtype"),
    "fewer keys": (lambda: ours.rope(Q, R(2, 1, 2, 8), ANGLES, ANGLES), "differ in heads alone"),
    "more keys": (lambda: ours.rope(Q, R(2, 1, 5, 8), ANGLES, ANGLES), "differ in heads alone"),
    "fewer angles": (lambda: ours.rope(Q, K, ANGLES[:, :2], ANGLES[:, :2]), "each token has its angles"),
    "angles of more sequences": (lambda: ours.rope(Q, K, R(3, 3, 4), R(3, 3, 4)), "each token has its angles"),
    "fewer sines": (lambda: ours.rope(Q, K, ANGLES, ANGLES[:, :2]), "cos and sin have one shape"),
    "fewer positions": (lambda: ours.rope(Q, K, TABLE, TABLE, zeros(2, 2)), "each token has a position"),
    "positions of one dimension": (lambda: ours.rope(Q, K, TABLE, TABLE, zeros(3)), "each token has a position"),
    "positions that are no ints": (lambda: ours.rope(Q, K, TABLE, TABLE, R(2, 3)), "positions are rows of a table"),
    "a position past the table": (lambda: ours.rope(Q, K, TABLE, TABLE, zeros(2, 3) + 9), "from 0 to 8, but got 9"),
    "a position before the table": (lambda: ours.rope(Q, K, TABLE, TABLE, zeros(2, 3) - 1), "from 0 to 8, but got -1"),
    "a table for each sequence": (lambda: ours.rope(Q, K, ANGLES, ANGLES, zeros(2, 3)), "a table of rows"),
    "learned angles": (lambda: ours.rope(Q, K, ANGLES.clone().requires_grad_(), ANGLES), "angles are constants"),
    "fewer values than keys": (
        lambda: ours.attention(R(1, 2, 3, 16), R(1, 2, 5, 16), R(1, 2, 4, 16), backend="tileflow"), "serves the call"),
    "keys of more sequences": (
        lambda: ours.attention(R(1, 2, 4, 16), R(2, 2, 4, 16), R(2, 2, 4, 16), backend="tileflow"), "serves the call"),
    "attention of matrices": (
        lambda: ours.attention(R(2, 4, 16), R(2, 4, 16), R(2, 4, 16), backend="tileflow"), "3, 3 and 3 dimensions"),
    "attention of no heads": (lambda: attended(R(1, 0, 4, 16)), r"keys of \(1, 0, 4, 16\), which are none"),
    "attention of no keys": (lambda: attended(R(1, 2, 0, 16), R(1, 2, 4, 16)), r"\(1, 2, 0, 16\), which are none"),
    "attention of no elements": (lambda: attended(R(1, 2, 4, 0)), r"keys of \(1, 2, 4, 0\), which are none"),
    "attention of ints": (lambda: attended(zeros(1, 2, 4, 16)), "int64, which is not floating"),
    "attention of two dtypes": (
        lambda: ours.attention(R(1, 2, 4, 16), R(1, 2, 4, 16).half(), R(1, 2, 4, 16), backend="tileflow"), "float16"),
    "keys of another dtype": (lambda: by_torch(R(4, 8), R(4, 8).half()), "q, k, v have one dtype"),
    "keys on another device": (lambda: by_torch(R(4, 8), meta(4, 8)), "q, k, v are on one device, but got cpu, meta"),
    "keys of another size": (lambda: by_torch(R(4, 8), R(4, 6)), "queries and keys have one size"),
    "heads that share no keys": (lambda: by_torch(R(1, 2, 4, 8), R(1, 3, 4, 8)), "each head has its keys"),
    "batches that do not meet": (lambda: by_torch(R(2, 4, 8), R(3, 4, 8)), "each head has its keys"),
    "queries of one dimension": (lambda: by_torch(R(4), R(4)), r"q of \(4,\), k of"),
    "ints by torch's": (lambda: by_torch(zeros(4, 8), zeros(4, 8)), "q is a floating tensor"),
    "a mask of ints": (lambda: by_torch(R(4, 8), R(4, 8), zeros(4, 4)), "of bools or of their dtype"),
    "a mask without memory": (lambda: by_torch(R(4, 8), R(4, 8), meta(4, 4)), "on the queries' device"),
    "a mask of fewer keys": (lambda: by_torch(R(4, 8), R(4, 8), R(3, 3)), r"\(3, 3\) for weights of \(4, 4\)"),
    "a weight without memory": (lambda: ours.gated_mlp(R(4, 8), meta(6, 8), R(6, 8), R(8, 6)), "are on one device"),
    "classes without memory": (
        lambda: ours.linear_cross_entropy(R(4, 8), meta(5, 8), zeros(4)), "x, weight are on one device"),
    "a bias without memory": (
        lambda: ours.linear_cross_entropy(R(4, 8), R(5, 8), zeros(4), bias=meta(5)), "x, bias are on one device"),
    "complex weights": (lambda: ours.rms_norm(R(4, 8), R(8) + 1j), "weight is a floating tensor"),
    "a complex bias": (lambda: ours.layer_norm(R(4, 8), R(8), R(8) + 1j), "bias is a floating tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_does_not_fit_is_refused(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(CallError, match=words) as error:
        call()
    assert "at tileflow.kernels." in str(error.value)


F8 = R(4, 8).to(torch.float8_e4m3fn)
LAZY = torch.nn.UninitializedParameter()
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, tuple[Any, ...]]]] = {
    "rms_norm": (ours.rms_norm, (R(4, 8), R(8)), {"eps": (), "offset": ()}),
    "add_rms_norm": (ours.add_rms_norm, (R(4, 8), R(4, 8), R(8)), {"eps": (), "offset": ()}),
    "layer_norm": (ours.layer_norm, (R(4, 8), R(8), R(8)), {"eps": ()}),
    "add_layer_norm": (ours.add_layer_norm, (R(4, 8), R(4, 8), R(8), R(8)), {"eps": ()}),
    "swiglu": (ours.swiglu, (R(4, 8), R(4, 8)), {}),
    "geglu": (ours.geglu, (R(4, 8), R(4, 8)), {}),
    "gated_linear": (ours.gated_linear, (R(4, 8), R(6, 8), R(6, 8)), {"activation": (3, ["silu"])}),
    "linear_add": (ours.linear_add, (R(4, 8), R(6, 8), R(4, 6)), {}),
    "gated_mlp": (ours.gated_mlp, (R(4, 8), R(6, 8), R(6, 8), R(8, 6)), {"activation": (None,)}),
    "rope": (ours.rope, (Q, K, ANGLES, ANGLES), {"layout": (1,), "head_dim": (True,), "positions": ("x", 3)}),
    "attention": (
        ours.attention, (R(1, 2, 4, 16),) * 3, {
            "scale": (True,), "causal": (1, None), "mask": (True,), "backend": (1,)}),
    "cross_entropy": (
        ours.cross_entropy, (R(4, 8), LABELS), {
            "label_smoothing": (None,), "softcap": (True,), "reduction": (1, None), "num_items_in_batch": (R(4), F8)}),
    "linear_cross_entropy": (
        ours.linear_cross_entropy, (R(4, 8), R(5, 8), LABELS.clamp(max=1)), {
            "label_smoothing": (None,), "softcap": (True,), "reduction": (1, None), "num_items_in_batch": (R(4),),
            "rows_of_chunk": (1.5, R(()), True)}),
}  # fmt: skip
MAY_BE_NONE = (("layer_norm", 2), ("add_layer_norm", 3))  # the biases


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_tensor_and_no_number_is_refused_by_name(name: str) -> None:
    """These were AttributeErrors, TypeErrors and whatever else the first use of the value raised."""
    function, args, options = CALLS[name]
    tensors = (R(4, 8).to_sparse(), LAZY, torch.masked.masked_tensor(R(4, 8), R(4, 8) > 0))
    for i in range(len(args)):
        for odd in (*(() if (name, i) in MAY_BE_NONE else (None,)), 3, "x", [1.0], object(), R(4, 8).numpy(), *tensors):
            with pytest.raises(CallError) as error:
                function(*args[:i], odd, *args[i + 1 :])
            assert f"at tileflow.kernels.{name}" in str(error.value)
    for option, own in options.items():
        for odd in ("x", [1.0], object(), *tensors, *own):
            with pytest.raises(CallError) as error:
                function(*args, **{option: odd})
            assert f"at tileflow.kernels.{name}" in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize("call", [ours.swiglu, lambda a, b: ours.add_rms_norm(a, b, R(8))])
def test_dtypes_that_torch_does_not_promote_are_refused(call: Callable[[Tensor, Tensor], Any]) -> None:
    with pytest.raises(CallError, match="dtypes that torch promotes to one"):
        call(F8, R(4, 8))


def test_a_divisor_is_one_number() -> None:
    """A tensor of several made a loss of several, as if losses of batches were divided one by one."""
    labels, logits = LABELS.clamp(max=7), R(4, 8)
    wanted = ours.cross_entropy(logits, labels, num_items_in_batch=2)
    for count in (torch.tensor(2), torch.tensor([2]), torch.tensor([[2.0]])):
        assert ours.cross_entropy(logits, labels, num_items_in_batch=count).shape == ()
        assert ours.cross_entropy(logits, labels, num_items_in_batch=count) == wanted
    with pytest.raises(CallError, match="num_items_in_batch is a number"):
        ours.cross_entropy(logits, labels, num_items_in_batch=torch.tensor([2, 3]))


def test_torch_serves_attention_of_matrices() -> None:
    q = R(2, 4, 16)
    torch.testing.assert_close(ours.attention(q, q, q), F.scaled_dot_product_attention(q, q, q))


def test_torch_serves_attention_of_no_keys() -> None:
    """It is 0: no weights to add up."""
    q, none = R(1, 2, 4, 16, requires_grad=True), R(1, 2, 0, 16)
    out = ours.attention(q, none, none)
    assert out.shape == q.shape and not out.any() and ours.attention(R(1, 0, 4, 16), *[R(1, 0, 4, 16)] * 2).numel() == 0


@pytest.mark.parametrize("backend", ["tileflow", "torch"])
def test_attention_under_autocast_has_its_dtype(backend: str) -> None:
    """By either: which runs a call says nothing of its result's dtype."""
    q, k, v = (R(1, 2, 4, 16, requires_grad=True) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        out = ours.attention(q, k.half(), v, backend=backend)
        wide = ours.attention(q.double(), k.double(), v.double(), backend=backend)
    assert out.dtype == torch.bfloat16 and wide.dtype == torch.float64
    torch.testing.assert_close(out.float(), wide.float(), rtol=2e-2, atol=2e-2)
    assert {grad.dtype for grad in torch.autograd.grad(out.sum(), (q, k, v))} == {torch.float32}


CLASSES = torch.tensor([1, 4, 0])
PRODUCTS: dict[str, tuple[Any, Any]] = {
    "gated_linear": (
        lambda x, w, _: ours.gated_linear(x, w, w * 2),
        lambda x, w, _: F.silu(F.linear(x, w)) * F.linear(x, w * 2),
    ),
    "gated_mlp": (
        lambda x, w, _: ours.gated_mlp(x, w, w * 2, w.T),
        lambda x, w, _: F.linear(F.silu(F.linear(x, w)) * F.linear(x, w * 2), w.T),
    ),
    "linear_add": (ours.linear_add, lambda x, w, r: r + F.linear(x, w)),
    "linear_cross_entropy": (
        lambda x, w, r: ours.linear_cross_entropy(x, w, CLASSES, bias=r[0]),
        lambda x, w, r: F.cross_entropy(F.linear(x, w, r[0]).float(), CLASSES),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("has_grad", [True, False])
def test_products_under_autocast_are_torch_s(name: str, dtype: torch.dtype, has_grad: bool) -> None:
    """Parameters of float32 beside what a layer made in bfloat16 were refused; of float32 alone nothing was cast."""
    function, plain = PRODUCTS[name]
    given = R(3, 8).to(dtype), R(5, 8), R(3, 5)
    found, wanted = ([x.clone().requires_grad_(has_grad) for x in given] for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        out, expected = function(*found), plain(*wanted)
    assert out.dtype == expected.dtype
    assert torch.linalg.vector_norm(out - expected) <= 2e-2 * torch.linalg.vector_norm(expected)
    assert name == "linear_add" or not torch.equal(out.float(), function(*(x.float() for x in found)).float()), "cast"
    if has_grad:
        out.sum().backward()
        expected.sum().backward()
        for one, other in zip(found, wanted, strict=True):
            if other.grad is None:  # no part of this function
                continue
            assert torch.linalg.vector_norm(one.grad - other.grad) <= 2e-2 * torch.linalg.vector_norm(other.grad)


@pytest.mark.parametrize("shape", [(2, 0), (0,), (0, 8), (3, 0, 8)])
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    x, weight = R(shape, requires_grad=True), R(shape[-1:], requires_grad=True)
    out, summed = ours.add_rms_norm(ours.swiglu(x, x), x, weight)
    assert out.shape == summed.shape == ours.layer_norm(x, weight, weight).shape == shape
    grads = torch.autograd.grad(out.sum(), (x, weight))
    assert grads[0].shape == shape and not grads[1].any()


MIXED = [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16), (torch.float16, torch.bfloat16)]


@pytest.mark.parametrize(("first", "second"), MIXED)
def test_a_result_has_the_wider_dtype(first: torch.dtype, second: torch.dtype) -> None:
    a, b = R(4, 8).to(first).requires_grad_(), R(4, 8).to(second).requires_grad_()
    weight = torch.ones(8)
    for mine, wanted in (
        (ours.swiglu(a, b), F.silu(a) * b),
        (ours.add_rms_norm(a, b, weight)[1], a + b),
        (ours.add_layer_norm(a, b, weight, weight)[1], a + b),
    ):
        torch.testing.assert_close(mine, wanted, rtol=1e-2, atol=1e-2)
        grads = torch.autograd.grad(mine.sum(), (a, b))
        assert [grad.dtype for grad in grads] == [first, second]


@pytest.mark.parametrize("fused", [True, False])
def test_no_row_that_counts_is_a_mean_of_nothing(fused: bool) -> None:
    x, weight, labels = R(4, 8), R(5, 8), torch.full((4,), -100)
    loss = ours.linear_cross_entropy(x, weight, labels) if fused else ours.cross_entropy(x @ weight.T, labels)
    assert loss.isnan() and F.cross_entropy(x @ weight.T, labels).isnan()


def test_masked_logits_may_fill_a_block() -> None:
    """The running maximum is -inf until then."""
    logits, labels = R(3, 700), torch.tensor([699, 698, -100])
    logits[:, :690] = float("-inf")
    logits.requires_grad_()
    mine, wanted = ours.cross_entropy(logits, labels), F.cross_entropy(logits, labels)
    torch.testing.assert_close(mine, wanted)
    torch.testing.assert_close(torch.autograd.grad(mine, logits), torch.autograd.grad(wanted, logits))


WEIGHT, VOCABULARY = R(8), R(5, 8)
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "swiglu": lambda x: ours.swiglu(x, x),
    "rms_norm": lambda x: ours.rms_norm(x, WEIGHT),
    "gated_mlp": lambda x: ours.gated_mlp(x, VOCABULARY, VOCABULARY, VOCABULARY.T),
    "gated_linear": lambda x: ours.gated_linear(x, VOCABULARY, VOCABULARY),
    "cross_entropy": lambda x: ours.cross_entropy(x, LABELS),
    "linear_cross_entropy": lambda x: ours.linear_cross_entropy(x, VOCABULARY, LABELS),
}
TRANSFORMS: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(R(4, 8)),
    "vmap": lambda f: torch.func.vmap(f)(R(2, 4, 8)),
    "jvp": lambda f: torch.func.jvp(f, (R(4, 8),), (R(4, 8),)),
    "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(lambda x: f(x).sum()))(R(2, 4, 8)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_torch_func_are_refused_by_name(name: str, transform: str) -> None:
    with pytest.raises(CallError, match="tensors have memory") as error:
        TRANSFORMS[transform](FUNCTIONS[name])
    assert "torch.func" in str(error.value) and "tileflow.kernels" in str(error.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_refused_by_name(name: str) -> None:
    with torch.autograd.forward_ad.dual_level(), pytest.raises(CallError, match="no forward-mode derivative"):
        FUNCTIONS[name](torch.autograd.forward_ad.make_dual(R(4, 8, requires_grad=True), R(4, 8)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_second_derivative_is_refused_and_never_a_constant(name: str) -> None:
    x = R(4, 8, requires_grad=True)
    (grad,) = torch.autograd.grad(FUNCTIONS[name](x).sum(), x, create_graph=True)
    with pytest.raises(CallError, match="differentiated once"):
        torch.autograd.grad(grad.square().sum(), x)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_checkpoints_make_the_saved_tensors_once(name: str, create_graph: bool) -> None:
    x = R(4, 8, requires_grad=True)
    (wanted,) = torch.autograd.grad(FUNCTIONS[name](x).sum(), x)
    out = checkpoint(FUNCTIONS[name], x, use_reentrant=False)
    (found,) = torch.autograd.grad(out.sum(), x, create_graph=create_graph)
    torch.testing.assert_close(found, wanted)


def test_norms_are_made_as_torch_s_are() -> None:
    x = torch.randn(2, 8)
    for size in (8, (8,), [8], torch.Size([8])):
        torch.testing.assert_close(ours.RMSNorm(size)(x), torch.nn.functional.rms_norm(x, (8,), eps=1e-6))
        torch.testing.assert_close(ours.LayerNorm(size)(x), torch.nn.functional.layer_norm(x, (8,)))


@pytest.mark.parametrize("size", ["8", (2, 4), (), -1, 8.0, True, None])
def test_a_norm_s_size_is_that_of_a_row(size: Any) -> None:
    for module in (ours.RMSNorm, ours.LayerNorm):
        with pytest.raises(CallError, match=r"(?s)a norm is over the last dimension.*tileflow\.kernels\."):
            module(size)


@pytest.mark.parametrize(("size", "layout"), [(7, "half"), (8, "both"), ("8", "half"), (-2, "half")])
def test_angles_are_of_pairs_of_elements(size: Any, layout: str) -> None:
    with pytest.raises(CallError, match="rope turns pairs of a head's elements"):
        ours.RotaryEmbedding(size, length=4, layout=layout)


def test_modules_of_the_meta_device_are_as_new_where_they_get_memory() -> None:
    """The angles, which no checkpoint holds, were whatever the memory held."""
    with torch.device("meta"):
        made = torch.nn.ModuleList([ours.RotaryEmbedding(8, 16), ours.RMSNorm(8, offset=1.0), ours.LayerNorm(8)])
    turns, *norms = made.to_empty(device="cpu")
    positions = torch.tensor([[0, 3, 15], [1, 2, 4]])
    for table in (turns.cos, turns.sin):
        table.fill_(float("nan"))
    for got, wanted in zip(turns(Q, K, positions), ours.RotaryEmbedding(8, 16)(Q, K, positions), strict=True):
        assert torch.equal(got, wanted)
    for norm in norms:
        for parameter in norm.parameters():
            parameter.data.fill_(float("nan"))
        norm.reset_parameters()
    assert norms[0].weight.eq(0).all() and norms[1].weight.eq(1).all() and norms[1].bias.eq(0).all()
