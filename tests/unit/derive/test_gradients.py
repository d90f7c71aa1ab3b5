"""Derived backward passes against finite differences in float64, and against torch's autograd."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tile_testing import ROOT
from tile_testing.kernels.derived_kernels import EXAMPLES

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError, SpecError
from tileflow.target import target

GALLERY = ROOT / "examples"
LIBRARY = ROOT / "tileflow" / "kernels"


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    torch.manual_seed(0)
    with tileflow.interpret():
        yield


def made(spec: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Arguments from a description: shapes become random tensors."""
    if isinstance(spec, tuple) and all(isinstance(n, int) for n in spec):
        return torch.randn(spec, dtype=dtype, requires_grad=True)
    return tuple(made(s, dtype) for s in spec) if isinstance(spec, tuple) else spec


def flat(values: Any) -> list[Any]:
    return [v for value in values for v in (flat(value) if isinstance(value, tuple) else [value])]


def gradcheck(kernel: Any, *args: Any) -> None:
    """By finite differences, of all tensors among the arguments."""
    op = tileflow.differentiable(kernel)
    leaves = [a for a in flat(args) if isinstance(a, torch.Tensor) and a.requires_grad]

    def call(*tensors: torch.Tensor) -> Any:
        given = dict(zip(map(id, leaves), tensors, strict=True))
        found = op(*replaced(args, given))
        return tuple(v for v in found if v.is_floating_point()) if isinstance(found, tuple) else found

    # of many numbers a random direction of all of them is checked, in place of each
    assert torch.autograd.gradcheck(call, leaves, fast_mode=sum(x.numel() for x in leaves) > 60)


