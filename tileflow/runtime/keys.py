"""Keys of calls, for the cache in front of describing and looking up: the first half of a warm call.

Two calls with equal keys have equal Problems, but for the values of ints and floats, which are examples.
:func:`call_key` reads the key of any call. A :class:`FastKeys` is written for calls whose arguments are of the same
kinds as one that was seen: an attribute of a tensor costs 40 ns of Python, and what is spent beside those (a loop, a
call for each argument, tuples in tuples to be hashed) would cost as much again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch

from .describe import captured, is_traced
from .leaves import is_record

_Tensor = torch.Tensor
_grad_enabled = torch.is_grad_enabled
_BY_VALUE = (bool, str, torch.dtype, type(None))


def call_key(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Hashable:
    """A hashable key of a call: shapes, strides, dtypes, device, alignment, whether autograd would record it,
    code-selecting scalars, callables, and how torch's setting lets a product take float32 operands.

    Ints and floats enter by type alone. A function enters by its code, its globals and what it closes over now, so
    that rebinding a global that it reads is not seen. Unknown types enter by type; describing refuses them.
    """
    key = (*map(_key, args), torch.get_float32_matmul_precision())
    return (*key, *kwargs, *map(_key, kwargs.values())) if kwargs else key


def _key(value: Any) -> Hashable:
    if isinstance(value, _Tensor):
        if is_traced(value):
            return type(value)
        grad = value.requires_grad and _grad_enabled()
        return (value.shape, value.stride(), value.dtype, value.device, not value.data_ptr() & 15, grad)
    kind: Any = type(value)
    if kind is int or kind is float:
        return kind
    if kind in _BY_VALUE:
        return value  # type: ignore[no-any-return]
    if kind is partial:
        keywords = tuple((word, _key(item)) for word, item in sorted(value.keywords.items()))
        return (partial, _key(value.func), _key(value.args), keywords)
    if kind is FunctionType:
        inner = tuple((name, _key(held)) for name, held in captured(value))
        return (value.__code__, id(value.__globals__), inner)
    if isinstance(value, (tuple, list)):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return (kind, *value, *map(_key, value.values()))
    if is_record(value):
        return (kind, *(_key(getattr(value, field.name)) for field in fields(value)))
    if isinstance(value, (Enum, torch.device, torch.layout, torch.memory_format, BuiltinFunctionType)):
        return value
    return kind  # type: ignore[no-any-return]


# ---- generated readers --------------------------------------------------------------------------------------------


class FastKeys:
    """What serves calls whose positional arguments are of the kinds of one that was seen, by a key that is read fast.

    ``find(args)`` gives what was remembered for a call with the key of ``args``, a tuple; None where there is nothing,
    or the arguments are of other kinds or another number. ``key(args)``: the key, or None likewise. Its keys tell apart
    what those of :func:`call_key` do.
    """

    __slots__ = ("_held", "find", "key")

    def __init__(self, reads: str, namespace: dict[str, Any]) -> None:
        self._held: dict[Hashable, Any] = {}
        namespace |= {"get": self._held.get}
        text = reads.format(name="key", result="") + reads.format(name="find", result="get")
        exec(compile(text, "<key of a call>", "exec"), namespace)
        self.key: Callable[[tuple[Any, ...]], Hashable] = namespace["key"]
        self.find: Callable[[tuple[Any, ...]], Any] = namespace["find"]

    def remember(self, args: tuple[Any, ...], value: Any) -> None:
        """From now on ``value`` serves calls like this one, if it is of the kinds."""
        key = self.key(args)
        if key is not None:
            self._held[key] = value


def fast_keys(args: Sequence[Any], constants: Collection[int] = (), multiplies: bool = True) -> FastKeys | None:
    """The FastKeys of calls like ``args``. None where an argument takes more than one look (a function, a tuple).

    ``constants``: the positions of numbers that select code. ``multiplies``: whether torch's setting for products of
    float32 matters.
    """
    names = [f"a{i}" for i in range(len(args))]
    namespace: dict[str, Any] = {
        "grad_enabled": _grad_enabled, "precision": torch.get_float32_matmul_precision,
    }  # fmt: skip
    parts: list[str] = []
    for i, (name, value) in enumerate(zip(names, args, strict=True)):
        own = _parts(name, value, i in constants)
        if own is None:
            return None
        namespace[f"kind{i}"] = type(value)
        parts += own
    learned = [f"{name}.requires_grad" for name, value in zip(names, args, strict=True) if isinstance(value, _Tensor)]
    if learned:
        parts.append(f"({' or '.join(learned)}) and grad_enabled()")  # a call that autograd records is refused whole
    if multiplies:
        parts.append("precision()")
    lines = [f"def {{name}}(args):\n    if len(args) == {len(args)}:\n"]
    if names:
        kinds = " and ".join(f"type({name}) is kind{i}" for i, name in enumerate(names))
        lines += [f"        {', '.join(names)}, = args\n        if {kinds}:\n    "]
    lines += [f"        return {{result}}(({' '.join(f'{part},' for part in parts)}))\n"]
    return FastKeys("".join(lines), namespace)


def _parts(name: str, value: Any, constant: bool) -> list[str] | None:
    """The texts of what an argument adds to a key beside its type."""
    if isinstance(value, _Tensor) and not is_traced(value):
        # a kernel's tensors are on GPUs, whose ordinals are hashed faster than torch's devices
        reads = ("{}.shape", "{}.stride()", "{}.dtype", "{}.get_device()", "not {}.data_ptr() & 15")
        return [read.format(name) for read in reads]
    if type(value) in (int, float):
        return [name] if constant else []
    return [name] if type(value) in _BY_VALUE else None
