"""A call's arguments as metadata: the Problem that tables are keyed by.

:func:`describe` costs tens of microseconds; :mod:`.keys` stands in front of it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from ..errors import CallError
from ..target import CATALOGUE, DeviceProperties, classify, normalise_arch, nvidia_arch
from .ambient import float32_precision
from .argtree import (
    FunctionShell,
    RecordShell,
    bind_call,
    check_levels,
    is_code,
    is_traced,
    open_shell,
    path_text,
    tensors,
    walk,
)
from .keys import is_dual
from .numpy_numbers import plain_numbers
from .objects import ObjectShell, has_methods
from .problem import ArgSpec, CallableSpec, Problem, ScalarSpec, TensorSpec

CallableHash = Callable[[Callable[..., Any]], str]

LAZY = (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)
_NEVER = (*LAZY, torch.masked.MaskedTensor)  # followed by no compiler

_log = logging.getLogger("tileflow.runtime")


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

    ``callable_hash``: the semantic hash of a function argument, or of the class of an object. ``constants``: parameters
    whose numbers select code. ``multiplies``: whether the kernel may hold a matrix product, which torch's setting for
    float32 decides about.
    Raises CallError for arguments that the signature does not take or that are neither tensors, scalars nor functions.
    """
    specs: list[tuple[str, ArgSpec]] = []
    for name, value in plain_numbers(bind_call(signature, kernel_name, args, kwargs)).items():
        own = [*_specs(name, value, callable_hash)]
        if name in constants and any(isinstance(s, TensorSpec) for _, s in own):
            raise CallError(
                "a constexpr parameter takes numbers, strings and tuples of them",
                got=f"a tensor, {name}",
                hint="annotate the parameter torch.Tensor",
            )
        specs += [(n, _constant_spec(s)) for n, s in own] if name in constants else own
    multiplies = multiplies or any(isinstance(s, CallableSpec) for _, s in specs)
    precision = float32_precision() if multiplies else "highest"
    if precision != "highest" and any(isinstance(s, TensorSpec) and s.dtype == "float32" for _, s in specs):
        specs.append(("float32_matmul_precision", ScalarSpec("str", precision)))
    return Problem(kernel_name, tuple(specs))


def _specs(name: str, value: Any, callable_hash: CallableHash, level: int = 0) -> Iterator[tuple[str, ArgSpec]]:
    """The specs of an argument, or of a part of one, that is found at ``name``."""
    opened = open_shell(value)
    if opened is None:
        yield name, _plain_spec(name, value)
        return
    check_levels(level)
    shell, parts = opened
    if isinstance(shell, FunctionShell):
        yield name, _callable_spec(name, value, callable_hash, level)
        return
    if isinstance(shell, (RecordShell, ObjectShell)):
        yield f"{name}.class", _class_spec(shell, callable_hash)
    for step, part in zip(shell.steps, parts, strict=True):
        yield from _specs(path_text(name, (step,)), part, callable_hash, level + 1)


def _class_spec(shell: RecordShell | ObjectShell, callable_hash: CallableHash) -> ArgSpec:
    """What objects of a class do, and what of them no path leads to."""
    kind = shell.type
    if isinstance(shell, RecordShell):
        return (
            CallableSpec(kind.__qualname__, callable_hash(kind))
            if has_methods(kind)
            else ScalarSpec("class", kind.__qualname__)
        )
    numbers = [(name, held) for name, held in shell.fixed if isinstance(held, tuple)]
    fixed = [(name, ScalarSpec(f"constexpr {of.__name__}", of(text))) for name, (of, text) in numbers]
    hooks = [(name, ScalarSpec("bool", True)) for name in shell.hooks]
    return CallableSpec(kind.__qualname__, callable_hash(kind), (*fixed, *hooks))


def _plain_spec(name: str, value: Any) -> ArgSpec:
    if isinstance(value, torch.Tensor):
        return _tensor_spec(value)
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
        "a kernel's arguments must be tensors, numbers, bools, strings, None, dtypes, enums, functions, or hold such",
        got=f"{name} of type {type(value).__qualname__}",
        hint="pass what the kernel needs of it: its tensors and its numbers",
    )


