"""What ``register_tunable`` may choose from, in the dialect's words. A fragment is the tuple of its choices.

The first choice is the default, as for :func:`tileflow.language.register_tunable`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...errors import ConfigError


class ConfigSpecFragment(tuple[Any, ...]):
    """Choices of a tunable."""

    def default(self) -> Any:
        return self[0]


def _from(choices: Iterable[Any], default: Any) -> list[Any]:
    """The choices with the default first. Raises ConfigError where it is none of them."""
    choices = list(choices)
    if default not in choices:
        raise ConfigError(f"the default of a tunable is one of {choices}", got=repr(default))
    return [default, *(c for c in choices if c != default)]


class PowerOfTwoFragment(ConfigSpecFragment):
    """The powers of two from ``low`` to ``high``, both inclusive and powers of two."""

    def __new__(cls, low: int, high: int, default_val: int | None = None) -> PowerOfTwoFragment:
        for bound in (low, high):
            if bound < 1 or bound & (bound - 1):
                raise ConfigError("the bounds of a PowerOfTwoFragment are powers of two", got=bound)
        powers = [1 << n for n in range(low.bit_length() - 1, high.bit_length())]
        return super().__new__(cls, _from(powers, low if default_val is None else default_val))


class IntegerFragment(ConfigSpecFragment):
    """The ints from ``low`` to ``high``, both inclusive."""

    def __new__(cls, low: int, high: int, default_val: int | None = None) -> IntegerFragment:
        return super().__new__(cls, _from(range(low, high + 1), low if default_val is None else default_val))


class EnumFragment(ConfigSpecFragment):
    """Any of ``choices``."""

    def __new__(cls, choices: Iterable[Any]) -> EnumFragment:
        return super().__new__(cls, choices)

    @property
    def choices(self) -> tuple[Any, ...]:
        return tuple(self)


class BooleanFragment(ConfigSpecFragment):
    """False or True."""

    def __new__(cls) -> BooleanFragment:
        return super().__new__(cls, (False, True))


class BlockSizeFragment(PowerOfTwoFragment):
    """A block size."""


class NumWarpsFragment(PowerOfTwoFragment):
    """A number of warps."""
