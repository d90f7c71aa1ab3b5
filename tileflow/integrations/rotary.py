"""How attentions turn queries and keys, by the kernel: a function in place of that of each family in ``TURNED``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..kernels import rope
from .forms import rotary_of
from .forwards import are_local

Pair = tuple[torch.Tensor, torch.Tensor]


def turned(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1) -> Pair:
    """All of a head's elements, as Llama's."""
    if _turns(q, k, cos, sin, unsqueeze_dim):
        return rope(q, k, cos, sin, head_dim=unsqueeze_dim)
    found: Pair = rotary_of("llama")(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    return found


def turned_as_given(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> Pair:
    """All of them, in their own dtypes whatever that of the angles is, as OLMo's and as the kernel."""
    if _turns(q, k, cos, sin, unsqueeze_dim):
        return rope(q, k, cos, sin, head_dim=unsqueeze_dim)
    found: Pair = rotary_of("olmo2")(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    return found


def turned_in_part(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> Pair:
    """The first of a head's elements, as many as there are angles, as those of GLM and Phi."""
    width = cos.size(-1)
    first_q, first_k = q[..., :width], k[..., :width]
    if not _turns(first_q, first_k, cos, sin, unsqueeze_dim):
        found: Pair = rotary_of("glm4_moe")(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        return found
    first_q, first_k = rope(first_q, first_k, cos, sin, head_dim=unsqueeze_dim)
    if width == q.size(-1):
        return first_q, first_k
    return torch.cat((first_q, q[..., width:]), dim=-1), torch.cat((first_k, k[..., width:]), dim=-1)


TURNED: dict[str, Callable[..., Pair]] = {
    "llama": turned,
    "olmo2": turned_as_given,
    "glm4_moe": turned_in_part,
    "phi3": turned_in_part,
}


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
