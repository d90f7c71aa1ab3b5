"""A call's arguments as a list of leaves and a template: what a dispatcher carries, and what it does not need to see.

Leaves are the tensors, ints and floats, also those inside tuples and inside what functions close over. The template is
hashable and holds the rest: the structure, the bools, strings, dtypes and code.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import CellType, FunctionType
from typing import Any, Protocol

import torch

from ..errors import CallError


@dataclass(frozen=True, slots=True)
class Leaf:
    """The ``index``-th leaf; ``type`` as a schema of torch.library spells it, ``path`` where it was found."""

    index: int
    type: str
    path: str


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Any
    type: type  # True, 1 and 1.0 are equal


@dataclass(frozen=True, slots=True)
class _Items:
    type: type
    items: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class _Record:
    """A dictionary, or a dataclass: names and what they stand for."""

    type: type
    names: tuple[Hashable, ...]
    items: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function's code, and what it closes over: its cells, its defaults, and the defaults of its keywords."""

    code: Any
    name: str
    module: str | None
    scope: int
    cells: tuple[Hashable, ...]
    defaults: tuple[Hashable, ...]
    keywords: tuple[tuple[str, Hashable], ...]
    globals: dict[str, Any] = field(compare=False, repr=False)


def flatten(value: Any, path: str, leaves: list[Any]) -> Hashable:
    """The template of ``value``, found at ``path``; its leaves are appended to ``leaves``."""
    if isinstance(value, torch.Tensor):
        return _leaf("Tensor", value, path, leaves)
    if isinstance(value, torch.SymInt) or type(value) is int:
        return _leaf("SymInt", value, path, leaves)
    if isinstance(value, torch.SymFloat) or type(value) is float:
        return _leaf("float", value, path, leaves)
    if isinstance(value, (tuple, list)):
        return _Items(type(value), tuple(flatten(v, f"{path}_{i}", leaves) for i, v in enumerate(value)))
    if isinstance(value, dict):
        parts = tuple(flatten(v, f"{path}_{k}", leaves) for k, v in value.items())
        return _Record(type(value), tuple(value), parts)
    if is_record(value):
        names = tuple(f.name for f in fields(value))
        return _Record(type(value), names, tuple(flatten(getattr(value, n), f"{path}_{n}", leaves) for n in names))
    if isinstance(value, FunctionType):
        cells = [*zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)]
        if any(cell.cell_contents is value for _, cell in cells):
            raise CallError("a function argument of a compiled kernel does not call itself", got=path)
        return _Function(
            value.__code__,
            value.__name__,
            value.__module__,
            id(value.__globals__),
            tuple(flatten(cell.cell_contents, f"{path}_{name}", leaves) for name, cell in cells),
            tuple(flatten(v, f"{path}_default_{i}", leaves) for i, v in enumerate(value.__defaults__ or ())),
            tuple((n, flatten(v, f"{path}_{n}", leaves)) for n, v in (value.__kwdefaults__ or {}).items()),
            value.__globals__,
        )
    return _Constant(value, type(value))


class Signature(Protocol):
    """What is known of a function that is called; a ``tileflow.frontend.split.HostFunction`` is one.

    ``constants``: the parameters whose numbers are constants.
    """

    @property
    def signature(self) -> inspect.Signature: ...
    @property
    def constants(self) -> Collection[str]: ...


def flatten_call(host: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Hashable, list[Any]]:
    """The template of a call's arguments, one item a parameter, defaults applied; and its leaves. Raises CallError."""
    try:
        bound = host.signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CallError(f"the kernel must be called as {host.signature}", got=str(error)) from None
    bound.apply_defaults()
    leaves: list[Any] = []
    templates = [
        _constant(value) if name in host.constants else flatten(value, name, leaves)
        for name, value in bound.arguments.items()
    ]
    return _Items(tuple, tuple(templates)), leaves


def rebuild_call(host: Signature, template: Hashable, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """The positional arguments of a call's template over other leaves."""
    values: tuple[Any, ...] = rebuild(template, leaves)
    *_, last = host.signature.parameters.values()
    return (*values[:-1], *values[-1]) if last.kind is last.VAR_POSITIONAL else values


def _constant(value: Any) -> Hashable:
    """A template without leaves. A symbolic number becomes the one that it is now, guarded."""
    if isinstance(value, (tuple, list)):
        return _Items(type(value), tuple(map(_constant, value)))
    value = int(value) if isinstance(value, torch.SymInt) else value
    value = float(value) if isinstance(value, torch.SymFloat) else value
    return _Constant(value, type(value))


def _leaf(type_: str, value: Any, path: str, leaves: list[Any]) -> Leaf:
    leaves.append(value)
    return Leaf(len(leaves) - 1, type_, path)


def rebuild(template: Hashable, leaves: Sequence[Any]) -> Any:
    """The value of a template over other leaves."""
    match template:
        case Leaf(index):
            return leaves[index]
        case _Constant(value):
            return value
        case _Items(type_, items):
            values = [rebuild(item, leaves) for item in items]
            return type_(*values) if hasattr(type_, "_fields") else type_(values)
        case _Record(type_, names, parts):
            named = dict(zip(names, (rebuild(part, leaves) for part in parts), strict=True))
            return type_(named) if issubclass(type_, dict) else _made(type_, named)
        case _Function():
            return make_function(
                template.code,
                template.globals,
                template.name,
                [rebuild(cell, leaves) for cell in template.cells],
                tuple(rebuild(v, leaves) for v in template.defaults),
                {n: rebuild(v, leaves) for n, v in template.keywords},
                template.module,
            )
    raise AssertionError(template)


def is_record(value: Any) -> bool:
    """Whether a value is a dataclass's instance."""
    return is_dataclass(value) and not isinstance(value, type)


def _made(type_: Any, values: Mapping[Any, Any]) -> Any:
    """A dataclass's instance of these fields, also where its constructor takes others."""
    made = object.__new__(type_)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def make_function(
    code: Any,
    scope: dict[str, Any],
    name: str,
    cells: Sequence[Any],
    defaults: tuple[Any, ...],
    keywords: dict[str, Any],
    module: str | None,
) -> FunctionType:
    """A function of ``code`` over new cells and defaults."""
    made = FunctionType(code, scope, name, defaults or None, tuple(map(CellType, cells)) or None)
    made.__kwdefaults__ = keywords or None
    if module is not None:
        made.__module__ = module
    return made


def items(template: Hashable) -> tuple[Hashable, ...]:
    """The templates of a tuple's items."""
    assert isinstance(template, _Items)
    return template.items


def leaves_of(template: Hashable) -> list[Leaf]:
    """The leaves of a template, in order."""
    match template:
        case Leaf():
            return [template]
        case _Items() | _Record():
            inner: tuple[Hashable, ...] = template.items
        case _Function():
            inner = (*template.cells, *template.defaults, *(v for _, v in template.keywords))
        case _:
            inner = ()
    return [leaf for item in inner for leaf in leaves_of(item)]
