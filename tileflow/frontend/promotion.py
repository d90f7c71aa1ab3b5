"""torch's own type promotion, asked of torch itself on tensors without elements, and remembered.

Where the CPU computes an operation in a dtype, its answer is the one of meta tensors; where it does not, those are
asked. Not at first, for their implementation in Python takes a second to load.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, reduce
from typing import Any

import torch

from ..errors import TraceError
from ..ir.graph import Operand
from ..ir.ops import POINTWISE
from ..ir.types import FLOAT_BITS, INT_BITS, Value, is_float

# how an operand takes part in promotion: its dtype (or a Python number's type), and whether it has dimensions
Kind = tuple[str, bool]


def torch_dtype(name: str) -> torch.dtype:
    """``torch.float32`` for ``float32``."""
    return getattr(torch, name)  # type: ignore[no-any-return]


def torch_limits(dtype: str) -> tuple[int, int]:
    """The least and the largest number of an integer dtype, by its name."""
    limits = torch.iinfo(torch_dtype(dtype))
    return limits.min, limits.max


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``. Raises TraceError for what is no dtype, or one that GPUs do not compute in."""
    name = str(dtype).removeprefix("torch.")
    if not isinstance(dtype, torch.dtype) or (name not in FLOAT_BITS and name not in INT_BITS):
        raise TraceError(
            "a dtype is torch.float32, torch.int8, torch.bool ...", got=repr(dtype), hint=_instead_of(dtype)
        )
    return name


def _instead_of(dtype: object) -> str:
    """What is passed instead of a dtype that kernels do not have."""
    if not isinstance(dtype, torch.dtype):
        return "a dtype's name is no dtype"
    if dtype.is_complex:
        return "of complex tensors pass torch.view_as_real(x)"
    if str(dtype).startswith(("torch.qint", "torch.quint")):
        return "of quantized tensors pass x.int_repr()"
    return "pass the bytes, x.view(torch.uint8)"


def kind_of(operand: Value | int | float | bool) -> Kind:
    """The promotion kind of an operand. A weak scalar counts as the Python number it stands for."""
    if not isinstance(operand, Value):
        return type(operand).__name__, False
    if operand.type.weak:
        return ("float" if is_float(operand.type.dtype) else "int"), False
    return operand.type.dtype, bool(operand.dims)


_NARROWER = {
    "int": frozenset({"int8", "uint8", "int16", "uint16", "int32", "uint32"}),
    "float": frozenset({"float16", "bfloat16"}),
}


def weakened(kinds: tuple[Kind, ...], are_numbers: Sequence[bool]) -> tuple[Kind, ...]:
    """The kinds of operands, those of numbers as Python's where scalars decide that are narrower than these are held.
    Beside others it makes no difference."""
    pairs = [*zip(kinds, are_numbers, strict=True)]
    others = {kind for kind, is_number in pairs if not is_number and kind[0] != "bool"}
    return tuple(_weak(kind, others) if is_number and others else kind for kind, is_number in pairs)


def _weak(kind: Kind, others: Collection[Kind]) -> Kind:
    """The kind of a number that is held in a dtype, as Python's where all others are scalars of narrower ones."""
    if kind[0] in ("int", "float", "bool"):
        return kind
    word = "float" if is_float(kind[0]) else "int"
    is_decided = all(name in _NARROWER[word] and not has_dims for name, has_dims in others)
    return (word, False) if is_decided else kind


def _stand_in(kind: Kind, device: str) -> Any:
    name, has_dims = kind
    if name in ("int", "float", "bool") and not has_dims and name != "bool":
        return {"int": 1, "float": 1.0}[name]
    return torch.ones((0,) if has_dims else (), dtype=torch_dtype(name), device=device)  # what ints are divided by


@lru_cache(maxsize=4096)
def promote(kinds: tuple[Kind, ...]) -> str:
    """The dtype in which operands of these kinds, however many, meet."""
    categories: dict[tuple[bool, bool], Any] = {}  # tiles, tiles without dimensions, numbers: each meets its own first
    for kind in sorted(kinds, key=_category, reverse=True):
        one = _stand_in(kind, "meta")
        categories[_category(kind)] = _meeting(categories.get(_category(kind), one), one)
    first, *rest = categories.values()
    return dtype_name(reduce(_meeting, rest, first).dtype if rest else torch.result_type(first, first))


