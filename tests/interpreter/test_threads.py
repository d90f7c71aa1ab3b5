"""Threads that call kernels at once where Triton interprets: its interpreter changes ``triton.language`` for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_threads_call_a_kernel_at_once(interpreter: Callable[..., Any]) -> None:
    """One thread's launch put the language back under another's: "Did you forget to add @triton.jit ?"."""
    assert interpreter("runs.threaded_calls:wrong", 8, 400) == []
