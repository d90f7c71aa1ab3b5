"""Whether two functions compute the same: bytecode that is equal, whatever their names of variables are.

Libraries of models repeat a class in the file of each family that has it. Equal code, under the same decorators, which
calls equal functions by the same names, does the same; nothing is run to find out. What differs in any of these counts
as different, also where it would come to the same.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

_HAS_DOCSTRING = 0x4000000  # a flag of Python 3.13's, which says nothing of what is computed


@cache
def same_method(one: type, other: type, name: str) -> bool:
    """Whether a method of two classes, with all that it calls of them, computes the same."""
    return _same(_attribute(one, name), _attribute(other, name), (one, other), set())


@cache
def same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions compute the same."""
    return _same(one, other, None, set())


def _same(one: Any, other: Any, owners: tuple[type, type] | None, seen: set[tuple[int, int]]) -> bool:
    if (id(one), id(other)) in seen:
        return True
    if one is other and not _asks_its_owners(one, owners):
        return True
    if isinstance(one, (str, int, float, tuple)):
        return type(one) is type(other) and bool(one == other)
    seen.add((id(one), id(other)))
    while hasattr(one, "__wrapped__") and hasattr(other, "__wrapped__"):
        if getattr(one, "__code__", one) is not getattr(other, "__code__", other):
            return False  # another decorator
        one, other = one.__wrapped__, other.__wrapped__
    if not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return False
    if hasattr(one, "__wrapped__") or hasattr(other, "__wrapped__") or one.__closure__ or other.__closure__:
        return False
    if (one.__defaults__, one.__kwdefaults__) != (other.__defaults__, other.__kwdefaults__):
        return False
    if not _same_code(one.__code__, other.__code__):
        return False
    return all(
        _same(one.__globals__.get(name), other.__globals__.get(name), None, seen) for name in _globals(one.__code__)
    ) and (owners is None or _same_attributes(one.__code__, owners, seen))


def _asks_its_owners(value: Any, owners: tuple[type, type] | None) -> bool:
    """Whether a value is code of the classes' own, which may do another thing in a class that only inherits it."""
    return owners is not None and any(getattr(value, "__module__", None) == kind.__module__ for kind in owners)


def _same_attributes(code: CodeType, owners: tuple[type, type], seen: set[tuple[int, int]]) -> bool:
    """Whether what the code may ask of its object's class is the same in both."""
    one, other = owners
    names = {name for each in _codes(code) for name in each.co_names}
    return all(_same(_attribute(one, name), _attribute(other, name), owners, seen) for name in sorted(names))


def _attribute(kind: type, name: str) -> Any:
    return inspect.getattr_static(kind, name, None)


def _same_code(one: CodeType, other: CodeType) -> bool:
    kinds = ("co_argcount", "co_kwonlyargcount", "co_posonlyargcount")
    if any(getattr(one, kind) != getattr(other, kind) for kind in kinds):
        return False
    if (one.co_flags ^ other.co_flags) & ~_HAS_DOCSTRING:
        return False
    steps, others = list(dis.get_instructions(one)), list(dis.get_instructions(other))
    return len(steps) == len(others) and all(map(_same_step, steps, others))


def _same_step(one: dis.Instruction, other: dis.Instruction) -> bool:
    if one.opname != other.opname:
        return False
    if "FAST" in one.opname or one.opname.endswith("DEREF"):
        return one.arg == other.arg  # a variable by its number
    if isinstance(one.argval, CodeType) and isinstance(other.argval, CodeType):
        return _same_code(one.argval, other.argval)
    # equal numbers may be of two types, in tuples too, or of two signs: 0.0 and -0.0
    return type(one.argval) is type(other.argval) and repr(one.argval) == repr(other.argval)


def _globals(code: CodeType) -> set[str]:
    steps = (step for each in _codes(code) for step in dis.get_instructions(each))
    return {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of the functions inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)