def replaced(value: Any, given: dict[int, torch.Tensor]) -> Any:
    return tuple(replaced(v, given) for v in value) if isinstance(value, tuple) else given.get(id(value), value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_class_of_operation_by_finite_differences(name: str) -> None:
    gradcheck(EXAMPLES[name].kernel, *made(EXAMPLES[name].args))


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_class_of_operation_against_torch(name: str) -> None:
    """Larger than a tile, where the tails of tiles count."""
    kernel, meaning, spec = EXAMPLES[name]
    args = made(spec)
    leaves = [a for a in flat(args) if isinstance(a, torch.Tensor) and a.requires_grad]
    got, wanted = flat((tileflow.differentiable(kernel)(*args),)), flat((meaning(*args),))
    torch.testing.assert_close(got, wanted)
    grads = [torch.randn_like(v) for v in wanted]
    ours, theirs = (torch.autograd.grad(values, leaves, grads) for values in (got, wanted))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_derived_text_lowers(name: str) -> None:
    """What runs as Python is a kernel of the language: each launch of it has a Triton source."""
    kernel, meaning, spec = EXAMPLES[name]
    args = made(spec, torch.float32)
    grads = [torch.randn_like(v) for v in flat((meaning(*args),))]
    backward = tileflow.derive_backward(kernel)
    with torch.no_grad():
        sources = backward.triton_source(*args, *grads)
    assert sources and backward.source(*args).startswith("def ")


# ---- the gallery in double precision ------------------------------------------------------------


def in_float64(name: str, folder: Path) -> ModuleType:
    """A module of the gallery whose kernels compute in float64 where they say float32."""
    file = LIBRARY / f"{name}.py"
    text = (file if file.exists() else GALLERY / f"{name}.py").read_text()
    text = text.replace("from . import", "from examples import")
    text = text.replace("from ..", "from tileflow.").replace("from .rows", "from tileflow.kernels.rows")
    text = text.replace(".float()", ".double()").replace("torch.float32", "torch.float64")
    text = re.sub(r"tfl\.zeros\((\[[^\]]*\])\)", r"tfl.zeros(\1, dtype=torch.float64)", text)
    text = re.sub(r'tfl\.full\((\[[^\]]*\]), (float\("-inf"\))\)', r"tfl.full(\1, \2, dtype=torch.float64)", text)
    file = folder / f"double_{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LABELS = torch.tensor([0, -100, 5])
KERNELS: dict[str, tuple[Any, ...]] = {
    "exp:exp": ((3, 5),),
    "gated:swiglu": ((3, 5), (3, 5)),
    "gated:geglu": ((3, 5), (3, 5)),
    "rms_norm:rms_norm": ((3, 5), (5,), 1e-5),
    "layer_norm:layer_norm": ((3, 5), (5,), (5,), 1e-5),
    "layer:layer_norm_train": ((3, 5), (5,), (5,), 1e-5),
    "softmax:softmax": ((3, 5),),
    "softmax:softmax_online": ((2, 34),),
    "cross_entropy:cross_entropy": ((3, 34), LABELS, -100),
    "embedding:embedding": (LABELS.abs() % 4, (4, 5)),
    "rope:rope": ((1, 2, 3, 4), (1, 3, 3, 4), (3, 2), (3, 2)),
    "dropout:dropout": ((3, 5), 0.3, 1234),
    "matmul:matmul": ((3, 34), (34, 4)),
    "bmm:bmm": ((2, 3, 4), (2, 4, 5)),
    "kl_div:kl_div": ((3, 5), (3, 5), True),
    "jsd:jsd": ((3, 5), (3, 5), 0.5),
    "long_sum:long_sum_split": ((3, 34),),
    "flash:attention": ((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4), False),
    "flash:attention causal": ((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4), True),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_gallerys_kernels_by_finite_differences(name: str, tmp_path: Path) -> None:
    module, _, kernel = name.split()[0].partition(":")
    gradcheck(getattr(in_float64(module, tmp_path), kernel), *made(KERNELS[name]))


# ---- kernels of their own -----------------------------------------------------------------------


def test_a_derived_backward_is_a_kernel_by_name() -> None:
    rms_norm = tileflow.load_kernel("examples.rms_norm:rms_norm")
    backward = tileflow.derive_backward(rms_norm)
    assert backward.name == "examples.rms_norm:rms_norm.backward"
    assert tileflow.load_kernel(backward.name) is backward is tileflow.derive_backward(rms_norm)
    assert backward.semantic_hash not in ("", rms_norm.semantic_hash)
    args = backward.inputs(m=40, n=24, dtype="float32")
    torch.testing.assert_close(backward.run_eagerly(*args), backward.reference(*args))
    assert backward.describe(*args).key != rms_norm.describe(*args[:3]).key
    lowered = backward.lower(args, target("nvidia-h200"))
    assert lowered.problem.kernel == backward.name and lowered.emit(lowered.default)


def test_a_sum_that_is_kept_and_dropped_again_is_no_reshape() -> None:
    """Its layout made each thread of softmax's gradient write all of a row to shared memory: 561 us on an H200 where
    the one by hand took 48."""
    backward = tileflow.load_kernel("examples.softmax:softmax.backward")
    args = backward.inputs(m=8192, n=4096, dtype="bfloat16", device="meta")
    lowered = backward.lower(args, target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    assert "tl.sum(" in source.text and "tl.reshape(" not in source.text


def test_inputs_have_the_defaults_that_a_reference_may_not_know() -> None:
    backward = tileflow.load_kernel("examples.cross_entropy:cross_entropy.backward")
    args = backward.inputs(m=5, v=40, dtype="float32")
    assert args[2] == -100 and len(args) == 5
    torch.testing.assert_close(backward.run_eagerly(*args), backward.reference(*args))


@tileflow.kernel
def less_its_own_label(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        total = tfl.zeros([tile_m], dtype=x.dtype)
        for tile_n in tfl.tile(n):
            total += torch.exp(x[tile_m, tile_n]).sum(1)
        out[tile_m] = total - x[tile_m.index, labels[tile_m]]
    return out


def test_a_gathers_gradient_is_added_where_a_loop_stored_all_others() -> None:
    """The loop added to zeros that the host wrote, so that the gradient of cross-entropy moved five times the logits'
    bytes where three do."""
    x, labels = torch.randn(7, 21, dtype=torch.float64, requires_grad=True), torch.randint(21, (7,))
    lines = [line.strip() for line in tileflow.derive_backward(less_its_own_label).source(x, labels).splitlines()]
    assert "grad_x = torch.empty_like(x)" in lines
    stored, added = (line for line in lines if line.startswith(("grad_x[", "tfl.store(grad_x")))
    assert "grad_x" not in stored.partition(" = ")[2] and "tfl.load(grad_x" in added
    gradcheck(less_its_own_label, x, labels)


def test_calls_of_one_text_are_one_kernel_and_others_have_their_own() -> None:
    swiglu = tileflow.load_kernel("examples.swiglu:swiglu")
    backward = tileflow.derive_backward(swiglu)
    x, y = torch.randn(4, 6), torch.randn(40, 60)
    half = x.bfloat16()
    assert backward.kind(x, x) is backward.kind(y, y) is not backward.kind(half, half)
    assert "torch.float32" in backward.source(half, half) and "torch.float32" not in backward.source(x, x)
    assert backward.kind(x, x).semantic_hash == backward.kind(half, half).semantic_hash == backward.semantic_hash


@tileflow.kernel
def two_parts(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    out = x.new_empty(x.size(0), 4)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, first : first + 4] * x[tile, second : second + 4]
    return out


@pytest.mark.parametrize("order", [((0, 4), (2, 4)), ((2, 4), (0, 4))])
def test_what_ints_decide_is_decided_by_each_of_them(order: tuple[tuple[int, int], ...]) -> None:
    """Parts that lie apart are stored, parts that overlap are added up; both calls have one key."""
    for first, second in order:
        gradcheck(two_parts, made((3, 8)), first, second)


@tileflow.kernel
def affine(x: torch.Tensor, gain: torch.Tensor, biases: tuple[torch.Tensor, ...], scale: torch.Tensor) -> torch.Tensor:
    """A view of an argument, a tuple of tensors, and an argument that host code reads after the launch."""
    out, flat = torch.empty_like(x), gain.view(-1)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * flat[:] + biases[0][:] * biases[1][:]
    return out * scale


def affine_in_torch(x: torch.Tensor, gain: torch.Tensor, biases: Any, scale: torch.Tensor) -> torch.Tensor:
    return (x * gain.view(-1) + biases[0] * biases[1]) * scale


AFFINE = ((4, 6), (1, 6), ((6,), (6,)), (1,))
OF_AFFINE = {
    "x": {"grad_x"},
    "gain": {"grad_flat"},
    "biases": {"grad_biases_0", "grad_biases_1"},
    "scale": {"grad_scale_beside"},
}


@pytest.mark.parametrize("wanted", [("x",), ("gain",), ("biases",), ("scale",), ("x", "scale"), ("biases", "gain")])
def test_gradients_of_some_arguments_alone(wanted: tuple[str, ...]) -> None:
    """Those of the others are neither computed nor returned, and autograd asks for no more than it needs."""
    args = made(AFFINE)
    asked = flat(tuple(arg for arg, name in zip(args, OF_AFFINE, strict=True) if name in wanted))
    out = affine_in_torch(*args)
    grad = torch.randn_like(out)
    expected = torch.autograd.grad(out, asked, grad)
    backward = tileflow.derive_backward(affine, *wanted)
    with torch.no_grad():
        torch.testing.assert_close(flat((backward(*args, grad),)), [*expected])
    words = {*re.findall(r"\w+", backward.source(*args))}
    assert words & set().union(*OF_AFFINE.values()) == set().union(*(OF_AFFINE[name] for name in wanted))
    for leaf in flat(args):
        leaf.requires_grad_(any(leaf is t for t in asked))
    torch.testing.assert_close(torch.autograd.grad(tileflow.differentiable(affine)(*args), asked, grad), expected)
    with pytest.raises(CallError, match=r"x, gain, biases, scale.*weight"):
        tileflow.derive_backward(affine, "weight")


def test_a_backward_of_some_gradients_is_a_kernel_by_name() -> None:
    """rope's cosines and sines have no gradient in training: theirs doubled what its backward moves."""
    name = "examples.rope:rope.backward(q+k)"
    backward, whole = tileflow.load_kernel(name), tileflow.load_kernel("examples.rope:rope.backward")
    rope = tileflow.load_kernel("examples.rope:rope")
    assert backward.name == name and backward is tileflow.derive_backward(rope, "k", "q")
    assert backward.of() is whole.of("q", "k", "cos", "sin") is whole and whole.of("k", "q") is backward
    assert len({backward.semantic_hash, whole.semantic_hash, backward.identity, whole.identity}) == 4
    args = backward.inputs(s=6, d=4, h=2, hk=1, b=2, dtype="float32")
    torch.testing.assert_close(backward.run_eagerly(*args), backward.reference(*args))
    assert not re.search(r"(?<!grad_out_)\b[qk]\[", backward.source(*args)), "a rotation is linear in what it turns"
    with pytest.raises(SpecError, match=r"behind \.backward"):
        tileflow.load_kernel("examples.rope:rope(q)")


def test_under_torch_compile_with_some_gradients() -> None:
    op, (x, *others) = tileflow.differentiable(affine), made(AFFINE)
    rest = [replaced(v, {id(t): t.detach() for t in flat(tuple(others))}) for v in others]
    out = torch.compile(lambda x: op(x, *rest), backend="aot_eager")(x)
    (got,) = torch.autograd.grad(out.square().sum(), x)
    (wanted,) = torch.autograd.grad(affine_in_torch(x, *rest).square().sum(), x)
    torch.testing.assert_close(got, wanted)


def test_under_torch_compile_where_host_code_is_differentiated() -> None:
    """Autograd records nothing while the operator's shapes are asked for: any call of kl_div raised RuntimeError."""
    op = tileflow.differentiable(tileflow.load_kernel("examples.kl_div:kl_div"))
    guess, target_ = torch.randn(5, 7).log_softmax(1).requires_grad_(), torch.randn(5, 7).softmax(1)
    out = torch.compile(lambda x: op(x, target_, False), backend="aot_eager")(guess)
    (got,) = torch.autograd.grad(out, guess)
    wanted = torch.nn.functional.kl_div(guess, target_, reduction="batchmean")
    torch.testing.assert_close(got, torch.autograd.grad(wanted, guess)[0])


def test_under_torch_compile() -> None:
    softmax = tileflow.load_kernel("examples.softmax:softmax")
    op = tileflow.differentiable(softmax)
    x = torch.randn(5, 7, requires_grad=True)
    out = torch.compile(lambda x: op(x * 2), backend="aot_eager")(x)
    (got,) = torch.autograd.grad(out.square().sum(), x)
    (wanted,) = torch.autograd.grad((x * 2).softmax(1).square().sum(), x)
    torch.testing.assert_close(got, wanted)


@tileflow.kernel
def linear(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), w.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), w.size(1)]):
        acc = tfl.zeros([tile_m, tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, tile_n])
        out[tile_m, tile_n] = acc + bias[tile_n]
    return out


@tileflow.kernel
def batched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), y.size(2))
    block = tfl.register_block_size(16)
    for b, tile_m, tile_n in tfl.tile([x.size(0), x.size(1), y.size(2)], block_size=[1, block, None]):
        acc = tfl.zeros([b, tile_m, tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(2), block_size=16):
            acc = torch.baddbmm(acc, x[b, tile_m, tile_k], y[b, tile_k, tile_n])
        out[b, tile_m, tile_n] = acc
    return out


@tileflow.kernel
def rectified(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient takes what the loop gave: a program of another order would run the loop again."""
    out = x.new_empty(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n], dtype=x.dtype)
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = torch.relu(acc)
    return out


@pytest.mark.parametrize(
    ("kernel", "shapes", "has_atomics"),
    [
        (linear, ((20, 37), (37, 19), (19,)), False),
        (batched, ((2, 18, 20), (2, 20, 5)), False),
        (rectified, ((20, 37), (37, 19)), True),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_product_s_gradients_are_products_that_own_their_tiles(kernel: Any, shapes: Any, has_atomics: bool) -> None:
    """Issue 14: both were added up by atomics, by all programs along the loop that the operand does not have."""
    args = made(shapes)
    text = tileflow.derive_backward(kernel).source(*args)
    assert ("atomic" in text) == has_atomics
    assert text.count("tfl.dot(") == (3 if has_atomics else 2)
    backward = tileflow.derive_backward(kernel)
    gradcheck(kernel, *args)
    if not has_atomics:
        with torch.no_grad():
            grad = torch.empty_like(kernel(*args), device="meta")
        metas = [torch.empty_like(x, device="meta").detach() for x in args]
        lowered = backward.lower((*metas, grad), target("nvidia-h200"))
        assert not any("atomic" in source.text for source in lowered.emit(lowered.default))


@tileflow.kernel
def rows_by_a_matrix(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A layer on tokens of sequences: the matrix has no dimension for these."""
    out = x.new_empty(x.size(0), x.size(1), w.size(0))
    for b, s, o in tfl.tile(out.shape):
        acc = tfl.zeros([b, s, o], dtype=x.dtype)
        for d in tfl.tile(x.size(2)):
            acc += x[b, s, d] @ w[o, d].T
        out[b, s, o] = acc
    return out


@tileflow.kernel
def rows_into_heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(0), w.size(2))
    for b, s, h in tfl.tile(out.shape[:3]):
        out[b, s, h, :] = torch.einsum("bsd,hdk->bshk", x[b, s, :], w[h, :, :])
    return out


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [(rows_by_a_matrix, ((2, 18, 17), (19, 17))), (rows_into_heads, ((2, 17, 20), (3, 20, 16)))],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_product_with_batches_of_one_operand_alone(kernel: Any, shapes: Any) -> None:
    """It was a ValueError: the other operand's gradient was summed along dimensions that it does not have."""
    gradcheck(kernel, *made(shapes))


def test_a_product_s_gradient_with_factors_of_zero() -> None:
    """Issue 14: with none of a row's factors 0, with one, and with two."""
    rows = [[2.0, -3.0, 0.5], [0.0, 3.0, 4.0], [0.0, 5.0, 0.0]]
    x, y = torch.tensor(rows, dtype=torch.float64, requires_grad=True), *made(((4, 6),))
    gradcheck(EXAMPLES["products_of_factors"].kernel, x, y)
    got, _ = tileflow.differentiable(EXAMPLES["products_of_factors"].kernel)(x, y)
    ours, theirs = (torch.autograd.grad(value.sum(), [x])[0] for value in (got, x.prod(1)))
    torch.testing.assert_close(ours, theirs)
    assert ours[1].tolist() == [12.0, 0.0, 0.0] and not ours[2].any()


def test_a_reference_in_higher_precision_derives_nothing() -> None:
    """A float32 sum of float64 is no sum that is differentiated, so that the check of a float32 call, whose reference
    runs in float64, was refused."""
    backward = tileflow.load_kernel("examples.long_sum:long_sum_looped.backward")
    x, grad = (t.double() for t in backward.inputs(m=3, n=5))
    torch.testing.assert_close(backward.reference(x, grad), grad[:, None].expand(3, 5))


@tileflow.kernel
def by_numbers(x: torch.Tensor) -> torch.Tensor:
    """Functions of numbers, which torch's own do not take."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0), block_size=16):
        n = x.size(1)
        factor = math.exp(-n / 64) + math.tanh(n) / math.sqrt(n) + 2.0 ** math.log2(n) + math.floor(n / 3)
        y = x[t, :] * factor
        if t.end > 16 and not t.begin >= 32:
            y = y * x[t, :]
        out[t, :] = y
    return out


def test_functions_of_numbers() -> None:
    """``torch.sqrt`` of a size was a TypeError: attention over ``math.sqrt(d)`` in its loop had no gradient eagerly."""
    gradcheck(by_numbers, made((37, 5)))


def test_a_slice_that_a_loop_reads_at_places_from_before_it() -> None:
    """The loop's own ints are those of the read before it, and its gradient is stored behind it: a KeyError."""

    @tileflow.kernel
    def scaled(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        n = s.size(0)
        g = x.size(0) // n
        out = torch.empty_like(x)
        for b in tfl.grid(n):
            mine = slice(b * g, (b + 1) * g)
            total = y[mine]
            for k in tfl.grid(s.size(1)):
                total = total + x[mine] * s[b, k]
            out[mine] = total
        return out

    x, y, s = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in (12, 12, (4, 5)))
    ours, wanted = tileflow.differentiable(scaled)(x, y, s), (x.view(4, 3) * s.sum(1, keepdim=True)).flatten() + y
    grad = torch.randn_like(wanted)
    found, expected = (torch.autograd.grad(out, (x, y, s), grad) for out in (ours, wanted))
    torch.testing.assert_close(found, expected)
