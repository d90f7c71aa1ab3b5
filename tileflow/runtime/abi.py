"""The launch ABI: how a region's binary is called. Written at build time, followed at launch, stored in tables.

A *region* is one outermost tile loop of a kernel; its launch reads variables of the host function's frame.
Everything a launch needs is an Expr over *launch symbols*:

    "<path>.shape.<i>", "<path>.stride.<i>"   of the tensor found at <path> (strides in elements)
    "<path>.align"                            1 if its data pointer is divisible by 16, else 0
    "<path>.digest"                           of a constant that host code made: see ``paths.digest_of``
    "<path>"                                  the int (or bool) found at <path>
    "begin.<i>", "end.<i>"                    the bounds of the i-th axis of the region's tile loop
    "<knob name>"                             a knob of the config, encoded as Knob.encode says
    "target.<field>"                          a field of the Target

A *path* leads from the host frame to a captured value, and is read again at each launch: a variable's name,
then any of ``.cell:<name>`` (closure cell), ``.default:<name>``, ``.global:<name>`` (of a function), ``.item:<i>``,
``.key:<word>``, ``.entry:<i>`` (the i-th value of a dictionary), ``.attr:<name>``. A name that host code does not bind
is looked up among the function's own closure cells, then its globals.
"""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from dataclasses import asdict
from typing import Annotated, Any, Literal

from ..errors import TableError
from ..expr import Expr
from ..lazy_dataclass import dataclass
from .codec import AsObject, Between, Items, Text, decode
from .limits import (
    DESCRIPTOR,
    DTYPES,
    ELEMENT_WORDS,
    FLOAT_WORDS,
    INT_WORDS,
    MAX_CLUSTER,
    Bytes,
    ClusterDim,
    Count,
    Dims,
    Name,
    Shared,
    Threads,
    check_grid,
    check_symbols,
)
from .paths import MAX_PATH, Path

