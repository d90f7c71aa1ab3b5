"""A call as metadata that it can be made from again: what of its tensors' values matters beside their layouts.

Integers and booleans are indices, offsets, lengths and masks: few are kept as they are, of many their range, whether
they ascend, and the share of True. Floats are random numbers. Arguments that share memory share it again, as they lay.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import SpecError
from .argtree import bind_call, is_traced
from .overlap import by_memory
from .problem import Problem, ScalarSpec, TensorSpec

RECORDED = "recorded"  # the keyword of ``Kernel.inputs`` that holds a call's text
MOST_KEPT = 256  # integers of one tensor that are kept as they are
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # of int64
MOST_INTERPRETED_BYTES = 1 << 20  # of a call that is checked by Triton's interpreter
_ALIGNMENT = 16  # bytes, of a tensor that counts as aligned

Memory = Sequence[Mapping[str, int]]  # groups of arguments that share memory, and where each begins in it, in bytes


def values_of(arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is kept of the integers and booleans among a call's tensors, by parameter."""
    return {
        name: _kept(value)
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and _has_values(value)
    }


def _has_values(tensor: torch.Tensor) -> bool:
    counts = not (tensor.is_floating_point() or tensor.is_complex())
    if not counts or tensor.numel() == 0 or tensor.device.type == "meta" or is_traced(tensor):
        return False
    # Reading a value waits for the device, which ends the capture of a graph.
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _kept(tensor: torch.Tensor) -> dict[str, Any]:
    if tensor.numel() <= MOST_KEPT:
        return {"data": tensor.detach().reshape(-1).tolist()}
    flat = _once(tensor.detach()).reshape(-1)
    if flat.dtype == torch.bool:
        return {"share": float(flat.float().mean())}
    wide = flat.view(torch.int64) ^ _LEAST if flat.dtype == torch.uint64 else flat.long()  # in the same order
    above = _above(flat.dtype)
    ascending = bool((wide[1:] >= wide[:-1]).all())
    return {"low": int(wide.min()) + above, "high": int(wide.max()) + above, "ascending": ascending}


def _once(tensor: torch.Tensor) -> torch.Tensor:
    """What is expanded, once: it may stand for more elements than memory holds, and repeats do not ascend."""
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]


def _above(dtype: torch.dtype) -> int:
    """How far the integers of ``dtype`` lie above those of int64 that they are drawn and compared as."""
    return -_LEAST if dtype == torch.uint64 else 0


def memory_of(arguments: Mapping[str, Any]) -> list[dict[str, int]]:
    """The groups of a call's tensors whose memory overlaps: by parameter, the bytes from a multiple of 16 that the
    group has in common to the tensor's first one."""
    named = {
        name: value
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and not is_traced(value) and value.numel() and value.device.type != "meta"
    }
    groups = []
    for tensors in by_memory(named.values()):
        held = {name: value.data_ptr() for name, value in named.items() if any(value is tensor for tensor in tensors)}
        begin = min(held.values()) // _ALIGNMENT * _ALIGNMENT
        groups += [{name: address - begin for name, address in held.items()}] if len(held) > 1 else []
    return groups


def text_of(problem: Problem, values: Mapping[str, Mapping[str, Any]], memory: Memory = ()) -> str:
    """A call as one line of text. ``values``: of :func:`values_of`; ``memory``: of :func:`memory_of`."""
    shared = {"memory": memory} if memory else {}
    return json.dumps({"args": problem.to_json()["args"], "values": values} | shared, separators=(",", ":"))


def problem_of(text: str) -> Problem:
    """The metadata in a call's text, of no kernel in particular."""
    return Problem.from_json({"kernel": "a:call", "args": json.loads(text)["args"]})


