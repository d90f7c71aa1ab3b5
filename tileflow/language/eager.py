"""The eager meaning: the user's own function on torch tensors, with real tiles.

Inside :func:`session` the language's functions work on tensors, one tile after another, so that ``print`` and
``breakpoint()`` stand where the author wrote them and a tile at the end of a size is as short as it really is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..config import Choice
from ..errors import CallError
from .knob_names import KernelText, KnobNames, Place

DEFAULT_BLOCK = 32
_PACKAGE = __package__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Session:
    """One call of the function whose code is ``kernel``."""

    device: torch.device
    kernel: CodeType
    knobs: KnobNames


# The user's own function takes no context, so its language calls find the session here.
_SESSION: ContextVar[Session | None] = ContextVar("tileflow_eager_session", default=None)


@dataclass(frozen=True, slots=True)
class EagerTile:
    """A run of indices ``begin .. end - 1``; ``block_size`` is how long it would be in the middle of the loop, which
    ends at ``limit``."""

    begin: int
    end: int
    block_size: int
    id: int
    count: int
    device: torch.device
    limit: int

    @property
    def index(self) -> torch.Tensor:
        """The indices, int32, shape (end - begin,)."""
        return torch.arange(self.begin, self.end, dtype=torch.int32, device=self.device)

    def __add__(self, offset: int) -> EagerTile:
        return replace(self, begin=self.begin + offset, end=self.end + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> EagerTile:
        return self + -offset

    def __len__(self) -> int:
        return self.end - self.begin

    __index__ = __len__  # in shapes: x.expand(tile, 4)


class _TileIndexing(TorchFunctionMode):
    """Lets tiles index tensors, and half operands accumulate into float32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            tensor, index, *rest = args
            return func(tensor, plain_index(tensor, index), *rest)
        if func in (torch.addmm, torch.baddbmm) and not kwargs and args[0].dtype != args[1].dtype:
            acc, a, b = args
            return acc + (a.to(acc.dtype) @ b.to(acc.dtype))
        return func(*args, **kwargs)


def plain_index(tensor: torch.Tensor, index: Any) -> Any:
    """``index`` with tiles as slices; several 1-D index tensors as an outer product (the language's rule)."""
    items = list(index) if isinstance(index, (tuple, list)) else [index]
    items = [i for item in items for i in (item if _is_tiles(item) else (item,))]
    items = [slice(i.begin, i.end) if isinstance(i, EagerTile) else i for i in items]
    vectors = [n for n, i in enumerate(items) if isinstance(i, torch.Tensor) and i.ndim == 1 and i.dtype != torch.bool]
    if len(vectors) > 1 or (vectors and any(isinstance(i, slice) for i in items[: vectors[0]])):
        return _outer(tensor, items)
    return tuple(items) if len(items) != 1 else items[0]


def _is_tiles(item: Any) -> bool:
    return isinstance(item, (tuple, list)) and all(isinstance(i, EagerTile) for i in item)


def places(tensor: torch.Tensor, index: Any, mask: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """Where ``tensor[index]`` reads or writes: an index tensor a dimension, of the lanes in which ``mask`` is true; and
    the mask in the shape of the result. Lanes that it leaves out may lie outside the tensor."""
    plain = plain_index(tensor, index)
    items = list(plain) if isinstance(plain, tuple) else [plain]
    items += [slice(None)] * (tensor.ndim - len(items))
    wide = _outer(tensor, items) if any(isinstance(i, slice) for i in items) else items
    every = [torch.as_tensor(i, device=tensor.device) for i in wide]
    found = torch.broadcast_tensors(*every, mask)  # type: ignore[no-untyped-call]
    return tuple(i[found[-1]].long() for i in found[:-1]), found[-1]


def _outer(tensor: torch.Tensor, items: list[Any]) -> Any:
    """Slices and 1-D index tensors as mutually broadcasting index tensors."""
    wide: list[Any] = []
    dimension = 0
    for item in items:
        if isinstance(item, slice):
            item = torch.arange(*item.indices(tensor.shape[dimension]), device=tensor.device)
        dimension += item is not None
        wide.append(item)
    rank = sum(1 for i in wide if isinstance(i, torch.Tensor) and i.ndim == 1)
    axis = 0
    for n, item in enumerate(wide):
        if isinstance(item, torch.Tensor) and item.ndim == 1:
            wide[n] = item.long().reshape([-1 if a == axis else 1 for a in range(rank)])
            axis += 1
    return tuple(wide)


@contextmanager
def session(
    device: torch.device, kernel: CodeType, text: KernelText, config: Mapping[str, Choice] | None = None
) -> Iterator[None]:
    """The eager meaning for the language's functions called inside. Raises ConfigError where ``config`` names a block
    size or a tunable that the kernel's text does not."""
    knobs = KnobNames(config or {}, text)
    token = _SESSION.set(Session(device, kernel, knobs))
    try:
        with _TileIndexing():
            yield
    finally:
        _SESSION.reset(token)
    knobs.check()


def current(what: str) -> Session:
    """The session, or CallError: ``what`` was called outside a kernel."""
    found = _SESSION.get()
    if found is None:
        raise CallError(f"tileflow.language.{what} works inside a @tileflow.kernel function only",
                        hint="decorate the function, or use tileflow.interpret()")  # fmt: skip
    return found


def block_size(what: str, limit: int) -> int:
    """The block size chosen for the caller's place; the default where the config does not name it."""
    chosen = current(what).knobs.host_block(caller())
    return min(DEFAULT_BLOCK, limit) if chosen is None else int(chosen)


def caller() -> Place:
    """Where the innermost frame outside the package stands."""
    frame = sys._getframe(1)
    while frame.f_globals["__name__"].partition(".")[0] == _PACKAGE:
        assert frame.f_back is not None
        frame = frame.f_back
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return Place(frame.f_code.co_filename, line or frame.f_lineno, column or 0)


def tiles(begins: list[int], ends: list[int], block_sizes: list[int | None]) -> Iterator[tuple[EagerTile, ...]]:
    """Every tuple of tiles of the box, the last axis fastest."""
    here = current("tile")
    chosen = here.knobs.enter(caller(), len(ends))
    axes = []
    for begin, end, given, choice in zip(begins, ends, block_sizes, chosen, strict=True):
        block = given or int(choice or DEFAULT_BLOCK)
        count = max(-(-(end - begin) // block), 0)
        axes.append([EagerTile(begin + n * block, min(begin + (n + 1) * block, end), block, n, count, here.device, end)
                     for n in range(count)])  # fmt: skip
    try:
        yield from _product(axes)
    finally:
        here.knobs.leave()


def _product(axes: list[list[EagerTile]]) -> Iterator[tuple[EagerTile, ...]]:
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for rest in _product(axes[1:]):
            yield first, *rest
