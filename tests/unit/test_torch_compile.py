"""Kernels inside compiled models: no graph breaks, the operators' schemas, and what cannot be an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode

import tileflow
import tileflow.language as tfl
from tileflow.autograd import BackwardContext
from tileflow.errors import CallError
from tileflow.runtime.describe import device_class

Tensor = torch.Tensor
TRACED = ["eager", "aot_eager"]
COMPILED = ["aot_eager", "inductor"]


@tileflow.kernel
def norm(x: Tensor, weight: Tensor, eps: float = 1e-5, centred: bool = False) -> tuple[Tensor, Tensor]:
    m, n = x.shape
    assert weight.size(0) == n, "a weight for each column"
    out, factor = torch.empty_like(x), torch.empty(m, dtype=torch.float32, device=x.device)
    for tile in tfl.tile(m):
        row = x[tile, :].float()
        if centred:
            row = row - row.mean(dim=1, keepdim=True)
        scale = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        factor[tile] = scale
        out[tile, :] = row * scale[:, None] * weight[:]
    return out, factor


@tileflow.kernel
def norm_grads(grad: Tensor, x: Tensor, weight: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    m, n = x.shape
    block = tfl.register_block_size(m)
    grad_x, partial = torch.empty_like(x), x.new_empty((m + block - 1) // block, n, dtype=torch.float32)
    for tile in tfl.tile(m, block_size=block):
        normed = x[tile, :] * factor[tile][:, None]
        partial[tile.id, :] = (grad[tile, :] * normed).sum(0)
        g = grad[tile, :] * weight[:]
        grad_x[tile, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * factor[tile][:, None]
    return grad_x, partial.sum(0)


def norm_backward(ctx: BackwardContext, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *norm_grads(grad, *ctx.saved), None, None


rms_norm = tileflow.differentiable(
    norm, norm_backward, save=("x", "weight", "factor"), outputs=("out", "factor"), hidden=("factor",)
)


def norm_reference(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return torch.nn.functional.rms_norm(x, (x.size(1),), weight, eps)


@tileflow.kernel
def accumulate(total: Tensor, x: Tensor, times: int) -> None:
    """``total += x * times``, where host code has another name and shape for it."""
    flat, other = total.view(-1), x.reshape(-1)
    for tile in tfl.tile(flat.size(0)):
        flat[tile] += other[tile] * times


@tileflow.kernel
def decode(state: Tensor, x: Tensor) -> tuple[Tensor, tuple[Tensor, None]]:
    """A step as serving code writes it: it stores its state, and returns that too."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        new = state[tile] + x[tile]
        out[tile] = new * 2
        state[tile] = new
    return out, (state, None)


@tileflow.kernel
def doubled(x: Tensor) -> Tensor:
    for tile in tfl.tile(x.numel()):
        x[tile] = x[tile] * 2
    return x


@tileflow.kernel
def mapped(x: Tensor, then: Callable[..., Any]) -> Tensor:
    out = torch.empty_like(x)
    for rows, columns in tfl.tile(list(x.shape)):
        out[rows, columns] = then(x[rows, columns], columns)
    return out


def plus(bias: Tensor) -> Callable[..., Any]:
    return lambda v, columns: torch.relu(v + bias[columns])


def times(factor: float) -> Callable[..., Any]:
    return lambda v, columns: v * factor


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    """What the operators run is the eager meaning."""
    torch.compiler.reset()
    with tileflow.interpret():
        yield


class Graphs:
    """A backend that runs the graph as it is, and keeps it."""

    def __init__(self) -> None:
        self.found: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        self.found.append(graph)
        return graph.forward


def exported(fn: Callable[..., Any], *args: Any) -> list[Any]:
    """The operators of ours in the exported graph."""

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return fn(*args)

    graph = torch.export.export(Module(), args).graph
    return [n.target for n in graph.nodes if str(n.target).startswith("tileflow.")]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a machine without a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:7"])
def test_fake_tensors_of_a_gpu_that_is_not_here_are_exported(device: str) -> None:
    """torch's AssertionError, that it has no CUDA, was raised where a compiler is shown the launches."""
    with FakeTensorMode():
        x, w = torch.empty(6, 4, device=device), torch.empty(4, device=device)
    (op,) = exported(lambda x, w: norm(x, w)[0], x, w)
    assert "norm_" in str(op)
    with pytest.raises(CallError, match=f"a GPU that torch reaches, but got {device} \\("):
        device_class(device)


@pytest.mark.parametrize("backend", TRACED)
@pytest.mark.parametrize("dynamic", [False, True, None])
def test_a_kernel_in_a_compiled_function(backend: str, dynamic: bool) -> None:
    fn = torch.compile(lambda x, w: norm(x, weight=w, eps=1e-3)[0], fullgraph=True, backend=backend, dynamic=dynamic)
    for m, n in ((5, 8), (70, 8), (5, 9)):
        x, w = torch.randn(m, n), torch.randn(n)
        torch.testing.assert_close(fn(x, w), norm_reference(x, w, 1e-3))