def _constant_spec(spec: ArgSpec) -> ArgSpec:
    if isinstance(spec, ScalarSpec) and not spec.selects_code:
        return ScalarSpec(f"constexpr {spec.type}", spec.value)
    return spec


def _tensor_spec(value: torch.Tensor) -> TensorSpec:
    dtype = str(value.dtype).removeprefix("torch.")
    return TensorSpec(dtype, tuple(value.shape), tuple(value.stride()), value.data_ptr() % 16 == 0)


def _callable_spec(name: str, function: FunctionType, callable_hash: CallableHash, level: int) -> CallableSpec:
    opened = open_shell(function)
    assert opened is not None
    shell, parts = opened
    cells: list[tuple[str, ArgSpec]] = []
    for (kind, word), part in zip(shell.steps, parts, strict=True):
        if not is_code(part):  # callable_hash sees a module or a class by name
            cells += _specs(word if kind == "cell" else f"{kind}:{word}", part, callable_hash, level + 1)
    return CallableSpec(function.__name__ or name, callable_hash(function), tuple(cells))


# ---- what a kernel cannot be given ---------------------------------------------------------------------------------


def check_memory(name: str, values: Mapping[str, Any]) -> None:
    """Raises CallError, naming the argument, where a tensor is not what its memory holds: a kernel reads the memory.

    Those are lazily negated or conjugated views, tensors inside a transform of torch.func, sparse, masked, nested and
    distributed ones, parameters of lazy modules, and any while forward-mode differentiation is going on, whose tangents
    would be lost. A tensor that is traced has no memory yet, and may be of any kind but nested, masked and distributed.
    Also raised inside torch.jit.trace, which records what host code allocates and no launch, and for proxies of
    torch.fx.symbolic_trace.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        raise CallError(
            "a kernel is called outside torch.jit.trace, which would record memory that no kernel fills",
            got=f"{name} in what is traced",
            hint="torch.export.export(model, args) holds kernels as operators",
        )
    for parameter, value in values.items():
        for steps, leaf in walk(value, ()):
            if isinstance(leaf, torch.Tensor):
                _check_tensor(name, path_text(parameter, steps), leaf)
            elif isinstance(leaf, torch.fx.Proxy):
                raise CallError(
                    "a kernel is called outside torch.fx.symbolic_trace, whose arguments have no sizes and no dtypes",
                    got=f"{path_text(parameter, steps)} of type {type(leaf).__name__}",
                    where=name,
                    hint="torch.export.export(model, args) holds kernels as operators; torch.fx.wrap, of a function of "
                    "a module that calls the kernel, keeps that call whole",
                )


def _has_memory(tensor: torch.Tensor) -> bool:
    return not is_traced(tensor) and tensor.device.type != "meta"


def unlike_strided(value: torch.Tensor) -> tuple[str, str] | None:
    """What a tensor has that strided ones do not, and what to do; None of one that is its memory's elements."""
    if isinstance(value, LAZY):
        return "no size yet", "call the lazy module that it is of once, which gives its parameters their sizes"
    if isinstance(value, torch.masked.MaskedTensor):
        return "a mask", "pass x.get_data() and x.get_mask(), or x.to_tensor(0)"
    if is_distributed(value):
        return "placements, a DTensor", "pass x.to_local(), and make DTensor.from_local(...) of the result"
    if value.is_nested or value.is_quantized or value.layout is not torch.strided:
        kind = "nested sizes" if value.is_nested else value.dtype if value.is_quantized else value.layout
        return str(kind), "pass its parts (values, offsets, indices, scales), or x.to_dense()"
    return None


def is_distributed(value: torch.Tensor) -> bool:
    """Whether it is a DTensor, of which a kernel is given the part of its process: asked of what it has, since its
    class is imported by those who have any, and compilers trace the question."""
    return hasattr(value, "placements") and hasattr(value, "device_mesh")


