"""Calls in device code: which functions are traced by their own meaning, which are rewritten, which run as they are."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from ..errors import MissingAttribute, TraceError
from ..language.rules import IMPLEMENTED, instead_of_in_place
from ..python_functions import python_own
from ..runtime.numpy_numbers import plain_number
from .captured_objects import is_captured, is_torch_method, method_of, path_of
from .language_registry import ALWAYS, DEVICE, PYTHON, QUALIFIED, REPLACEABLE, Meaning, replaceable_builtin
from .outer_tensors import over_names
from .rewrite import rewrite_function
from .split import HOST_MARK
from .torch_registry import FACTORIES, TABLE
from .traced import Traced
from .user_code import is_user, root_of
from .values import SymInt, TensorRef, TileProxy, TileValue

if TYPE_CHECKING:
    from .control import Control
    from .trace import Tracer


def call(control: Control, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: C901
    """The language by its traced meaning, users' functions rewritten, the rest as it is."""
    t = control.tracer
    if is_captured(function):
        return call(control, method_of(function), args, kwargs)
    function = python_own(function)
    name = getattr(function, "__tileflow_device__", None)
    if name is not None:
        if name not in DEVICE:
            raise TraceError("a language function must have a traced meaning", got=name, where=t.location())
        return t.run(functools.partial(_by_its_own_names, function, DEVICE[name]), f"tfl.{name}", args, kwargs)
    if getattr(function, HOST_MARK, False) is True:
        raise TraceError(
            "the config is asked in host code",
            got=f"{function.__name__} inside a tile loop",
            where=t.location(),
            hint="call it before the loop, and use its result there",
        )
    if hasattr(function, "run_eagerly"):
        raise TraceError(
            "a tile loop calls functions, not kernels",
            got=repr(function),
            where=t.location(),
            hint="leave @tileflow.kernel off: its loops become this kernel's",
        )
    if args and isinstance(args[0], Traced) and is_of_tensors(function):
        return call(control, getattr(args[0], function.__name__), args[1:], kwargs)
    if isinstance(function, functools.partial):
        return call(control, function.func, (*function.args, *args), {**function.keywords, **kwargs})
    by_name = QUALIFIED.get((getattr(function, "__module__", None) or "", getattr(function, "__name__", "")))
    if by_name is not None:
        return t.run(by_name, function.__name__, args, kwargs)
    if (builtin := replaceable_builtin(function)) is not None:
        return REPLACEABLE[builtin](t, *args, **kwargs)
    if _is_builtin(function) and function in _IN_PLACE and isinstance(args[0], TileValue):
        plain = function.__name__.lstrip("i")
        raise MissingAttribute(
            IMPLEMENTED, got=f"operator.{function.__name__}", where=t.location(), hint=instead_of_in_place(plain)
        )
    if _is_builtin(function) and function in _HIGHER:
        return _HIGHER[function](control, *args)
    if _is_builtin(function) and function in FACTORIES:  # nor for those of what it makes
        return t.run(FACTORIES[function], function.__name__, args, kwargs)
    if _is_builtin(function) and function in _OF_SCOPES:
        raise TraceError(
            "device code names what it reads, so that a change of it is seen",
            got=f"{function.__name__}()",
            where=t.location(),
            hint="write the name itself, or keep what is looked up in a dictionary of your own",
        )
    if _is_builtin(function) and function in TABLE and any(map(_has_tile, args)):
        return t.torch_call(function, args, kwargs)  # torch itself takes no tiles for sizes
    if function in _OF_ITEMS and len(args) == 1 and isinstance(args[0], GeneratorType):
        args = (list(args[0]),)
    if _is_builtin(function) and (function in ALWAYS or (function in PYTHON and any(map(_has_traced, args)))):
        return {**PYTHON, **ALWAYS}[function](t, *map(_valued, args), **kwargs)
    if isinstance(function, MethodType) and (is_user(function.__func__) or is_torch_method(function)):
        _meet(control, function)
        with _defaults_kept(control, function.__func__):
            return _run(control, function.__func__, function.__self__, *args, **kwargs)
    if isinstance(function, FunctionType) and (is_user(function) or hasattr(function, "__tileflow_inline__")):
        with _defaults_kept(control, function):
            return _run(control, function, *args, **kwargs)
    own = vars(type(function)).get("__call__")
    if isinstance(own, FunctionType) and is_user(own):
        return _run(control, own, function, *args, **kwargs)
    if hasattr(function, "fn") and root_of(type(function)) == "triton":
        raise TraceError(
            "a Triton function is called through the language",
            got=getattr(function, "__name__", ""),
            where=t.location(),
            hint="tfl.triton_kernel(function, args, output_like)",
        )
    return plain_number(function(*args, **kwargs))  # of numpy's functions too


