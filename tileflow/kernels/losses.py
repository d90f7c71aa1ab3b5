"""Cross-entropy of logits over a large vocabulary, with ignored rows, label smoothing and a cap of the logits.

The logarithm of the sum of exponentials is kept up to date while a row goes by (Milakov and Gimelshein, 2018,
arXiv:1805.02867); the gradient makes the probabilities again out of it. ``capped``: Gemma's ``cap * tanh(x / cap)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from ..autograd import BackwardContext, differentiable
from ..errors import CallError
from .rows import as_rows, require_choice, require_inside, require_numbers, require_rows, require_shape, require_tensors

IGNORED = -100
REDUCTIONS = ("mean", "sum", "none")


def inputs(
    m: int,
    v: int,
    smoothing: float = 0.0,
    cap: float | None = None,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> tuple[torch.Tensor | float | int | None, ...]:
    """Every seventh row is ignored, the first one not."""
    rows = torch.arange(m, device=device)
    labels = torch.where(rows % 7 == 6, IGNORED, torch.randint(v, (m,), device=device))
    return torch.randn(m, v, dtype=dtype, device=device), labels, IGNORED, smoothing, cap


def reference(
    logits: torch.Tensor, labels: torch.Tensor, ignore_index: int, smoothing: float, cap: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's loss ``(m,)`` and the logarithm of its sum of exponentials, in torch."""
    values = logits if cap is None else cap * torch.tanh(logits / cap)
    losses = F.cross_entropy(values, labels, ignore_index=ignore_index, label_smoothing=smoothing, reduction="none")
    return losses, torch.logsumexp(values, dim=1)


def capped(values, cap):  # type: ignore[no-untyped-def]  # noqa: D103
    return values if cap is None else cap * torch.tanh(values / cap)


def slope(values, cap):  # type: ignore[no-untyped-def]
    """The derivative of what is capped, by the capped values."""
    return 1 - (values / cap) * (values / cap)


def sums_of_rows(logits, tile_m, v, smooths, cap):  # type: ignore[no-untyped-def]
    """Each row's logsumexp, and where labels are smoothed its sum."""
    peak, total, plain = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m]), tfl.zeros([tile_m])
    for tile_v in tfl.tile(v):
        values = capped(logits[tile_m, tile_v].float(), cap)
        new_peak = torch.maximum(peak, torch.amax(values, dim=1))
        shift = torch.where(new_peak == float("-inf"), 0.0, new_peak)  # so far every logit may be masked
        total = total * torch.exp(peak - shift) + torch.exp(values - shift[:, None]).sum(dim=1)
        peak = new_peak
        if smooths:
            plain += values.sum(dim=1)
    return peak + torch.log(total), plain


def unless_no_class(row_lse, label, counts, v):  # type: ignore[no-untyped-def]
    """Each row's logsumexp, and NaN where its label is no class, which makes NaN of its loss and gradient."""
    return torch.where(counts & ((label < 0) | (label >= v)), float("nan"), row_lse)


