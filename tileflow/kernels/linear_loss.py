"""The last product of a language model and its loss in one, chunk by chunk of rows: no tensor of all logits exists.

A chunk's logits become their own gradient in place while its loss is computed, and go into the gradients of rows and
weight at once: the backward pass has only to multiply those by the gradient of the loss, where that is not 1. The idea
of gradients in the forward pass is Liger's (Hsu et al., 2024, arXiv:2410.10989).

A loss scale comes with the gradient of the loss, too late for what float16 has rounded to 0: there a chunk's gradient
is ``HALF_UNIT`` times as large, not divided by the number of rows, and what it goes into is float32 until backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from ..autograd import differentiated_once
from ..errors import CallError
from ..operators import MODULES, NAMESPACE
from ..runtime.ambient import without_autocast
from ..runtime.describe import refuse_transforms
from .losses import (
    IGNORED,
    LossOptions,
    capped,
    cross_entropy_forward,
    divisor,
    labels_of,
    require_options,
    slope,
    sums_of_rows,
    unless_no_class,
)
from .losses import inputs as loss_inputs
from .losses import reference as losses_of
from .rows import as_cast, as_rows, is_size, require_alike, require_rows, require_shape, shown

_NAME = "linear_cross_entropy"
_WHERE = f"tileflow.kernels.{_NAME}"
CHUNK_BYTES = 128 << 20  # of a chunk's logits: products of 512 rows at a vocabulary of 128 thousand
MOST_IN_A_GRAPH = 64  # chunks that a graph holds one by one, without gradients
HALF_UNIT = 2.0**15  # what 1 is of a gradient of logits, at most 1, in float16, whose largest number is about 2 ** 16
_MOST = 2.0**64  # of a scale: an infinite one, where no row counts, would make NaN of gradients of 0


def inputs(
    m: int,
    v: int,
    smoothing: float = 0.0,
    cap: float | None = None,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> tuple[Any, ...]:
    """Random logits ``(m, v)`` and labels ``(m,)``, and the factor of the gradient, 0.25."""
    logits, labels, *rest = loss_inputs(m, v, smoothing, cap, dtype, device)
    return logits, labels, torch.full((), 0.25, device=device), *rest


def reference(logits: torch.Tensor, labels: torch.Tensor, scale: torch.Tensor, *rest: Any) -> torch.Tensor:
    """The losses ``(m,)`` by torch, times ``scale``; their gradient is written over ``logits``."""
    leaf = logits.clone().requires_grad_()
    losses, _ = losses_of(leaf, labels, *rest)
    logits.copy_(torch.autograd.grad(losses.sum() * scale, leaf)[0])
    return losses.detach() * scale


@tileflow.kernel(inputs=inputs, reference=reference)
def losses_and_gradient(
    logits: torch.Tensor,
    labels: torch.Tensor,
    scale: torch.Tensor,
    ignore_index: int = IGNORED,
    smoothing: float = 0.0,
    cap: float | None = None,
) -> torch.Tensor:
    """Each row's loss times ``scale``, in float32; ``logits`` become the gradient of their sum."""
    m, v = logits.shape
    losses = torch.empty(m, dtype=torch.float32, device=logits.device)
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
        row = torch.where(counts, scale[()].float(), 0.0)
        losses[tile_m] = torch.where(counts, loss, 0.0) * row
        for tile_v in tfl.tile(v):
            values = capped(logits[tile_m, tile_v].float(), cap)
            wanted = (tile_v.index[None, :] == label[:, None]).float()
            if smooths:
                wanted = wanted * (1 - smoothing) + smoothing / v
            found = (torch.exp(values - row_lse[:, None]) - wanted) * row[:, None]
            logits[tile_m, tile_v] = found if cap is None else found * slope(values, cap)
    return losses


