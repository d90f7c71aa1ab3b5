"""Problem: a call's arguments as metadata. What a table is keyed by and a trial belongs to.

No torch is needed to read one: dtypes are torch's names without the ``torch.`` prefix.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import field
from typing import Annotated, Any

from ..errors import TableError
from ..lazy_dataclass import dataclass
from ..locks import cached_property
from .codec import Between, Items, Text, decode

Scalar = int | float | bool | str | None
_Size = Annotated[int, Between(0, (1 << 63) - 1)]
_Sizes = Annotated[tuple[_Size, ...], Items(0, 64)]  # torch's tensors have at most 64 dimensions
_Word = Annotated[str, Text(512)]

_NON_FINITE = ("inf", "-inf", "nan")
_PLAIN = {"bool": bool, "int": int, "float": float, "str": str, "None": type(None)}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor argument: ``strides`` in elements; ``aligned``: its data pointer is divisible by 16."""

    dtype: _Word = field(metadata={"json": "tensor"})
    shape: _Sizes
    strides: _Sizes
    aligned: bool = True

    def validate(self) -> None:
        """Raises TableError where shape and strides are of different ranks."""
        if len(self.shape) != len(self.strides):
            raise TableError(
                "a tensor must have a stride for each size",
                got=f"{len(self.shape)} and {len(self.strides)}",
                where="strides",
            )

    @property
    def runs(self) -> str:
        """How its memory lies, whatever its sizes: for each dimension ``1`` (contiguous) or what its stride is a
        multiple of; then, where no whole vectors of 16 elements fill the contiguous ones, ``p`` and what these are
        multiples of. Multiples: ``v`` (16 elements), ``b`` (16 bytes, as boxes and the widest vectors need), ``8``,
        ``4``, ``2`` or ``s`` (single elements)."""
        lies = "".join("1" if s == 1 else self._multiple(s) for s in self.strides)
        fill = self._multiple(math.gcd(*(n for n, s in zip(self.shape, self.strides, strict=True) if s == 1)))
        return f"{lies}{'' if fill == 'v' else 'p' + fill.strip('s')}{'' if self.aligned else 'u'}"

    def _multiple(self, elements: int) -> str:
        common = math.gcd(elements, 16)
        if common == 16:
            return "v"
        bits = re.search(r"\d+", self.dtype)
        if common * max(int(bits[0]) if bits else 8, 8) >= 128:
            return "b"
        return str(common) if common > 1 else "s"

    @property
    def layout(self) -> str:
        """The stride class: ``c`` (contiguous), else the strides themselves, as ``s4096,1``."""
        expected, contiguous = 1, True
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                contiguous = False
            expected *= max(size, 1)
        return "c" if contiguous else "s" + ",".join(map(str, self.strides))

    def __str__(self) -> str:
        text = f"{self.dtype}[{'x'.join(map(str, self.shape))}]"
        if self.layout != "c":
            text += self.layout
        return text if self.aligned else text + "u"


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A Python scalar. Ints and floats are run-time parameters: their value is an example, not part of the key.
    ``bool``, ``str``, ``None``, dtypes, and a ``constexpr int`` or ``constexpr float`` select code and are."""

    type: _Word = field(metadata={"json": "scalar"})
    value: Scalar

    @staticmethod
    def json_fields(data: dict[str, Any]) -> dict[str, Any]:
        """A float as one: JSON has neither infinities nor nan, so that they are text in a file."""
        value = data.get("value")
        if not str(data.get("scalar")).endswith("float") or type(value) is bool:
            return data
        if isinstance(value, int) or value in _NON_FINITE:
            return data | {"value": float(value)}
        return data

    def validate(self) -> None:
        """Raises TableError where the value is not of the type."""
        expected = _PLAIN.get(self.type.removeprefix("constexpr "))
        if expected is not None and type(self.value) is not expected:
            raise TableError(
                f"a scalar's value must be of its type, {self.type}", got=repr(self.value)[:80], where="value"
            )

    @property
    def selects_code(self) -> bool:
        """Whether the value selects code, so that it is a part of the key."""
        return self.type not in ("int", "float")

    def __str__(self) -> str:
        return f"{self.value!r}" if self.selects_code else self.type


@dataclass(frozen=True, slots=True)
class CallableSpec:
    """A function argument (an epilogue): the hash of its code, and the specs of what it closes over (a default of its
    parameter ``p`` is called ``default:p``)."""

    name: _Word = field(metadata={"json": "callable"})
    hash: _Word
    cells: tuple[tuple[_Word, ArgSpec], ...] = ()

    def __str__(self) -> str:
        cells = ",".join(f"{name}={spec}" for name, spec in self.cells)
        return f"fn:{self.hash[:12]}({cells})"


ArgSpec = TensorSpec | ScalarSpec | CallableSpec


@dataclass(frozen=True)  # without slots, for its texts are kept: a first call asks for them again and again
class Problem:
    """``kernel``: ``module:qualname``. ``args``: (parameter name, spec) in the signature's order."""

    kernel: _Word
    args: tuple[tuple[_Word, ArgSpec], ...]

    @cached_property
    def key(self) -> str:
        """Canonical text, the same on every machine: ``x=bfloat16[4096x8192] eps=float``."""
        return " ".join(f"{name}={spec}" for name, spec in self.args)

    @property
    def hash(self) -> str:
        """16 hex digits of the kernel and the key."""
        return hashlib.sha256(f"{self.kernel} {self.key}".encode()).hexdigest()[:16]

    @cached_property
    def categories(self) -> str:
        """All of the key but the sizes: what must be equal for one row to serve another shape."""
        parts = []
        for name, spec in self.args:
            if isinstance(spec, TensorSpec):
                layout = "c" if spec.layout == "c" else "s"
                parts.append(f"{name}={spec.dtype}[{len(spec.shape)}]{layout}{'' if spec.aligned else 'u'}")
            elif isinstance(spec, CallableSpec):
                parts.append(f"{name}=fn:{spec.hash[:12]}")
            else:
                parts.append(f"{name}={spec}")
        return " ".join(parts)

    @cached_property
    def kinds(self) -> str:
        """The part of the key that selects code for any sizes, strides and alignment: dtypes, ranks, values that select
        code, functions. A default that takes any size and layout serves the calls of its own kinds."""
        return _kinds(self.args)

    @property
    def layouts(self) -> str:
        """How the memory of its tensors lies: what vectors and boxes of a variant for any size can rely on."""
        return ",".join(spec.runs for _, spec in self.args if isinstance(spec, TensorSpec))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """``x.shape.0`` and so on, in order: the numeric part of the key."""
        return {
            f"{name}.shape.{i}": size
            for name, spec in self.args
            if isinstance(spec, TensorSpec)
            for i, size in enumerate(spec.shape)
        }

    @property
    def bucket(self) -> str:
        """The categories with every size rounded up to a power of two."""
        sizes = ",".join(str(1 << max(n - 1, 0).bit_length()) for n in self.sizes.values())
        return f"{self.categories} @ {sizes}"

    def distance(self, other: Problem) -> float:
        """The sum over sizes of ``|log2(a / b)|``: doublings between two problems of the same categories."""
        pairs = zip(self.sizes.values(), other.sizes.values(), strict=True)
        return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in pairs)

    def to_json(self) -> dict[str, Any]:
        """The problem as it stands in a table and in a journal."""
        return {"kernel": self.kernel, "args": [[name, _spec_to_json(spec)] for name, spec in self.args]}

    @staticmethod
    def from_json(data: Any) -> Problem:
        """The inverse of :meth:`to_json`. Raises TableError."""
        return decode(Problem, data)

    def __str__(self) -> str:
        return f"{self.kernel} {self.key}"


def _kinds(specs: tuple[tuple[str, ArgSpec], ...]) -> str:
    parts = []
    for name, spec in specs:
        if isinstance(spec, TensorSpec):
            parts.append(f"{name}={spec.dtype}[{len(spec.shape)}]")
        elif isinstance(spec, CallableSpec):
            parts.append(f"{name}=fn:{spec.hash[:12]}({_kinds(spec.cells)})")
        else:
            parts.append(f"{name}={spec}")
    return " ".join(parts)


def _spec_to_json(spec: ArgSpec) -> dict[str, Any]:
    if isinstance(spec, TensorSpec):
        return {"tensor": spec.dtype, "shape": list(spec.shape), "strides": list(spec.strides), "aligned": spec.aligned}
    if isinstance(spec, ScalarSpec):
        value = spec.value
        if isinstance(value, float):
            value = float(value) if math.isfinite(value) else str(float(value))
        return {"scalar": spec.type, "value": value}
    return {"callable": spec.name, "hash": spec.hash, "cells": [[n, _spec_to_json(s)] for n, s in spec.cells]}
