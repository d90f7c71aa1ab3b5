"""Attention by tileflow's kernel where it serves the call and wins, else by torch's, with the reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F

from ..autograd import BackwardContext, differentiable
from ..errors import CallError
from . import flash
from .hopper import hopper_multiprocessors
from .rows import as_cast, require_alike, require_choice, require_numbers, require_rows, require_tensors, shown

_WHERE = "tileflow.kernels.attention"
BACKENDS = ("auto", "tileflow", "torch")
MOST_WON = 64  # the head size up to which the kernel was ahead of torch's (docs/measurements/benchmarks.md)
# on Hopper, in 16 bits (docs/measurements/warp-specialisation.md)
_WON = (64, 128)
_ROWS = 128  # of a program
_LEAST_ROWS = 1024
FUSED_KEYS = 128  # of a program of the fused gradients
MOST_FUSED = 128  # columns of a head, for which its sums have registers
LEAST_KEYS = 768  # of a query, in the mean: with fewer the sums' memory takes longer than the products that are saved


@dataclass(frozen=True, slots=True)
class Backend:
    """What runs a call: ``name`` is ``tileflow`` or ``torch``."""

    name: str
    why: str


def _backward(ctx: BackwardContext, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    q, k, v, out, lse, causal = ctx.saved
    return *attention_gradients(q, k, v, out, lse, boxable(grad), causal), None, None


_with_lse = differentiable(
    flash.attention, _backward, save=("q", "k", "v", "out", "lse", "causal"), outputs=("out", "lse"), hidden=("lse",)
)


def attention_gradients(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of :func:`attention` by the kernel that is faster, summed where heads share keys. That is
    :func:`~tileflow.kernels.flash.attention_backward_fused` where :func:`is_fused` says so (1.01 to 1.11 times the
    speed, docs/measurements/warp-specialisation.md), else :func:`~tileflow.kernels.flash.attention_backward`, which
    has no atomics."""
    kernel = flash.attention_backward_fused if is_fused(q, k, causal) else flash.attention_backward
    grad_q, grad_k, grad_v = kernel(q, k, v, out, lse, grad_out, causal)
    if q.size(1) == k.size(1):
        return grad_q, grad_k, grad_v
    groups = (k.size(1), q.size(1) // k.size(1))
    return grad_q, grad_k.unflatten(1, groups).sum(2), grad_v.unflatten(1, groups).sum(2)


def boxable(x: torch.Tensor) -> torch.Tensor:
    """``x`` where the copy engine takes its rows as they lie: elements side by side, all else at multiples of 16 bytes,
    and not in one place, as expanded ones are. Else a contiguous copy. Where a view begins is not asked, which
    torch.compile cannot trace."""
    step = 16 // x.element_size()
    outer = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size != 1]
    return x if x.stride(-1) == 1 and all(stride and not stride % step for stride in outer) else x.contiguous()


def is_fused(q: torch.Tensor, k: torch.Tensor, causal: bool) -> bool:
    """Whether one launch of all gradients is faster: on Hopper, in 16 bits, of heads of up to 128 columns, where each
    multiprocessor has keys and each query has many."""
    if q.device.type != "cuda" or q.dtype not in (torch.bfloat16, torch.float16) or q.size(-1) > MOST_FUSED:
        return False
    programs = q.size(0) * q.size(1) * -(-k.size(2) // FUSED_KEYS)
    is_long = k.size(2) // (2 if causal else 1) >= LEAST_KEYS
    return is_long and 0 < hopper_multiprocessors(q.device.index or 0) <= programs


def attention_backend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    mask: torch.Tensor | None = None,
    backend: str = "auto",
) -> Backend:
    """What :func:`attention` runs for such a call, and why. Raises CallError for a backend that does not serve it."""
    return _chosen(*_checked(q, k, v, causal, mask, backend), causal, mask, backend)