def _category(kind: Kind) -> tuple[bool, bool]:
    """Whether an operand has dimensions, and whether it has a dtype: what has less decides less."""
    name, has_dims = kind
    return has_dims, has_dims or name not in ("int", "float")


def _meeting(a: Any, b: Any) -> Any:
    """A stand-in for what two meet in."""
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        return max(a, b, key=lambda number: isinstance(number, float))
    return torch.zeros_like(a if isinstance(a, torch.Tensor) else b, dtype=torch.result_type(a, b))


@lru_cache(maxsize=4096)
def result_dtype(fn: str, kinds: tuple[Kind, ...]) -> str:
    """The dtype of ``POINTWISE[fn]`` on operands of these kinds. Raises TypeError or RuntimeError where torch does."""
    if POINTWISE[fn].boolean:
        return "bool"
    if fn == "fma":
        return promote(kinds[1:])
    if fn in ("minimum", "maximum", "logical_and", "logical_or", "logical_xor") and len(kinds) == 2:
        return promote(kinds)  # torch takes no number there
    numbers = [isinstance(_stand_in(k, "meta"), (int, float)) for k in kinds]
    if numbers[0] and not all(numbers) and fn not in ("where", "pow"):
        # torch.sub(1, tensor) and others take a tensor first; the operator form does not mind
        if fn == "sub":
            return _by_some_device(fn, kinds[::-1])  # the other difference has this dtype, and bools have none
        dtype = promote(kinds)
        return result_dtype(fn, ((dtype, True),) * len(kinds))
    return _by_some_device(fn, kinds)


def _by_some_device(fn: str, kinds: tuple[Kind, ...]) -> str:
    try:
        return result_by_torch(fn, kinds, "cpu")
    except NotImplementedError:  # a CPU computes less than a GPU
        return result_by_torch(fn, kinds, "meta")


def result_by_torch(fn: str, kinds: tuple[Kind, ...], device: str) -> str:
    """The dtype that torch itself gives ``fn`` of arguments of these kinds, by calling it on small tensors."""
    stand_ins = [_stand_in(k, device) for k in kinds]
    if not any(isinstance(s, torch.Tensor) for s in stand_ins):
        stand_ins[0] = torch.as_tensor(stand_ins[0], device=device)
    return dtype_name(POINTWISE[fn].evaluate(*stand_ins).dtype)


# where torch rounds a Python number to a half type: at which places; elsewhere it computes with the number itself
_ROUNDED = dict.fromkeys(("remainder", "fmod", "pow", "eq", "ne", "lt", "le", "gt", "ge"), (0, 1)) | {"floordiv": (0,)}


def number_as(fn: str, place: int, operand: Operand, dtype: str) -> Operand:
    """A Python number as torch takes it at this place among operands of ``dtype``: ints wrap, and some functions round
    it to a half type. Other operands stay as they are."""
    if isinstance(operand, (bool, Value)) or dtype == "bool":
        return operand
    wanted = torch_dtype(dtype)
    if not wanted.is_floating_point:
        return _wrapped(int(operand), torch.iinfo(wanted))
    return rounded(float(operand), dtype) if wanted.itemsize == 2 and place in _ROUNDED.get(fn, ()) else operand


def _wrapped(number: int, limits: torch.iinfo) -> int:
    return (number - limits.min) % (limits.max - limits.min + 1) + limits.min


@lru_cache(maxsize=4096)
def rounded(number: float, dtype: str) -> float:
    """The nearest number of a floating dtype."""
    return float(torch.tensor(number, dtype=torch.float64, device="cpu").to(torch_dtype(dtype)))


@lru_cache(maxsize=4096)
def operand_dtype(fn: str, kinds: tuple[Kind, ...]) -> str:
    """The dtype that operands of ``fn`` are converted to before it is computed (half types stay so by name)."""
    values = kinds[1:] if fn == "where" else kinds
    dtype = promote(values)
    if POINTWISE[fn].float_only and not torch_dtype(dtype).is_floating_point:
        return dtype_name(torch.get_default_dtype())
    return dtype
