"""A call's arguments as metadata: the Problem that tables are keyed by.

:func:`describe` costs tens of microseconds; :mod:`.keys` stands in front of it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, partial
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

import torch

from ..errors import CallError
from ..target import CATALOGUE, DeviceProperties, classify, normalise_arch, nvidia_arch
from .leaves import is_record
from .problem import ArgSpec, CallableSpec, Problem, ScalarSpec, TensorSpec

CallableHash = Callable[[FunctionType], str]

_log = logging.getLogger("tileflow.runtime")

_PLAIN = torch.Tensor.__torch_dispatch__


def describe(
    kernel_name: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    callable_hash: CallableHash,
    constants: Collection[str] = (),
    multiplies: bool = True,
) -> Problem:
    """The Problem of one call. Meta tensors start aligned; a tuple's items are arguments ``<name>.item:<i>``.

    ``callable_hash``: the semantic hash of a function argument. ``constants``: parameters whose numbers select code.
    ``multiplies``: whether the kernel may hold a matrix product, which torch's setting for float32 decides about.
    Raises CallError for arguments that the signature does not take or that are neither tensors, scalars nor functions.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CallError(f"{kernel_name} must be called as {signature}", got=str(error),
                        hint="arguments go by position or by these names") from None  # fmt: skip
    bound.apply_defaults()
    specs: list[tuple[str, ArgSpec]] = []
    for name, value in bound.arguments.items():
        own: list[tuple[str, ArgSpec]] = []
        _collect(name, value, callable_hash, own)
        if name in constants and any(isinstance(s, TensorSpec) for _, s in own):
            raise CallError("a constexpr parameter takes numbers, strings and tuples of them", got=f"a tensor, {name}",
                            hint="annotate the parameter torch.Tensor")  # fmt: skip
        specs += [(n, _constant_spec(s)) for n, s in own] if name in constants else own
    multiplies = multiplies or any(isinstance(s, CallableSpec) for _, s in specs)
    precision = torch.get_float32_matmul_precision() if multiplies else "highest"
    if precision != "highest" and any(isinstance(s, TensorSpec) and s.dtype == "float32" for _, s in specs):
        specs.append(("float32_matmul_precision", ScalarSpec("str", precision)))
    return Problem(kernel_name, tuple(specs))


def _collect(name: str, value: Any, callable_hash: CallableHash, specs: list[tuple[str, ArgSpec]]) -> None:
    if isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            _collect(f"{name}.item:{i}", item, callable_hash, specs)
    elif isinstance(value, dict):
        for key, item in value.items():
            part = "item" if isinstance(key, int) else "key"
            _collect(f"{name}.{part}:{key}", item, callable_hash, specs)
    elif is_record(value):
        specs.append((f"{name}.class", ScalarSpec("class", type(value).__qualname__)))
        for field in fields(value):
            _collect(f"{name}.attr:{field.name}", getattr(value, field.name), callable_hash, specs)
    elif isinstance(value, partial):
        _collect(f"{name}.attr:func", value.func, callable_hash, specs)
        _collect(f"{name}.attr:args", value.args, callable_hash, specs)
        for word, item in sorted(value.keywords.items()):
            _collect(f"{name}.attr:keywords.key:{word}", item, callable_hash, specs)
    elif isinstance(value, FunctionType):
        specs.append((name, _callable_spec(name, value, callable_hash)))
    else:
        specs.append((name, _plain_spec(name, value)))


def _plain_spec(name: str, value: Any) -> ArgSpec:
    if isinstance(value, torch.Tensor):
        return TensorSpec(
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            tuple(value.stride()),
            value.data_ptr() % 16 == 0,
        )
    if isinstance(value, Enum):
        return ScalarSpec("enum", f"{type(value).__qualname__}.{value.name}")
    if isinstance(value, torch.dtype):
        return ScalarSpec("dtype", str(value).removeprefix("torch."))
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return ScalarSpec("setting", value.type if isinstance(value, torch.device) else str(value))
    if isinstance(value, BuiltinFunctionType):
        return ScalarSpec("builtin", value.__qualname__)
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return ScalarSpec(kind.__name__, value)
    if value is None:
        return ScalarSpec("None", None)
    raise CallError(
        "a kernel's arguments must be tensors, numbers, bools, strings, None, dtypes, enums, functions, or tuples",
        got=f"{name} of type {type(value).__qualname__}",
        hint="pass what the kernel needs of it: its tensors and its numbers",
    )


