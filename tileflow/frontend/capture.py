"""Captured variables of a region: host values become what device code sees, addressed by access path."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from ..errors import TraceError
from ..expr import Expr, is_knob
from ..ir.attributes import ScalarAttrs
from ..ir.graph import ScalarParam, TensorParam
from ..ir.kinds import OpKind
from ..ir.types import TileType
from ..language.captured_views import taken
from ..runtime.argtree import FunctionShell, SequenceShell, open_shell, tensors
from ..runtime.numpy_numbers import plain_number
from ..runtime.paths import digest_of, is_spelled, key_step
from .captured_objects import captured
from .described import CallDevice
from .host_containers import HostDict, HostList
from .host_values import ConstantFloat, ConstantInt, SymbolicInt
from .outer_tensors import CapturedClass, CapturedModule, OuterTensors, leads_to_tensors
from .promotion import dtype_name
from .trace import Tracer
from .user_code import is_user
from .values import TensorRef

_SCALAR_FLOAT = "float32"
Memory = Sequence[torch.UntypedStorage]


def memory_of(values: Iterable[Any]) -> Memory:
    """The memory of the tensors among what a call passed."""
    return [tensor.untyped_storage() for tensor in tensors(values)]


class Capturer:
    """Turns one launch's captured values into proxies, each read once a path.

    ``call``: what device code calls functions by.
    ``local``: the variables that host code binds; what else is captured, the kernel's hash sees. ``passed``: those
    that hold what the call passed, whose key tells constants apart. ``varying``: paths of ints that were seen to change
    between calls of one key, or have many values in this one. ``outside``: cells and globals, whose changes are
    watched. ``memory``: of the tensors that the call passed; ``given``, the paths of captured ones that may lie in
    memory with each other: those that lie there, and those from outside. What host code allocates lies in none but its
    own. ``kernel``: the user's function.
    """

    def __init__(
        self,
        tracer: Tracer,
        call: Callable[..., Any],
        local: Collection[str] = (),
        passed: Collection[str] = (),
        varying: Collection[str] = (),
        outside: Collection[str] = (),
        memory: Memory = (),
        kernel: FunctionType | None = None,
    ) -> None:
        self.t = tracer
        self._call = call
        self._local, self._passed, self._varying, self._outside = local, passed, varying, outside
        self._memory: dict[str, torch.UntypedStorage] = {}  # of each captured tensor, by its path
        self._passed_memory = memory
        self._views: dict[str, Any] = {}  # that device code took, by their paths
        self.given: set[str] = set()
        self.constants: dict[str, int] = {}  # ints that host code computed, by their paths
        self.outer = OuterTensors(self.capture, kernel, local)

    def capture(self, value: Any, path: str) -> Any:  # noqa: C901
        """What device code sees of ``value``, found at ``path`` of the host frame."""
        value = plain_number(value)
        if isinstance(value, torch.Tensor):
            with self.t.plain_torch():  # an object's attributes are captured while device code runs
                return self._tensor(value, path)
        if isinstance(value, bool):
            return self._bool(value, path)
        if isinstance(value, torch.device) and self._is_made(path):
            return CallDevice(str(self.t.device))  # each launch has another than the lowering, which is none
        if value is None or isinstance(value, (str, torch.dtype, Enum)):
            return self._made(value, path)
        if isinstance(value, (ConstantInt, ConstantFloat)):
            return self._constant(value, path)
        if isinstance(value, SymbolicInt):
            return self._symbolic(value, path)
        if isinstance(value, int):
            return self._int(value, path)
        if isinstance(value, float):
            return self._float(path)
        if isinstance(value, (tuple, list)):
            self._made(value, path)  # a loop over it is written out: a longer one would be cut short
            items = [self.capture(v, f"{path}.item:{i}") for i, v in enumerate(value)]
            if type(value) is list:
                return HostList(items, path, self.t)
            if isinstance(value, torch.Size):  # holds Python ints only
                return tuple(items)
            return SequenceShell(type(value), len(items)).make(items)
        if isinstance(value, FunctionType) and is_user(value):
            self.outer.met(value, path)
        if isinstance(value, FunctionType) and (value.__closure__ or self._has_own_defaults(value, path)):
            return self._function(value, path)
        if isinstance(value, ModuleType) and leads_to_tensors(value):
            return CapturedModule(self._made(value, path), path, self.outer, self.capture)
        if isinstance(value, type) and leads_to_tensors(value):
            return CapturedClass(self._made(value, path), path, self.outer, self.capture)
        if isinstance(value, dict):
            return self._dictionary(value, path)
        if isinstance(value, (range, slice)):
            return self._numbered(value, path)
        if isinstance(value, functools.partial):
            parts = (self.capture(getattr(value, n), f"{path}.attr:{n}") for n in ("func", "args", "keywords"))
            function, args, keywords = parts
            return functools.partial(function, *args, **keywords)
        if isinstance(value, MethodType) and (is_user(value.__func__) or isinstance(value.__self__, torch.nn.Module)):
            function = self.capture(value.__func__, f"{path}.attr:__func__")
            return MethodType(function, self.capture(value.__self__, f"{path}.attr:__self__"))
        is_object = is_user(type(value)) and not isinstance(value, (type, FunctionType))
        if is_object or isinstance(value, (torch.nn.Module, SimpleNamespace)):
            root = path.partition(".")[0]
            given = root in self._passed
            return captured(value, path, self.capture, self._call, given or root in self._outside, given)
        return self._other(value, path)

    def _dictionary(self, value: dict[Any, Any], path: str) -> HostDict:
        """A dictionary of what its values are. Those under other keys than words and ints are found by their places,
        which the keys settle. Raises TraceError where a launch could not tell its keys apart."""
        steps = [key_step(key, place) for place, key in enumerate(value)]
        by_place = [key for (kind, _), key in zip(steps, value, strict=True) if kind == "entry"]
        if self._is_made(path) and not all(map(is_spelled, value)):
            key = next(key for key in value if not is_spelled(key))
            raise TraceError(
                "the keys of a captured dictionary are words, numbers and constants",
                got=f"{path}[{key!r}]",
                where=self.t.location(),
            )
        if by_place and ".attr:_" not in path:
            self.t.assume(f"{path}.digest", digest_of(value))
        else:
            self._made(value, path)
        paths = (f"{path}.{kind}:{name}" for kind, name in steps)
        items = {key: self.capture(item, p) for (key, item), p in zip(value.items(), paths, strict=True)}
        return HostDict(items, path, self.t)

    def _numbered(self, value: range | slice, path: str) -> range | slice:
        """A range of constants, since a loop over it is written out, or a slice, whose ends host code may compute."""
        self._made(value, path)
        if isinstance(value, slice):
            parts = {n: self.capture(getattr(value, n), f"{path}.attr:{n}") for n in ("start", "stop", "step")}
            return slice(*parts.values())
        if self._is_made(path):
            for name in ("start", "stop", "step"):
                self.t.assume(f"{path}.attr:{name}", int(getattr(value, name)))
        return range(int(value.start), int(value.stop), int(value.step))

    def _other(self, value: Any, path: str) -> Any:
        """A constant of Python's or a library's. What is outside is watched, what was passed the call's key tells; what
        host code made may be another one in the next launch. Raises TraceError where a launch could not tell."""
        is_code = isinstance(value, (FunctionType, BuiltinFunctionType, type, ModuleType))
        if is_code or not self._is_made(path) or is_spelled(value):
            return self._made(value, path)
        raise TraceError(
            "what host code makes for device code is a tensor, a number, a constant, a function, an object of a class "
            "of the kernel's author, or a tuple, list or dictionary of such",
            got=f"{path} of type {type(value).__module__}.{type(value).__qualname__}",
            where=self.t.location(),
            hint="hand on the numbers in it, as a list, or a tensor of them",
        )

    def _bool(self, value: bool, path: str) -> bool:
        """A constant. In static mode the key of the call settles one that was passed; else host code may have found it
        by a size or an int that another launch changes. No launch reads an object's private attributes."""
        if (not self.t.shape_mode.is_static or self._is_made(path)) and ".attr:_" not in path:
            self.t.assume(path, int(value))
        return value

    def _made(self, value: Any, path: str) -> Any:
        """A constant that selects code. What host code made by itself may be another one in a launch with this key."""
        if self._is_made(path) and ".attr:_" not in path:
            self.t.assume(f"{path}.digest", digest_of(value))
        return value

    def _is_made(self, path: str) -> bool:
        """Whether host code binds the variable to something else than what was passed."""
        root = path.partition(".")[0]
        return root in self._local and root not in self._passed

    def _constant(self, value: ConstantInt | ConstantFloat, path: str) -> int | float:
        """The number itself. Guards are of ints; a float is told apart by the key of the call alone."""
        if isinstance(value, ConstantFloat):
            return float(value)
        self.t.assume(path, int(value))
        return int(value)

    def _tensor(self, value: torch.Tensor, path: str) -> TensorRef:
        t = self.t
        if value.requires_grad and torch.is_grad_enabled():
            raise TraceError(
                "a kernel's tensors do not require grad",
                got=path,
                where=t.location(),
                hint="pair the kernel with a backward by tileflow.differentiable, or call it under torch.no_grad()",
            )
        keeps_layout = t.shape_mode.keeps_layout
        aligned = keeps_layout and value.data_ptr() % 16 == 0  # memory begins at 0 on the meta device
        if aligned:
            t.assume(f"{path}.align", 1)
        shape = tuple(self._size(f"{path}.shape.{i}", n) for i, n in enumerate(value.shape))
        pairs = enumerate(zip(value.shape, value.stride(), strict=True))
        is_empty = 0 in value.shape
        strides = tuple(self._stride(f"{path}.stride.{i}", n, s, is_empty) for i, (n, s) in pairs)
        # two numbers of 4 bits are a byte to device code
        own = str(value.dtype).removeprefix("torch.")
        dtype = "uint8" if value.dtype is torch.float4_e2m1fn_x2 else dtype_name(value.dtype)
        shares = self._sharing(value, path)
        t.tensors[path] = TensorParam(path, dtype, shape, strides, aligned, self._name(path), own, shares)
        return TensorRef(path, dtype, shape, strides, t, functools.partial(self._view, value, path))

    def _view(self, value: torch.Tensor, path: str, name: str) -> Any:
        """A view of a captured tensor, which each launch takes anew; a tuple for a ``chunk``, which is written out."""
        there = f"{path}.view:{name}"
        if there not in self._views:
            with self.t.plain_torch():
                made = taken(value, name, path)
                if isinstance(made, tuple):
                    self.t.assume(f"{there}.digest", digest_of(made))
                    self._views[there] = tuple(self._tensor(v, f"{there}.item:{n}") for n, v in enumerate(made))
                else:
                    self._views[there] = self._tensor(made, there)
        return self._views[there]

    def _sharing(self, value: torch.Tensor, path: str) -> tuple[str, ...]:
        """The paths of the tensors captured before in whose memory ``value`` lies."""
        memory = value.untyped_storage()
        found = tuple(p for p, known in self._memory.items() if known is memory)
        self._memory[path] = memory
        if path.partition(".")[0] not in self._local or any(memory is passed for passed in self._passed_memory):
            self.given.add(path)
        return found

    def _size(self, symbol: str, number: int) -> Expr:
        """A constant in static mode, else a symbol; 1 is a constant where it may broadcast."""
        t = self.t
        if t.shape_mode.is_static or (number == 1 and t.shape_mode.keeps_ones):
            t.assume(symbol, number)
            return Expr.of(number)
        return self._symbol(symbol, number)

    def _symbol(self, symbol: str, number: int) -> Expr:
        self.t.hints[symbol] = number
        return Expr.sym(symbol)

    def _stride(self, symbol: str, size: int, stride: int, is_empty: bool) -> Expr:
        """The Expr of a stride. It is as a size's, but strides of 0 and 1 are constants, for they decide how memory is
        read. A dimension of one element may have any, and so may a tensor of none: torch itself gives these other ones
        on the meta device than elsewhere."""
        if is_empty:
            return Expr.of(stride) if self.t.shape_mode.is_static else self._symbol(symbol, stride)
        if size == 1 and self.t.shape_mode.keeps_ones:
            return Expr.of(stride)
        if not self.t.shape_mode.keeps_layout:
            return self._symbol(symbol, stride)
        if stride in (0, 1):
            self.t.assume(symbol, stride)
            return Expr.of(stride)
        return self._size(symbol, stride)

    def _symbolic(self, value: SymbolicInt, path: str) -> Any:
        """A block size keeps its expression; a kernel's int argument is a run-time parameter.

        What host code computed from a block size may hold sizes as plain numbers, which another launch changes.
        """
        t = self.t
        if value.expr.op == "sym" and all(map(is_knob, value.expr.symbols())):
            return t.size(value.expr)
        if all(map(is_knob, value.expr.symbols())):
            if t.shape_mode.is_static:
                t.assume(path, int(value))
                return t.size(value.expr)
            t.of_knobs[path] = value.expr
        return self._parameter(value, path)

    def _parameter(self, value: int, path: str) -> Any:
        self.t.hints[path] = int(value)
        return self.t.size(Expr.sym(path))

    def _int(self, value: int, path: str) -> Any:
        """Computed by host code from sizes: a constant in static mode, until it was seen to vary."""
        if self.t.shape_mode.is_static and path not in self._varying:
            self.t.assume(path, value)
            self.constants[path] = value
            return value
        return self._parameter(value, path)

    def _float(self, path: str) -> Any:
        self.t.scalars[path] = ScalarParam(path, _SCALAR_FLOAT, self._name(path))
        return self.t.emit(OpKind.SCALAR, (), TileType(_SCALAR_FLOAT, weak=True), ScalarAttrs(path))

    def _name(self, path: str) -> str:
        """A name for what is at ``path`` that nothing else has: ``q.attr:scale`` beside ``q_scale``."""
        name = identifier(path)
        known: list[TensorParam | ScalarParam] = [*self.t.tensors.values(), *self.t.scalars.values()]
        taken = {p.name for p in known if p.path != path}
        while name in taken:
            name += "_"
        return name

    def _function(self, value: FunctionType, path: str) -> FunctionType:
        """The same code over captured cells: tensors it closes over are read anew at each launch."""
        self._made(value, path)
        opened = open_shell(value)
        assert opened is not None and isinstance(opened[0], FunctionShell)
        shell, parts = opened
        keeps_defaults = not self._has_own_defaults(value, path)
        held: list[Any] = []
        for (kind, name), part in zip(shell.steps, parts, strict=True):
            if kind == "cell":
                held.append(self.capture(part, f"{path}.cell:{name}"))
            else:
                held.append(part if keeps_defaults else self._default(part, f"{path}.default:{name}"))
        made: FunctionType = shell.make(held)
        return made

    def _has_own_defaults(self, value: FunctionType, path: str) -> bool:
        """Whether it is a user's function with defaults that another call with this key may have otherwise, or that a
        launch reads from memory."""
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if not defaults or not is_user(value):
            return False
        return path.partition(".")[0] in self._local or leads_to_tensors(defaults)

    def _default(self, value: Any, path: str) -> Any:
        """A number stays a constant, guarded: defaults are axes and flags more often than sizes."""
        return self._constant(ConstantInt(value), path) if type(value) is int else self.capture(value, path)


def identifier(path: str) -> str:
    """A Python name for what is at ``path``: ``epilogue.cell:bias`` as ``epilogue_bias``."""
    return re.sub(r"\W+", "_", re.sub(r"\.(cell|default|global|item|key|entry|attr|view):", "_", path))
