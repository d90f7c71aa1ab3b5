"""What tests on a card ask of a call."""

from __future__ import annotations

from typing import Any

from tileflow.api import Kernel
from tileflow.measure.check import check_call, make_reference


def assert_right(call: Any, kernel: Kernel, args: tuple[Any, ...], repeats: int = 5) -> None:
    """The call's results are the kernel's reference's, each of so many times."""
    verdict = check_call(call, args, make_reference(kernel.reference, args), repeats=repeats)
    assert verdict.ok, verdict.reason