def test_one_graph_serves_all_sizes_where_they_are_dynamic() -> None:
    graphs = Graphs()
    fn = torch.compile(lambda x, w: norm(x * 2, w)[0].relu(), fullgraph=True, backend=graphs, dynamic=True)
    for m in (5, 6, 70):
        x, w = torch.randn(m, 8), torch.randn(8)
        torch.testing.assert_close(fn(x, w), norm_reference(x * 2, w).relu())
    assert len(graphs.found) == 1
    with pytest.raises(Exception, match="a weight for each column"):
        fn(torch.randn(5, 8), torch.randn(7))


@pytest.mark.parametrize(("backend", "dynamic"), [("aot_eager", False), ("aot_eager", True), ("inductor", True)])
def test_gradients_through_a_compiled_model(backend: str, dynamic: bool) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8))

        def forward(self, x: Tensor) -> Any:
            return rms_norm(rms_norm(x, self.weight), self.weight, 1e-3)

    model = Model()
    fn = torch.compile(model, fullgraph=True, backend=backend, dynamic=dynamic)
    for m in (5, 40):
        x, grad = torch.randn(m, 8, requires_grad=True), torch.randn(m, 8)
        wanted = norm_reference(norm_reference(x, model.weight), model.weight, 1e-3)
        got = fn(x)
        torch.testing.assert_close(got, wanted)
        leaves = (x, model.weight)
        torch.testing.assert_close(torch.autograd.grad(got, leaves, grad), torch.autograd.grad(wanted, leaves, grad))
        with torch.no_grad():
            torch.testing.assert_close(fn(x), wanted)
    x = torch.randn(5, 8)
    torch.testing.assert_close(fn(x).sum(), model(x).sum())


@pytest.mark.parametrize("backend", COMPILED)
def test_arguments_that_are_stored_into(backend: str) -> None:
    def fn(total: Tensor, x: Tensor, n: int) -> Tensor:
        own = x.clone()
        accumulate(own, x, 2)
        accumulate(total, own, n)
        return own + total

    total, x = torch.randn(4, 6), torch.randn(4, 6)
    before = total.clone()
    compiled = torch.compile(fn, fullgraph=True, backend=backend)
    got = compiled(total, x, 5)
    torch.testing.assert_close(total, before + x * 15)
    torch.testing.assert_close(got, x * 3 + total)
    for n in (6, 7):
        compiled(total, x, n)
    torch.testing.assert_close(total, before + x * 3 * (5 + 6 + 7))


@pytest.mark.parametrize("backend", TRACED)
def test_a_store_into_what_a_graph_saved_is_refused_as_torchs_own(backend: str) -> None:
    """The graph had the overwritten tensor for the saved one: the gradient was 6 in the place of 2."""

    def fn(weight: Tensor, total: Tensor) -> Tensor:
        loss = (weight * total).sum()
        with torch.no_grad():
            accumulate(total, total.clone(), 2)
        return loss

    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(Exception, match="modified by an inplace operation"):
        torch.compile(fn, fullgraph=True, backend=backend)(weight, torch.full((3,), 2.0)).backward()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", [*TRACED, "inductor"])