def _checked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, mask: torch.Tensor | None, backend: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Queries, keys and values as autocast has them. Raises CallError for what neither attention takes, which torch's
    says in its own parameters' names, or computes with memory that nothing filled."""
    require_tensors("attention", q=q, k=k, v=v, **({} if mask is None else {"mask": mask}))
    if not isinstance(causal, bool):
        raise CallError("causal is a bool", got=shown(causal), where=_WHERE)
    require_choice("attention", "backend", backend, BACKENDS)
    q, k, v = as_cast(q), as_cast(k), as_cast(v)
    if backend != "tileflow":  # which says what it does not serve
        require_rows("attention", q=q, k=k, v=v)
        require_alike("attention", q=q, k=k, v=v)
        _require_fit(q, k, v, mask if mask is None else as_cast(mask))
    return q, k, v


def _shares_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    return q.ndim == k.ndim == v.ndim == 4 and not q.size(1) == k.size(1) == v.size(1)


def _require_fit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Raises CallError for shapes that are no attention: torch's broadcasts dimensions before the last two, and lets
    heads share keys where there are four."""
    is_fitting = min(q.ndim, k.ndim, v.ndim) >= 2 and q.size(-1) == k.size(-1) and k.size(-2) == v.size(-2)
    outer = [tuple(x.shape[:-2]) for x in (q, k, v)]
    if is_fitting and _shares_heads(q, k, v):
        is_fitting = all(x.size(1) and not q.size(1) % x.size(1) for x in (k, v))
        outer = [(x.size(0), q.size(1)) for x in (q, k, v)]
    if not is_fitting or not _broadcast(*outer):
        raise CallError(
            "queries and keys have one size, there is a value for each key, and each head has its keys",
            got=f"q of {tuple(q.shape)}, k of {tuple(k.shape)} and v of {tuple(v.shape)}",
            where=_WHERE,
            hint="q is (batch, heads, queries, size), k and v (batch, key heads, keys, size); key heads divide heads",
        )
    if mask is not None:
        _require_mask(mask, q, [(*each, q.size(-2), k.size(-2)) for each in outer])


def _require_mask(mask: torch.Tensor, q: torch.Tensor, weights: Sequence[tuple[int, ...]]) -> None:
    """Raises CallError for a mask of another device, another dtype, or none of these shapes of ``weights``."""
    if mask.device != q.device or mask.dtype not in (torch.bool, torch.float32, q.dtype):
        raise CallError(
            "a mask is on the queries' device, of bools or of their dtype",
            got=f"{mask.dtype} on {mask.device} for {q.dtype} on {q.device}",
            where=_WHERE,
            hint="mask.bool(), True where a key counts, or mask.to(q)",
        )
    if not all(_broadcast(mask.shape, shape) for shape in weights):
        raise CallError(
            "a mask broadcasts to (batch, heads, queries, keys)",
            got=f"one of {tuple(mask.shape)} for weights of {max(weights, key=len)}",
            where=_WHERE,
            hint="mask[:, None, None, :] is a mask of keys, (batch, keys)",
        )


def _broadcast(*shapes: Sequence[int]) -> bool:
    """Whether torch broadcasts tensors of these shapes."""
    pairs = [pair for a, b in combinations(shapes, 2) for pair in zip(reversed(a), reversed(b), strict=False)]
    return all(one == other or one == 1 or other == 1 for one, other in pairs)


def _chosen(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, mask: torch.Tensor | None, backend: str
) -> Backend:
    if backend == "torch":
        return Backend("torch", "it was asked for")
    if why := _not_served(q, k, v, causal, mask):
        if backend == "tileflow":
            raise CallError(
                "tileflow's attention serves the call",
                got=why,
                where=_WHERE,
                hint="backend='auto' takes torch's for it",
            )
        return Backend("torch", why)
    if backend == "tileflow":
        return Backend("tileflow", "it was asked for")
    has_grad = _has_grad(q, k, v)
    if _wins_on_hopper(q, k, causal, has_grad):
        return Backend("tileflow", "it is warp-specialised, and faster so on this device")
    if has_grad or causal or q.size(-1) > MOST_WON or q.size(1) != k.size(1):
        return Backend("torch", "torch's is faster with gradients, causal, of shared heads and of heads over 64")
    return Backend("tileflow", f"it is faster for heads of up to {MOST_WON} without a mask")


def _wins_on_hopper(q: torch.Tensor, k: torch.Tensor, causal: bool, has_grad: bool) -> bool:
    """Whether the warp-specialised kernels are ahead of torch's: at 1.03 to 1.15 times the speed, of whole blocks of
    rows; the gradients at 1.01 to 1.09."""
    if q.device.type != "cuda" or q.dtype not in (torch.bfloat16, torch.float16) or q.size(-1) not in _WON:
        return False
    is_whole = not q.size(2) % _ROWS and not k.size(2) % _ROWS
    programs = q.size(0) * q.size(1) * q.size(2) // _ROWS
    if not is_whole or q.size(2) < _LEAST_ROWS or programs < hopper_multiprocessors(q.device.index or 0):
        return False
    if has_grad and not is_fused(q, k, causal):
        return False
    return bool(hopper_multiprocessors(q.device.index or 0))


def _not_served(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, mask: torch.Tensor | None) -> str:
    """Why the kernel does not take the call; empty where it does."""
    if not q.ndim == k.ndim == v.ndim == 4:
        return f"tensors of {q.ndim}, {k.ndim} and {v.ndim} dimensions"
    if k.shape[:3] != v.shape[:3] or q.size(0) != k.size(0) or q.size(-1) != k.size(-1):
        return f"queries of {tuple(q.shape)}, keys of {tuple(k.shape)} and values of {tuple(v.shape)}"
    if not q.dtype == k.dtype == v.dtype:
        return f"{q.dtype}, {k.dtype} and {v.dtype}"
    if not q.dtype.is_floating_point:
        return f"{q.dtype}, which is not floating"
    if mask is not None:
        return "a mask"
    if causal and q.size(2) != k.size(2):
        return f"causal attention of {q.size(2)} queries and {k.size(2)} keys"
    if q.size(-1) != v.size(-1):
        return f"keys of {k.size(-1)} and values of {v.size(-1)} elements"
    if not k.size(1) or not k.size(2) or not k.size(3):
        return f"keys of {tuple(k.shape)}, which are none"
    if q.size(1) % k.size(1):
        return f"{q.size(1)} heads of queries and {k.size(1)} of keys"
    return ""


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
    backend: str = "auto",
) -> torch.Tensor:
    """Scaled dot-product attention, (batch, heads, queries, size) by (batch, key heads, keys, size).

    ``scale``: of the scores, 1 / sqrt(size) where not given. ``backend``: ``auto``, ``tileflow`` or ``torch``.
    ``mask``: as torch's, whose attention such a call takes, and one that ``backend="auto"`` expects to run faster there
    (:func:`attention_backend` tells). Transposed and sliced views are read where they lie, and the output lies in
    memory as the queries do. Under autocast all are cast first, by whichever attention. Raises CallError where
    ``backend="tileflow"`` does not serve the call, and for dtypes, devices and shapes of which neither makes anything.
    """
    q, k, v = _checked(q, k, v, causal, mask, backend)
    if scale is not None:
        require_numbers("attention", scale=scale)
    chosen = _chosen(q, k, v, causal, mask, backend)
    if chosen.name == "torch":
        options: dict[str, Any] = {"enable_gqa": True} if _shares_heads(q, k, v) else {}
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale, **options)
    if scale is not None:  # the kernel's own is 1 / sqrt(size)
        q = q * (scale * math.sqrt(q.size(-1)))
    q, k, v = boxable(q), boxable(k), boxable(v)
    out: torch.Tensor = _with_lse(q, k, v, causal, True) if _has_grad(q, k, v) else flash.attention(q, k, v, causal)
    return out


def _has_grad(*given: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in given)


class Attention(torch.nn.Module):
    """:func:`attention` with its options, which are asked about in each call."""

    def __init__(self, *, causal: bool = False, scale: float | None = None, backend: str = "auto") -> None:
        super().__init__()
        self.causal, self.scale, self.backend = causal, scale, backend

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attention of ``(batch, heads, m, d)`` with the module's options; ``mask`` as torch's."""
        return attention(q, k, v, causal=self.causal, scale=self.scale, mask=mask, backend=self.backend)