def _check_tensor(name: str, path: str, value: torch.Tensor) -> None:
    odd = unlike_strided(value)
    # others that are traced or have no memory are followed by their shapes, whatever their layout
    is_refused = value.is_nested or isinstance(value, _NEVER) or is_distributed(value)
    if odd and (is_refused or _has_memory(value)):
        raise CallError("a kernel's tensors are strided", got=f"{path} with {odd[0]}", where=name, hint=odd[1])
    if not _has_memory(value):
        return
    refuse_transforms(name, path, value)
    if value.is_neg() or value.is_conj():
        lazily, remedy = ("negated", "resolve_neg") if value.is_neg() else ("conjugated", "resolve_conj")
        raise CallError(
            f"a kernel's tensors are not lazily {lazily}: it reads their memory as it is",
            got=path,
            where=name,
            hint=f"pass {path}.{remedy}()",
        )


def refuse_transforms(name: str, path: str, value: torch.Tensor) -> None:
    """Raises CallError for a tensor that only stands for its elements: one of a transform of torch.func, or with a
    tangent. One that a compiler traces is none."""
    if not torch.compiler.is_compiling():
        refuse_transforms_in_graph(name, path, value)


def refuse_transforms_in_graph(name: str, path: str, value: torch.Tensor) -> None:
    """The same inside what a compiler runs on its own tensors, where torch says that it is compiling."""
    if is_traced(value):
        return
    try:
        value.data_ptr()
    except RuntimeError as error:
        raise _without_memory(name, path, error) from error
    if is_dual(value):
        raise CallError(
            "a kernel has no forward-mode derivative: tangents would be lost",
            got=path,
            where=name,
            hint="leave torch.autograd.forward_ad.dual_level(), or differentiate backwards with "
            "tileflow.differentiable",
        )


def refuse_recording(name: str, values: Mapping[str, Any]) -> None:
    """Raises CallError, naming the argument, for a tensor of a launch that a transform follows by torch's operations,
    of which a launch is none: one of functionalize, or any while make_fx records."""
    records = get_proxy_mode() is not None
    for parameter, value in values.items():
        for steps, leaf in walk(value, ()):
            if not isinstance(leaf, torch.Tensor) or not _has_memory(leaf):
                continue
            path = path_text(parameter, steps)
            if records:
                raise _without_memory(name, path, 'make_fx records it; tracing_mode="fake" records the operator')
            try:
                leaf.untyped_storage().data_ptr()
            except RuntimeError as error:
                raise _without_memory(name, path, error) from error


def _without_memory(name: str, path: str, why: object) -> CallError:
    return CallError(
        "a kernel's tensors have memory",
        got=f"{path}: {why}",
        where=name,
        hint="call the kernel outside torch.func's transforms: torch.autograd differentiates what "
        "tileflow.differentiable pairs, and a batch is a dimension of the kernel's",
    )


# ---- devices ------------------------------------------------------------------------------------------------------


def device_of(values: Sequence[Any]) -> torch.device:
    """The device of a call's tensors, of a call without any the one that it names. Raises CallError for several."""
    devices = {v.device for v in tensors(values)} or {v for v in values if isinstance(v, torch.device)}
    if len(devices) != 1:
        raise CallError(
            "a kernel's tensors are on one device",
            got=", ".join(map(str, devices)) or "no tensor",
            hint="pass at least one tensor, and move all to one device: x.to(device)",
        )
    (device,) = devices
    return device


def device_class(device: torch.device | str | int) -> str:
    """The class of a live device: the catalogue's, or one that its figures describe. Raises CallError for a CPU, and
    for a GPU that is not here, of which a tensor without data may be."""
    device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if device.type != "cuda":
        raise CallError("a device class is asked of a GPU", got=str(device), hint='load(..., as_device="nvidia-h200")')
    try:
        return class_by_index(torch.accelerator.current_device_index() if device.index is None else device.index)
    except (AssertionError, RuntimeError) as error:  # what torch raises depends on its build and on the driver
        raise CallError(
            "a device class is asked of a GPU that torch reaches",
            got=f"{device} ({str(error).splitlines()[0]})",
            hint='load(..., as_device="nvidia-h200")',
        ) from error


@cache
def class_by_index(index: int) -> str:
    """The name of the device class of the card with torch's ``index``; read once a process."""
    found = device_properties(index)
    made = classify(found)
    if made.name not in CATALOGUE:
        _log.warning(
            "%s with %d SMs or CUs is not in the catalogue: it is the class %s, and borrows from %s",
            found.display_name,
            found.sm_count,
            made.name,
            ", ".join(made.siblings) or "no other",
        )
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
