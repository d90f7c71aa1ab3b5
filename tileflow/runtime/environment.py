"""Variables of the environment that are on or off: tileflow's own, and Triton's of its interpreter."""

from __future__ import annotations

import os

from ..errors import SpecError

INTERPRET = "TILEFLOW_INTERPRET"
NATIVE = "TILEFLOW_NATIVE"

ON = ("1", "true", "on", "yes")
OFF = ("0", "false", "off", "no")
_WORDS = dict.fromkeys(ON, True) | dict.fromkeys(OFF, False)
_ON_FOR_TRITON = (*ON, "y")


def switch(name: str) -> bool | None:
    """Whether the variable is on; None where it is not set, or empty. Raises SpecError for a value that is neither."""
    given = os.environ.get(name)
    if not given:
        return None
    found = _WORDS.get(given.lower())
    if found is None:
        raise SpecError(
            "a variable that turns something on or off is a word for one of them",
            got=repr(given),
            where=name,
            hint=f"on: {', '.join(ON)}; off: {', '.join(OFF)}, or nothing",
        )
    return found


def triton_interprets() -> bool:
    """Whether this process was started for Triton's interpreter, which runs generated kernels on CPU tensors. By
    Triton's own rule, to which all other words are off: what serves calls does not import Triton to ask."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in _ON_FOR_TRITON
