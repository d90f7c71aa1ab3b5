"""Gradients of torch functions, through kernels that call them, against torch's autograd: at 0, at bounds, far out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import special

import tileflow
import tileflow.language as tfl
from tileflow.errors import TileflowError

Function = Callable[[Any], Any]
INF, NAN = math.inf, math.nan
POINTS = [
    *(0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 3.0, 6.0, -0.5, -1.0, -2.0, -3.0, 1e-3, -1e-3, 1e-30, -1e-30),
    *(30.0, -30.0, 100.0, -100.0, 1e10, -1e10, 1e200, -1e200, INF, -INF, NAN),
]


@pytest.fixture(autouse=True)
def _interpreted() -> Iterator[None]:
    with tileflow.interpret():
        yield


def lanes(f: Function) -> Any:
    @tileflow.kernel
    def by_lane(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = f(x[tile])
        return out

    return by_lane


def rows(f: Function) -> Any:
    @tileflow.kernel
    def by_row(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
        for tile in tfl.tile(x.size(0)):
            out[tile] = f(x[tile, :])
        return out

    return by_row


def wholes(f: Function) -> Any:
    @tileflow.kernel
    def whole(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = f(x[tile, :])
        return out

    return whole


def gradient(f: Function, x: torch.Tensor) -> torch.Tensor:
    given = x.clone().requires_grad_()
    out = f(given)
    weights = torch.linspace(0.5, 2, out.numel(), dtype=x.dtype).reshape(out.shape)
    return torch.autograd.grad((out * weights).sum(), given)[0]


def check(kernel: Any, f: Function, x: torch.Tensor) -> None:
    wanted = gradient(f, x)
    torch.testing.assert_close(
        gradient(tileflow.differentiable(kernel), x), wanted, equal_nan=True, rtol=1e-6, atol=1e-9
    )


def at(points: list[float]) -> torch.Tensor:
    return torch.tensor(points, dtype=torch.float64)


# ---- gradients that stop ---------------------------------------------------------------------------------------------


STOPPED: dict[str, Function] = {
    "product": lambda v: v.detach() * v,
    "torch.detach": lambda v: torch.detach(v * 2) * v,
    "straight through": lambda v: v + (v.round() - v).detach(),
    "twice": lambda v: v.detach() * v.detach() * v + v,
    "beside a sum": lambda v: (v * v).detach() + v * v,
    "of a function": lambda v: torch.sinh(v).detach() * torch.sinh(v),
    "positive": lambda v: (+v) * v.detach() * v.positive(),
}


@pytest.mark.parametrize("name", STOPPED)
def test_no_gradient_flows_through_detach(name: str) -> None:
    check(lanes(STOPPED[name]), STOPPED[name], at([-2.0, -0.6, 0.0, 1.0, 3.4]))


NUMBERS: dict[str, Function] = {
    "float": lambda v: float(v) * v,
    "int": lambda v: int(v) * v,
    "math.exp": lambda v: math.exp(v) * v,
    "math.sqrt": lambda v: math.sqrt(abs(v)) + v * v,
    "math.tanh": lambda v: math.tanh(v) * v,
    "math.hypot": lambda v: math.hypot(v, 2.0) - v,
    "math.floor": lambda v: math.floor(v) * v,
    "math.fabs": lambda v: math.fabs(v * v) * v,
}


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("name", NUMBERS)
def test_no_gradient_flows_through_a_number_of_pythons(name: str) -> None:
    """It flowed, where torch hands out a number."""
    f = NUMBERS[name]

    @tileflow.kernel
    def by_element(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for i in tfl.grid(x.size(0)):
            out[i] = f(x[i])
        return out

    check(by_element, lambda x: torch.stack([f(v) for v in x]), at([-2.0, -0.5, 0.0, 1.0, 3.5]))


def test_a_peak_may_be_detached() -> None:
    def softmax(v: Any) -> Any:
        exponent = torch.exp(v - v.amax(1, keepdim=True).detach())
        return exponent / exponent.sum(1, keepdim=True)

    check(wholes(softmax), softmax, torch.randn(5, 7, dtype=torch.float64))


@tileflow.kernel
def detached_peaks(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        peak = tfl.full([tile_m], float("-inf"), dtype=x.dtype)
        total = tfl.zeros([tile_m], dtype=x.dtype)
        for tile_n in tfl.tile(x.size(1), block_size=4):
            block = x[tile_m, tile_n]
            raised = torch.maximum(peak, block.amax(1))
            new = raised.detach()
            total = total * torch.exp(peak - new) + torch.exp(block - raised[:, None]).sum(1)
            peak = new
        out[tile_m] = peak + torch.log(total)
    return out


def test_a_running_peak_may_be_detached() -> None:
    check(detached_peaks, lambda v: v.logsumexp(1), torch.randn(5, 11, dtype=torch.float64))


def test_detach_is_nothing_to_a_forward_pass() -> None:
    def source(f: Function) -> list[str]:
        lines = lanes(f).triton_source(torch.randn(8))[0].text.splitlines()
        return [line for line in lines if not line.strip().startswith("#")]

    assert source(lambda v: v.detach() * v) == source(lambda v: v * v)


def in_place(v: Any) -> Any:
    w = v * 2
    w.detach_()
    return w * v


def test_detach_in_place_is_detach() -> None:
    """As torch has it of a tensor that is no leaf."""
    check(lanes(in_place), in_place, torch.randn(8, dtype=torch.float64))


def without_grad(v: Any) -> Any:
    with torch.no_grad():
        w = v * 2
    return w * v


@pytest.mark.parametrize("f", [without_grad, lambda v: v.data * v])
def test_other_ways_to_stop_a_gradient_are_refused(f: Function) -> None:
    with pytest.raises(TileflowError, match=r"detach|no_grad|\.data"):
        tileflow.differentiable(lanes(f))(torch.randn(4, requires_grad=True))


# ---- gradients that are 0 --------------------------------------------------------------------------------------------


ZERO: dict[str, Function] = {
    "round": torch.round,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "power 0": lambda v: v**0,
    "div trunc": lambda v: torch.div(v, 2.0, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", ZERO)
@pytest.mark.parametrize("count", [6, 0])
def test_a_gradient_that_is_0_everywhere_has_a_kernel(name: str, count: int) -> None:
    x = torch.randn(count, dtype=torch.float64)
    check(lanes(ZERO[name]), ZERO[name], x)
    backward = tileflow.derive_backward(lanes(ZERO[name]))
    torch.testing.assert_close(backward(x, torch.ones_like(x)), torch.zeros_like(x))


@tileflow.kernel
def of_a_scalar(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(4):
        out[tile] = torch.round(x)
    return out


def test_a_0d_tensor_and_one_in_another_order_have_zeros() -> None:
    x = torch.tensor(2.3, requires_grad=True)
    assert torch.autograd.grad(tileflow.differentiable(of_a_scalar)(x).sum(), x)[0].item() == 0

    @tileflow.kernel
    def rounded(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.shape):
            out[tile] = torch.round(x[tile])
        return out

    y = torch.randn(3, 5).t().requires_grad_()
    torch.testing.assert_close(
        torch.autograd.grad(tileflow.differentiable(rounded)(y).sum(), y)[0], torch.zeros_like(y)
    )


@tileflow.kernel
def rounded_times(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile].round()
    return out * y


@tileflow.kernel
def ones_times(y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(y)
    for tile in tfl.tile(y.size(0)):
        out[tile] = 1.0
    return out * y


def test_host_code_alone_may_have_a_gradient() -> None:
    x, y = (torch.randn(4, requires_grad=True) for _ in range(2))
    for wanted in ((x, y), (y,), (x,)):
        ours = torch.autograd.grad(tileflow.differentiable(rounded_times)(x, y).sum(), wanted)
        theirs = torch.autograd.grad((x.round() * y).sum(), wanted)
        torch.testing.assert_close(ours, theirs)
    (ours,) = torch.autograd.grad(tileflow.differentiable(ones_times)(y).sum(), y)
    torch.testing.assert_close(ours, torch.ones_like(y))


# ---- lane by lane ----------------------------------------------------------------------------------------------------


TABLE = (
    "abs acos acosh asin asinh atan atanh cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 frac lgamma log "
    "log10 log1p log2 logit nan_to_num neg positive rad2deg reciprocal relu rsqrt sigmoid sign sin sinc sinh sqrt "
    "square tan tanh"
)
ACTIVATIONS = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus "
    "softshrink softsign tanhshrink"
)
FUNCTIONS: dict[str, Function] = {
    **{name: getattr(torch, name) for name in TABLE.split()},
    **{f"F.{name}": getattr(F, name) for name in ACTIVATIONS.split()},
    **{f"special.{name}": getattr(special, name) for name in ("entr", "erfcx", "gammaln", "i0e", "ndtr", "psi")},
    "special.i1e": lambda v: special.i1e(torch.nan_to_num(v)),
    "special.ndtri of a share": lambda v: special.ndtri(v.sigmoid()),
    "as a method": lambda v: v.arctan() + v.sinh(),
    "gelu tanh": lambda v: F.gelu(v, approximate="tanh"),
    "threshold": lambda v: F.threshold(v, 1.0, 0.5),
    "softplus of its own": lambda v: F.softplus(v, 2.0, 3.0),
    "elu of its own": lambda v: F.elu(v, alpha=2.0),
    "celu of its own": lambda v: F.celu(v, 2.0),
    "hardtanh of its own": lambda v: F.hardtanh(v, -2.0, 0.5),
    "logit eps": lambda v: torch.logit(v, 0.25),
    "sqrt power": lambda v: v**0.5,
    "power 1.5": lambda v: v**1.5,
    "power -1": lambda v: v**-1,
    "power -2": lambda v: v.pow(-2),
    "power -1.5": lambda v: torch.pow(v, -1.5),
    "power 3": lambda v: v**3,
    "power of 2": lambda v: 2.0**v,
    "float_power": lambda v: torch.float_power(v, 2.5),
    "atan2 of a larger one": lambda v: torch.atan2(v, v.abs() + 1),
    "atan2 of equal ones": lambda v: torch.atan2(v, v),
    "atan2 by a larger one": lambda v: torch.atan2(v.abs() + 1, v),
    "atan2 of opposite ones": lambda v: torch.atan2(v, -v),
    "hypot": lambda v: torch.hypot(v, v * 0 + 1),
    "xlogy": lambda v: torch.xlogy(v, v.abs() + 1),
    "xlogy of itself": lambda v: torch.xlogy(v, v),
    "xlogy of a number": lambda v: torch.xlogy(v, 2.0),
    "xlogy of 0": lambda v: torch.xlogy(v, 0.0),
    "xlog1py": lambda v: special.xlog1py(v, v.abs()),
    "xlog1py of -1": lambda v: special.xlog1py(v, -1.0),
    "logaddexp": lambda v: torch.logaddexp(v, 2 * v),
    "logaddexp2": lambda v: torch.logaddexp2(v, -v),
    "copysign": lambda v: torch.copysign(v, -v),
    "copysign of a number": lambda v: torch.copysign(v, -2.0),
    "lerp": lambda v: torch.lerp(v, v * v, 0.3),
    "lerp by a tile": lambda v: torch.lerp(v * 2, v * v, v),
    "remainder": lambda v: torch.remainder(v, 2),
    "huber": lambda v: F.huber_loss(v, v * 0, reduction="none"),
    "smooth l1": lambda v: F.smooth_l1_loss(v, v * 0 + 1, reduction="none"),
    "l1": lambda v: F.l1_loss(v, v * 0 + 1, reduction="none"),
    "with logits": lambda v: F.binary_cross_entropy_with_logits(v, v * 0 + 0.25, reduction="none"),
    "variance below eps": lambda v: F.gaussian_nll_loss(v, v * 0, v.abs() * 0.1, eps=0.2, reduction="none"),
}
KINKS: dict[str, Function] = {
    "clamp min": lambda v: v.clamp(min=0),
    "clamp max": lambda v: v.clamp(max=1),
    "clip": lambda v: torch.clip(v, -1, 1),
    "clamp to 0": lambda v: v.clamp(-0, 0),
    "clamp crossed": lambda v: v.clamp(1, -1),
    "clamp_min": lambda v: torch.clamp_min(v, -1),
    "clamp_max": lambda v: v.clamp_max(-1),
    "clamp by a tile": lambda v: torch.clamp(v, min=v * 0.5),
    "clamp at a tile": lambda v: torch.clamp(v * v, max=v),
    "clamp between tiles": lambda v: torch.clamp(v, -v.abs(), v * v),
    "clamp between equal tiles": lambda v: torch.clamp(v * 2, v, v),
    "clamp between crossed tiles": lambda v: torch.clamp(v * 2, v.abs(), v),
    "fmax": lambda v: torch.fmax(v, 2 * v),
    "fmin": lambda v: torch.fmin(v, 2 * v),
    "fmax of nan": lambda v: torch.fmax(v, torch.where(v > 1, NAN, v * 3)),
    "maximum": lambda v: torch.maximum(v, 2 * v),
    "minimum": lambda v: torch.minimum(v, v * v),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *KINKS])
def test_a_functions_gradient_is_torchs_everywhere(name: str) -> None:
    f = (FUNCTIONS | KINKS)[name]
    check(lanes(f), f, at(POINTS))


def test_log_ndtrs_gradient_is_torchs() -> None:
    """Far below 0 torch's own is not finite."""
    check(lanes(special.log_ndtr), special.log_ndtr, at([p for p in POINTS if p > -1e3]))