@tileflow.kernel(inputs=inputs, reference=reference)
def cross_entropy_forward(
    logits: torch.Tensor,
    labels: torch.Tensor,
    ignore_index: int = IGNORED,
    smoothing: float = 0.0,
    cap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's loss, 0 of an ignored one, and its logsumexp, in float32."""
    m, v = logits.shape
    losses, lse = (torch.empty(m, dtype=torch.float32, device=logits.device) for _ in range(2))
    smooths = smoothing > 0
    for tile_m in tfl.tile(m):
        row_lse, plain = sums_of_rows(logits, tile_m, v, smooths, cap)
        label = labels[tile_m]
        counts = label != ignore_index
        row_lse = unless_no_class(row_lse, label, counts, v)
        picked = capped(logits[tile_m.index, torch.where(counts, label, 0)].float(), cap)
        loss = row_lse - picked
        if smooths:
            loss = row_lse - (1 - smoothing) * picked - smoothing / v * plain
        lse[tile_m] = row_lse
        losses[tile_m] = torch.where(counts, loss, 0.0)
    return losses, lse


def bwd_inputs(
    m: int,
    v: int,
    smoothing: float = 0.0,
    cap: float | None = None,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> tuple[Any, ...]:
    """Random gradients of the losses ``(m,)`` and the forward pass's inputs and sums."""
    logits, labels, *rest = inputs(m, v, smoothing, cap, dtype, device)
    assert isinstance(logits, torch.Tensor)
    values = capped(logits.float(), cap)
    return torch.randn(m, device=device), logits, labels, torch.logsumexp(values, dim=1), *rest


def bwd_reference(
    grad: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, lse: torch.Tensor, *rest: Any
) -> torch.Tensor:
    """The gradient of the logits by torch's autograd."""
    logits = logits.requires_grad_()
    losses, _ = reference(logits, labels, *rest)
    return torch.autograd.grad(losses, logits, grad.to(losses.dtype))[0]


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def cross_entropy_backward(
    grad: torch.Tensor,
    logits: torch.Tensor,
    labels: torch.Tensor,
    lse: torch.Tensor,
    ignore_index: int = IGNORED,
    smoothing: float = 0.0,
    cap: float | None = None,
) -> torch.Tensor:
    """The gradient of the logits. ``grad``: of each row's loss."""
    grad_logits = torch.empty_like(logits)
    v = logits.size(1)
    smooths = smoothing > 0
    for tile_m, tile_v in tfl.tile(logits.shape):
        label = labels[tile_m]
        values = capped(logits[tile_m, tile_v].float(), cap)
        wanted = (tile_v.index[None, :] == label[:, None]).float()
        if smooths:
            wanted = wanted * (1 - smoothing) + smoothing / v
        row = torch.where(label != ignore_index, grad[tile_m], 0.0)
        found = (torch.exp(values - lse[tile_m][:, None]) - wanted) * row[:, None]
        grad_logits[tile_m, tile_v] = found if cap is None else found * slope(values, cap)
    return grad_logits


def _backward(ctx: BackwardContext, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return cross_entropy_backward(grad.contiguous(), *ctx.saved), None, None, None, None


_losses = differentiable(
    cross_entropy_forward,
    _backward,
    save=("logits", "labels", "lse", "ignore_index", "smoothing", "cap"),
    outputs=("losses", "lse"),
    hidden=("lse",),
)


def labels_of(
    function: str, labels: torch.Tensor, shape: Sequence[int], classes: int, ignore_index: int
) -> torch.Tensor:
    """The labels as ints that hold ``ignore_index`` too, one after the other. Raises CallError for labels that are not
    ints of the shape, and on a CPU for those that are no classes."""
    require_shape(function, "labels", labels, shape, "there is a label for each row")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise CallError(
            "labels are numbers of classes",
            got=labels.dtype,
            where=f"tileflow.kernels.{function}",
            hint="torch.nn.functional.cross_entropy takes probabilities",
        )
    if not isinstance(ignore_index, int):
        raise CallError(
            "ignore_index is an int, as labels are",
            got=repr(ignore_index),
            where=f"tileflow.kernels.{function}",
            hint=f"{IGNORED}, or a label that stands for no class",
        )
    require_inside(function, "labels", labels, classes, but=ignore_index)
    is_held = labels.dtype == torch.int32 and -(1 << 31) <= ignore_index < 1 << 31
    return (labels if is_held else labels.long()).reshape(-1)


def require_options(function: str, smoothing: float, cap: float | None) -> None:
    """Raises CallError for options outside of what they mean."""
    require_numbers(function, label_smoothing=smoothing, **({} if cap is None else {"softcap": cap}))
    if not 0 <= smoothing <= 1:
        raise CallError(
            "label_smoothing is from 0 to 1", got=smoothing, where=f"tileflow.kernels.{function}", hint="0 is none"
        )
    if cap is not None and not cap > 0:
        raise CallError("a softcap is above 0", got=cap, where=f"tileflow.kernels.{function}", hint="None is none")


def divisor(
    function: str,
    labels: torch.Tensor,
    ignore_index: int,
    reduction: str,
    num_items_in_batch: torch.Tensor | float | None,
) -> torch.Tensor | float:
    """What the sum of losses is divided by: a number, or a tensor of one without dimensions. Raises CallError for a
    reduction that is none, and for what is no number."""
    require_choice(function, "reduction", reduction, REDUCTIONS)
    if isinstance(num_items_in_batch, torch.Tensor):
        require_tensors(function, num_items_in_batch=num_items_in_batch)
        if num_items_in_batch.numel() == 1:
            return num_items_in_batch.to(labels.device).reshape(())
    if num_items_in_batch is not None:
        require_numbers(function, num_items_in_batch=num_items_in_batch)
        return num_items_in_batch
    return (labels != ignore_index).sum() if reduction == "mean" else 1.0


def cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    *,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    num_items_in_batch: torch.Tensor | float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """The loss of logits, (..., vocabulary), for ``labels``, (...), in float32; rows of ``ignore_index`` have none.

    ``num_items_in_batch``: what the sum is divided by, in place of the number of rows that count: of several batches
    whose gradients add up, as transformers passes it. ``softcap``: logits are ``softcap * tanh(logits / softcap)``.
    A label outside of the vocabulary makes its row's loss and gradient NaN, and is refused on a CPU; on a GPU asking
    would wait for the device. Raises CallError for another ``reduction`` than mean, sum and none, and for labels that
    are no ints or not as many as rows.
    """
    require_rows("cross_entropy", logits=logits)
    flat = labels_of("cross_entropy", labels, logits.shape[:-1], logits.size(-1), ignore_index)
    require_options("cross_entropy", label_smoothing, softcap)
    divided_by = divisor("cross_entropy", flat, ignore_index, reduction, num_items_in_batch)
    losses: torch.Tensor = _losses(as_rows(logits), flat, ignore_index, label_smoothing, softcap)
    if reduction == "none" and num_items_in_batch is None:
        return losses.view(labels.shape)
    return losses.sum() / divided_by


class LossOptions(torch.nn.Module):
    """The options that the modules of both losses keep."""

    def __init__(
        self,
        *,
        ignore_index: int = IGNORED,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        softcap: float | None = None,
    ) -> None:
        super().__init__()
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.reduction, self.softcap = reduction, softcap

    def options(self) -> dict[str, Any]:
        """The options as keyword arguments of the functions."""
        names = ("ignore_index", "label_smoothing", "reduction", "softcap")
        return {name: getattr(self, name) for name in names}


class CrossEntropyLoss(LossOptions):
    """:func:`cross_entropy` with its options, which are checked in each call."""

    def forward(
        self, logits: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | float | None = None
    ) -> torch.Tensor:
        """The loss of ``logits`` against ``labels``, reduced as the module says."""
        return cross_entropy(logits, labels, num_items_in_batch=num_items_in_batch, **self.options())
