"""What the compiler refuses of torch's functions in device code, refused of plain Python over tiles in the same words:
what is developed on a CPU compiles.

torch's own functions take more there: captured tensors whole, ``x.sum(1)[t]``, and tiles where nothing is implemented.
Exceptions are what looks at values: text, ``print(x)``, ``tile.tolist()``, and what is typed at a breakpoint.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType, FrameType
from typing import Any

import torch

from ..errors import TraceError
from ..language.captured_views import name_of_view
from ..language.in_place import authors, is_in_place, is_operator, is_statement
from ..runtime.argtree import RecordShell, open_shell, tensors
from ..runtime.objects import ObjectShell
from . import operations
from .described import refuse_device
from .in_place import FILLING
from .promotion import dtype_name
from .refusals import as_operand, makes_a_tensor, not_a_number, not_implemented, of_a_tile, of_captured, text_of
from .torch_aliases import instead_of
from .torch_registry import FACTORIES, METHODS, TABLE
from .values import FACTORIES as FACTORIES_OF_A_TENSOR
from .values import TensorRef, TileValue

_FAMILIES = operations.FAMILIES  # imported, they have filled the tables that are read here

_TEXTS = frozenset({"__repr__", "__str__", "__format__"})
_LOOKING = frozenset({"tolist", "item", "numpy", "__array__", "cpu"})
_DEVICES = frozenset({"is_cuda", "is_cpu", "is_meta", "is_xpu", "is_mps", "get_device"})
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like"})
_BY_INDEX = frozenset({"__getitem__", "__setitem__", "__len__", "__hash__", "__index__", "__bool__"})
_AS_A_DTYPE = frozenset({"to", "type", "type_as"})  # take another tensor's, whichever that is
_NO_NUMBER = {
    "__len__": "length",
    "__contains__": "iteration",
    "__iter__": "iteration",
    "__reversed__": "length",
    "__complex__": "float",
}
_TRANSFORMS = ("torch._functorch", "torch._higher_order_ops")  # torch's text of functions that take functions
_ITERATION = torch.Tensor.__iter__.__code__
_LEVELS = 4  # of containers around an object that is called, in what a function's variables hold


def _public(kind: type) -> frozenset[str]:
    return frozenset(name for name in dir(kind) if not name.startswith("_"))


_OF_TILES = _public(TileValue)
_OF_CAPTURED = _public(TensorRef) | _BY_INDEX | _LIKE | FACTORIES_OF_A_TENSOR | {"result_type", "embedding"}


def check_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], frame: FrameType, kernel: CodeType) -> None:
    """Raises what the compiler does for a call of torch's function ``func`` that code in ``frame`` asks for, or torch's
    own Python there. ``kernel``: the code of the user's function."""
    first, whole = _first_and_whole((*args, *kwargs.values()) if kwargs else args)
    is_iteration = frame.f_code is _ITERATION
    if first is None or (whole is None and not is_iteration and _is_taken(func)):
        return
    name = "__iter__" if is_iteration else _name(func)
    if name in _TEXTS or (_is_inside(frame) and not is_iteration):
        return
    is_first = bool(args) and whole is args[0]
    is_taken = _is_known(name, func, frame, first) if whole is None else _takes_whole(name, func, is_first)
    if not is_taken and not _is_typed(frame) and not _is_called_by_torch(frame, kernel):
        if whole is None:
            raise _of_tile(first, name, func)
        if not _is_of_a_callable(whole, frame, kernel):
            raise _of_whole(whole, name, func, is_first, frame)
    if name in _DEVICES:
        refuse_device(name if name != "get_device" else "get_device()")


def check_made(func: Any, made: Any, frame: FrameType) -> None:
    """Raises what the compiler does for a function that makes a tensor of no tensors."""
    if isinstance(made, torch.Tensor) and made.ndim and func not in FACTORIES and not _is_typed(frame):
        raise makes_a_tensor(func.__name__)


def _name(func: Any) -> str:
    """The name of a function, of a method, or of the attribute that a getter of tensors reads."""
    name = str(getattr(func, "__name__", func))
    return str(func.__self__.__name__) if name in ("__get__", "__set__") else name


