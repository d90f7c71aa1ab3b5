"""A kernel inside a function that torch.compile traces: one opaque call of its graph, which becomes the operator.

:func:`trace_call` and :func:`pack` are read by the tracer. Imported while tracing only, since marking a function for
the tracer loads the tracer.

A graph holds tensors, numbers, strings and plain containers of them. What else an argument is made of (functions,
partials, dataclasses, methods, modules and other objects) becomes a *packet*: a tuple of a mark, a name, and the parts,
packed. A name is a digest of contents, since compilers keep graphs on disk: in another process it means the same, or
nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from .errors import CallError
from .frontend.identity import class_identity, constant_identity, template_identity
from .frontend.meaning import digest
from .runtime.argtree import FunctionShell, RecordShell, flatten, open_shell, tensors, unflatten
from .runtime.describe import refuse_transforms_in_graph
from .runtime.handles import graph_handle, registered
from .runtime.objects import ObjectShell, internal_names, is_object, slots

_NAMED = "tileflow.dynamo named function"
_WHOLE = "tileflow.dynamo whole function"
_FUNCTION = "tileflow.dynamo function"
_KEPT = "tileflow.dynamo kept"  # in a cell: the function itself, a module or a class
_PARTIAL = "tileflow.dynamo partial"
_RECORD = "tileflow.dynamo record"
_METHOD = "tileflow.dynamo method"
_OBJECT = "tileflow.dynamo object"

_functions: dict[str, tuple[Hashable, list[Any]]] = {}
_classes: dict[str, type] = {}
_named: dict[str, Any] = {}  # torch's functions, and others without a text


def trace_call(handle: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call of the owner of ``handle``, as the graph holds it."""
    return in_graph(_named_for_graphs(handle), *[pack(a) for a in args], **{n: pack(a) for n, a in kwargs.items()})


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def in_graph(handle: str, *args: Any, **kwargs: Any) -> Any:
    """Call the kernel of ``handle``: on the tracer's tensors, which makes an operator of it, or on real ones."""
    kernel: Any = registered(handle)
    given, words = [*map(_unpack, args)], {name: _unpack(value) for name, value in kwargs.items()}
    for number, tensor in enumerate(tensors((*given, *words.values()))):
        refuse_transforms_in_graph(kernel.name, f"tensor {number}", tensor)
    result = kernel(*given, **words)
    _check_result(kernel.name, result)
    return result


def _check_result(name: str, result: Any) -> None:
    """Raises CallError for what the tracer takes from no call."""
    if isinstance(result, (tuple, list)):
        for part in result:
            _check_result(name, part)
    elif not isinstance(result, (torch.Tensor, bool, type(None))):
        raise CallError(
            "a kernel that is called in a compiled function returns tensors, in tuples, lists and named tuples",
            got=f"{type(result).__name__} in what it returns",
            where=name,
            hint="return a tuple, and make the rest of it in the function that calls the kernel",
        )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _named_for_graphs(handle: str) -> str:
    """The handle under which graphs hold a kernel, for the process's own handle that the tracer guards."""
    return graph_handle(handle)


# ---- packing ------------------------------------------------------------------------------------------------------


def pack(value: Any, outer: Any = None) -> Any:
    """``value`` as a graph can hold it. What functions close over is read by the tracer, so that tensors become inputs
    of the graph, and numbers are guarded. ``outer``: the function whose part it is."""
    if outer is not None and (value is outer or isinstance(value, (ModuleType, type))):
        return _KEPT
    if value is None:  # of whose class torch 2.11 cannot trace what is_dataclass asks
        return None
    if isinstance(value, (FunctionType, BuiltinFunctionType)):
        return (_NAMED, _register_named(value)) if _is_torchs(value) else _pack_function(value)
    if isinstance(value, partial):
        keywords = value.keywords
        parts = tuple([pack(v) for v in value.args]), tuple(keywords), tuple([pack(v) for v in keywords.values()])
        return _PARTIAL, pack(value.func), *parts
    if type(value) is tuple:
        return tuple([pack(v) for v in value])
    if type(value) is list:
        return [pack(v) for v in value]
    if type(value) is dict:
        return {key: pack(v) for key, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[pack(v) for v in value])
    if is_dataclass(value):
        return _RECORD, _register_class(type(value)), tuple([pack(getattr(value, f.name)) for f in fields(value)])
    if isinstance(value, MethodType):
        return _METHOD, pack(value.__func__), pack(value.__self__)
    if _is_object(type(value)):
        return _pack_object(value)
    return value


def _pack_object(value: Any) -> Any:
    """An object by its attributes, all but those that no kernel takes."""
    held = {name: getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)}
    groups: tuple[tuple[str, ...], ...] = ()
    inside = value.__dict__ if hasattr(value, "__dict__") else {}
    if isinstance(value, torch.nn.Module):
        if value._forward_hooks or value._forward_pre_hooks or value._backward_hooks or value._backward_pre_hooks:
            raise CallError(
                "a module that a compiled function passes to a kernel has no hooks",
                got=type(value).__qualname__,
                hint="remove them, or pass its tensors",
            )
        groups = (tuple(value._parameters), tuple(value._buffers), tuple(value._modules))
        for group in (value._parameters, value._buffers, value._modules):
            held |= dict(group)
        internal = _internal_names(type(value))
        inside = {name: inside[name] for name in inside if name not in internal}
    held |= {name: inside[name] for name in inside}
    names = tuple([name for name, part in held.items() if _fits(part)])
    return _OBJECT, _register_class(type(value)), names, tuple([pack(held[name]) for name in names]), groups


