"""A kernel inside a function that torch.compile traces: one opaque call of its graph, which becomes the operator.

:func:`pack` and the lines that call :func:`in_graph` are read by the tracer. Imported while tracing only, since marking
a function for the tracer loads the tracer.
"""

from __future__ import annotations

from collections.abc import Hashable
from types import FunctionType
from typing import Any

import torch

from .runtime.argtree import FunctionShell, flatten, rebuild
from .runtime.handles import enrolled

_FUNCTION = "tileflow.dynamo function"

_functions: list[tuple[Hashable, list[Any]]] = []


@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def in_graph(handle: str, *args: Any, **kwargs: Any) -> Any:
    """Call the kernel of ``handle``: on the tracer's tensors, which makes an operator of it, or on real ones."""
    return enrolled(handle)(*map(_unpack, args), **{name: _unpack(value) for name, value in kwargs.items()})


def pack(value: Any) -> Any:
    """``value`` as a graph can hold it: of a function its number, and what it closes over, read by the tracer so that
    tensors become inputs of the graph, and numbers are guarded."""
    if not isinstance(value, FunctionType):
        return value
    number = _enroll(value)
    try:
        cells = tuple([pack(cell.cell_contents) for cell in value.__closure__ or ()])
    except AttributeError:  # made in the code that is traced: it came whole, with the constants that it closes over
        return _FUNCTION, number
    keywords = value.__kwdefaults__ or {}
    defaults = tuple([pack(v) for v in value.__defaults__ or ()])
    return _FUNCTION, number, cells, defaults, tuple(keywords), tuple([pack(v) for v in keywords.values()])


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _enroll(function: FunctionType) -> str:
    """The number of ``function``, which is kept without the tensors that it closes over."""
    leaves: list[Any] = []
    template = flatten(function, "", leaves)
    _functions.append((template, [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]))
    return str(len(_functions) - 1)


def _unpack(value: Any) -> Any:
    if not (isinstance(value, tuple) and value and isinstance(value[0], str) and value[0] == _FUNCTION):
        return value
    function = rebuild(*_functions[int(value[1])])
    if len(value) == 2:
        return function
    cells, defaults, names, keywords = value[2:]
    code = function.__code__
    shell = FunctionShell(
        code, function.__module__, id(function.__globals__), code.co_freevars, (), ("",) * len(defaults), tuple(names),
        function.__name__, function.__globals__,
    )  # fmt: skip
    return shell.make([*map(_unpack, cells), *map(_unpack, defaults), *map(_unpack, keywords)])