def _first_and_whole(values: Iterable[Any]) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The first tensor among arguments, and the first captured one that has dimensions."""
    first: torch.Tensor | None = None
    for value in values:
        whole = None
        if isinstance(value, torch.Tensor):
            first = value if first is None else first
            whole = value if not hasattr(value, "tileflow_kept") and value.ndim else None
        elif isinstance(value, (tuple, list)):
            inside, whole = _first_and_whole(value)
            first = inside if first is None else first
        if whole is not None:
            return first, whole
    return first, None


@cache
def _is_taken(func: Any) -> bool:
    """Whether tiles have the method, or device code the function, wherever it is called."""
    name = _name(func)
    return not is_in_place(name) and name not in _DEVICES and _is_known(name, func)


def _takes_whole(name: str, func: Any, is_first: bool) -> bool:
    """Whether device code passes a captured tensor to a function as it is, as its first argument or another."""
    if name in _AS_A_DTYPE:
        return not is_first
    return name in _OF_CAPTURED or (is_first and bool(name_of_view(func)))


def _is_known(name: str, func: Any, frame: FrameType | None = None, tile: torch.Tensor | None = None) -> bool:
    """Whether tiles have the method, or device code the function. ``x += y`` and ``x.add_(y)`` make another tile."""
    if is_in_place(name):
        if frame is None or is_operator(frame):
            return frame is not None
        is_method = _is_method(func) and (name[:-1] in METHODS or name in FILLING)
        return is_method and tile is not None and is_statement(frame, tile, name)
    if name in _NO_NUMBER:
        return False
    if name in _OF_TILES or name in METHODS or name in _LOOKING or func in TABLE or func in FACTORIES:
        return True
    return name.startswith("__")


def _of_whole(tensor: torch.Tensor, name: str, func: Any, is_first: bool, frame: FrameType) -> TraceError:
    path, is_iterated = _called(tensor, frame), name == "__iter__"
    as_method = is_first and not is_iterated and _is_method(func) and not is_operator(frame)
    if as_method or (is_first and instead_of(name, path)):
        return of_captured(name, path)
    if not is_iterated and not _is_method(func) and not _is_known(name, func, frame):
        return not_implemented(name)
    dtype, sizes = dtype_name(tensor.dtype), ", ".join(map(str, tensor.shape))
    return as_operand(text_of(path, dtype, sizes), path)


def _of_tile(tensor: torch.Tensor, name: str, func: Any) -> TraceError:
    if name in _NO_NUMBER:
        return not_a_number(_NO_NUMBER[name], f"{dtype_name(tensor.dtype)}{[*tensor.shape]}")
    return of_a_tile(name) if _is_method(func) else not_implemented(name)


def _is_method(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(torch.Tensor, name, None) is func


def _is_inside(frame: FrameType) -> bool:
    """Whether it is torch's Python of a function that takes functions, which the compiler knows as a whole."""
    return str(frame.f_globals.get("__name__", "")).startswith(_TRANSFORMS)


def _is_called_by_torch(frame: FrameType | None, kernel: CodeType) -> bool:
    """Whether a function of torch's, as a scan, calls the author's: what it passes is made of tiles."""
    while frame is not None and frame.f_code is not kernel:
        if _is_inside(frame):
            return True
        frame = frame.f_back
    return False


def _is_typed(frame: FrameType) -> bool:
    """Whether the code is no text of a file, as what is typed at a breakpoint."""
    name = authors(frame).f_code.co_filename
    return name in ("<string>", "<stdin>") and not linecache.getlines(name)


def _called(tensor: torch.Tensor, frame: FrameType) -> str:
    """What the author's code calls a tensor."""
    names = authors(frame).f_locals.items()
    return next((name for name, value in names if value is tensor), "x")


def _is_of_a_callable(tensor: torch.Tensor, frame: FrameType | None, kernel: CodeType) -> bool:
    """Whether a tensor is an attribute of a module, or of another object that is called, where it stands for all of its
    elements."""
    while frame is not None:
        named = [frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals]
        if any(held is tensor for held in _of_callables([*frame.f_locals.values(), *named], _LEVELS)):
            return True
        frame = None if frame.f_code is kernel else frame.f_back
    return False


def _of_callables(values: Iterable[Any], levels: int) -> Iterator[torch.Tensor]:
    """The tensors that are attributes of objects that can be called, in the values."""
    for value in values:
        opened = None if isinstance(value, (torch.Tensor, type)) else open_shell(value)
        if opened is None:
            continue
        shell, parts = opened
        if isinstance(shell, (ObjectShell, RecordShell)) and callable(value):
            yield from tensors(parts)
        elif levels:
            yield from _of_callables(parts, levels - 1)