def _fits(part: Any) -> bool:
    """Whether a graph holds a value, or what becomes a packet."""
    taken = (torch.Tensor, bool, int, float, str, torch.dtype, FunctionType, partial, tuple, list, dict, MethodType)
    return part is None or isinstance(part, taken) or is_dataclass(part) or _is_object(type(part))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def constant_result(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives for constants, which stays so in the graph."""
    return function(*args)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _is_object(kind: type) -> bool:
    return is_object(kind)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _slots(kind: type) -> tuple[str, ...]:
    return slots(kind)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _internal_names(kind: type) -> tuple[str, ...]:
    return tuple(internal_names(kind))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _is_torchs(function: Any) -> bool:
    """Whether a function is torch's own, or another that no text in Python defines: a constant of the graph, for the
    tracer has its own idea of what it is made of."""
    module = function.__module__ or "torch"
    return isinstance(function, BuiltinFunctionType) or module == "torch" or module.startswith("torch.")


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _register_named(function: Any) -> str:
    name = f"{function.__module__}.{function.__qualname__}"
    _named.setdefault(name, function)
    return name


def _pack_function(value: Any) -> Any:
    try:
        cells = tuple([pack(cell.cell_contents, value) for cell in value.__closure__ or ()])
    except AttributeError:  # made in the code that is traced: it came whole, with the constants that it closes over
        return _WHOLE, _register_whole(value)
    keywords = value.__kwdefaults__ or {}
    defaults = tuple([pack(v) for v in value.__defaults__ or ()])
    words = tuple(keywords), tuple([pack(v) for v in keywords.values()])
    return _FUNCTION, _register_code(value), cells, defaults, *words


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _register_code(function: FunctionType) -> str:
    """The name of a function's code."""
    template, leaves = _opened(function)
    return _register_function(template, [None] * len(leaves))


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _register_whole(function: FunctionType) -> str:
    """The name of a function with all that it closes over, which are constants."""
    template, leaves = _opened(function)
    return _register_function(template, leaves)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _register_class(kind: type) -> str:
    name = class_identity(kind)
    _classes.setdefault(name, kind)
    return name


def _opened(function: FunctionType) -> tuple[Hashable, list[Any]]:
    leaves: list[Any] = []
    template = flatten(function, "", leaves)
    return template, [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def _register_function(template: Hashable, leaves: list[Any]) -> str:
    where = "a function that is passed to a kernel"
    name = digest(f"{template_identity(template, where)} {constant_identity(leaves, where)}")
    _functions.setdefault(name, (template, leaves))
    return name


# ---- unpacking ----------------------------------------------------------------------------------------------------


def _unpack(value: Any) -> Any:
    """What was packed. A graph may hold lists and dictionaries as its own kinds of them."""
    if isinstance(value, list):
        return [*map(_unpack, value)]
    if isinstance(value, dict):
        return {key: _unpack(v) for key, v in value.items()}
    if not isinstance(value, tuple) or isinstance(value, torch.Size):
        return value
    match value:
        case (str(mark), str(name)) if mark == _NAMED:
            return _found(_named, name)
        case (str(mark), str(name)) if mark == _WHOLE:
            return unflatten(*_found(_functions, name))
        case (str(mark), str(name), cells, defaults, words, keywords) if mark == _FUNCTION:
            return _function(name, cells, (*defaults, *keywords), len(defaults), words)
        case (str(mark), function, args, words, keywords) if mark == _PARTIAL:
            return partial(
                _unpack(function), *map(_unpack, args), **dict(zip(words, map(_unpack, keywords), strict=True))
            )
        case (str(mark), str(name), parts) if mark == _RECORD:
            kind = _found(_classes, name)
            return RecordShell(kind, tuple(f.name for f in fields(kind))).make([*map(_unpack, parts)])
        case (str(mark), function, owner) if mark == _METHOD:
            return MethodType(_unpack(function), _unpack(owner))
        case (str(mark), str(name), names, parts, groups) if mark == _OBJECT:
            kind = _found(_classes, name)
            state = vars(torch.nn.Module()) if groups else {}
            registered = tuple(map(tuple, groups))
            return ObjectShell(kind, tuple(names), registered, (), (), None, state).make([*map(_unpack, parts)])
    items = [*map(_unpack, value)]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _function(name: str, cells: Sequence[Any], rest: Sequence[Any], defaults: int, words: Sequence[str]) -> Any:
    """The function of that code over these cells and defaults."""
    opened = open_shell(unflatten(*_found(_functions, name)))
    assert opened is not None and isinstance(opened[0], FunctionShell)
    old = opened[0]
    held = dict(zip(old.cells, opened[1], strict=False))
    for free, cell in zip(old.code.co_freevars, cells, strict=True):
        if not isinstance(cell, str) or cell != _KEPT:
            held[free] = _unpack(cell)
    shell = dataclasses.replace(old, cells=tuple(held), defaults=("",) * defaults, keywords=tuple(words))
    return shell.make([*held.values(), *map(_unpack, rest)])


def _found(names: Mapping[str, Any], name: str) -> Any:
    if name not in names:
        raise CallError(
            "a graph's functions and classes are those that it was traced with",
            got=f"none here is {name}",
            hint="compile the function in this process: the graph is from another",
        )
    return names[name]
