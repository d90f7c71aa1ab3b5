"""What an AMD code object says of its kernel, and whether a launch ABI agrees.

HIP is given the addresses of a kernel's parameters and copies as many bytes from each as the code object's metadata
says, to where it says: an ABI of other sizes would be read wrong without an error. The metadata is MessagePack in an
ELF note of type ``NT_AMDGPU_METADATA`` (LLVM's AMDGPU user guide, code object version 5).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BuildError
from ..runtime.abi import LaunchAbi
from ..runtime.packing import parameter_sizes
from .resources import elf_sections

_NOTE = 32  # NT_AMDGPU_METADATA
_OWNER = b"AMDGPU\0"
_POINTER, _VALUE = "global_buffer", "by_value"
_HIDDEN = "hidden_"  # parameters that the runtime fills in by itself, after those that it is given


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """Where a parameter lies in the kernel's argument segment. ``kind``: the metadata's ``.value_kind``."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """One kernel of a code object. ``target``: ``amdgcn-amd-amdhsa--gfx942``. ``segment``: bytes of its arguments;
    ``threads``: the most of a block."""

    name: str
    target: str
    parameters: tuple[KernelParameter, ...]
    segment: int
    threads: int
    warp_size: int


def read_metadata(code: bytes) -> tuple[KernelMetadata, ...]:
    """The kernels of a code object. Raises BuildError for one that is damaged."""
    try:
        notes = [
            note for name, (section, _) in elf_sections(code).items() if name == ".note" for note in _notes(section)
        ]
        (found,) = (description for owner, kind, description in notes if (owner, kind) == (_OWNER, _NOTE))
        data, _ = _unpack(found, 0)
        return tuple(_kernel(kernel, data["amdhsa.target"]) for kernel in data["amdhsa.kernels"])
    except (KeyError, IndexError, TypeError, ValueError, struct.error) as error:
        raise BuildError(
            "an AMD code object must carry its kernels' metadata",
            got=f"{type(error).__name__}: {error}",
            hint="the binary is damaged, or its compiler is newer than this reader",
        ) from error


def check_code_object(code: bytes, abi: LaunchAbi, arch: str, warp_size: int) -> None:
    """Raises BuildError where what HIP would do with the metadata is not what ``abi`` says."""
    kernels = {kernel.name: kernel for kernel in read_metadata(code)}
    kernel = kernels.get(abi.symbol)
    if kernel is None:
        raise BuildError("a code object must hold the kernel of its ABI", got=", ".join(kernels), where=abi.symbol)
    given = [parameter for parameter in kernel.parameters if not parameter.kind.startswith(_HIDDEN)]
    facts: list[tuple[str, object, object]] = [
        ("parameters' sizes", parameter_sizes(abi), tuple(parameter.size for parameter in given)),
        ("parameters' kinds", _kinds(abi), tuple(parameter.kind for parameter in given)),
        ("parameters' order", sorted(p.offset for p in given), [p.offset for p in given]),
        ("threads", abi.threads <= kernel.threads, True),
        ("warp size", warp_size, kernel.warp_size),
        ("architecture", arch, kernel.target.rpartition("--")[2].partition(":")[0]),
    ]
    for name, ours, theirs in facts:
        if ours != theirs:
            raise BuildError(
                f"a launch ABI and the metadata of its code object must agree on {name}",
                got=f"{ours} against {theirs}",
                where=abi.symbol,
                hint="this version of Triton lays out parameters in another way than tileflow knows",
            )


def _kinds(abi: LaunchAbi) -> tuple[str, ...]:
    arguments = tuple(_POINTER if arg.kind == "tensor" else _VALUE for arg in abi.args)
    return arguments + (_POINTER,) * len(abi.scratch)


def _kernel(data: Mapping[str, Any], target: str) -> KernelMetadata:
    return KernelMetadata(
        data[".name"],
        target,
        tuple(KernelParameter(arg[".offset"], arg[".size"], arg[".value_kind"]) for arg in data.get(".args", ())),
        data[".kernarg_segment_size"],
        data[".max_flat_workgroup_size"],
        data[".wavefront_size"],
    )


def _notes(section: bytes) -> list[tuple[bytes, int, bytes]]:
    """(owner, type, description) of each note of an ELF section; each part is padded to four bytes."""
    notes, at = [], 0
    while at < len(section):
        owner_size, size, kind = struct.unpack_from("<III", section, at)
        owner_at = at + 12
        start = owner_at + _padded(owner_size)
        notes.append((section[owner_at : owner_at + owner_size], kind, section[start : start + size]))
        at = start + _padded(size)
    return notes


def _padded(size: int) -> int:
    return -(-size // 4) * 4


_NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_LENGTHS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    """The MessagePack value that begins at ``at``, and where it ends. Floats and binary text occur in no metadata."""
    first = data[at]
    at += 1
    if first < 0x80:
        return first, at
    if first >= 0xE0:
        return first - 0x100, at
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if first in _NUMBERS:
        return struct.unpack_from(_NUMBERS[first], data, at)[0], at + struct.calcsize(_NUMBERS[first])
    if first < 0xC0:
        length = first & (0x1F if first >= 0xA0 else 0x0F)
    else:
        (length,) = struct.unpack_from(_LENGTHS[first], data, at)
        at += struct.calcsize(_LENGTHS[first])
    if 0xA0 <= first < 0xC0 or first in (0xD9, 0xDA, 0xDB):
        if at + length > len(data):
            raise ValueError(f"text of {length} bytes ends after the note")
        return data[at : at + length].decode(), at + length
    values = []
    for _ in range(length * (2 if first < 0x90 or first >= 0xDE else 1)):
        value, at = _unpack(data, at)
        values.append(value)
    if first < 0x90 or first >= 0xDE:
        return dict(zip(values[::2], values[1::2], strict=True)), at
    return values, at