def arguments(text: str, signature: inspect.Signature, device: str, interpreted: bool = False) -> tuple[Any, ...]:
    """The arguments of the call that ``text`` says, by position, random by torch's generator. Raises SpecError for what
    cannot be made from metadata, and ValueError for calls that are ``interpreted`` and too large for that."""
    specs, given = dict(problem_of(text).args), json.loads(text)
    kept, memory = given["values"], given.get("memory", [])
    if interpreted:
        _require_small(specs.values())
    for name in signature.parameters:
        spec = specs.get(name)
        if spec is None:
            raise SpecError(
                "a call that was recorded is made of tensors and scalars",
                got=", ".join(specs),
                where=name,
                hint="tune it where it stands: kernel.tune(*args)",
            )
        if isinstance(spec, TensorSpec):
            _require_values(name, spec, kept.get(name, {}))
    _require_memory(memory, specs)
    made: dict[str, torch.Tensor] = {}
    for group in memory:
        made |= _together(group, specs, kept, device)
    return tuple(
        made[name] if name in made else _argument(name, specs[name], kept.get(name, {}), device)
        for name in signature.parameters
    )


def _require_small(specs: Any) -> None:
    nbytes = sum(_nbytes(spec) for spec in specs if isinstance(spec, TensorSpec))
    if nbytes > MOST_INTERPRETED_BYTES:
        raise ValueError(f"an interpreter is given {MOST_INTERPRETED_BYTES} bytes of arguments at most")


def _require_values(name: str, spec: TensorSpec, values: Any) -> None:
    """Raise SpecError where ``values`` is not what :func:`values_of` keeps of such a tensor."""
    match values:
        case {"data": [*data]}:
            fits = len(data) == math.prod(spec.shape) and _are_of(spec.dtype, data)
        case {"low": int(low), "high": int(high), "ascending": bool()}:
            fits = low <= high and _are_of(spec.dtype, (low, high))
        case {"share": int() | float() as share}:
            fits = 0 <= share <= 1
        case _:
            fits = values == {}
    if not fits:
        raise SpecError(
            "a recorded tensor must have values of its shape and type, their range, or a share of True",
            got=f"{str(values)[:100]} of {spec.dtype}{list(spec.shape)}",
            where=name,
            hint="record the call again",
        )


def _require_memory(memory: Any, specs: Mapping[str, Any]) -> None:
    """Raise SpecError where ``memory`` is not what :func:`memory_of` says of such arguments."""
    match memory:
        case [*groups] if all(_overlap(group, specs) for group in groups):
            names = [name for group in groups for name in group]
        case _:
            names = [""] * 2
    if len(set(names)) < len(names):
        raise SpecError(
            "recorded tensors that share memory must be named once, with the bytes at which they begin, and overlap",
            got=str(memory)[:100],
            where="memory",
            hint="record the call again",
        )


def _overlap(group: Any, specs: Mapping[str, Any]) -> bool:
    """Whether the tensors of ``group`` are of the call, begin where theirs may, and lie in one piece of memory."""
    if not isinstance(group, dict) or len(group) < 2:
        return False
    covered = _ALIGNMENT
    for name, begin in sorted(group.items(), key=lambda item: item[1] if type(item[1]) is int else -1):
        spec = specs.get(name)
        if type(begin) is not int or not isinstance(spec, TensorSpec) or not 0 <= begin < covered:
            return False
        if begin % _dtype(spec.dtype).itemsize or spec.aligned != (begin % _ALIGNMENT == 0) or 0 in spec.shape:
            return False
        covered = begin + _nbytes(spec) if covered == _ALIGNMENT else max(covered, begin + _nbytes(spec))
    return True


def _are_of(name: str, data: Sequence[Any]) -> bool:
    dtype = _dtype(name)
    if dtype == torch.bool:
        return all(isinstance(value, bool) for value in data)
    if dtype.is_floating_point or dtype.is_complex:
        return False
    of = torch.iinfo(dtype)
    return all(type(value) is int and of.min <= value <= of.max for value in data)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise SpecError("a recorded tensor must have a type of torch", got=name, hint="is torch older than it was?")
    return found


def _argument(name: str, spec: Any, values: Mapping[str, Any], device: str) -> Any:
    if isinstance(spec, TensorSpec):
        return _tensor(spec, values, device)
    if isinstance(spec, ScalarSpec):
        match spec.type.removeprefix("constexpr "):
            case "bool" | "int" | "float" | "str" | "None":
                return spec.value
            case "dtype":
                return _dtype(str(spec.value))
            case "setting" if spec.value in ("cuda", "cpu"):
                return torch.device(device)
    raise SpecError(
        "a call that was recorded is made of tensors and scalars",
        got=str(spec),
        where=name,
        hint="tune it where it stands: kernel.tune(*args)",
    )


