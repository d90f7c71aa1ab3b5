"""Layer normalisation (Ba, Kiros and Hinton, 2016, arXiv:1607.06450) of rows, or of their sum with a residual.

The forward kernels also return each row's mean and the reciprocal of its deviation. The backward one leaves the sums of
weight and bias to a second launch, which holds parts of columns only: rows of any length fit registers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from ..autograd import BackwardContext, differentiable
from .rows import as_before, as_rows, require_numbers, require_rows, require_shape, size_of_rows, wider_first

EPS = 1e-5

Grads = tuple[torch.Tensor | None, ...]


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Random rows ``(m, n)``, a weight and a bias ``(n,)``, and ``eps``."""
    x = torch.randn(m, n, dtype=dtype, device=device)
    return x, torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), EPS


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalised rows, each row's mean and the reciprocal of its deviation, in torch."""
    variance, mean = torch.var_mean(x, dim=1, correction=0)
    return F.layer_norm(x, (x.size(1),), weight, bias, eps), mean, torch.rsqrt(variance + eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def layer_norm_train(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalised rows; each row's mean and ``1 / sqrt(variance + eps)`` in float32."""
    m, n = x.shape
    assert weight.size(0) == n and (bias is None or bias.size(0) == n), f"weight and bias have {n} elements"
    out = torch.empty_like(x)
    means, scales = (torch.empty(m, dtype=torch.float32, device=x.device) for _ in range(2))
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        variance, mean = torch.var_mean(row, dim=1, correction=0)
        scale = torch.rsqrt(variance + eps)
        means[tile_m] = mean
        scales[tile_m] = scale
        normed = (row - mean[:, None]) * scale[:, None] * weight[:].float()
        if bias is not None:
            normed = normed + bias[:].float()
        out[tile_m, :] = normed
    return out, means, scales


def add_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """As :func:`inputs`, with a random residual ``(m, n)`` second."""
    x, weight, bias, eps = inputs(m, n, dtype, device)
    return x, torch.randn_like(x), weight, bias, eps


def add_reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, ...]:
    """The normalised sum, the sum itself, and its rows' means and reciprocal deviations, in torch."""
    out, mean, scale = reference(x + residual, weight, bias, eps)
    return out, x + residual, mean, scale


@tileflow.kernel(inputs=add_inputs, reference=add_reference)
def add_layer_norm_forward(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same of ``x + residual``, which is the second result, rounded to the dtype of ``x``."""
    m, n = x.shape
    assert weight.size(0) == n and (bias is None or bias.size(0) == n), f"weight and bias have {n} elements"
    out, summed = torch.empty_like(x), torch.empty_like(x)
    means, scales = (torch.empty(m, dtype=torch.float32, device=x.device) for _ in range(2))
    for tile_m in tfl.tile(m):
        rounded = (x[tile_m, :].float() + residual[tile_m, :].float()).to(x.dtype)
        summed[tile_m, :] = rounded
        row = rounded.float()
        variance, mean = torch.var_mean(row, dim=1, correction=0)
        scale = torch.rsqrt(variance + eps)
        means[tile_m] = mean
        scales[tile_m] = scale
        normed = (row - mean[:, None]) * scale[:, None] * weight[:].float()
        if bias is not None:
            normed = normed + bias[:].float()
        out[tile_m, :] = normed
    return out, summed, means, scales


def bwd_inputs(m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """Random gradients of the normalised rows and of the sum, with what the forward pass saved."""
    x, weight, bias, eps = inputs(m, n, dtype, device)
    _, mean, scale = reference(x.float(), weight.float(), bias.float(), eps)
    return torch.randn_like(x), x, weight, mean, scale, torch.randn_like(x)


def bwd_reference(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    scale: torch.Tensor,
    grad_sum: torch.Tensor | None,
    has_bias: bool = True,
) -> tuple[torch.Tensor, ...]:
    """The gradients of rows, weight and bias by torch's autograd; ``grad_sum`` is added to the first."""
    x, weight, bias = x.requires_grad_(), weight.requires_grad_(), torch.zeros_like(weight, requires_grad=True)
    grads = torch.autograd.grad(reference(x, weight, bias, EPS)[0], (x, weight, bias), grad)
    grad_bias = grads[2] if has_bias else grads[2][:0]
    return grads[0] if grad_sum is None else grads[0] + grad_sum, grads[1], grad_bias


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def layer_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    scale: torch.Tensor,
    grad_sum: torch.Tensor | None = None,
    has_bias: bool = True,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of ``x``, ``weight`` and ``bias``, the last without elements unless it ``has_bias``. ``grad_sum``:
    of ``x`` itself where it went on, added to the first."""
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    grad_x = torch.empty_like(x)
    blocks = (m + block_m - 1) // block_m
    weights = torch.empty(blocks, n, dtype=torch.float32, device=x.device)
    biases = torch.empty(blocks, n if has_bias else 0, dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(m):
        row_scale = scale[tile_m][:, None]
        normed = (x[tile_m, :].float() - mean[tile_m][:, None]) * row_scale
        g = grad[tile_m, :].float() * weight[:].float()
        inner = g - torch.mean(g, dim=1, keepdim=True) - normed * torch.mean(g * normed, dim=1, keepdim=True)
        to_x = inner * row_scale
        if grad_sum is not None:
            to_x = to_x + grad_sum[tile_m, :].float()
        grad_x[tile_m, :] = to_x
    for rows, tile_n in tfl.tile([m, n], block_size=[block_m, None]):
        to_weight, to_bias = tfl.zeros([tile_n]), tfl.zeros([tile_n])
        for tile_m in tfl.tile(rows.begin, rows.end):
            normed = (x[tile_m, tile_n].float() - mean[tile_m][:, None]) * scale[tile_m][:, None]
            g = grad[tile_m, tile_n].float()
            to_weight += (g * normed).sum(dim=0)
            if has_bias:
                to_bias += g.sum(dim=0)
        weights[rows.id, tile_n] = to_weight
        if has_bias:
            biases[rows.id, tile_n] = to_bias
    return grad_x, weights.sum(dim=0).to(weight.dtype), biases.sum(dim=0).to(weight.dtype)


def _backward(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    has_bias = ctx.needs_input_grad[2]
    grad_x, grad_weight, grad_bias = layer_norm_backward(grad.contiguous(), *ctx.saved, has_bias=has_bias)
    return grad_x, grad_weight, grad_bias if has_bias else None, None


def _add_backward(ctx: BackwardContext, grad: torch.Tensor, grad_sum: torch.Tensor) -> Grads:
    has_bias = ctx.needs_input_grad[3]
    grad_x, grad_weight, grad_bias = layer_norm_backward(
        grad.contiguous(), *ctx.saved, grad_sum.contiguous(), has_bias=has_bias
    )
    return grad_x, grad_x, grad_weight, grad_bias if has_bias else None, None


_plain = differentiable(
    layer_norm_train,
    _backward,
    save=("x", "weight", "means", "scales"),
    outputs=("out", "means", "scales"),
    hidden=("means", "scales"),
)
_added = differentiable(
    add_layer_norm_forward,
    _add_backward,
    save=("summed", "weight", "means", "scales"),
    outputs=("out", "summed", "means", "scales"),
    hidden=("means", "scales"),
)


def _require(function: str, weight: torch.Tensor, bias: torch.Tensor | None, eps: float, **rows: torch.Tensor) -> None:
    require_rows(function, **rows)
    require_numbers(function, eps=eps)
    width = rows["x"].shape[-1:]
    vectors = {"weight": weight} if bias is None else {"weight": weight, "bias": bias}
    for name, vector in vectors.items():
        require_shape(function, name, vector, width, "weight and bias have an element each for each of a row")
    require_rows(function, **vectors)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = EPS
) -> torch.Tensor:
    """Layer normalisation of ``x``, (..., n), over its last dimension, with a weight and maybe a bias (n,), computed in
    float32, in the dtype of ``x``. Raises CallError for a weight or a bias of another width."""
    _require("layer_norm", weight, bias, eps, x=x)
    rows = as_rows(x)
    return as_before(_plain(rows, weight, bias, eps), rows, x)


def add_layer_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, eps: float = EPS
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`layer_norm` of ``x + residual``, both (..., n), and the sum, which is the next residual: two tensors of
    their shape, in the wider of their dtypes. Raises CallError for a residual of another shape, and for a weight or a
    bias of another width."""
    _require("add_layer_norm", weight, bias, eps, x=x, residual=residual)
    require_shape("add_layer_norm", "residual", residual, x.shape, "a residual has the shape of what it is added to")
    x, residual = wider_first("add_layer_norm", x, residual)
    rows = as_rows(x)
    out, summed = _added(rows, as_rows(residual), weight, bias, eps)
    return as_before(out, rows, x), as_before(summed, rows, x)


class LayerNorm(torch.nn.Module):
    """:func:`layer_norm` with a weight and a bias of its own; of two tensors, :func:`add_layer_norm`.

    ``size``: the width of rows, an int or a sequence of one. ``eps``: that of the function. ``bias``: whether there is
    one. ``device``, ``dtype``: of weight and bias, (size,). Raises CallError for another size.
    """

    def __init__(
        self,
        size: int | tuple[int] | list[int],
        eps: float = EPS,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        width = size_of_rows("LayerNorm", size)
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.empty(width, device=device, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.empty(width, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make weight and bias what they are in a new module: rows are normalised and no more."""
        torch.nn.init.ones_(self.weight)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """The normalised rows of ``x``; of ``x + residual`` where there is one, with that sum."""
        if residual is None:
            return layer_norm(x, self.weight, self.bias, self.eps)
        return add_layer_norm(x, residual, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The width and ``eps``, for the module's repr."""
        return f"{self.weight.size(0)}, eps={self.eps}"
