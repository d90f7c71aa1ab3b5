"""Arguments of a measured call: walking and copying them, keeping and restoring what a call changes, poisoning fresh
memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ..runtime.overlap import by_memory, extent

if TYPE_CHECKING:
    import torch

    from ..runtime.paths import Step

_ALIGNMENT = 256  # bytes: a copy lies to a multiple of it as its original does, so that launches' guards say the same
_ALIGNED = 16  # bytes, of a tensor that the guards take as aligned


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(path, leaf) of everything in nested containers and functions, in order; ``None`` is a leaf. Raises CallError
    where containers nest without end."""
    return _leaves(value, path, 0)


def _leaves(value: Any, path: str, level: int) -> Iterator[tuple[str, Any]]:
    from ..runtime.argtree import MappingShell, check_levels, open_shell

    opened = open_shell(value)
    if opened is None:
        yield path, value
        return
    check_levels(level)
    shell, parts = opened
    keys = shell.keys if isinstance(shell, MappingShell) else None
    words = map(_spelled, shell.steps) if keys is None else (f"[{key!r}]" for key in keys)
    for word, part in zip(words, parts, strict=True):
        yield from _leaves(part, path + word, level + 1)


def _spelled(step: Step) -> str:
    """A step as Python spells it, where it does."""
    kind, word = step
    return {"item": f"[{word}]", "attr": f".{word}"}.get(kind, f".{kind}:{word}")


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """``value`` with every tensor in nested containers and functions replaced."""
    import torch

    from ..runtime.argtree import replace

    return replace(value, lambda leaf: function(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def as_reals(value: Any) -> Any:
    """``value`` with every complex tensor as pairs of real numbers, which are what rounding moves."""
    import torch

    return map_tensors(lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x, value)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors among the leaves, in order."""
    from ..runtime.argtree import tensors as found

    return [*found([value])]


def clone(tensor: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """A copy with the same strides, and as far behind a multiple of 16 bytes, so that layout-specialised code sees the
    same layout, also in views that host code takes of it; a broadcast stays one. On ``device``, else where the tensor
    is."""
    import torch

    once = _once(tensor)
    make = partial(torch.empty, dtype=tensor.dtype, device=device or tensor.device)
    if not tensor.numel():
        return make(0).as_strided(once.shape, once.stride()).expand(tensor.shape)
    behind = tensor.data_ptr() % _ALIGNED // tensor.element_size()
    span = 1 + sum((n - 1) * stride for n, stride in zip(once.shape, once.stride(), strict=True))
    copy = make(behind + span)[behind:].as_strided(once.shape, once.stride())
    return copy.copy_(once).expand(tensor.shape)


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in host memory, with the same strides."""
    return clone(tensor, "cpu")


def copied(values: Sequence[Any], copy: Callable[[torch.Tensor], torch.Tensor] = clone) -> tuple[Any, ...]:
    """``values``, nested as they are, over copies of their tensors. ``copy``: makes one of a tensor.

    Tensors that share memory have copies that share theirs likewise: what a call stores into one of them it reads from
    the others. Raises TypeError where such tensors are of several dtypes, and ``copy`` may convert them.
    """
    made: dict[int, torch.Tensor] = {}
    for group in by_memory(tensors(values)):
        alike = [copy(group[0])] if len(group) == 1 else _copied_together(group, copy)
        made.update((id(tensor), its) for tensor, its in zip(group, alike, strict=True))
    copies: tuple[Any, ...] = map_tensors(lambda tensor: made[id(tensor)], tuple(values))
    return copies


def _copied_together(group: Sequence[torch.Tensor], copy: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
    """Copies that lie to each other as the tensors of ``group`` do, whose memory overlaps."""
    import torch

    dtypes = {tensor.dtype for tensor in group}
    if len(dtypes) > 1 and copy not in (clone, to_host):
        kinds = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(f"tensors that share memory are converted together, which those of {kinds} cannot be")
    begin = min(tensor.data_ptr() for tensor in group) // _ALIGNMENT * _ALIGNMENT
    end = -(-max(extent(tensor)[1] for tensor in group) // _ALIGNMENT) * _ALIGNMENT
    memory = torch.empty(end - begin, dtype=torch.uint8, device=group[0].device)
    for tensor in group:
        _placed(memory, _once(tensor.detach()), begin).copy_(_once(tensor.detach()))
    whole = copy(memory.view(group[0].dtype) if len(dtypes) == 1 else memory)
    return [_placed(whole, tensor, begin) for tensor in group]


def _placed(memory: torch.Tensor, tensor: torch.Tensor, begin: int) -> torch.Tensor:
    """The elements of ``memory`` at the places of ``tensor``, which lies behind the address ``begin``. ``memory``: as
    bytes, or with an element for each of the tensor's dtype."""
    import torch

    elements = memory.view(tensor.dtype) if memory.dtype == torch.uint8 else memory
    return elements.as_strided(tensor.shape, tensor.stride(), (tensor.data_ptr() - begin) // tensor.element_size())


def _once(tensor: torch.Tensor) -> torch.Tensor:
    """What is in memory of a tensor that may be expanded."""
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]


class Restorer:
    """Keeps the arguments as they are now; :meth:`restore` puts back those that a call has changed.

    What a first call changes, it is taken to change always: :meth:`observe` looks once.
    """

    def __init__(self, args: Sequence[Any]) -> None:
        self._kept = [(tensor, clone(tensor)) for tensor in tensors(args)]

    def observe(self) -> int:
        """Forget the arguments that are bitwise unchanged; the number of bytes that stay kept."""
        self._kept = [(tensor, copy) for tensor, copy in self._kept if not same_bits(tensor, copy)]
        return sum(copy.numel() * copy.element_size() for _, copy in self._kept)

    def restore(self) -> None:
        """Copy the kept values back into their tensors."""
        for tensor, copy in self._kept:
            tensor.copy_(copy)


@contextmanager
def poisoned() -> Iterator[None]:
    """Within it ``torch.empty`` and its like hand out NaN (integers: the largest), so that an unwritten output shows.

    This is torch's deterministic mode with ``fill_uninitialized_memory``; operations without a deterministic form
    only warn, and the warning is not ours to pass on. It is switched by its debug mode: the other function for it
    imports the whole of torch's compiler, for seconds in which a fresh process's first problem is not made.
    """
    import torch

    before = torch.get_deterministic_debug_mode()
    switch: Any = torch.utils.deterministic
    fill = switch.fill_uninitialized_memory
    torch.set_deterministic_debug_mode("warn")
    switch.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.set_deterministic_debug_mode(before)
        switch.fill_uninitialized_memory = fill


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal as bits: NaN equals itself, and -0.0 is not 0.0."""
    import torch

    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = left.element_size()
    if size not in integers:  # complex128
        left, right, size = torch.view_as_real(left), torch.view_as_real(right), 8
    return torch.equal(left.view(integers[size]), right.view(integers[size]))
