"""How two tensors of one launch lie to each other in memory, for kernels that store into one of them.

A kernel that was compiled for tensors apart may load from one of them before or after it stores into the other: where
both are one memory, that order decides what it computes. Such pairs are launch symbols (:class:`.paths.Symbol`):

``x.apart.out``: 1 where no element of one is an element of the other. Another variant serves calls where they are not.
``x.in_step.out``: of a pair of which each program loads what it alone stores, before it does. 1 where they are apart
    or one and the same. Where they share some elements at other indices, programs that run in no order would overwrite
    what others have still to load, so that no variant is right: CallError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from ..errors import CallError

if TYPE_CHECKING:
    import torch

_MOST_STEPS = 64  # along a dimension: beyond, elements count as shared


def is_apart(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether no byte of one is a byte of the other; False where that takes too long to tell. Of tensors without data,
    whether their memory is."""
    if a.device.type == "meta":
        return a.untyped_storage() is not b.untyped_storage()
    return not _meet_in_memory(a, b)


def _meet_in_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether an element of one may be at the address of an element of the other."""
    first, second = extent(a), extent(b)
    if first[1] <= second[0] or second[1] <= first[0]:
        return False
    away, size = b.data_ptr() - a.data_ptr(), a.element_size()
    if size != b.element_size() or away % size or a.dim() != b.dim():
        return True
    both = [*zip(a.stride(), b.stride(), a.shape, b.shape, strict=True)]
    if any(s != t and min(n, m) > 1 for s, t, n, m in both):
        return True
    axes = [(s if n > 1 else t, n, m) for s, t, n, m in both if max(n, m) > 1]
    return _meets(away // size, sorted(axes, reverse=True))


def is_in_step(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True. Raises CallError for tensors that share elements, but are not the same. Of tensors without data, which
    begin wherever the call's own do, where they are of one memory."""
    if is_same(a, b) or is_apart(a, b) or not _meet_in_memory(a, b):
        return True
    raise CallError(
        "a tensor that a kernel stores into is the one that it loads from, or shares no memory with it",
        got=f"tensors of shapes {tuple(a.shape)} and {tuple(b.shape)} that overlap, "
        f"{abs(a.data_ptr() - b.data_ptr())} bytes apart",
        hint="programs run in no order: clone one of them, x.clone()",
    )


def is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether an index names one element in both."""
    return (
        a.data_ptr() == b.data_ptr()
        and a.element_size() == b.element_size()
        and a.shape == b.shape
        and a.stride() == b.stride()
    )


def by_memory(tensors: Iterable[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Group tensors, each once, whose extents in memory overlap; those without elements or data are alone."""
    once = list({id(tensor): tensor for tensor in tensors}.values())
    alone = [tensor.numel() == 0 or tensor.device.type == "meta" for tensor in once]
    groups = [[tensor] for tensor, is_alone in zip(once, alone, strict=True) if is_alone]
    held = [tensor for tensor, is_alone in zip(once, alone, strict=True) if not is_alone]
    device, covered = None, 0  # of the last group, and where it ends
    for tensor in sorted(held, key=lambda tensor: (str(tensor.device), tensor.data_ptr())):
        begin, end = extent(tensor)
        if tensor.device == device and begin < covered:
            groups[-1].append(tensor)
            covered = max(covered, end)
        else:
            groups.append([tensor])
            device, covered = tensor.device, end
    return groups


def shares_in_part(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether two of them share elements without being the same. Those without an address, as of ``functionalize``, lie
    nowhere."""
    placed = (tensor for tensor in tensors if tensor.data_ptr())
    pairs = (pair for group in by_memory(placed) for pair in combinations(group, 2))
    return any(not is_same(a, b) and _meet_in_memory(a, b) for a, b in pairs)


RELATIONS: Mapping[str, Callable[[torch.Tensor, torch.Tensor], bool]] = {"apart": is_apart, "in_step": is_in_step}


def surely_fit(pairs: bytes, *tensors: torch.Tensor) -> bool:
    """Whether each pair's tensors lie apart as a whole, or are the same where they may be: a quick look. Three bytes a
    pair: the numbers of its tensors, and whether they may be the same. :func:`.native.pairs_test` is this in C."""
    for i in range(0, len(pairs), 3):
        a, b = tensors[pairs[i]], tensors[pairs[i + 1]]
        first, second = extent(a), extent(b)
        is_outside = first[1] <= second[0] or second[1] <= first[0]
        if not is_outside and not (pairs[i + 2] and is_same(a, b)):
            return False
    return True


def extent(x: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and of that behind its last one."""
    begin = x.data_ptr()
    if x.numel() == 0:
        return begin, begin
    return begin, begin + (1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))) * x.element_size()


def _meets(away: int, axes: Sequence[tuple[int, int, int]]) -> bool:
    """Whether an element of a tensor is one of another that begins ``away`` elements behind it. ``axes``: of both, the
    stride and each one's size, the largest stride first."""
    if not axes:
        return away == 0
    (stride, size, other), *rest = axes
    if stride == 0:
        return _meets(away, rest)
    low = sum((1 - m) * s for s, _, m in rest)
    high = sum((n - 1) * s for s, n, _ in rest)
    begin = max(-((high - away) // stride), 1 - other)
    end = min((away - low) // stride, size - 1)
    if end - begin > _MOST_STEPS:
        return True
    return any(_meets(away - step * stride, rest) for step in range(begin, end + 1))
