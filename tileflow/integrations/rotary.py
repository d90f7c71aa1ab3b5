"""How attentions turn queries and keys, by the kernel: a function in place of that of each family in ``TURNED``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..kernels import rope
from .forms import rotary_of
from .forwards import are_local

Pair = tuple[torch.Tensor, torch.Tensor]


def turned(*given: Any, **named: Any) -> Pair:
    """All of a head's elements, as Llama's."""
    return _turned("llama", False, *given, **named)


def turned_as_given(*given: Any, **named: Any) -> Pair:
    """All of them, in their own dtypes whatever that of the angles is, as OLMo's and as the kernel."""
    return _turned("olmo2", False, *given, **named)


def turned_in_part(*given: Any, **named: Any) -> Pair:
    """The first of a head's elements, as many as there are angles, as those of GLM and Phi."""
    return _turned("glm4_moe", True, *given, **named)


# Plain functions of a module: a pickled model names them, and a graph that torch exports holds nothing of an object's.
TURNED: dict[str, Callable[..., Pair]] = {
    "llama": turned,
    "olmo2": turned_as_given,
    "glm4_moe": turned_in_part,
    "phi3": turned_in_part,
}


def _turned(
    family: str,
    in_part: bool,
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
) -> Pair:
    """Queries and keys, turned by the kernel where that serves them, else by the family's own function. ``in_part``:
    those of a head's elements that have an angle."""
    width = cos.size(-1) if in_part else q.size(-1)
    first_q, first_k = (q[..., :width], k[..., :width]) if in_part else (q, k)
    if not _turns(first_q, first_k, cos, sin, unsqueeze_dim):
        found: Pair = rotary_of(family)(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        return found
    first_q, first_k = rope(first_q, first_k, cos, sin, head_dim=unsqueeze_dim)
    if width == q.size(-1):
        return first_q, first_k
    return torch.cat((first_q, q[..., width:]), dim=-1), torch.cat((first_k, k[..., width:]), dim=-1)


def _turns(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int) -> bool:
    """Whether the kernel serves what the library's function takes, which broadcasts angles of any shape: those of
    pictures have one for each patch, and no batch."""
    if not are_local(q, k, cos, sin):
        return False
    if unsqueeze_dim not in (1, 2) or not q.ndim == k.ndim == 4 or cos.shape != sin.shape or cos.ndim != 3:
        return False
    batch, tokens, size = q.size(0), q.size(3 - unsqueeze_dim), q.size(3)
    is_even = size % 2 == 0 and k.size(3) == size == cos.size(2)
    fits = k.size(0) == batch and k.size(3 - unsqueeze_dim) == tokens == cos.size(1) and cos.size(0) in (1, batch)
    return is_even and fits and not (cos.requires_grad or sin.requires_grad)