def _by_its_own_names(function: Any, meaning: Meaning, t: Tracer, /, *args: Any, **kwargs: Any) -> Any:
    """``meaning`` of a call of ``function``: their parameters stand in one order, and may have other names, as those of
    a dialect do."""
    if kwargs.keys() <= inspect.signature(meaning).parameters.keys():
        return meaning(t, *args, **kwargs)
    given = inspect.signature(function).bind(*args, **kwargs)
    given.apply_defaults()
    return meaning(t, *given.args, **given.kwargs)


def is_of_tensors(function: Any) -> bool:
    """Whether it is a method of torch's tensors, read off their class: ``torch.Tensor.where``. Most take no tile in a
    tensor's place, though the tile has the method."""
    return getattr(torch.Tensor, getattr(function, "__name__", ""), None) is function


def _run(control: Control, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a function as device code."""
    rewritten = _rewritten(control, function)
    return rewritten(control, *args, **kwargs)


def _rewritten(control: Control, function: Any) -> Callable[..., Any]:
    """The function as device code, over what this launch captures of the names that it reads."""
    made = rewrite_function(function)
    if not is_user(function):
        return made
    control.tracer.files.add(function.__code__.co_filename)
    seen = control.outer.read_by(function) if control.outer is not None else {}
    return over_names(made, seen) if seen else made


def _meet(control: Control, method: MethodType) -> None:
    """Notes by which path a launch finds a method of a captured object, and so what its module names."""
    path, name = path_of(method.__self__), method.__func__.__name__
    if control.outer is not None and path and getattr(method.__self__.__class__, name, None) is method.__func__:
        control.outer.met(method.__func__, f"{path}.attr:{name}.attr:__func__")


@contextmanager
def _defaults_kept(control: Control, function: Any) -> Iterator[None]:
    """Raises TraceError where a call changes a list or a dictionary that is a default: the next trace would find it."""
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    before = [(d, _content(d)) for d in defaults if isinstance(d, (list, dict, set))]
    yield
    for default, content in before:
        now = _content(default)
        if len(now) != len(content) or any(a is not b for a, b in zip(now, content, strict=True)):
            raise TraceError(
                "a function of device code keeps the defaults of its parameters",
                got=f"{function.__name__}, which changes a {type(default).__name__}",
                where=control.tracer.location(),
                hint="default to None, and make the container inside",
            )


def _content(container: Any) -> list[Any]:
    return [x for pair in container.items() for x in pair] if isinstance(container, dict) else [*container]


def _map(control: Control, function: Any, *items: Any) -> list[Any]:
    return [call(control, function, args, {}) for args in zip(*items, strict=False)]


def _reduce(control: Control, function: Any, items: Any, *initial: Any) -> Any:
    return functools.reduce(lambda a, b: call(control, function, (a, b), {}), items, *initial)


_IN_PLACE = frozenset({
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
    operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift, operator.imatmul,
})  # fmt: skip
_OF_SCOPES = frozenset({globals, eval, exec})
_OF_ITEMS = (all, any, python_own(max), python_own(min))  # what they are given by a generator may be traced
_HIGHER: dict[Any, Callable[..., Any]] = {map: _map, functools.reduce: _reduce}


def _has_traced(x: Any) -> bool:
    if isinstance(x, TensorRef):
        return not x.dims
    return isinstance(x, (TileValue, SymInt)) or (isinstance(x, (list, tuple)) and any(map(_has_traced, x)))


def _valued(x: Any) -> Any:
    """A captured 0-d tensor is its value."""
    return x[()] if isinstance(x, TensorRef) and not x.dims else x


def _has_tile(x: Any) -> bool:
    return isinstance(x, TileProxy) or (isinstance(x, (list, tuple)) and any(map(_has_tile, x)))


def _is_builtin(function: Any) -> bool:
    return isinstance(function, (BuiltinFunctionType, type))