ArgKind = Literal["tensor", "int", "float", "descriptor"]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How the copy engine of Hopper and later moves a block between device and shared memory.

    ``shape``, ``strides``: of the tensor, in elements, Exprs over launch symbols; the last stride is 1. ``box``,
    ``element_bytes``, ``element_type`` (CUtensorMapDataType), ``swizzle`` (CUtensorMapSwizzle): what Triton chose for
    the block when it compiled the kernel; an empty ``box`` before that.

    ``copied``: the map is of a copy, which each launch makes since rows of the tensor begin where the engine takes
    none: the tensor's dimensions in the copy's order, which is also that of ``shape``; empty where there is no copy.
    """

    shape: Dims
    strides: Dims
    box: Annotated[tuple[Annotated[int, Between(1, 256)], ...], Items(0, 5)] = ()
    element_bytes: Annotated[int, Between(0, 16)] = 0
    element_type: Annotated[int, Between(0, 31)] = 0
    swizzle: Annotated[int, Between(0, 15)] = 0
    copied: Annotated[tuple[Annotated[int, Between(0, 4)], ...], Items(0, 5)] = ()

    def validate(self) -> None:
        """Raises TableError where its parts are of different ranks."""
        if len(self.strides) != len(self.shape) or len(self.box) not in (0, len(self.shape)):
            raise TableError(
                "a tensor map's shape, strides and box must be of one rank",
                got=f"{len(self.shape)}, {len(self.strides)} and {len(self.box)}",
            )
        if self.copied and sorted(self.copied) != list(range(len(self.shape))):
            raise TableError("a copy must have each of the tensor's dimensions once", got=self.copied, where="copied")
        check_symbols(self.shape, "shape")
        check_symbols(self.strides, "strides")

    def to_json(self) -> dict[str, Any]:
        """The map as it stands in a table, its Exprs as JSON."""
        data: dict[str, Any] = {
            "shape": [e.to_json() for e in self.shape],
            "strides": [e.to_json() for e in self.strides],
            "box": list(self.box),
            "element_bytes": self.element_bytes,
            "element_type": self.element_type,
            "swizzle": self.swizzle,
        }
        return data | {"copied": list(self.copied)} if self.copied else data


Combination = Literal["add", "min", "max"]


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of a tensor in its place: programs change one each, and the launch combines them with the tensor
    (:mod:`tileflow.runtime.copies`). ``how``: what the programs do to elements, as torch does to the copies. ``dtype``:
    of the copies, as torch names it."""

    count: Annotated[int, Between(2, 1 << 12)]
    how: Combination
    dtype: Annotated[str, Text(32)]

    def validate(self) -> None:
        """Raises TableError where torch has no such dtype."""
        if self.dtype not in DTYPES:
            raise TableError("the dtype of copies must be one of torch's", got=repr(self.dtype), where="dtype")

    def to_json(self) -> dict[str, Any]:
        """The copies as they stand in a table."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LaunchArg:
    """One run-time argument of a binary, in order.

    ``type`` is Triton's signature word (``*bf16``, ``i32``, ``i64``, ``fp32``). A tensor or float is read at ``path``;
    an int is ``value``, an Expr over launch symbols. ``divisible_by_16`` was assumed by the compiler (guarded).
    A descriptor (``tensordesc<bf16[128, 64]>``) is the tensor at ``path`` seen through ``tensor_map``; it fills
    several of the binary's parameters: the map, the shape as i32, the strides as i64.

    ``dtype``, ``rank``: what the binary assumes of a tensor, as torch names dtypes (``float8_e4m3fn``); empty and -1 in
    an ABI of version 1 or 2. ``stored``: whether the binary may write into the tensor; None where that is not known.
    ``copies``: of the tensor, of which the binary takes the first one's address.
    """

    name: Name
    kind: ArgKind
    type: Name
    path: Annotated[str, Text(MAX_PATH, 0)] = ""
    value: Expr | None = None
    divisible_by_16: bool = False
    tensor_map: TensorMap | None = None
    dtype: Annotated[str, Text(32, 0)] = ""
    rank: Annotated[int, Between(-1, 64)] = -1
    stored: bool | None = None
    copies: Copies | None = None

    def validate(self) -> None:
        """Raises TableError where the fields do not fit the kind."""
        if (self.value is not None) != (self.kind == "int") or (self.tensor_map is not None) != self._is_descriptor:
            raise TableError(
                "an int argument must have a value, a descriptor a tensor_map, and no other either",
                got=f"{self.kind} {self.name}",
            )
        if not self._has_known_type:
            raise TableError(
                f"the type of a {self.kind} argument must be a signature word of one",
                got=repr(self.type[:80]),
                where="type",
            )
        if self.kind != "int":
            Path.parse(self.path)
        if self.value is not None:
            check_symbols([self.value], "value")
        if self.dtype and self.dtype not in DTYPES:
            raise TableError("an argument's dtype must be one of torch's", got=repr(self.dtype), where="dtype")
        if self.copies is not None and self.kind != "tensor":
            raise TableError("only a tensor has copies in its place", got=f"{self.kind} {self.name}", where="copies")
        if bool(self.dtype) != (self.rank >= 0):
            raise TableError("an argument must say both dtype and rank or neither", got=f"{self.dtype!r}, {self.rank}")

    @property
    def _is_descriptor(self) -> bool:
        return self.kind == "descriptor"

    @property
    def _has_known_type(self) -> bool:
        match self.kind:
            case "int":
                return self.type in INT_WORDS
            case "float":
                return self.type in FLOAT_WORDS
            case "tensor":
                return self.type[:1] == "*" and self.type[1:] in ELEMENT_WORDS
        found = DESCRIPTOR.fullmatch(self.type)
        return found is not None and found[1] in ELEMENT_WORDS

    def to_json(self) -> dict[str, Any]:
        """The argument as it stands in a table; fields at their defaults are left out."""
        data: dict[str, Any] = {"name": self.name, "kind": self.kind, "type": self.type}
        if self.path:
            data["path"] = self.path
        if self.value is not None:
            data["value"] = self.value.to_json()
        if self.divisible_by_16:
            data["divisible_by_16"] = True
        if self.tensor_map is not None:
            data["tensor_map"] = self.tensor_map.to_json()
        if self.dtype:
            data |= {"dtype": self.dtype, "rank": self.rank}
        if self.stored is not None:
            data["stored"] = self.stored
        if self.copies is not None:
            data["copies"] = self.copies.to_json()
        return data


@dataclass(frozen=True, slots=True)
class LaunchAbi:
    """How to launch one binary.

    ``symbol``: the entry point's name. ``grid``: three Exprs, counted in programs (a cluster of blocks is one).
    ``threads``: per block. ``shared``: dynamic shared memory, bytes. ``scratch``: (name, bytes per block, alignment) of
    the scratch pointers that Triton appends after the arguments; size 0 passes a null pointer. ``cluster``: block
    cluster dims (1, 1, 1 for none).
    """

    symbol: Name
    args: Annotated[tuple[LaunchArg, ...], Items(0, 1024)]
    grid: tuple[Expr, Expr, Expr]
    threads: Threads
    shared: Shared
    scratch: Annotated[tuple[tuple[Name, Bytes, Bytes], ...], Items(0, 8)] = ()
    cluster: tuple[ClusterDim, ClusterDim, ClusterDim] = (1, 1, 1)
    cooperative: bool = False
    pdl: bool = False

    @property
    def version(self) -> int:
        """The oldest reader of this ABI: 2 knows descriptors, 3 what is assumed of each tensor, 4 copies that are read,
        5 copies that are written."""
        if any(a.copies is not None for a in self.args):
            return 5
        if any(a.tensor_map is not None and a.tensor_map.copied for a in self.args):
            return 4
        if any(a.dtype or a.stored is not None for a in self.args):
            return 3
        return 2 if any(a.kind == "descriptor" for a in self.args) else 1

    def to_json(self) -> dict[str, Any]:
        """The ABI as it stands in a table, with its version."""
        return {
            "version": self.version,
            "symbol": self.symbol,
            "args": [a.to_json() for a in self.args],
            "grid": [g.to_json() for g in self.grid],
            "threads": self.threads,
            "shared": self.shared,
            "scratch": [list(s) for s in self.scratch],
            "cluster": list(self.cluster),
            "cooperative": self.cooperative,
            "pdl": self.pdl,
        }

    @staticmethod
    def json_fields(data: dict[str, Any]) -> dict[str, Any]:
        """The fields of an ABI in a file. Raises TableError for one of a version that this reader does not know."""
        version = data.get("version")
        if type(version) is not int or not 1 <= version <= 5:
            raise TableError("launch_abi.version must be 1 to 5", got=reprlib.repr(version), hint="upgrade tileflow")
        return {name: value for name, value in data.items() if name != "version"}

    def validate(self) -> None:
        """Raises TableError where a launch could not be written from it."""
        if not self.symbol.isidentifier():
            raise TableError("an entry point must be named by an identifier", got=repr(self.symbol), where="symbol")
        check_grid(self.grid)
        if math.prod(self.cluster) > MAX_CLUSTER:
            raise TableError(f"a cluster must have at most {MAX_CLUSTER} blocks", got=self.cluster, where="cluster")
        takes_tensor = any(a.kind in ("tensor", "descriptor") for a in self.args)
        if not takes_tensor and any(size for _, size, _ in self.scratch):
            raise TableError("a kernel with scratch memory must take a tensor", got=self.symbol, where="scratch")

    @staticmethod
    def from_json(data: Any) -> LaunchAbi:
        """The inverse of :meth:`to_json`. Raises TableError."""
        return decode(LaunchAbi, data)


@dataclass(frozen=True, slots=True)
class Resources:
    """Static facts of a binary. ``spills``: bytes of local memory a thread, without arrays that the code declares.
    ``instructions``: counts by mnemonic class (``mma``, ``load_global``, ``store_global``, ``load_shared``, ``sfu``,
    ``fma``, ``total`` ...); empty where unread.
    """

    registers: Count
    spills: Count
    shared: Count
    threads: Count
    instructions: Annotated[tuple[tuple[str, Count], ...], AsObject()] = ()

    def to_json(self) -> dict[str, Any]:
        """The resources as they stand in a table."""
        return asdict(self) | {"instructions": dict(self.instructions)}


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code of one region for one device class, with all that a launch needs. Pickles.

    ``region``: the index of the outermost tile loop. ``guards``: an Expr over launch symbols that must hold for this
    variant. ``mode``: ``static`` (sizes are constants) or ``dynamic``. ``format``: ``cubin`` or ``hsaco``.
    """

    region: int
    target: str
    format: str
    code: bytes
    abi: LaunchAbi
    guards: Expr
    resources: Resources
    mode: Literal["static", "dynamic"] = "static"

    @property
    def sha256(self) -> str:
        """The digest of the machine code: its file name in a bundle."""
        return hashlib.sha256(self.code).hexdigest()

    @property
    def hash(self) -> str:
        """Identity of code, ABI and guards together."""
        abi = json.dumps([self.abi.to_json(), self.guards.to_json(), self.region], sort_keys=True)
        return hashlib.sha256(self.code + abi.encode()).hexdigest()
