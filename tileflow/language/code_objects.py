"""What bytecode says of the author's functions, without their source."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import cache
from types import CodeType


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@cache
def assigns_globals(code: CodeType) -> bool:
    """Whether a function, or one inside it, assigns to names of its module."""
    return any(step.opname == "STORE_GLOBAL" for one in codes_of(code) for step in dis.get_instructions(one))


@cache
def globals_read(code: CodeType) -> tuple[str, ...]:
    """The names of its module that a function reads, without those that functions inside it do."""
    return tuple(step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