def test_arguments_that_are_returned(backend: str, dynamic: bool | None) -> None:
    def fn(state: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        out, (same, _) = decode(state, x)
        doubled(same).add_(1)  # which the state sees
        return out, same, decode(state, out)[0]

    compiled = torch.compile(fn, fullgraph=True, backend=backend, dynamic=dynamic)
    for n in (5, 70):
        state, x = torch.randn(n), torch.randn(n)
        wanted_state = state.clone()
        wanted = fn(wanted_state, x)
        found = compiled(state, x)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(state, wanted_state)
        assert found[1] is state


@pytest.mark.parametrize("backend", TRACED)
def test_an_argument_that_is_given_twice_is_returned_once(backend: str) -> None:
    x = torch.randn(6)
    wanted = x * 2
    found = torch.compile(lambda x: decode(x, x), fullgraph=True, backend=backend)(x)
    torch.testing.assert_close(x, wanted)
    assert found[1][0] is x


def test_a_buffer_that_a_kernel_stores_into_and_returns_is_exported() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("state", torch.zeros(5))

        def forward(self, x: Tensor) -> Any:
            return decode(self.state, x)

    program = torch.export.export(Layer(), (torch.ones(5),)).module()
    assert [program(torch.ones(5))[0][0].item() for _ in range(3)] == [2, 4, 6]
    assert program.state[0] == 3


def test_schemas_and_torchs_own_checks_of_an_operator() -> None:
    x, w = torch.randn(5, 8), torch.randn(8)
    (op,) = exported(lambda x, w: norm(x, w, 1e-3, True)[0], x, w)
    assert str(op._schema).endswith("(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)")
    (op,) = exported(lambda t, x: accumulate(t, x, 3), torch.randn(4, 6), torch.randn(4, 6))
    assert str(op._schema).endswith("(Tensor(a0!) total, Tensor x, SymInt times) -> ()")
    torch.library.opcheck(op, (torch.randn(4, 6), torch.randn(4, 6), 3))
    (op,) = exported(rms_norm, x, w)
    torch.library.opcheck(op, (x.requires_grad_(), w.requires_grad_(), 1e-3))
    (op,) = exported(lambda x, b: mapped(x, plus(b)), torch.randn(4, 6), torch.randn(6))
    assert str(op._schema).endswith("(Tensor x, Tensor then_bias) -> Tensor")


def test_one_operator_for_each_structure_of_arguments() -> None:
    x, w = torch.randn(5, 8), torch.randn(8)
    (one,) = exported(lambda x, w: norm(x, w, 1e-3)[0], x, w)
    (same,) = exported(lambda x, w: norm(x, w, 0.5)[0], x.repeat(2, 1), w)
    (other,) = exported(lambda x, w: norm(x, w, 1e-3, True)[0], x, w)
    assert one is same and one is not other


@pytest.mark.parametrize("backend", TRACED)
def test_functions_as_arguments(backend: str) -> None:
    def fn(x: Tensor, then: Callable[..., Any]) -> Any:
        return mapped(x, then) + 1

    x = torch.randn(4, 6)
    compiled = torch.compile(fn, fullgraph=True, backend=backend)
    for bias in (torch.randn(6), torch.randn(6)):
        torch.testing.assert_close(compiled(x, plus(bias)), torch.relu(x + bias) + 1)
    for factor in (2.0, 3.0):
        torch.testing.assert_close(compiled(x, times(factor)), x * factor + 1)


@dataclass(frozen=True)
class Activation:
    then: Callable[..., Any] = F.silu


@pytest.mark.parametrize("backend", TRACED)
@pytest.mark.parametrize("then", [F.silu, torch.relu, F.gelu, partial(F.gelu, approximate="tanh"), torch.nn.SiLU()])
def test_torchs_own_functions_as_arguments(backend: str, then: Callable[..., Any]) -> None:
    """Of a function in Python the tracer could not go through the defaults, of others it said NotImplementedError."""

    @tileflow.kernel
    def activated(x: Tensor, how: Any) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = how.then(x[tile, :])
        return out

    x = torch.randn(4, 6)
    how = Activation(then)
    torch.testing.assert_close(
        torch.compile(lambda x: activated(x, how), fullgraph=True, backend=backend)(x), then(x), rtol=1e-5, atol=1e-5
    )


def test_functions_made_inside_what_is_compiled() -> None:
    x = torch.randn(4, 6)

    def fn(x: Tensor, n: int) -> Any:
        return mapped(x, lambda v, columns: v * 2 + n)

    torch.testing.assert_close(torch.compile(fn, fullgraph=True, backend="aot_eager")(x, 3), x * 2 + 3)


def test_layers_with_their_own_biases_share_a_graph() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.then = plus(torch.randn(6))

        def forward(self, x: Tensor) -> Any:
            return mapped(x, self.then)

    x, layers = torch.randn(4, 6), [Layer(), Layer()]
    for layer in layers:
        wanted = layer(x)
        layer.compile(fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(layer(x), wanted)
    assert not torch.equal(layers[0](x), layers[1](x))


def test_as_many_tensors_as_there_are() -> None:
    @tileflow.kernel
    def total(scale: float, *xs: Tensor) -> Tensor:
        out = torch.empty_like(xs[0])
        for tile in tfl.tile(out.size(0)):
            acc = xs[0][tile]
            for i in range(1, len(xs)):
                acc = acc + xs[i][tile]
            out[tile] = acc * scale
        return out

    fn = torch.compile(lambda *xs: total(2.0, *xs), fullgraph=True, backend="aot_eager")
    for n in (2, 3):
        xs = [torch.randn(5) for _ in range(n)]
        torch.testing.assert_close(fn(*xs), sum(xs) * 2)


def test_constants_of_the_kernel() -> None:
    @tileflow.kernel
    def power(x: Tensor, n: tfl.constexpr) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            v = x[tile]
            for _ in range(n - 1):
                v = v * x[tile]
            out[tile] = v
        return out

    fn = torch.compile(power, fullgraph=True, backend="aot_eager", dynamic=True)
    x = torch.randn(7)
    for n in (2, 3, 4):
        torch.testing.assert_close(fn(x, n), x**n)
    (op,) = exported(lambda x: power(x, 3), x)
    assert str(op._schema).endswith("(Tensor x) -> Tensor")


# ---- what cannot be ------------------------------------------------------------------------------------------------


@tileflow.kernel
def returns_its_argument(x: Tensor) -> Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[tile] * 2
    return x.view(-1)


@tileflow.kernel
def hands_on(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * y[tile]
    return out, x


def hands_back(ctx: BackwardContext, grad: Tensor, other: Tensor) -> tuple[Tensor | None, ...]:
    return grad, None, None


@tileflow.kernel
def returns_one_twice(x: Tensor) -> tuple[Tensor, Tensor]:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out, out[1:]


@tileflow.kernel
def returns_a_number(x: Tensor) -> tuple[Tensor, int]:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out, x.size(0)


@tileflow.kernel
def returns_partial_sums(x: Tensor) -> Tensor:
    block = tfl.register_block_size(x.size(0))
    out = x.new_empty((x.size(0) + block - 1) // block)
    for tile in tfl.tile(x.size(0), block_size=block):
        out[tile.id] = x[tile].sum()
    return out


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (returns_its_argument, "outputs have memory of their own, but got result of returns_its_argument"),
        (returns_one_twice, "outputs have memory of their own, but got result_0 of returns_one_twice"),
        (returns_a_number, "returns tensors, in tuples or alone, but got result_1 of returns_a_number: 70"),
        (returns_partial_sums, r"do not depend on the config, but got \[\(3,\)\] and \[\(2,\)\]"),
        (tileflow.differentiable(hands_on, hands_back), "outputs in a compiled graph are new tensors, but got x, "),
        (tileflow.differentiable(accumulate, norm_backward), "does not change its arguments, but got stores into t"),
    ],
)  # fmt: skip
def test_kernels_that_cannot_be_operators(fn: Any, words: str) -> None:
    args = (torch.randn(4), torch.randn(4), 2) if isinstance(fn, type(rms_norm)) else (torch.randn(70),)
    with pytest.raises(Exception, match=words):
        torch.compile(lambda *args: fn(*args), fullgraph=True, backend="aot_eager")(*args)


@tileflow.kernel
def returns_a_dictionary(x: Tensor) -> Any:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out, {"out": x}


@tileflow.kernel
def returns_a_dtype(x: Tensor) -> Any:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out, x.dtype


@pytest.mark.parametrize("backend", TRACED)
@pytest.mark.parametrize(("fn", "kind"), [(returns_a_dictionary, "dict"), (returns_a_dtype, "dtype")])
def test_results_that_the_tracer_does_not_take(fn: Any, kind: str, backend: str) -> None:
    """It said that an operator of torch's had returned no tensor."""
    with pytest.raises(Exception, match=f"in tuples, lists and named tuples, but got {kind} in what it returns"):
        torch.compile(lambda x: fn(x), fullgraph=True, backend=backend)(torch.ones(3))


@pytest.mark.parametrize("fn", [doubled, tileflow.differentiable(hands_on, hands_back)])
@pytest.mark.parametrize("transform", ["vmap", "grad"])
def test_transforms_of_torch_in_a_compiled_function_are_refused_in_words(fn: Any, transform: str) -> None:
    """Torch's own words were of storage that a tensor does not have, and of static methods."""

    def inner(x: Tensor) -> Tensor:
        return fn(x) if fn is doubled else fn(x, x, 1)[0].sum()

    whole = torch.func.vmap(inner) if transform == "vmap" else torch.func.grad(lambda x: inner(x).sum())
    with torch.no_grad(), pytest.raises(Exception, match=r"tensors have memory, but got tensor 0.*outside torch\.func"):
        torch.compile(lambda x: whole(x), fullgraph=True, backend="aot_eager")(torch.ones(3, 3))


def test_a_kernel_without_a_backward_refuses_what_requires_grad() -> None:
    fn = torch.compile(lambda x, w: norm(x, w)[0], fullgraph=True, backend="aot_eager")
    x, w = torch.randn(5, 8, requires_grad=True), torch.randn(8)
    with pytest.raises(Exception, match=r"pair it with a backward by tileflow\.differentiable"):
        fn(x, w)
    with torch.no_grad():
        torch.testing.assert_close(fn(x, w), norm_reference(x, w))


def test_a_mistake_in_a_tile_loop_is_shown_with_its_place() -> None:
    @tileflow.kernel
    def wrong(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = torch.linalg.inv(x[tile])
        return out

    with pytest.raises(Exception, match=r"test_torch_compile\.py:\d+.*torch\.linalg\.inv"):
        torch.compile(wrong, fullgraph=True, backend="aot_eager")(torch.randn(8))
