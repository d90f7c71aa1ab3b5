"""Tensors that a called function reads as private attributes of a class: no launch captures them, no execution reads
them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

import torch

from ..errors import TraceError
from ..runtime.argtree import tensors
from .code_objects import codes_of, globals_read
from .rules import GLOBAL_HINT, REACHED, found_elsewhere


def check_reached(
    args: Iterable[Any], what: str, frame: FrameType, kernel: CodeType, launches: Collection[range]
) -> None:
    """Raises TraceError where a tensor among ``args``, which code in ``frame`` gave to torch's function ``what``, is
    one that a function which the ``kernel`` calls read of a class that its module names. ``launches``: their lines."""
    if frame.f_code is kernel:
        return
    for tensor in args:
        is_captured = isinstance(tensor, torch.Tensor) and tensor.ndim and not hasattr(tensor, "tileflow_kept")
        if is_captured and _is_read_of_a_class(tensor, frame, kernel, launches):
            raise TraceError(REACHED, got=found_elsewhere(what), hint=GLOBAL_HINT)


def _is_read_of_a_class(
    tensor: torch.Tensor, frame: FrameType | None, kernel: CodeType, launches: Collection[range]
) -> bool:
    """Whether the first function outwards that was not passed ``tensor`` read it of a class that is a global. The text
    of a launch may, functions inside it too, and one that host code defines may not."""
    own = {code for code in codes_of(kernel) if code is kernel or any(code.co_firstlineno in n for n in launches)}
    while frame is not None and frame.f_code not in own:
        if not _is_among(tensor, frame.f_locals.values()):
            names = globals_read(frame.f_code)
            return _is_among(tensor, _of_classes(frame.f_globals[name] for name in names if name in frame.f_globals))
        frame = frame.f_back
    return False


def _of_classes(values: Iterable[Any]) -> Iterator[Any]:
    """What the classes among the values hold under private names."""
    for value in values:
        if isinstance(value, type):
            yield from [held for name, held in vars(value).items() if name.startswith("_")]


def _is_among(tensor: torch.Tensor, values: Iterable[Any]) -> bool:
    return any(found is tensor for found in tensors(values))
