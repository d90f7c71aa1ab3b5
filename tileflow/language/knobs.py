"""What the config decides beside the block sizes of loops, and what it must not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..config import Choice
from ..errors import CallError
from . import eager_session
from .marks import device, host


@host
def register_block_size(low: int, high: int | None = None) -> int:
    """A block size chosen by the config, known before the loop: between ``low`` (1 when only one number is given) and
    ``high``, a size it need not exceed. In host code only; the knob is named ``block:<variable>``."""
    _, limit = limits(low, high)
    return eager_session.block_size("register_block_size", limit)


def limits(low: int, high: int | None = None) -> tuple[int, int]:
    """The range of a block size, out of the arguments of ``register_block_size``. Raises CallError."""
    given = (1, low) if high is None else (low, high)
    if any(not isinstance(n, int) or isinstance(n, bool) for n in given) or given[0] < 1:
        raise CallError(
            "a block size lies between two ints, the lower of 1 or more",
            got=f"{given[0]!r}, {given[1]!r}",
            hint="tfl.register_block_size(high), tfl.register_block_size(low, high)",
        )
    return int(given[0]), max(int(given[1]), int(given[0]))  # a size may be 0, a block size not


@host
def register_tunable(name: str, choices: Iterable[Choice]) -> Any:
    """A knob of the kernel's own, ``tunable:<name>``: one of ``choices``, the first by default. In host code only.

    ``choices``: ints (a ``range`` is one way to write them), strings or bools. Raises CallError where there are none,
    or others. An int may be used in device code wherever a size may, also as the end of a ``tfl.static_range``.
    """
    choices = check_choices(name, choices)
    return eager_session.current("register_tunable").knobs.tunable(name, choices[0])


def check_choices(name: str, choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """The choices of a tunable. Raises CallError."""
    if not isinstance(name, str) or isinstance(choices, str):
        raise CallError(
            "a tunable has a name and a list of choices",
            got=f"{name!r}, {choices!r}",
            hint='tfl.register_tunable("name", [1, 2, 4])',
        )
    found = tuple(choices)
    if not found or any(not isinstance(c, (int, str, bool)) for c in found) or len(set(map(type, found))) > 1:
        raise CallError(
            f"the tunable {name} is one of some ints, some strings or some bools",
            got=repr(found),
            hint=f'tfl.register_tunable("{name}", [1, 2]); choose floats by an index',
        )
    return found


@device
def specialize(value: Any) -> Any:
    """``value`` as a constant of the kernel; each launch checks that it is still the same."""
    return value
