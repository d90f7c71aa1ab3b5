"""A kernel's parameters: their formats, and how the values of one launch get into the memory that the driver reads.

``enqueue(stream, gx, gy, gz, *values) -> status`` launches one kernel. It raises TypeError and OverflowError where the
values do not fit, and has launched nothing then. A binary's enqueue is native (``runtime.native``) or the one made
here, which stands in wherever the extension is missing; a launcher cannot tell them apart.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import InternalError, TableError
from .abi import LaunchAbi, LaunchArg

# struct's codes of Triton's signature words; native sizes and alignment are the kernel parameters' own
_FORMATS = {
    "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d", "f64": "d",
}  # fmt: skip
_TENSOR_MAP = "M"  # the value is the address of the parameter itself
_NULL = "N"  # a null pointer, for which a launch gives no value
_LEADING = "QIII"  # stream, gx, gy, gz
_SIZES = {_NULL: "Q"}
_SLOTS = {_TENSOR_MAP: "0QQ", _NULL: "0Q8x"}  # an empty 0Q aligns what follows it

# (stream, gx, gy, gz, address of the array of pointers to the parameters) -> status
Launch = Callable[[int, int, int, int, int], int]


class Enqueue(Protocol):
    """Launches one kernel with these values on a stream, given by its raw handle, and returns the driver's status."""

    def __call__(self, stream: int, gx: int, gy: int, gz: int, /, *values: float) -> int:
        """Enqueue a launch on a grid of ``gx`` by ``gy`` by ``gz`` blocks; the driver's status, 0 for success."""


def parameter_formats(abi: LaunchAbi) -> str:
    """A character for each kernel parameter: struct's code of its value, M for a tensor map, N for a null pointer."""
    scratch = "".join("Q" if size else _NULL for _, size, _ in abi.scratch)
    return "".join(_argument_formats(arg) for arg in abi.args) + scratch


def parameter_sizes(abi: LaunchAbi) -> tuple[int, ...]:
    """How many bytes of each parameter a driver reads. Raises TableError for a descriptor, which only CUDA takes."""
    if any(arg.kind == "descriptor" for arg in abi.args):
        raise TableError("only CUDA takes descriptors", got=abi.symbol)
    return tuple(struct.calcsize("@" + _SIZES.get(code, code)) for code in parameter_formats(abi))


def _argument_formats(arg: LaunchArg) -> str:
    if arg.kind == "tensor":
        return "Q"
    if arg.tensor_map is not None:
        rank = len(arg.tensor_map.shape)
        return _TENSOR_MAP + "i" * rank + "q" * rank
    try:
        return _FORMATS[arg.type]
    except KeyError:
        raise TableError(
            f"argument {arg.name} must have one of the types {', '.join(_FORMATS)}", got=repr(arg.type)
        ) from None


def python_enqueue(launch: Launch, formats: str) -> Enqueue:
    """An enqueue in Python, which packs the values with one ``struct`` call and calls ``launch`` with where they lie.

    A launch takes a buffer out of a pool for as long as the driver reads it, so that threads never share one.
    """
    codes = _LEADING + formats.replace(_NULL, "")
    # every parameter begins a slot of eight bytes
    pack = struct.Struct("@" + _LEADING + "".join(_SLOTS.get(code, "0Q" + code) for code in formats)).pack_into
    maps = [(i, len(formats[:i].replace(_NULL, ""))) for i, code in enumerate(formats) if code == _TENSOR_MAP]
    pool: list[tuple[Any, Any, int]] = []
    take, give = pool.pop, pool.append

    def enqueue(stream: int, gx: int, gy: int, gz: int, /, *values: float) -> int:
        try:
            buffer = take()  # a list's pop and append are atomic
        except IndexError:
            buffer = _new_buffer(len(formats))
        packed, pointers, address = buffer
        try:
            pack(packed, 0, stream, gx, gy, gz, *values)
            for parameter, value in maps:
                pointers[parameter] = values[value]
            return launch(stream, gx, gy, gz, address)
        except struct.error:
            raise _misfit(codes, (stream, gx, gy, gz, *values)) from None
        finally:
            give(buffer)

    return enqueue


def _new_buffer(parameters: int) -> tuple[Any, Any, int]:
    """The memory of packed values, the array of pointers to the parameters in it, and that array's address."""
    first = struct.calcsize(f"@{_LEADING}0Q")
    packed = ctypes.create_string_buffer(first + 8 * parameters)
    base = ctypes.addressof(packed) + first
    pointers = (ctypes.c_void_p * parameters)(*(base + 8 * i for i in range(parameters)))
    return packed, pointers, ctypes.addressof(pointers)


def _misfit(codes: str, values: tuple[Any, ...]) -> Exception:
    """The error of values that do not fit, in the words of ``_native.c``; struct says neither which nor why."""
    if len(values) != len(codes):
        return TypeError(f"enqueue takes {len(codes)} arguments, but got {len(values)}")
    for position, (code, value) in enumerate(zip(codes, values, strict=True)):
        try:
            struct.pack("@" + code.replace(_TENSOR_MAP, "Q"), value)
        except struct.error:
            try:
                ctypes.c_double(value) if code in "fd" else operator.index(value)
            except TypeError:
                return TypeError(f"argument {position} is not a number that '{code}' takes")
            except OverflowError:
                pass  # an integer beyond every float
            return OverflowError(f"argument {position} does not fit '{code}'")
    raise InternalError("struct must refuse a value again that it refused before", got=values)
