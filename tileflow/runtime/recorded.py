"""A call as metadata that it can be made from again: what of its tensors' values matters beside their layouts.

Integers and booleans are indices, offsets, lengths and masks: few are kept as they are, of many their range, whether
they ascend, and the share of True. Floats are random numbers.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import SpecError
from .argtree import bind_call, is_traced
from .problem import Problem, ScalarSpec, TensorSpec

RECORDED = "recorded"  # the keyword of ``Kernel.inputs`` that holds a call's text
MOST_KEPT = 256  # integers of one tensor that are kept as they are
MOST_INTERPRETED_BYTES = 1 << 20  # of a call that is checked by Triton's interpreter


def values_of(arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is kept of the integers and booleans among a call's tensors, by parameter."""
    return {
        name: _kept(value)
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and _has_values(value)
    }


def _has_values(tensor: torch.Tensor) -> bool:
    counts = not (tensor.is_floating_point() or tensor.is_complex())
    return counts and tensor.numel() > 0 and tensor.device.type != "meta" and not is_traced(tensor)


def _kept(tensor: torch.Tensor) -> dict[str, Any]:
    flat = tensor.detach().reshape(-1)
    if flat.numel() <= MOST_KEPT:
        return {"data": flat.tolist()}
    if flat.dtype == torch.bool:
        return {"share": float(flat.float().mean())}
    wide = flat.long()
    ascending = bool((wide[1:] >= wide[:-1]).all())
    return {"low": int(wide.min()), "high": int(wide.max()), "ascending": ascending}


def text_of(problem: Problem, values: Mapping[str, Mapping[str, Any]]) -> str:
    """A call as one line of text. ``values``: of :func:`values_of`."""
    return json.dumps({"args": problem.to_json()["args"], "values": values}, separators=(",", ":"))


def problem_of(text: str) -> Problem:
    """The metadata in a call's text, of no kernel in particular."""
    return Problem.from_json({"kernel": "a:call", "args": json.loads(text)["args"]})


def arguments(text: str, signature: inspect.Signature, device: str, interpreted: bool = False) -> tuple[Any, ...]:
    """The arguments of the call that ``text`` says, by position, random by torch's generator. Raises SpecError for what
    cannot be made from metadata, and ValueError for calls that are ``interpreted`` and too large for that."""
    specs, kept = dict(problem_of(text).args), json.loads(text)["values"]
    if interpreted:
        _require_small(specs.values())
    made = []
    for name in signature.parameters:
        if name not in specs:
            raise SpecError(
                "a call that was recorded is made of tensors and scalars",
                got=", ".join(specs),
                where=name,
                hint="tune it where it stands: kernel.tune(*args)",
            )
        made.append(_argument(name, specs[name], kept.get(name, {}), device))
    return tuple(made)


def _require_small(specs: Any) -> None:
    nbytes = sum(_room(s) * getattr(torch, s.dtype).itemsize for s in specs if isinstance(s, TensorSpec))
    if nbytes > MOST_INTERPRETED_BYTES:
        raise ValueError(f"an interpreter is given {MOST_INTERPRETED_BYTES} bytes of arguments at most")


def _argument(name: str, spec: Any, values: Mapping[str, Any], device: str) -> Any:
    if isinstance(spec, TensorSpec):
        return _tensor(spec, values, device)
    if isinstance(spec, ScalarSpec):
        match spec.type.removeprefix("constexpr "):
            case "bool" | "int" | "float" | "str" | "None":
                return spec.value
            case "dtype":
                return getattr(torch, str(spec.value))
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


def _tensor(spec: TensorSpec, values: Mapping[str, Any], device: str) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    room, skipped = _room(spec), 0 if spec.aligned else 1
    if device == "meta":
        flat = torch.empty(room + skipped, dtype=dtype, device=device)
    elif dtype.is_floating_point or dtype.is_complex:
        wide = dtype if dtype.itemsize > 1 else torch.float32
        flat = torch.randn(room + skipped, dtype=wide, device=device).to(dtype)
    else:
        flat = _integers(room + skipped, dtype, values, device)
    made = flat.as_strided(spec.shape, spec.strides, skipped)
    data = values.get("data")
    if data is not None and device != "meta" and 0 not in spec.strides:
        made.copy_(torch.tensor(data, device=device).reshape(spec.shape).to(dtype))
    return made


def _integers(count: int, dtype: torch.dtype, values: Mapping[str, Any], device: str) -> torch.Tensor:
    """Random integers of the recorded range; where none was recorded zeros, which are valid indices everywhere."""
    if dtype == torch.bool:
        share: float = values.get("share", 1.0)
        return torch.rand(count, device=device).lt(share)
    if "low" not in values:
        return torch.full((count,), int(values.get("data", (0,))[0]), device=device).to(dtype)
    made = torch.randint(values["low"], values["high"] + 1, (count,), device=device)
    if values["ascending"]:
        made = made.sort().values
        made[0], made[-1] = values["low"], values["high"]
    return made.to(dtype)


def bound(signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
    """A call's arguments by parameter."""
    return bind_call(signature, name, args, kwargs)
