"""What a session of plain Python over tiles asks of the compiler, which is above it: see
:mod:`tileflow.frontend.plain_python`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, Protocol


class TorchRules(Protocol):
    """What the compiler refuses of torch's functions."""

    def check_call(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType, kernel: CodeType, /
    ) -> None:
        """Raises TraceError for a call that the compiler refuses."""

    def check_made(self, func: Any, made: Any, frame: FrameType, /) -> None:
        """Raises TraceError for a tensor that a function made of none, and the compiler refuses."""


class WithoutCompiler:
    """No rules: where there is no compiler, as beside a bundle, texts are run that one has taken."""

    def check_call(self, *call: Any) -> None:
        """Takes all."""

    def check_made(self, *made: Any) -> None:
        """Takes all."""