def _constant_spec(spec: ArgSpec) -> ArgSpec:
    if isinstance(spec, ScalarSpec) and not spec.selects_code:
        return ScalarSpec(f"constexpr {spec.type}", spec.value)
    return spec


def _callable_spec(name: str, function: FunctionType, callable_hash: CallableHash) -> CallableSpec:
    cells: list[tuple[str, ArgSpec]] = []
    for path, value in captured(function):
        if _is_code(value):
            continue  # a module or a class: callable_hash sees it by name
        _collect(path, value, callable_hash, cells)
    return CallableSpec(function.__name__ or name, callable_hash(function), tuple(cells))


def captured(function: FunctionType) -> list[tuple[str, Any]]:
    """What a function closes over, and its parameters' defaults."""
    found = [
        (name, cell.cell_contents)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        if _is_filled(cell) and cell.cell_contents is not function
    ]
    defaults = function.__defaults__ or ()
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    found += [(f"default:{n}", v) for n, v in zip(positional[len(positional) - len(defaults) :], defaults, strict=True)]
    found += [(f"default:{n}", v) for n, v in (function.__kwdefaults__ or {}).items()]
    return found


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading raises where a recursive function is not bound yet
    except ValueError:
        return False
    return True


def _is_code(value: Any) -> bool:
    return inspect.ismodule(value) or inspect.isclass(value) or inspect.isbuiltin(value)


def tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among a call's arguments, in tuples and in what functions close over too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors(value)
        elif isinstance(value, dict):
            yield from tensors(value.values())
        elif is_record(value):
            yield from tensors(getattr(value, field.name) for field in fields(value))
        elif isinstance(value, FunctionType):
            yield from tensors(inner for _, inner in captured(value))


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether operators on the tensor are its class's own affair (fake and functional ones, DTensor): it has no memory
    that a kernel could be given."""
    return type(tensor).__torch_dispatch__ is not _PLAIN


# ---- devices ------------------------------------------------------------------------------------------------------


def device_class(device: torch.device | str | int) -> str:
    """The class of a live device: the catalogue's, or one that its figures describe. Raises CallError for a CPU."""
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type != "cuda":
        raise CallError("a device class is asked of a GPU", got=str(device), hint='load(..., as_device="nvidia-h200")')
    return _class_of(torch.accelerator.current_device_index() if device.index is None else device.index)


@cache
def _class_of(index: int) -> str:
    found = device_properties(index)
    made = classify(found)
    if made.name not in CATALOGUE:
        _log.warning(
            "%s with %d SMs or CUs is not in the catalogue: it is the class %s, and borrows from %s",
            found.display_name, found.sm_count, made.name, ", ".join(made.siblings) or "no other",
        )  # fmt: skip
    return made.name


def device_properties(index: int) -> DeviceProperties:
    """What torch says of a live device; which figures it has differs between its builds and versions."""
    said: Any = torch.cuda.get_device_properties(index)
    amd = torch.version.hip is not None
    # 0, or no such figure, on ROCm: there a block may have all that there is without asking for it.
    most = getattr(said, "shared_memory_per_block_optin", 0) or None
    return DeviceProperties(
        display_name=said.name,
        vendor="amd" if amd else "nvidia",
        arch=normalise_arch(said.gcnArchName) if amd else nvidia_arch(said.major, said.minor),
        sm_count=said.multi_processor_count,
        mem_bytes=said.total_memory,
        smem_per_block=getattr(said, "shared_memory_per_block", None) if amd and most is None else most,
        smem_per_sm=getattr(said, "shared_memory_per_multiprocessor", None),
        max_threads_per_sm=getattr(said, "max_threads_per_multi_processor", None),
        # ROCm reports one die's second level; the catalogue has the cache that the dies share.
        l2_bytes=None if amd else getattr(said, "L2_cache_size", None),
        warp_size=getattr(said, "warp_size", None),
    )
