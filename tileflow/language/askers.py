"""Whose code asks torch for something: the author's, the language's own, or torch's Python."""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import FrameType

from ..runtime.libraries import is_kernel_text
from .marks import INLINED

_PACKAGE = __package__.partition(".")[0]


class Asker(Enum):
    """Whose code asks torch."""

    TORCH = 0
    LANGUAGE = 1
    AUTHOR = 2


@cache
def _kind(module: str) -> Asker:
    root = module.partition(".")[0]
    if root == "torch":
        return Asker.TORCH
    return Asker.LANGUAGE if root == _PACKAGE and not is_kernel_text(module) else Asker.AUTHOR


def kind_of(frame: FrameType) -> Asker:
    """Whose the code of a frame is."""
    return _kind(frame.f_globals.get("__name__") or "")


def asker(frame: FrameType) -> FrameType:
    """The frame that asked torch for what torch's own Python, in ``frame`` and around it, asks for: ``len(tensor)``
    comes by way of ``torch.Tensor.__len__``, say."""
    while frame.f_back is not None and kind_of(frame) is Asker.TORCH:
        frame = frame.f_back
    return frame


def is_ours(frame: FrameType) -> bool:
    """Whether the code is the language's own, which means by an index what torch does."""
    return kind_of(frame) is Asker.LANGUAGE and frame.f_code not in INLINED
