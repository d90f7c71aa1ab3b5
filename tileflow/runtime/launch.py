"""Launching one region's binary: the Launcher protocol, and launchers generated from a binary's ABI.

A launch costs 5 us in the driver, so what is ours around it is one Python function, generated for the binary at
hand: it reads the captured values by their paths, checks the guards, packs the arguments with one ``struct`` call
into a buffer that the driver reads, and enqueues. Nothing of Triton's launcher is used (it compiles C).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import CallError, TableError
from ..expr import Expr
from ..target import find
from .abi import Binary, LaunchAbi, LaunchArg
from .bounds import bounds
from .drivers import Loaded, cuda_load, current_stream_reader, hip_load
from .paths import Path, Symbol, cell_of, default_of, read_step, root_reader
from .settled import Settled

if TYPE_CHECKING:
    import torch

# struct's codes of Triton's signature words; native sizes and alignment are the kernel parameters' own
_FORMATS = {
    "i1": "b", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d", "f64": "d",
}  # fmt: skip
_DTYPES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
}  # fmt: skip
_GRID = ("gx", "gy", "gz")
_NULL = "0Q8x"  # struct's code of a null pointer: aligned, packed without a value
_MISSING = (KeyError, AttributeError, IndexError, ValueError, TypeError)
_UNPACKABLE = (struct.error, OverflowError, TypeError)


class Launcher(Protocol):
    """Launches one variant of one region.

    One of a binary has ``settle`` too, which makes what launches for calls with the key of one that was launched for:
    see :class:`tileflow.runtime.dispatch.KeyedContext`.
    """

    guards: Expr

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        """Launch on the current stream with what ``frame`` (the host function's locals) holds now.

        False: the guards do not hold for what was captured, and nothing was launched. Raises LaunchError.
        """
        ...


def launcher_for(binary: Binary, device: torch.device | str | int, scope: FunctionType | None = None) -> Launcher:
    """A Launcher of ``binary`` on a live ``device``; ``scope``: the user's function, for captured cells and globals.

    Loads the machine code, so OutOfResources and LaunchError may come here already.
    """
    match binary.format:
        case "cubin":
            return cuda_launcher(binary, device, scope)
        case "hsaco":
            return hip_launcher(binary, device, scope)
    raise TableError("a binary's format must be cubin or hsaco", got=repr(binary.format))


def cuda_launcher(
    binary: Binary,
    device: torch.device | str | int,
    scope: FunctionType | None = None,
    *,
    driver: Any = None,
    stream: Callable[[], Any] | None = None,
) -> Launcher:
    """A Launcher through ``cuda.bindings.driver`` (which torch's CUDA builds bring).

    ``driver``, ``stream``: stand-ins for that module and for the reader of the current stream.
    """
    index = _index(device)
    loaded = cuda_load(binary, index, driver)
    return _generate(binary, loaded, index, stream or current_stream_reader(index, loaded.stream), scope)


def hip_launcher(
    binary: Binary,
    device: torch.device | str | int,
    scope: FunctionType | None = None,
    *,
    library: Any = None,
    stream: Callable[[], Any] | None = None,
) -> Launcher:
    """The twin for AMD, through ``libamdhip64.so``'s module API. Written from HIP's documentation and tested against a
    stand-in library; it has not run on hardware yet.
    """
    index = _index(device)
    loaded = hip_load(binary, index, library)
    return _generate(binary, loaded, index, stream or current_stream_reader(index, loaded.stream), scope)


def _index(device: torch.device | str | int) -> int:
    """The ordinal, as ``Tensor.get_device`` says it: -1 for the CPU."""
    if isinstance(device, int):
        return device
    import torch

    device = torch.device(device)
    if device.type == "cpu":
        return -1
    return torch.accelerator.current_device_index() if device.index is None else device.index


# ---- generating ---------------------------------------------------------------------------------------------------


_CHECKED = Settled()


def _generate(
    binary: Binary, loaded: Loaded, index: int, stream: Callable[[], Any], scope: FunctionType | None,
    settled: Settled = _CHECKED, names: tuple[str, ...] | None = None, otherwise: Callable[..., Any] | None = None,
) -> Launcher:  # fmt: skip
    """One function for one binary. It carries ``guards`` and ``settle``, which make it a Launcher.

    With ``names`` it takes the values of these variables and then the arguments of ``tile``, and hands a call that it
    declines to ``otherwise``.
    """
    writer = _Writer(binary, scope, settled, names)
    text = writer.source()
    pool: list[Any] = []
    namespace: dict[str, Any] = writer.namespace | {
        "cell_of": cell_of,
        "default_of": default_of,
        "device_index": index,
        "current_stream": stream,
        "enqueue": loaded.enqueue,
        "function": loaded.function,
        "success": loaded.success,
        "recover": loaded.recover,
        "refused": loaded.refused,
        "missing": _missing_error(binary),
        "wrong_device": _device_error(binary, index),
        "unpackable": _argument_error(binary),
        "on_device": _on_device,
        "scratch": _scratch,
        "otherwise": otherwise,
        "bounds": bounds,
        "MISSING": _MISSING,
        "UNPACKABLE": _UNPACKABLE,
        "take": pool.pop,
        "give": pool.append,
        "new_buffer": _buffer_maker(writer.slots),
        "pack": struct.Struct("@" + "".join(s for s in writer.slots if s)).pack_into,
    }
    for slot, arg in writer.maps.items():
        namespace[f"map{slot}"] = loaded.tensor_map(arg)

    exec(compile(text, f"<launcher of {binary.abi.symbol}>", "exec"), namespace)
    launch = namespace["launch"]
    launch.guards = binary.guards
    launch.settle = partial(_generate, binary, loaded, index, stream, scope)
    return cast(Launcher, launch)


class _Writer:
    """Writes the source of one launcher: each captured value, shape and pointer is read once, into a local."""

    def __init__(
        self, binary: Binary, scope: FunctionType | None, settled: Settled, names: tuple[str, ...] | None
    ) -> None:
        self.binary = binary
        self.scope = scope
        self.settled = settled
        self.names = names
        self.namespace: dict[str, Any] = {}
        scratch = tuple("Q" if size else _NULL for _, size, _ in binary.abi.scratch)
        self.slots = tuple(s for a in binary.abi.args for s in _slots(a)) + scratch
        self.maps: dict[int, LaunchArg] = {}  # by the slot of the map
        self._reads: list[str] = []
        self._locals: dict[Any, str] = {}
        self._outside: set[str] = set()
        self._reads_bounds = False
        target = find(binary.target)
        self._target = {} if target is None else dict(target.symbols())

    def source(self) -> str:
        abi = self.binary.abi
        guards = self._guards(self.binary.guards)
        values, maps = self._values(abi)
        grid = [self._expr(g) for g in abi.grid]
        captured = [(Path.parse(a.path), a) for a in abi.args if a.kind in ("tensor", "descriptor")]
        tensors = {self._value(path): a for path, a in captured}
        movable = dict.fromkeys(self._value(path) for path, _ in captured if not self.settled.holds(path))
        dtypes = [self._dtype_check(v, a) for v, a in tensors.items() if v in self._outside and _element(a) in _DTYPES]
        accepts = " and ".join([*guards, *dtypes])
        elsewhere = " or ".join(f"{v}.get_device() != device_index" for v in movable)
        devices = ", ".join(f"{v}.device" for v in tensors)
        sizes = [n if (g.constant or 0) < 1 else str(g.constant) for n, g in zip(_GRID, abi.grid, strict=True)]
        open_ended = [n for n in sizes if n in _GRID]
        launched = [f"{n} * {c}" if c != 1 else n for n, c in zip(sizes, abi.cluster, strict=True)]
        enqueue = (
            f"enqueue(function, {', '.join(launched)}, {int(abi.threads)}, 1, 1, {int(abi.shared)}, "
            "stream, buffer[0], 0)"
        )
        parameters = passed = "frame, begins, ends"
        declined, reads_bounds = "False", False
        if self.names is not None:
            own = [f"own_{name}" for name in self.names]
            passed = ", ".join([*own, "begin_or_end", "end"])
            parameters = ", ".join([*own, "begin_or_end", "end=None", "block_size=None", "*", "step=None"])
            declined, reads_bounds = f"otherwise({passed})", self._reads_bounds
        lines = [
            f"def launch({parameters}):",
            "    try:",
            *(f"        {line}" for line in self._reads or ["pass"]),
            "    except MISSING as error:",
            "        raise missing(error) from error",
            *(["    begins, ends = bounds(begin_or_end, end)"] if reads_bounds else []),
            *([f"    if not ({accepts}):", f"        return {declined}"] if accepts else []),
            *(f"    {n} = {g}" for n, g in zip(_GRID, grid, strict=True) if n in open_ended),
            *([f"    if {' or '.join(f'{n} <= 0' for n in open_ended)}:", "        return True"] if open_ended else []),
            *([f"    if {elsewhere}:", f"        raise wrong_device([{devices}])"] if movable else []),
            "    stream = current_stream()",
            "    if stream is None:",
            f"        return on_device(device_index, launch, {passed})",
            *(f"    {line}" for line in self._scratch_lines(abi, sizes, list(tensors))),
            # each thread takes its own; a list's pop and append are atomic
            "    try:",
            "        buffer = take()",
            "    except IndexError:",
            "        buffer = new_buffer()",
            *(self._pack_lines([*values, *(f"s{i}_ptr" for i, (_, size, _) in enumerate(abi.scratch) if size)])),
            *(f"    m{slot} = {text}" for slot, text in maps.items()),
            *(f"    buffer[2][{slot}] = m{slot}[0]" for slot in maps),
            f"    status = {enqueue}",
            "    if status != success and recover(status):",
            f"        status = {enqueue}",
            "    give(buffer)",
            "    if status != success:",
            "        raise refused(status)",
            "    return True",
        ]
        return "\n".join(lines) + "\n"

    def _pack_lines(self, values: list[str]) -> list[str]:
        if not values:
            return []
        return [
            "    try:",
            f"        pack(buffer[1], 0, {', '.join(values)})",
            "    except UNPACKABLE as error:",
            f"        raise unpackable(({', '.join(values)},), error) from error",
        ]

    def _scratch_lines(self, abi: LaunchAbi, grid: list[str], tensors: list[str]) -> list[str]:
        """Scratch memory lives in torch's allocator, which hands it out again in the order of the stream."""
        blocks = abi.cluster[0] * abi.cluster[1] * abi.cluster[2]
        lines = []
        for i, (_, size, _alignment) in enumerate(abi.scratch):
            if size:
                if not tensors:
                    raise TableError("a kernel with scratch memory must take a tensor", got=abi.symbol)
                lines.append(f"s{i} = scratch({' * '.join([str(int(size) * blocks), *grid])}, {tensors[0]}.device)")
                lines.append(f"s{i}_ptr = s{i}.data_ptr()")
        return lines

    def _values(self, abi: LaunchAbi) -> tuple[list[str], dict[int, str]]:
        """The texts of the packed parameters, and of the tensor maps by their slots."""
        values: list[str] = []
        maps: dict[int, str] = {}
        for arg in abi.args:
            if arg.tensor_map is None:
                values.append(self._argument(arg))
                continue
            shape, strides = ([self._expr(e) for e in side] for side in (arg.tensor_map.shape, arg.tensor_map.strides))
            slot = len(values) + len(maps)
            self.maps[slot] = arg
            maps[slot] = f"map{slot}({self._pointer(Path.parse(arg.path))}, {', '.join([*shape, *strides])})"
            values += [*shape, *strides]
        return values, maps

    def _argument(self, arg: LaunchArg) -> str:
        if arg.kind == "int":
            if arg.value is None:
                raise TableError("an int argument must have a value", got=arg.name, where=self.binary.abi.symbol)
            return self._expr(arg.value)
        path = Path.parse(arg.path)
        return self._pointer(path) if arg.kind == "tensor" else self._value(path)

    def _dtype_check(self, value: str, arg: LaunchArg) -> str:
        """What comes from a cell or a global is in no call's key, so its dtype may have changed since the build."""
        import torch

        name = f"dtype_{_element(arg)}"
        self.namespace[name] = getattr(torch, _DTYPES[_element(arg)])
        return f"{value}.dtype is {name}"

    def _guards(self, guards: Expr) -> list[str]:
        """The conditions that are not settled; a tensor's known sizes as one comparison, and all alignments."""
        rest: list[str] = []
        aligned: list[str] = []
        known: dict[tuple[str, Path], dict[int, int]] = {}
        for condition in _conjuncts(guards.substitute(self._target)):
            if condition.symbols() and self.settled.decides(condition):
                continue
            fixed, path = _fixed_axis(condition), _aligned(condition)
            if path is not None:
                aligned.append(self._pointer(path))
            elif fixed is None:
                rest.append(self._expr(condition))
            else:
                symbol, number = fixed
                assert symbol.path is not None
                known.setdefault((symbol.field, symbol.path), {})[symbol.axis] = number
        for (field, path), numbers in known.items():
            whole = self._local((field, path), self._value(path) + (".shape" if field == "shape" else ".stride()"))
            # a static variant knows every size, so that their number is the rank; none knows the stride of a size of 1
            rank = len(known.get(("shape", path), ())) if self.binary.mode == "static" else -1
            if sorted(numbers) == list(range(rank)):
                rest.append(f"{whole} == {tuple(numbers[i] for i in range(len(numbers)))}")
            else:
                rest += [f"{whole}[{axis}] == {number}" for axis, number in numbers.items()]
        if aligned:
            rest.append(f"not ({' | '.join(aligned)}) & 15")
        return rest

    def _expr(self, expr: Expr) -> str:
        return expr.substitute(self._target).python(self._symbol)

    def _symbol(self, name: str) -> str:
        symbol = Symbol.parse(name)
        if symbol.path is None:
            self._reads_bounds = True
            return f"{symbol.field}s[{symbol.axis}]"
        match symbol.field:
            case "align":
                return f"({self._pointer(symbol.path)} % 16 == 0)"
            case "shape":
                return f"{self._local(('shape', symbol.path), self._value(symbol.path) + '.shape')}[{symbol.axis}]"
            case "stride":
                return f"{self._local(('stride', symbol.path), self._value(symbol.path) + '.stride()')}[{symbol.axis}]"
        return self._value(symbol.path)

    def _pointer(self, path: Path) -> str:
        return self._local(("pointer", path), self._value(path) + ".data_ptr()")

    def _value(self, path: Path) -> str:
        if path.steps:
            before = self._value(Path(path.root, path.steps[:-1]))
            local = self._local(path, read_step(before, path.steps[-1]))
            if before in self._outside:
                self._outside.add(local)
            return local
        text, home = root_reader(path.root, self.scope)
        if home is None:
            return self._local(path, text) if self.names is None else f"own_{path.root}"
        name = f"home{len(self.namespace)}"
        self.namespace[name] = home
        local = self._local(path, text.format(home=name))
        self._outside.add(local)
        return local

    def _local(self, key: Any, source: str) -> str:
        if key not in self._locals:
            self._locals[key] = f"v{len(self._locals)}"
            self._reads.append(f"{self._locals[key]} = {source}")
        return self._locals[key]


def _conjuncts(guards: Expr) -> Iterator[Expr]:
    if guards.op == "and":
        for side in guards.args:
            yield from _conjuncts(side)
    else:
        yield guards


def _fixed_axis(condition: Expr) -> tuple[Symbol, int] | None:
    """``4096 == x.shape.1`` as (symbol, 4096)."""
    if condition.op != "eq":
        return None
    number, symbol = sorted(condition.args, key=lambda side: side.op != "const")
    if number.constant is None or symbol.op != "sym":
        return None
    found = Symbol.parse(symbol.args[0])
    return (found, number.constant) if found.field in ("shape", "stride") else None


def _aligned(condition: Expr) -> Path | None:
    """The path of ``1 == x.align``."""
    if condition.op != "eq" or condition.args[0].constant != 1 or condition.args[1].op != "sym":
        return None
    symbol = Symbol.parse(condition.args[1].args[0])
    return symbol.path if symbol.field == "align" else None


def _element(arg: LaunchArg) -> str:
    """The signature word of a tensor's or descriptor's elements."""
    return arg.type.removeprefix("tensordesc<").removeprefix("*").split("[")[0]


def _slots(arg: LaunchArg) -> tuple[str, ...]:
    """struct's code of each parameter that an argument fills; an empty one for a tensor map, which lies elsewhere."""
    if arg.kind == "tensor":
        return ("Q",)
    if arg.tensor_map is not None:
        rank = len(arg.tensor_map.shape)
        return ("", *"i" * rank, *"q" * rank)
    try:
        return (_FORMATS[arg.type],)
    except KeyError:
        raise TableError(
            f"argument {arg.name} must have one of the types {', '.join(_FORMATS)}", got=repr(arg.type)
        ) from None


def _buffer_maker(slots: tuple[str, ...]) -> Callable[[], tuple[int, Any, Any]]:
    """Makes (address of the pointer array, the values' buffer, the array). A launch takes one out of its pool for as
    long as the driver reads it, so that threads never share one. A tensor map's pointer is set by each launch."""
    before = ["@" + "".join(slots[:i]) for i in range(len(slots) + 1)]
    ends = [struct.calcsize(fmt) for fmt in before]
    offsets = [end - struct.calcsize(slot) if slot else 0 for slot, end in zip(slots, ends[1:], strict=True)]

    def new_buffer() -> tuple[int, Any, Any]:
        values = ctypes.create_string_buffer(max(ends[-1], 1))
        base = ctypes.addressof(values)
        pointers = (ctypes.c_void_p * max(len(offsets), 1))(*(base + o for o in offsets))
        return ctypes.addressof(pointers), values, pointers

    return new_buffer


def _scratch(size: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=device)


def _on_device(index: int, launch: Callable[..., Any], *args: Any) -> Any:
    """Launch again with the arguments' device current."""
    import torch

    with torch.cuda.device(index):
        return launch(*args)


# ---- errors -------------------------------------------------------------------------------------------------------


def _missing_error(binary: Binary) -> Callable[[Exception], CallError]:
    def missing(error: Exception) -> CallError:
        return CallError(
            "every value that a tile loop captures must be there, with the kind it had when the kernel was lowered",
            got=f"{type(error).__name__}: {error}",
            where=f"region {binary.region} ({binary.abi.symbol})",
        )

    return missing


def _device_error(binary: Binary, index: int) -> Callable[[list[Any]], CallError]:
    def wrong_device(devices: list[Any]) -> CallError:
        return CallError(
            f"every tensor of a launch must be on device {index}",
            got=", ".join(map(str, devices)),
            where=f"region {binary.region} ({binary.abi.symbol})",
            hint="allocate outputs with device=x.device",
        )

    return wrong_device


def _argument_error(binary: Binary) -> Callable[[tuple[Any, ...], Exception], CallError]:
    def unpackable(values: tuple[Any, ...], error: Exception) -> CallError:
        types = [a.type for a in binary.abi.args]
        return CallError(
            f"the arguments must fit {', '.join(types)}",
            got=f"{values[: len(types)]} ({error})",
            where=f"region {binary.region} ({binary.abi.symbol})",
        )

    return unpackable