@pytest.mark.parametrize("target", [0.0, 0.5, 1.0])
def test_binary_cross_entropys_gradient_is_finite_at_0_and_1(target: float) -> None:
    losses: dict[float, Function] = {
        0.0: lambda v: F.binary_cross_entropy(v, v.detach() * 0, reduction="none"),
        0.5: lambda v: F.binary_cross_entropy(v, v.detach() * 0 + 0.5, reduction="none"),
        1.0: lambda v: F.binary_cross_entropy(v, v.detach() * 0 + 1, reduction="none"),
    }
    check(lanes(losses[target]), losses[target], at([0.0, 0.25, 1.0, 0.5]))


@tileflow.kernel
def of_two_ranks(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = y[tile_n], x[tile_m][:, None]
        out[tile_m, tile_n] = torch.atan2(a, b) + torch.clamp(a, min=b) + torch.xlogy(b, 2 + a * a) * torch.fmax(b, a)
    return out


def test_operands_that_are_broadcast_get_sums() -> None:
    y, x = at([0.0, 1.0, -2.0]).requires_grad_(), at([0.0, 0.5, 1.0, -1.0]).requires_grad_()
    a, b = y, x[:, None]
    wanted = torch.atan2(a, b) + torch.clamp(a, min=b) + torch.xlogy(b, 2 + a * a) * torch.fmax(b, a)
    ours, theirs = (
        torch.autograd.grad(out.sum(), (y, x)) for out in (tileflow.differentiable(of_two_ranks)(y, x), wanted)
    )
    torch.testing.assert_close(ours, theirs)


@tileflow.kernel
def scaled_sinh(x: torch.Tensor, scale: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile], dtype=x.dtype)
        for _ in range(3):
            total = total + torch.clamp(torch.sinh(x[tile] * scale), max=scale)
        out[tile] = total
    return out