def factor_inputs(
    n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ``(n,)`` and the factor 0.5."""
    return torch.randn(n, dtype=dtype, device=device), torch.full((), 0.5, device=device)


def factor_reference(x: torch.Tensor, factor: torch.Tensor) -> None:
    """Multiply ``x`` in place."""
    x.mul_(factor)


@tileflow.kernel(inputs=factor_inputs, reference=factor_reference)
def multiply_unless_one(x: torch.Tensor, factor: torch.Tensor) -> None:
    """``x *= factor``, which reads nothing of ``x`` where the factor is 1, as that of a last loss is."""
    for tile in tfl.tile(x.numel()):
        if factor[()] != 1.0:
            x[tile] = x[tile].float() * factor[()].float()


def chunk_rows(vocabulary: int, itemsize: int) -> int:
    """Rows of a chunk, a power of two, whose logits take at most ``CHUNK_BYTES``, however many a call has."""
    most = max(CHUNK_BYTES // max(vocabulary * itemsize, 1), 16)
    return 1 << (most.bit_length() - 1)


def known_chunks(rows: int, rows_of_chunk: int) -> int | None:
    """How many chunks ``rows`` are. None where a graph's number of rows does not say, or says more than a graph is to
    hold one by one."""
    if not torch.compiler.is_compiling():
        return -(-rows // rows_of_chunk)
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if statically_known_true(rows <= rows_of_chunk):
        return 1
    for count in range(2, MOST_IN_A_GRAPH + 1):
        if statically_known_true(rows <= count * rows_of_chunk):
            left = rows - (count - 1) * rows_of_chunk  # graphs are for one row, or for several
            return count if statically_known_true(left > 1) or statically_known_true(left == 1) else None
    return None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        labels: torch.Tensor,
        scale: torch.Tensor,
        options: tuple[int, float, float | None],
        rows: int,
        needs: tuple[bool, ...],
        *depend_on: torch.Tensor,
    ) -> torch.Tensor:
        chunked = _chunked_in_a_graph if torch.compiler.is_compiling() else _chunked
        with without_autocast(x.device):
            loss, grads = chunked(x, weight, bias, labels, scale, options, rows, needs)
        ctx.save_for_backward(*grads, scale, *depend_on)
        ctx.is_spent = False
        return loss

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if ctx.is_spent:
            raise CallError(
                "the gradients of one call are asked for once: they are made in place",
                got="a second backward",
                where=_WHERE,
                hint="add the losses up, then go backward",
            )
        ctx.is_spent = True
        saved = ctx.saved_tensors  # once: checkpoints make them again when they are asked for
        grads, scale, depend_on = saved[:3], saved[3], saved[4:]
        dtype = depend_on[0].dtype
        factor = grad * (scale.clamp(max=_MOST) / HALF_UNIT) if dtype == torch.float16 else grad
        with torch.no_grad():
            grads = tuple(made if made is None else _scaled(made, factor).to(dtype) for made in grads)
        found = differentiated_once(_WHERE, grads, (*depend_on, grad))
        return *found, None, None, None, None, None, *(None for _ in depend_on)


Grads = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


def _chunked(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    scale: torch.Tensor,
    options: tuple[int, float, float | None],
    rows: int,
    needs: tuple[bool, ...],
    chunks: int | None = None,
) -> tuple[torch.Tensor, Grads]:
    """The sum of the scaled losses, and the gradients that are needed; in float16 those of :data:`HALF_UNIT` times the
    sum of the plain losses. ``chunks``: how many chunks of ``rows`` there are, where that is known."""
    is_half = x.dtype == torch.float16
    dtype = _sums_dtype(x)
    unit, to_loss = (torch.full_like(scale, HALF_UNIT), scale / HALF_UNIT) if is_half else (scale, 1.0)
    grad_x = torch.empty_like(x, dtype=dtype) if needs[0] else None
    grad_weight = None
    if needs[1]:  # the first chunk, where there is one, overwrites what the others add to
        allocated = torch.empty_like if x.size(0) else torch.zeros_like
        grad_weight = allocated(weight, dtype=dtype)
    grad_bias = torch.zeros_like(bias, dtype=dtype) if bias is not None and needs[2] else None
    loss = torch.where(scale.isinf(), float("nan"), torch.zeros_like(scale))  # 0 / 0 where no row counts, as torch's
    chunks = -(-x.size(0) // rows) if chunks is None else chunks
    for begin in range(0, chunks * rows, rows):
        end = begin + rows if begin < (chunks - 1) * rows else None  # a number would ask a graph how many rows are left
        part, targets = x[begin:end], labels[begin:end]
        logits = part @ weight.T if bias is None else torch.addmm(bias, part, weight.T)
        if not any(needs):
            loss = loss + cross_entropy_forward(logits, targets, *options)[0].sum() * scale
            del logits  # or they would be there while the next chunk's are made
            continue
        # not in place: torch 2.11's tracer has what a forward pass returns, and what was added to it in place, for two
        # results of one place in memory, and hands the backward pass a gradient of 0
        loss = loss + losses_and_gradient(logits, targets, unit, *options).sum() * to_loss
        if grad_x is not None:
            _add_product(grad_x[begin:end], logits, weight, beta=0)
        if grad_weight is not None:
            _add_product(grad_weight, logits.T, part, beta=int(begin > 0))
        if grad_bias is not None:
            grad_bias += logits.sum(dim=0, dtype=dtype)
        del logits
    return loss, (grad_x, grad_weight, grad_bias)


def _sums_dtype(x: torch.Tensor) -> torch.dtype:
    """Of the gradients between the passes."""
    return torch.float32 if x.dtype == torch.float16 else x.dtype


def _add_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: int) -> None:
    """``total = beta * total + a @ b``, where ``total`` may be wider than both."""
    if total.dtype == a.dtype:
        total.addmm_(a, b, beta=beta)
    elif a.is_cuda and torch.version.hip is None:  # the one device whose products have a dtype of their own
        torch.addmm(total, a, b, out_dtype=total.dtype, beta=beta, out=total)
    else:
        total.addmm_(a.to(total.dtype), b.to(total.dtype), beta=beta)


MODULES["linear_cross_entropy_chunks"] = __name__


@torch.library.custom_op(f"{NAMESPACE}::linear_cross_entropy_chunks", mutates_args=())
def _operator(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    scale: torch.Tensor,
    ignore_index: int,
    smoothing: float,
    cap: float | None,
    rows: int,
    needs: Sequence[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """:func:`_chunked` as one operator; a gradient that nobody needs is empty."""
    options = (ignore_index, smoothing, cap)
    loss, grads = _chunked(x, weight, bias, labels, scale, options, rows, tuple(needs))
    first, second, third = (x.new_empty(0) if grad is None else grad for grad in grads)
    return loss, first, second, third


@_operator.register_fake
def _(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    scale: torch.Tensor,
    ignore_index: int,
    smoothing: float,
    cap: float | None,
    rows: int,
    needs: Sequence[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    first, second, third = (
        torch.empty_like(given, dtype=_sums_dtype(x)) if given is not None and need else x.new_empty(0)
        for given, need in zip((x, weight, bias), needs, strict=True)
    )
    return torch.empty_like(scale), first, second, third


def _chunked_in_a_graph(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    labels: torch.Tensor,
    scale: torch.Tensor,
    options: tuple[int, float, float | None],
    rows: int,
    needs: tuple[bool, ...],
) -> tuple[torch.Tensor, Grads]:
    """:func:`_chunked` where a compiler traces: one operator to it. A graph has no stores in place, and would copy the
    weight's gradient for each chunk that is added to it."""
    loss, *made = _operator(x, weight, bias, labels, scale, *options, rows, list(needs))
    first, second, third = (grad if need else None for grad, need in zip(made, needs, strict=True))
    return loss, (first, second, third)


def _scaled(made: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """``made`` times a number: in place, but for a graph, which would copy it first and fuses a product with what comes
    next. That of a transposed weight lies as it does."""
    if torch.compiler.is_compiling():
        return (made.float() * factor.float()).to(made.dtype)
    dense = made if made.is_contiguous() else made.mT
    flat = dense.reshape(-1)
    multiply_unless_one(flat, factor)
    return flat.view(dense.shape) if dense is made else flat.view(dense.shape).mT


def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    labels: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    num_items_in_batch: torch.Tensor | float | None = None,
    softcap: float | None = None,
    rows_of_chunk: int | None = None,
) -> torch.Tensor:
    """``cross_entropy(F.linear(x, weight, bias), labels)`` of ``x``, (..., hidden), and ``weight``, (vocabulary,
    hidden): see :func:`.losses.cross_entropy`. ``reduction``: mean or sum. ``rows_of_chunk``: of how many rows logits
    exist at a time. Under autocast all are cast first, as by torch's product. The gradient of the weight is added up in
    its own dtype, or the one that it was cast to, that of float16 in float32. Raises CallError for shapes and dtypes
    that do not fit, inside a transform of torch.func, and where it is differentiated twice.
    """
    if isinstance(reduction, str) and reduction == "none":
        raise CallError(
            "the losses of chunks are added up",
            got="reduction='none'",
            hint="mean or sum",
            where=_WHERE,
        )
    require_rows(_NAME, x=x, weight=weight)
    require_shape(_NAME, "weight", weight, (*weight.shape[:1], x.size(-1)), "a weight is (vocabulary, hidden)")
    x, weight = as_cast(x), as_cast(weight)
    require_alike(_NAME, x=x, weight=weight)
    if bias is not None:
        require_shape(_NAME, "bias", bias, weight.shape[:1], "a bias has an element for each row of the weight")
        require_rows(_NAME, bias=bias)
        bias = bias.to(weight.dtype)
        require_alike(_NAME, x=x, bias=bias)
    labels = labels_of(_NAME, labels, x.shape[:-1], weight.size(0), ignore_index)
    require_options(_NAME, label_smoothing, softcap)
    if rows_of_chunk is not None and not (is_size(rows_of_chunk) and rows_of_chunk > 0):
        raise CallError("a chunk has one row or more", got=shown(rows_of_chunk), where=_WHERE, hint="None chooses")
    for name, tensor in (("x", x), ("weight", weight), ("bias", bias)):
        if tensor is not None:
            refuse_transforms(_WHERE, name, tensor)
    divided_by = divisor(_NAME, labels, ignore_index, reduction, num_items_in_batch)
    if not isinstance(divided_by, torch.Tensor):
        divided_by = torch.full((), float(divided_by), dtype=torch.float32, device=x.device)
    matrix = as_rows(x)
    rows = rows_of_chunk or chunk_rows(weight.size(0), weight.itemsize)
    options = (ignore_index, label_smoothing, softcap)
    scale = divided_by.float().reciprocal().view(())
    # asked for here: autograd's context says the same without grad mode, and nothing where torch.compile traces that
    needs = tuple(torch.is_grad_enabled() and x is not None and x.requires_grad for x in (matrix, weight, bias))
    if not any(needs):
        chunks = known_chunks(matrix.size(0), rows)
        with without_autocast(x.device):
            if chunks is None:
                return _chunked_in_a_graph(matrix, weight, bias, labels, scale, options, rows, needs)[0]
            return _chunked(matrix, weight, bias, labels, scale, options, rows, needs, chunks)[0]
    depend_on = (matrix[:0].clone(), weight[:0].clone())  # the graph that they hang in, without their memory
    return _LinearCrossEntropy.apply(  # type: ignore[no-any-return]
        matrix, weight, bias, labels, scale, options, rows, needs, *depend_on
    )


class LinearCrossEntropyLoss(LossOptions):
    """:func:`linear_cross_entropy` with its options; the weight is the caller's."""

    def forward(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        bias: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | float | None = None,
    ) -> torch.Tensor:
        """The loss of ``x @ weight.mT + bias`` against ``labels``, reduced as the module says."""
        return linear_cross_entropy(
            x, weight, labels, bias=bias, num_items_in_batch=num_items_in_batch, **self.options()
        )