def _room(spec: TensorSpec) -> int:
    """Elements from the first to the last."""
    if 0 in spec.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(spec.shape, spec.strides, strict=True))


def _nbytes(spec: TensorSpec) -> int:
    return _room(spec) * _dtype(spec.dtype).itemsize


def _tensor(spec: TensorSpec, values: Mapping[str, Any], device: str) -> torch.Tensor:
    skipped = 0 if spec.aligned else 1
    flat = torch.empty(skipped + _room(spec), dtype=_dtype(spec.dtype), device=device)
    _fill(flat[skipped:], spec, values)
    return flat.as_strided(spec.shape, spec.strides, skipped)


def _together(
    group: Mapping[str, int], specs: Mapping[str, Any], kept: Mapping[str, Any], device: str
) -> dict[str, torch.Tensor]:
    """The tensors of ``group`` in one piece of memory. What is recorded of a part of a larger one holds for the part;
    integers are as recorded where floats share their memory."""
    nbytes = max(begin + _nbytes(specs[name]) for name, begin in group.items())
    memory = torch.zeros(-(-nbytes // _ALIGNMENT) * _ALIGNMENT, dtype=torch.uint8, device=device)
    made = {}
    for name in sorted(group, key=lambda name: (not _is_random(specs[name]), -_nbytes(specs[name]))):
        spec, dtype = specs[name], _dtype(specs[name].dtype)
        flat = memory.view(dtype)[group[name] // dtype.itemsize :][: _room(spec)]
        _fill(flat, spec, kept.get(name, {}))
        made[name] = flat.as_strided(spec.shape, spec.strides, flat.storage_offset())
    return made


def _is_random(spec: TensorSpec) -> bool:
    dtype = _dtype(spec.dtype)
    return dtype.is_floating_point or dtype.is_complex


def _fill(flat: torch.Tensor, spec: TensorSpec, values: Mapping[str, Any]) -> None:
    """Put numbers into the memory of a tensor, which is ``flat``."""
    if flat.device.type == "meta":
        return
    if not _is_random(spec):
        _put_integers(flat, spec, values)
        return
    wide = flat.dtype if flat.dtype.itemsize > 1 else torch.float32
    flat.copy_(torch.randn(flat.numel(), dtype=wide, device=flat.device))


def _put_integers(flat: torch.Tensor, spec: TensorSpec, values: Mapping[str, Any]) -> None:
    """Put the recorded integers into the memory of a tensor, or random ones like them; where none were recorded zeros,
    which are valid indices everywhere, and masks are all True. What lies between its elements stays as it is."""
    shape = [1 if stride == 0 else size for size, stride in zip(spec.shape, spec.strides, strict=True)]
    stored = flat.as_strided(shape, spec.strides, flat.storage_offset())  # what is expanded is there once
    stored.zero_()
    if "data" in values:
        given = torch.tensor(values["data"], dtype=flat.dtype, device=flat.device).reshape(spec.shape)
        stored.copy_(given[tuple(slice(size) for size in shape)])
    elif flat.dtype == torch.bool:
        stored.copy_(torch.rand(shape, device=flat.device).lt(values.get("share", 1.0)))
    elif "low" in values:
        above = _above(flat.dtype)
        made = _between(values["low"] - above, values["high"] - above, math.prod(shape), flat.device)
        if values["ascending"]:
            made = made.sort().values
            made[0], made[-1] = values["low"] - above, values["high"] - above
        made = (made ^ _LEAST).view(torch.uint64) if above else made.to(flat.dtype)
        stored.copy_(made.reshape(shape))


def _between(low: int, high: int, count: int, device: torch.device) -> torch.Tensor:
    """Random int64 from ``low`` to ``high``, the least and the most of all among them."""
    if high < _MOST:
        return torch.randint(low, high + 1, (count,), device=device)
    if low > _LEAST:
        return torch.randint(low - 1, high, (count,), device=device) + 1
    return torch.empty(count, dtype=torch.int64, device=device).random_(low, None)


def bound(signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
    """A call's arguments by parameter."""
    return bind_call(signature, name, args, kwargs)
