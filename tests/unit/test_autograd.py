"""Differentiable kernels: gradients as torch's, what the backward is given, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.autograd import BackwardContext
from tileflow.errors import CallError, SpecError, TraceError
from tileflow.kernels import rms
from tileflow.runtime.call_cache import CallCache
from tileflow.runtime.handles import registered
from tileflow.target import target

Tensor = torch.Tensor


@tileflow.kernel
def polar(x: Tensor, y: Tensor, scale: float = 1.0, half: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Two outputs for the caller, ``x * y * scale`` and ``sum(x, 1)``; the third is for the backward."""
    product, total, kept = torch.empty_like(x), x.new_empty(x.size(0)), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        factor = scale * 0.5 if half else scale
        kept[tile, :] = y[tile, :] * factor
        product[tile, :] = x[tile, :] * y[tile, :] * factor
        total[tile] = x[tile, :].sum(1)
    return product, total, kept


def expected(x: Tensor, y: Tensor, scale: float = 1.0, half: bool = False) -> tuple[Tensor, Tensor]:
    return x * y * (scale * 0.5 if half else scale), x.sum(1)


@tileflow.kernel
def polar_grads(grad: Tensor, total: Tensor, x: Tensor, kept: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    grad_x, grad_y = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        grad_x[tile, :] = grad[tile, :] * kept[tile, :] + total[tile][:, None]
        grad_y[tile, :] = grad[tile, :] * x[tile, :] * scale
    return grad_x, grad_y


seen: list[BackwardContext] = []


def backward(ctx: BackwardContext, grad: Tensor, total: Tensor) -> tuple[Tensor | None, ...]:
    seen.append(ctx)
    x, kept, scale, half = ctx.saved
    grads = polar_grads(grad, total, x, kept, scale * 0.5 if half else scale)
    return (*(g if needed else None for g, needed in zip(grads, ctx.needs_input_grad[:2], strict=True)), None, None)


op = tileflow.differentiable(
    polar, backward, save=("x", "kept", "scale", "half"), outputs=("product", "total", "kept"), hidden=("kept",)
)


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    seen.clear()
    with tileflow.interpret():
        yield


def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("keywords", [{}, {"scale": 3.0}, {"half": True, "scale": 0.5}])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_gradients_are_torchs(used: tuple[int, ...], keywords: dict[str, Any]) -> None:
    x, y = leaf(40, 5), leaf(40, 5)
    got, wanted = op(x, y=y, **keywords), expected(x, y, **keywords)
    assert isinstance(got, tuple) and len(got) == 2
    torch.testing.assert_close(got, wanted)
    grads = [torch.randn_like(v) for v in wanted]
    ours, theirs = (
        torch.autograd.grad([v[i] for i in used], (x, y), [grads[i] for i in used], allow_unused=True)
        for v in (got, wanted)
    )
    for one, other, of in zip(ours, theirs, (x, y), strict=True):
        torch.testing.assert_close(one, torch.zeros_like(of) if other is None else other)


def test_a_float64_gradcheck() -> None:
    assert torch.autograd.gradcheck(lambda x, y: op(x, y, 2.0), (leaf(3, 4, dtype=torch.float64),) * 2)


def test_the_backward_knows_which_inputs_need_gradients() -> None:
    x, y = torch.randn(3, 4), leaf(3, 4)
    op(x, y)[0].sum().backward()
    assert [ctx.needs_input_grad for ctx in seen] == [(False, True, False, False)]
    torch.testing.assert_close(y.grad, x)
    assert seen[0].saved[2:] == (1.0, False)


def test_nothing_is_recorded_where_nothing_is_needed() -> None:
    x, y = leaf(3, 4), leaf(3, 4)
    with torch.no_grad():
        assert not op(x, y)[0].requires_grad
    with torch.inference_mode():
        op(x, y)
    assert op(x.detach(), y.detach())[0].grad_fn is None
    assert not seen


def test_differentiating_twice_raises_and_once_with_a_graph_does_not() -> None:
    x, y = leaf(3, 4), leaf(3, 4)
    (grad,) = torch.autograd.grad(op(x, y)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(grad, y)
    with pytest.raises(CallError, match="differentiated once"):
        (grad.square().sum() + x.sum()).backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    @tileflow.kernel
    def product(x: Tensor, y: Tensor) -> Tensor:
        out = x.new_empty(x.size(0), y.size(1))
        for rows, columns in tfl.tile([x.size(0), y.size(1)]):
            out[rows, columns] = x[rows, :] @ y[:, columns]
        return out

    def product_backward(ctx: BackwardContext, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved
        assert grad.dtype == dtype
        return product(grad, y.t()), product(x.t(), grad)

    pair = tileflow.differentiable(product, product_backward, save=("x", "y"))
    x, y = leaf(8, 4, dtype=dtype), leaf(4, 8, dtype=dtype)
    plain = torch.autograd.grad(pair(x, y).sum(), (x, y))
    with torch.autocast("cpu", torch.bfloat16):
        out = pair(x, y)
        mixed = torch.autograd.grad(out.sum(), (x, y))
    assert out.dtype == dtype
    for one, other in zip(mixed, plain, strict=True):
        assert torch.equal(one, other)


@tileflow.kernel
def chosen(pair: tuple[Tensor, Tensor], bias: Tensor | None, dim: int) -> tuple[Tensor, Tensor]:
    """The larger of two tensors, plus a bias where there is one; and which it was."""
    a, b = pair
    out, which = torch.empty_like(a), torch.empty(a.shape, dtype=torch.int64)
    for tile in tfl.tile(a.size(0)):
        larger = torch.maximum(a[tile], b[tile])
        out[tile] = larger if bias is None else larger + bias[tile]
        which[tile] = (b[tile] > a[tile]).long()
    return out, which


def chosen_backward(ctx: BackwardContext, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    which, bias, dim = ctx.saved
    assert dim == 7
    return (grad * (1 - which), grad * which), None if bias is None else grad, None


@pytest.mark.parametrize("with_bias", [False, True])
def test_tuples_missing_tensors_and_outputs_of_ints(with_bias: bool) -> None:
    pair = tileflow.differentiable(chosen, chosen_backward, save=("which", "bias", "dim"), outputs=("out", "which"))
    a, b, bias = leaf(9), leaf(9), leaf(9) if with_bias else None
    out, which = pair((a, b), bias, 7)
    assert not which.requires_grad and which.dtype == torch.int64
    wanted = torch.maximum(a, b) + (0 if bias is None else bias)
    needed = [a, b] if bias is None else [a, b, bias]
    grad = torch.randn(9)
    for one, other in zip(
        torch.autograd.grad(out, needed, grad), torch.autograd.grad(wanted, needed, grad), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_a_single_gradient_may_stand_alone_and_modules_that_hold_the_function_are_copied() -> None:
    @tileflow.kernel
    def double(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * 2
        return out

    class Doubling(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.double = tileflow.differentiable(double, lambda ctx, grad: double(grad))

        def forward(self, x: Tensor) -> Any:
            return self.double(x)

    x = leaf(4)
    copy.deepcopy(Doubling())(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 2.0))


def test_what_holds_a_kernel_of_a_function_is_copied_and_not_pickled() -> None:
    """A copy was asked for the kernel's name; a pickle that nothing could load was made."""

    @tileflow.kernel
    def double(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * 2
        return out

    script = double.alias("__main__:double")
    for one in (double, script, tileflow.differentiable(double), tileflow.differentiable(double, lambda c, g: (g,))):
        assert copy.copy(one) is one and copy.deepcopy([one])[0] is one
        with pytest.raises(SpecError, match="pickled by its name"):
            pickle.dumps(one)


def test_a_pickled_function_is_one_of_the_process_that_loads_it() -> None:
    """It had the handle of another process; after a call that saves something it could not be pickled."""
    for function in (rms._plain, tileflow.differentiable(rms.rms_norm_forward)):
        loaded = pickle.loads(pickle.dumps(function))
        assert registered(loaded._handle) is loaded is not function
        assert loaded.forward is function.forward and loaded.identity == function.identity
        x, weight = leaf(4, 8), torch.ones(8)
        function(x, weight)
        torch.testing.assert_close(pickle.loads(pickle.dumps(function))(x, weight), function(x, weight))


@pytest.mark.parametrize("function", [tileflow.differentiable(polar, backward), tileflow.differentiable(polar)])
def test_transforms_of_torch_are_refused_in_words(function: Callable[..., Any]) -> None:
    """A derived backward's plan asked for the address of a tensor that has none."""
    with pytest.raises(CallError, match="a kernel's tensors have memory"):
        torch.func.grad(lambda x: function(x, x)[0].sum())(torch.ones(2, 2))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"save": ("z",)}, "save names parameters and outputs"),
        ({"save": ("out",)}, "save names parameters and outputs"),
        ({"hidden": ("x",), "outputs": ("out",)}, "hidden names outputs"),
    ],
)
def test_names_that_the_forward_does_not_have(options: dict[str, Any], words: str) -> None:
    with pytest.raises(CallError, match=words):
        tileflow.differentiable(polar, backward, **options)


def test_as_many_outputs_as_names_and_as_many_gradients_as_parameters() -> None:
    x, y = leaf(3, 4), leaf(3, 4)
    few = tileflow.differentiable(polar, backward, outputs=("a", "b"), hidden=("b",))
    with pytest.raises(CallError, match="2 names and 3 outputs"):
        few(x, y)
    short = tileflow.differentiable(polar, lambda ctx, *grads: grads[:2])
    with pytest.raises(CallError, match=r"one gradient for each parameter.*'scale', 'half'\), but got 2"):
        short(x, y)[0].sum().backward()


# ---- kernels without a backward ------------------------------------------------------------------------------------


@tileflow.kernel
def add(x: Any, y: Any, then: Callable[[Any], Any] | None = None) -> Tensor:
    first = x[0] if isinstance(x, tuple) else x
    out = torch.empty_like(first)
    for tile in tfl.tile(first.size(0)):
        total = first[tile] + y[tile]
        out[tile] = total if then is None else then(total)
    return out


def plus(bias: Tensor) -> Callable[[Any], Any]:
    return lambda v: v + bias[0]


def test_a_kernel_without_a_backward_refuses_what_requires_grad_wherever_it_is() -> None:
    x, needing = torch.randn(4), leaf(4)
    for args in ((needing, x), (x, needing), ((x, needing), x), (x, x, plus(needing))):
        with pytest.raises(CallError, match=r"pair it with a backward by tileflow\.differentiable"):
            add(*args)
        with torch.no_grad():
            add(*args)
    with pytest.raises(CallError, match="do not require grad"):
        add(x, y=needing)
    add(needing.detach(), x)


class Sums:
    """A context for the host code of ``add``: calls that it serves return a sum of its own."""

    calls = 0

    def __init__(self) -> None:
        self.counter = self


def test_warm_calls_refuse_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileflow.runtime.elsewhere.contexts", [0])
    monkeypatch.setattr(add, "cache", CallCache(add))
    monkeypatch.setattr(add.cache, "_run", lambda context, *args: args[0] + args[1])
    monkeypatch.setattr(add.cache, "_regions", [])
    x, needing, warm = torch.randn(4), leaf(4), Sums()
    with torch.no_grad():
        add.cache.remember((needing, x), warm)  # type: ignore[arg-type]
        add(needing, x)
    for args in ((needing, x), (x, needing), ((x, needing), x)):
        with pytest.raises(CallError, match="do not require grad"):
            add(*args)
    with torch.no_grad():
        add(needing, x)
    assert (warm.calls, len(add.cache)) == (2, 1), "what is refused is not remembered"


def test_a_tensor_of_the_kernels_own_closure_is_refused_when_it_is_lowered() -> None:
    weight = leaf(4)

    @tileflow.kernel
    def scale(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] * weight[tile]
        return out

    with pytest.raises(TraceError, match="do not require grad, but got weight"):
        scale.lower((torch.randn(4),), target("nvidia-h200"))