def test_a_call_in_a_loop_reads_a_number_of_the_kernel() -> None:
    x = at([-1.0, 0.0, 0.5, 2.0])
    wanted = gradient(lambda v: 3 * torch.clamp(torch.sinh(v * 1.5), max=1.5), x)
    torch.testing.assert_close(gradient(lambda v: tileflow.differentiable(scaled_sinh)(v, 1.5), x), wanted)


# ---- rows ------------------------------------------------------------------------------------------------------------

ROWS = [
    *([0.0] * 4, [1.0, 1.0, -1.0, 2.0], [2.0, 2.0, 0.0, -3.0], [3.0] * 4, [0.0, -1.0, -1.0, 1e-9]),
    *([1e-13, 0.0, 0.0, 0.0], [5.0, -5.0, 5.0, 1.0]),
]
REDUCED: dict[str, Function] = {
    "norm 2": lambda v: torch.norm(v, 2, 1),
    "norm 0.5": lambda v: torch.norm(v, 0.5, 1),
    "norm 1": lambda v: torch.norm(v, 1, 1),
    "norm 1.5": lambda v: torch.norm(v, 1.5, 1),
    "norm 2.5": lambda v: torch.norm(v, 2.5, 1),
    "norm 3": lambda v: torch.norm(v, 3, 1),
    "norm 4": lambda v: torch.norm(v, 4, 1),
    "norm INF": lambda v: torch.norm(v, INF, 1),
    "norm -INF": lambda v: torch.norm(v, -INF, 1),
    "vector_norm": lambda v: torch.linalg.vector_norm(v, 3, 1),
    "linalg.norm": lambda v: torch.linalg.norm(v, dim=1, keepdim=True).sum(1),
    "distance": lambda v: F.pairwise_distance(v, v * 2, eps=0.0),
    "std": lambda v: v.std(1),
    "std of all": lambda v: torch.std(v, 1, correction=0, keepdim=True).sum(1),
    "std_mean": lambda v: torch.std_mean(v, 1)[0] * torch.std_mean(v, 1)[1],
    "similarity": lambda v: F.cosine_similarity(v, v * v, 1),
    "max": lambda v: v.max(1)[0],
    "min": lambda v: torch.min(v, -1).values,
    "max that stays": lambda v: (torch.max(v, 1, keepdim=True)[0] * v).sum(1),
    "max and its place": lambda v: v.max(1)[0] * v.max(1)[1],
    "amax": lambda v: v.amax(1),
    "amin": lambda v: v.amin(1),
    "aminmax": lambda v: torch.aminmax(v, dim=1).max,
}
NORMALISED: dict[str, Function] = {
    "normalize": lambda v: F.normalize(v, dim=1),
    "normalize 3": lambda v: F.normalize(v, p=3, dim=1),
    "normalize eps": lambda v: F.normalize(v, dim=1, eps=1.0),
    "less its max": lambda v: v - v.max(1)[0][:, None],
    "softmax": lambda v: (
        torch.exp(v - v.max(1, keepdim=True)[0]) / torch.exp(v - v.max(1, keepdim=True)[0]).sum(1, True)
    ),
    "max_pool1d": lambda v: torch.cat([F.max_pool1d(v, 2)] * 2, 1),
    "adaptive_max_pool1d": lambda v: torch.cat([F.adaptive_max_pool1d(v, 2)] * 2, 1),
    "adaptive_max_pool1d to one": lambda v: torch.cat([F.adaptive_max_pool1d(v, 1)] * 4, 1),
}


@pytest.mark.parametrize("name", REDUCED)
def test_a_reductions_gradient_is_torchs(name: str) -> None:
    """Rows of zeros, of equal elements, and with several extrema among them."""
    check(rows(REDUCED[name]), REDUCED[name], torch.tensor(ROWS, dtype=torch.float64))


@pytest.mark.parametrize("name", NORMALISED)
def test_a_normalised_rows_gradient_is_torchs(name: str) -> None:
    check(wholes(NORMALISED[name]), NORMALISED[name], torch.tensor(ROWS, dtype=torch.float64))
