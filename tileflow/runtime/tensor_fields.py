"""What a launch reads of a tensor besides its elements: a bit for each field, and how each is read."""

from __future__ import annotations

from typing import Any

# the bits, in the order in which the fields are read; the C extension has the same
ADDRESS, SHAPE, STRIDES, DTYPE, ORDINAL = 1, 2, 4, 8, 16  # the ordinal of the device, which is -1 for a CPU
READS = {
    ADDRESS: "{}.data_ptr()",
    SHAPE: "{}.shape",
    STRIDES: "{}.stride()",
    DTYPE: "{}.dtype",
    ORDINAL: "{}.get_device()",
}  # as source text, of what reads the tensor


class TensorReads:
    """The fields that one launcher's text reads, tensor by tensor, each once into a local."""

    def __init__(self) -> None:
        self._locals: dict[str, dict[int, str]] = {}  # by the tensor's text, and by field

    def local(self, tensor: str, field: int, name: str) -> str:
        """The local that holds a field of the tensor: ``name``, unless it has one by now."""
        return self._locals.setdefault(tensor, {}).setdefault(field, name)

    def lines(self, is_native: bool) -> list[str]:
        """The statements that fill the locals: one for all by ``metadata``, where that is :func:`read_fields` in C, and
        else one for each, of the tensor's attribute."""
        read = [(tensor, field, self._locals[tensor][field]) for tensor in self._locals for field in self._of(tensor)]
        if not is_native or not read:
            return [f"{name} = {READS[field].format(tensor)}" for tensor, field, name in read]
        asked = bytes(sum(fields) for fields in self._locals.values())
        return [f"{', '.join(name for *_, name in read)}, = metadata({asked!r}, {', '.join(self._locals)})"]

    def _of(self, tensor: str) -> list[int]:
        return sorted(self._locals[tensor])


def read_fields(asked: bytes, *tensors: Any) -> tuple[Any, ...]:
    """One after the other the fields of each tensor that its byte asks for. Raises what its attributes do."""
    found: list[Any] = []
    for fields, tensor in zip(asked, tensors, strict=True):
        found += [tensor.data_ptr()] if fields & ADDRESS else []
        found += [tensor.shape] if fields & SHAPE else []
        found += [tensor.stride()] if fields & STRIDES else []
        found += [tensor.dtype] if fields & DTYPE else []
        found += [tensor.get_device()] if fields & ORDINAL else []
    return tuple(found)
