"""RMS normalisation (Zhang and Sennrich, 2019, arXiv:1910.07467) of rows, or of their sum with a residual.

The forward kernels also return the factor of each row. The backward one reads ``grad`` and the normalised rows once:
each program walks over a block of rows and sums what they add to the weight's gradient in registers.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

from ..autograd import BackwardContext, differentiable
from .rows import as_before, as_rows, require_numbers, require_rows, require_shape, size_of_rows, wider_first

EPS = 1e-6

Grads = tuple[torch.Tensor | float | None, ...]


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, float, float]:
    """Random rows ``(m, n)``, a weight ``(n,)``, ``eps``, and 1 as what is added to the weight."""
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), EPS, 1.0


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalised rows and each row's factor, in torch."""
    factor = torch.rsqrt(x.square().mean(dim=1) + eps)
    return x * factor[:, None] * (weight + offset), factor


@tileflow.kernel(inputs=inputs, reference=reference)
def rms_norm_forward(
    x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, offset: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """``x / sqrt(mean(x^2) + eps) * (weight + offset)``, and the factor of each row in float32."""
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out = torch.empty_like(x)
    factors = torch.empty(m, dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        factor = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        factors[tile_m] = factor
        out[tile_m, :] = row * factor[:, None] * (weight[:].float() + offset)
    return out, factors


def add_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float, float]:
    """As :func:`inputs`, with a random residual ``(m, n)`` second."""
    x, weight, eps, offset = inputs(m, n, dtype, device)
    return x, torch.randn_like(x), weight, eps, offset


def add_reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, offset: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The normalised sum, the sum itself, and each row's factor, in torch."""
    out, factor = reference(x + residual, weight, eps, offset)
    return out, x + residual, factor


@tileflow.kernel(inputs=add_inputs, reference=add_reference)
def add_rms_norm_forward(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = EPS, offset: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same of ``x + residual``, which comes between the two, rounded to the dtype of ``x``."""
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out, summed = torch.empty_like(x), torch.empty_like(x)
    factors = torch.empty(m, dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(m):
        rounded = (x[tile_m, :].float() + residual[tile_m, :].float()).to(x.dtype)
        summed[tile_m, :] = rounded
        row = rounded.float()
        factor = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        factors[tile_m] = factor
        out[tile_m, :] = row * factor[:, None] * (weight[:].float() + offset)
    return out, summed, factors


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, torch.Tensor]:
    """Random gradients of the normalised rows and of the sum, with what the forward pass saved."""
    x, weight, eps, offset = inputs(m, n, dtype, device)
    factor = reference(x.float(), weight.float(), eps, offset)[1]
    return torch.randn_like(x), x, weight, factor, offset, torch.randn_like(x)


def bwd_reference(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    factors: torch.Tensor,
    offset: float,
    grad_sum: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of rows and weight by torch's autograd; ``grad_sum`` is added to the first."""
    x, weight = x.requires_grad_(), weight.requires_grad_()
    out, _ = reference(x, weight, EPS, offset)
    grad_x, grad_weight = torch.autograd.grad(out, (x, weight), grad)
    return grad_x if grad_sum is None else grad_x + grad_sum, grad_weight


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def rms_norm_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    factors: torch.Tensor,
    offset: float = 0.0,
    grad_sum: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``x`` and ``weight``. ``grad_sum``: of ``x`` itself where it went on, added to the first."""
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    grad_x = torch.empty_like(x)
    partial = torch.empty((m + block_m - 1) // block_m, n, dtype=torch.float32, device=x.device)
    for rows in tfl.tile(m, block_size=block_m):
        scale = weight[:].float() + offset
        to_weight = tfl.zeros([n])
        for tile_m in tfl.tile(rows.begin, rows.end):
            factor = factors[tile_m][:, None]
            normed = x[tile_m, :].float() * factor
            g = grad[tile_m, :].float()
            to_weight += (g * normed).sum(dim=0)
            g = g * scale
            to_x = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * factor
            if grad_sum is not None:
                to_x = to_x + grad_sum[tile_m, :].float()
            grad_x[tile_m, :] = to_x
        partial[rows.id, :] = to_weight
    return grad_x, partial.sum(dim=0).to(weight.dtype)


def _backward(ctx: BackwardContext, grad: torch.Tensor) -> Grads:
    x, weight, factors, offset = ctx.saved
    return *rms_norm_backward(grad.contiguous(), x, weight, factors, offset), None, None


def _add_backward(ctx: BackwardContext, grad: torch.Tensor, grad_sum: torch.Tensor) -> Grads:
    summed, weight, factors, offset = ctx.saved
    grad_x, grad_weight = rms_norm_backward(grad.contiguous(), summed, weight, factors, offset, grad_sum.contiguous())
    return grad_x, grad_x, grad_weight, None, None


_plain = differentiable(
    rms_norm_forward,
    _backward,
    save=("x", "weight", "factors", "offset"),
    outputs=("out", "factors"),
    hidden=("factors",),
)
_added = differentiable(
    add_rms_norm_forward,
    _add_backward,
    save=("summed", "weight", "factors", "offset"),
    outputs=("out", "summed", "factors"),
    hidden=("factors",),
)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS, *, offset: float = 0.0) -> torch.Tensor:
    """``x / sqrt(mean(x^2) + eps) * (weight + offset)`` of ``x``, (..., n), over its last dimension, with a weight
    (n,), computed in float32, in the dtype of ``x``. ``offset``: 1.0 for Gemma's weights. Raises CallError for a weight
    of another width."""
    require_rows("rms_norm", x=x)
    require_numbers("rms_norm", eps=eps, offset=offset)
    require_shape("rms_norm", "weight", weight, x.shape[-1:], "a weight has an element for each of a row")
    require_rows("rms_norm", weight=weight)
    rows = as_rows(x)
    return as_before(_plain(rows, weight, eps, offset), rows, x)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = EPS, *, offset: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`rms_norm` of ``x + residual``, both (..., n), and the sum, which is the next residual: two tensors of
    their shape, in the wider of their dtypes. Raises CallError for a residual of another shape, and for a weight of
    another width."""
    require_rows("add_rms_norm", x=x, residual=residual)
    require_numbers("add_rms_norm", eps=eps, offset=offset)
    require_shape("add_rms_norm", "residual", residual, x.shape, "a residual has the shape of what it is added to")
    require_shape("add_rms_norm", "weight", weight, x.shape[-1:], "a weight has an element for each of a row")
    require_rows("add_rms_norm", weight=weight)
    x, residual = wider_first("add_rms_norm", x, residual)
    rows = as_rows(x)
    out, summed = _added(rows, as_rows(residual), weight, eps, offset)
    return as_before(out, rows, x), as_before(summed, rows, x)


class RMSNorm(torch.nn.Module):
    """:func:`rms_norm` with a weight of its own; of two tensors, :func:`add_rms_norm`.

    ``size``: the width of rows, an int or a sequence of one. ``eps``, ``offset``: those of the function. ``device``,
    ``dtype``: of the weight, (size,). Raises CallError for another size.
    """

    def __init__(
        self,
        size: int | tuple[int] | list[int],
        eps: float = EPS,
        *,
        offset: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        width = size_of_rows("RMSNorm", size)
        self.eps, self.offset = eps, offset
        self.weight = torch.nn.Parameter(torch.empty(width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the weight what it is in a new module: rows are normalised and no more."""
        torch.nn.init.constant_(self.weight, 1.0 - self.offset)

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """The normalised rows of ``x``; of ``x + residual`` where there is one, with that sum."""
        if residual is None:
            return rms_norm(x, self.weight, self.eps, offset=self.offset)
        return add_rms_norm(x, residual, self.weight, self.eps, offset=self.offset)

    def extra_repr(self) -> str:
        """The width, ``eps`` and the offset, for the module's repr."""
        return f"{self.weight.size(0)}, eps={self.eps}, offset={self.offset}"
