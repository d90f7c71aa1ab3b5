"""The launch ABI: how a region's binary is called. Written at build time, followed at launch, stored in tables.

A *region* is one outermost tile loop of a kernel; its launch reads variables of the host function's frame.
Everything a launch needs is an Expr over *launch symbols*:

    "<path>.shape.<i>", "<path>.stride.<i>"   of the tensor found at <path> (strides in elements)
    "<path>.align"                            1 if its data pointer is divisible by 16, else 0
    "<path>"                                  the int (or bool) found at <path>
    "begin.<i>", "end.<i>"                    the bounds of the i-th axis of the region's tile loop
    "<knob name>"                             a knob of the config, encoded as Knob.encode says
    "target.<field>"                          a field of the Target

A *path* leads from the host frame to a captured value, and is read again at each launch: a variable's name,
then any of ``.cell:<name>`` (closure cell), ``.default:<name>``, ``.global:<name>`` (of a function), ``.item:<i>``,
``.key:<word>`` (of a dictionary), ``.attr:<name>``. A name that host code does not bind is looked up among the
function's own closure cells, then its globals.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..errors import TableError
from ..expr import Expr

ArgKind = Literal["tensor", "int", "float", "descriptor"]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """How the copy engine of Hopper and later moves a block between device and shared memory.

    ``shape``, ``strides``: of the tensor, in elements, Exprs over launch symbols; the last stride is 1. ``box``,
    ``element_bytes``, ``element_type`` (CUtensorMapDataType), ``swizzle`` (CUtensorMapSwizzle): what Triton chose for
    the block when it compiled the kernel; an empty ``box`` before that.
    """

    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...] = ()
    element_bytes: int = 0
    element_type: int = 0
    swizzle: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "shape": [e.to_json() for e in self.shape], "strides": [e.to_json() for e in self.strides],
            "box": list(self.box), "element_bytes": self.element_bytes, "element_type": self.element_type,
            "swizzle": self.swizzle,
        }  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> TensorMap:
        shape, strides = (tuple(Expr.from_json(e) for e in data[key]) for key in ("shape", "strides"))
        return TensorMap(
            shape, strides, tuple(data["box"]), data["element_bytes"], data["element_type"], data["swizzle"]
        )


@dataclass(frozen=True, slots=True)
class LaunchArg:
    """One run-time argument of a binary, in order.

    ``type`` is Triton's signature word (``*bf16``, ``i32``, ``i64``, ``fp32``). A tensor or float is read at ``path``;
    an int is ``value``, an Expr over launch symbols. ``divisible_by_16`` was assumed by the compiler (guarded).
    A descriptor (``tensordesc<bf16[128, 64]>``) is the tensor at ``path`` seen through ``tensor_map``; it fills
    several of the binary's parameters: the map, the shape as i32, the strides as i64.

    ``dtype``, ``rank``: what the binary assumes of a tensor, as torch names dtypes (``float8_e4m3fn``); empty and -1 in
    an ABI of version 1 or 2. ``stored``: whether the binary may write into the tensor; None where that is not known.
    """

    name: str
    kind: ArgKind
    type: str
    path: str = ""
    value: Expr | None = None
    divisible_by_16: bool = False
    tensor_map: TensorMap | None = None
    dtype: str = ""
    rank: int = -1
    stored: bool | None = None

    def to_json(self) -> dict[str, Any]:
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
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchArg:
        value, tensor_map = data.get("value"), data.get("tensor_map")
        return LaunchArg(
            data["name"], data["kind"], data["type"], data.get("path", ""),
            None if value is None else Expr.from_json(value), data.get("divisible_by_16", False),
            None if tensor_map is None else TensorMap.from_json(tensor_map),
            data.get("dtype", ""), data.get("rank", -1), data.get("stored"),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaunchAbi:
    """How to launch one binary.

    ``symbol``: the entry point's name. ``grid``: three Exprs, counted in programs (a cluster of blocks is one).
    ``threads``: per block. ``shared``: dynamic shared memory, bytes. ``scratch``: (name, bytes per block, alignment) of
    the scratch pointers that Triton appends after the arguments; size 0 passes a null pointer. ``cluster``: block
    cluster dims (1, 1, 1 for none).
    """

    symbol: str
    args: tuple[LaunchArg, ...]
    grid: tuple[Expr, Expr, Expr]
    threads: int
    shared: int
    scratch: tuple[tuple[str, int, int], ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    pdl: bool = False

    @property
    def version(self) -> int:
        """The oldest reader of this ABI: 2 knows descriptors, 3 what is assumed of each tensor."""
        if any(a.dtype or a.stored is not None for a in self.args):
            return 3
        return 2 if any(a.kind == "descriptor" for a in self.args) else 1

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version, "symbol": self.symbol, "args": [a.to_json() for a in self.args],
            "grid": [g.to_json() for g in self.grid], "threads": self.threads, "shared": self.shared,
            "scratch": [list(s) for s in self.scratch], "cluster": list(self.cluster),
            "cooperative": self.cooperative, "pdl": self.pdl,
        }  # fmt: skip

    @staticmethod
    def from_json(data: dict[str, Any]) -> LaunchAbi:
        if data.get("version") not in (1, 2, 3):
            raise TableError("launch_abi.version must be 1, 2 or 3", got=data.get("version"), hint="upgrade tileflow")
        x, y, z = (Expr.from_json(g) for g in data["grid"])
        cx, cy, cz = data["cluster"]
        return LaunchAbi(
            data["symbol"], tuple(LaunchArg.from_json(a) for a in data["args"]), (x, y, z), data["threads"],
            data["shared"], tuple((n, s, a) for n, s, a in data["scratch"]), (cx, cy, cz),
            data["cooperative"], data["pdl"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resources:
    """Static facts of a binary. ``spills``: bytes of local memory a thread. ``instructions``: counts by mnemonic class
    (``mma``, ``load_global``, ``store_global``, ``load_shared``, ``sfu``, ``fma``, ``total`` ...); empty where unread.
    """

    registers: int
    spills: int
    shared: int
    threads: int
    instructions: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"instructions": dict(self.instructions)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Resources:
        return Resources(data["registers"], data["spills"], data["shared"], data["threads"],
                         tuple(sorted(data.get("instructions", {}).items())))  # fmt: skip


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
