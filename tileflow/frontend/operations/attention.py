"""torch's scaled dot-product attention, of a tile of queries to whole keys: its products and its softmax, which passes
make one loop over keys."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import TraceError
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .matmul import matmul
from .reductions import count, softmax
from .views import transpose


@register_torch("scaled_dot_product_attention")
def scaled_dot_product_attention(
    t: Tracer,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: Any = False,
    scale: Any = None,
    enable_gqa: Any = False,
) -> TileValue:
    """(..., m, d) by (..., n, d): ``softmax(query @ key.mT * scale + mask) @ value``, with scores in float32. Raises
    TraceError for ``is_causal``, which is of rows of the whole, dropout, and heads that share keys."""
    said = {"is_causal=True": is_causal, f"dropout_p={dropout_p}": dropout_p, "enable_gqa=True": enable_gqa}
    for got, is_given in said.items():
        if is_given is not False and is_given != 0:
            raise TraceError(
                "scaled_dot_product_attention of a tile has no causal mask, dropout or shared heads of its own",
                got=got,
                where=t.location(),
                hint="attn_mask=t.index[:, None] >= tfl.arange(n)[None, :], of queries q[t, :]; one head of keys",
            )
    scores = matmul(t, query, transpose(t, key, -1, -2)).float()
    scores = scores * (_scale(t, query) if scale is None else scale)
    if attn_mask is not None:
        is_kept = attn_mask.dtype is torch.bool
        scores = t.pointwise("where", attn_mask, scores, -math.inf) if is_kept else scores + attn_mask
    return matmul(t, t.cast(softmax(t, scores, -1), value.value.type.dtype), value)


def _scale(t: Tracer, query: TileValue) -> Any:
    width = count(t, query, (-1,))
    return 1 / math.sqrt(width) if isinstance(width, int) else t.pointwise("rsqrt", width)
