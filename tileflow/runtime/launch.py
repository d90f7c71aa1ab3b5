"""Launching one region's binary: the Launcher protocol, and launchers generated from a binary's ABI.

A launch costs some microseconds in the driver, so what is ours around it is one Python function, generated for the
binary at hand: it reads the captured values by their paths, checks the guards and what the binary assumes of each
tensor, and enqueues. Nothing of Triton's launcher is used (it compiles C).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import TableError
from ..expr import Expr
from ..target import find
from .abi import Binary, LaunchAbi, LaunchArg
from .drivers import Loaded, cuda_load, current_stream_reader, hip_load
from .guards import aligned_path, conjuncts, explain_guards, fixed_axis, pair_of
from .key_invariants import KeyInvariants
from .launch_errors import argument_error, missing_error, tensor_error
from .loop_bounds import bounds
from .native import DECLINED, pairs_test
from .overlap import RELATIONS, surely_fit
from .packing import parameter_formats
from .paths import Path, Symbol, cell_of, default_of, digest_of, is_name, read_path, read_step, read_symbol, root_reader

if TYPE_CHECKING:
    import torch

# torch's names of a pointer's elements, for binaries whose ABI does not say them
_DTYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
}
_GRID = ("gx", "gy", "gz")
_OF_TILE = "begin_or_end, end, block_size if step is None else step"
_MISSING = (KeyError, AttributeError, IndexError, ValueError, TypeError)
# a guard or a grid that cannot be computed: it divides by zero, or asks a captured value for what its kind does not
# have (a missing axis, arithmetic with None, the truth of a tensor)
_UNDEFINED = (ZeroDivisionError, OverflowError, IndexError, TypeError, ValueError, RuntimeError)
_UNPACKABLE = (OverflowError, TypeError, ValueError)


class Launcher(Protocol):
    """Launches one variant of one region.

    One of a binary has ``specialize`` too, which makes the launcher for further calls with the key of one that has
    launched: see :class:`tileflow.runtime.dispatch.KeyedContext`.
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


def lazy_launcher(binary: Binary, device: torch.device | str | int, scope: FunctionType | None = None) -> Launcher:
    """As :func:`launcher_for`, but the machine code is loaded when its guards accept a call for the first time."""
    index = _index(device)
    load = cache(partial(cuda_load if binary.format == "cubin" else hip_load, binary, index))
    return _generate(binary, load, index, current_stream_reader(index), scope)


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
    if stream is not None:
        loaded = replace(loaded, tensor_enqueue=lambda formats: None)  # which would read torch's
    return _generate(binary, loaded, index, stream or current_stream_reader(index), scope)


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
    return _generate(binary, loaded, index, stream or current_stream_reader(index), scope)


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


_CHECKED = KeyInvariants()


def _generate(
    binary: Binary,
    loaded: Loaded | Callable[[], Loaded],
    index: int,
    stream: Callable[[], Any],
    scope: FunctionType | None,
    invariants: KeyInvariants = _CHECKED,
    names: tuple[str, ...] | None = None,
    region: int = 0,
) -> Launcher:
    """One function for one binary. It carries ``guards``, ``explain`` and ``specialize``, which make it a Launcher.

    ``loaded``: the machine code, or what loads it at the first launch. With ``names`` the function takes a
    KeyedContext, the values of these variables and then the arguments of ``tile``, and hands a call that it declines
    back to the context.
    """
    writer = _Writer(binary, scope, invariants, names, region)
    formats = writer.tensor_formats() if isinstance(loaded, Loaded) else None
    of_tensors = loaded.tensor_enqueue(formats) if isinstance(loaded, Loaded) and formats is not None else None
    text = writer.source() if formats is None or of_tensors is None else writer.tensor_source()
    namespace: dict[str, Any] = writer.namespace | {
        "cell_of": cell_of,
        "default_of": default_of,
        "digest_of": digest_of,
        **RELATIONS,
        "surely_fit": pairs_test() or surely_fit,
        "device_index": index,
        "current_stream": stream,
        "missing": missing_error(binary),
        "unfit": tensor_error(binary, index),
        "unpackable": argument_error(binary),
        "on_device": _on_device,
        "scratch": _scratch,
        "bounds": bounds,
        "MISSING": _MISSING,
        "UNPACKABLE": _UNPACKABLE,
        "UNDEFINED": _UNDEFINED,
        "DOUBTFUL": (*_MISSING, *_UNDEFINED),
        "DECLINED": DECLINED,
    }
    namespace |= (
        _driver(loaded, writer.maps) if isinstance(loaded, Loaded) else _loading(namespace, loaded, writer.maps)
    )
    if of_tensors is not None:
        namespace |= {"enqueue": of_tensors}
    exec(compile(text, f"<launcher of {binary.abi.symbol!r}>", "exec"), namespace)
    launch = namespace["launch"]
    launch.guards = binary.guards
    launch.explain = partial(_explain, binary, scope)
    launch.load = (lambda: loaded) if isinstance(loaded, Loaded) else loaded
    launch.specialize = cache(partial(_specialize, binary, loaded, index, stream, scope))
    return cast(Launcher, launch)


def _specialize(
    binary: Binary,
    loaded: Loaded | Callable[[], Loaded],
    index: int,
    stream: Callable[[], Any],
    scope: FunctionType | None,
    invariants: KeyInvariants,
    names: tuple[str, ...],
    region: int,
) -> Launcher:
    """The launcher for calls with a key that fixes some of it. It launches what has launched: the code is loaded."""
    now = loaded if isinstance(loaded, Loaded) else loaded()
    return _generate(binary, now, index, stream, scope, invariants, names, region)


def _driver(loaded: Loaded, maps: Mapping[int, LaunchArg]) -> dict[str, Any]:
    """What a launcher's text calls of the driver. ``module`` keeps the machine code in the device's memory."""
    names: dict[str, Any] = {
        "enqueue": loaded.enqueue,
        "recover": loaded.recover,
        "refused": loaded.refused,
        "module": loaded.module,
    }
    return names | {f"map{number}": loaded.tensor_map(arg) for number, arg in maps.items()}


def _loading(
    namespace: dict[str, Any], load: Callable[[], Loaded], maps: Mapping[int, LaunchArg]
) -> dict[str, Callable[..., Any]]:
    """The same before the machine code is there: the first call of any of them loads it and takes their places."""

    def first(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            namespace.update(_driver(load(), maps))
            return namespace[name](*args)

        return call

    return {name: first(name) for name in ("enqueue", "recover", "refused", *(f"map{number}" for number in maps))}


class _Writer:
    """Writes the source of one launcher: each captured value, shape and pointer is read once, into a local."""

    def __init__(
        self,
        binary: Binary,
        scope: FunctionType | None,
        invariants: KeyInvariants,
        names: tuple[str, ...] | None,
        region: int,
    ) -> None:
        self.binary = binary
        self.scope = scope
        self.invariants = invariants
        self.names = names
        self.region = region
        self.namespace: dict[str, Any] = {}
        self.maps: dict[int, LaunchArg] = {}  # by the number of the map
        self._reads: list[str] = []
        self._locals: dict[Any, str] = {}
        self._bounds: set[tuple[str, int]] = set()  # (begin or end, axis): what a keyed launcher reads of its loop
        target = find(binary.target)
        self._target = {} if target is None else dict(target.symbols())

    def source(self) -> str:
        abi = self.binary.abi
        captured = [(Path.parse(a.path), a) for a in abi.args if a.kind in ("tensor", "descriptor")]
        loose = {self._value(path): arg for path, arg in captured if not self.invariants.holds(path)}
        kinds = [check for value, arg in loose.items() for check in self._kind_checks(value, arg)]
        guards = self._guards(self.binary.guards)
        values, maps = self._values(abi)
        extents = self._extents(abi)
        # what a binary assumes of a tensor comes first, so that no guard asks for a dimension that is not there
        accepts = " and ".join([*kinds, *guards])
        unfit = " or ".join(f"{v}.get_device() != device_index or {v}.is_neg()" for v in loose)
        sizes, launched = self._sizes(abi)
        tensors = [self._value(path) for path, _ in captured]
        scratch = [f"s{i}_ptr" for i, (_, size, _) in enumerate(abi.scratch) if size]
        enqueue = f"enqueue({', '.join(['stream', *launched, *values, *scratch])})"
        parameters = passed = "frame, begins, ends"
        declined = "False"
        if self.names is not None:
            own = [f"own_{_name(name)}" for name in self.names]
            parameters = self._keyed_parameters(own)
            passed = ", ".join(["context", *own, _OF_TILE])
            declined = f"context.launch({', '.join([str(int(self.region)), *own, _OF_TILE])})"
        lines = [
            f"def launch({parameters}):",
            "    try:",
            *(f"        {line}" for line in [*self._reads, *self._bounds_lines()] or ["pass"]),
            "    except MISSING as error:",
            "        raise missing(error) from error",
            *self._accept_lines(accepts, declined),
            *self._grid_lines(extents),
            *([f"    if {unfit}:", f"        raise unfit([{', '.join(loose)}])"] if loose else []),
            "    stream = current_stream()",
            "    if stream is None:",
            f"        return on_device(device_index, launch, {passed})",
            *(f"    {line}" for line in self._scratch_lines(abi, sizes, tensors)),
            *self._map_lines(maps),
            "    try:",
            f"        status = {enqueue}",
            "        if status and recover(status):",
            f"            status = {enqueue}",
            "    except UNPACKABLE as error:",
            "        try:",
            f"            values = ({''.join(f'{v}, ' for v in values)})",
            "        except UNDEFINED:",
            "            values = ()",
            "        raise unpackable(values, error) from error",
            "    except UNDEFINED as error:",
            "        raise missing(error) from error",
            "    if status:",
            "        raise refused(status)",
            "    return True",
        ]
        return "\n".join(lines) + "\n"

    def _keyed_parameters(self, own: list[str]) -> str:
        return ", ".join(["context", *own, "begin_or_end", "end=None", "block_size=None", "*", "step=None"])

    def tensor_formats(self) -> str | None:
        """The formats of an enqueue that takes the tensors themselves, A for those whose alignment no key fixes. None
        where a launch must look at more of what it captured."""
        abi = self.binary.abi
        tensors = {i: Path.parse(arg.path) for i, arg in enumerate(abi.args) if arg.kind == "tensor"}
        if self.names is None or any(arg.kind == "descriptor" for arg in abi.args) or any(s for _, s, _ in abi.scratch):
            return None
        if not all(map(self.invariants.holds, tensors.values())):
            return None
        conditions = [c for c in conjuncts(self.binary.guards.substitute(self._target)) if not c.constant]
        open_ended = [c for c in conditions if not (c.symbols() and self.invariants.decides(c)) and pair_of(c) is None]
        aligned = {*map(aligned_path, open_ended)}
        if not aligned <= {*tensors.values()}:
            return None
        formats = [*parameter_formats(abi)]
        for i, path in tensors.items():
            formats[i] = "A" if path in aligned else "T"
        return "".join(formats)

    def tensor_source(self) -> str:
        """A launcher around an enqueue that takes tensors. Whatever is unusual goes to the context, whose launcher
        checks all and says what is wrong."""
        assert self.names is not None
        abi = self.binary.abi
        own = [f"own_{_name(name)}" for name in self.names]
        values = [self._value(Path.parse(a.path)) if a.kind == "tensor" else self._argument(a) for a in abi.args]
        extents, (_, launched) = self._extents(abi), self._sizes(abi)
        pairs = [pair for c in conjuncts(self.binary.guards) if (pair := pair_of(c)) is not None]
        launch = f"enqueue({', '.join([*launched, *values])})"
        launch += f" if {self._fits(pairs)} else DECLINED" if pairs else ""
        lines = [
            f"def launch({self._keyed_parameters(own)}):",
            "    try:",
            *(f"        {line}" for line in self._reads),
            *(f"        {line}" for line in self._bounds_lines()),
            *(f"        {name} = {extent}" for name, extent in extents),
            *(
                [f"        if {' or '.join(f'{name} <= 0' for name, _ in extents)}:", "            return True"]
                if extents
                else []
            ),
            f"        status = {launch}",
            "    except DOUBTFUL:",
            "        status = DECLINED",
            "    if status:",
            "        if status != DECLINED and not recover(status):",
            "            raise refused(status)",
            f"        context.launch({', '.join([str(int(self.region)), *own, _OF_TILE])})",
            "    return True",
        ]
        return "\n".join(lines) + "\n"

    def _bounds_lines(self) -> list[str]:
        """Reads what a keyed launcher uses of the loop's bounds: a plain int, or ints in a list, without a call."""
        if not self._bounds:
            return []
        axes = sorted({axis for _, axis in self._bounds})
        fields = sorted({field for field, _ in self._bounds})
        one = axes == [0]
        ends = {axis: "begin_or_end" if one else f"begin_or_end[{axis}]" for axis in axes}
        kinds = " is ".join(f"type({end})" for end in ends.values())
        container = "" if one else f"type(begin_or_end) is list and len(begin_or_end) > {axes[-1]} and "
        plain = {"begin": "0"} | {"end": "{end}"}
        return [
            f"if end is None and {container}{kinds} is int:",
            *(f"    {f}{axis} = {plain[f].format(end=ends[axis])}" for f in fields for axis in axes),
            "else:",
            "    begins, ends = bounds(begin_or_end, end)",
            *(f"    {f}{axis} = {f}s[{axis}]" for f in fields for axis in axes),
        ]

    def _extents(self, abi: LaunchAbi) -> list[tuple[str, str]]:
        """The axes whose extent is not a constant, with its text."""
        texts = [self._expr(g) for g in abi.grid]
        return [(n, text) for n, text in zip(self._sizes(abi)[0], texts, strict=True) if n in _GRID]

    def _sizes(self, abi: LaunchAbi) -> tuple[list[str], list[str]]:
        """The grid's extents, and what is launched of it: blocks, of which a cluster has several."""
        fixed = [int(g.constant or 0) for g in abi.grid]
        sizes = [str(number) if number > 0 else n for n, number in zip(_GRID, fixed, strict=True)]
        return sizes, [f"{n} * {int(c)}" if c != 1 else n for n, c in zip(sizes, abi.cluster, strict=True)]

    def _accept_lines(self, accepts: str, declined: str) -> list[str]:
        """A guard that has no value for what was captured is one that does not hold."""
        if not accepts:
            return []
        return [
            "    try:",
            f"        declines = not ({accepts})",
            "    except UNDEFINED:",
            "        declines = True",
            "    if declines:",
            f"        return {declined}",
        ]

    def _grid_lines(self, extents: list[tuple[str, str]]) -> list[str]:
        """Of the axes whose extent is not a constant. An empty grid launches nothing."""
        if not extents:
            return []
        return [
            "    try:",
            *(f"        {name} = {extent}" for name, extent in extents),
            f"        if {' or '.join(f'{name} <= 0' for name, _ in extents)}:",
            "            return True",
            "    except UNDEFINED as error:",
            "        raise missing(error) from error",
        ]

    def _map_lines(self, maps: Mapping[int, str]) -> list[str]:
        if not maps:
            return []
        return [
            "    try:",
            *(f"        m{number} = {text}" for number, text in maps.items()),
            "    except UNDEFINED as error:",
            "        raise missing(error) from error",
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
        """The texts of the packed parameters, and of the tensor maps by their numbers."""
        values: list[str] = []
        maps: dict[int, str] = {}
        for arg in abi.args:
            if arg.tensor_map is None:
                values.append(self._argument(arg))
                continue
            shape, strides = ([self._expr(e) for e in side] for side in (arg.tensor_map.shape, arg.tensor_map.strides))
            number = len(maps)
            self.maps[number] = arg
            maps[number] = f"map{number}({self._pointer(Path.parse(arg.path))}, {', '.join([*shape, *strides])})"
            values += [f"m{number}[0]", *shape, *strides]
        return values, maps

    def _argument(self, arg: LaunchArg) -> str:
        if arg.kind == "int":
            if arg.value is None:
                raise TableError("an int argument must have a value", got=arg.name, where=self.binary.abi.symbol)
            return self._expr(arg.value)
        path = Path.parse(arg.path)
        return self._pointer(path) if arg.kind == "tensor" else self._value(path)

    def _kind_checks(self, value: str, arg: LaunchArg) -> list[str]:
        """What the binary assumes of a tensor that no key tells of: host code may make it by a setting of torch's, and
        a cell or a global may hold another one than when the kernel was built."""
        import torch

        dtype = arg.dtype or _DTYPES.get(_element(arg), "")
        checks = []
        if dtype:
            name = f"dtype_{_name(dtype)}"
            self.namespace[name] = getattr(torch, dtype, None)  # an older torch has no tensor of it to accept
            checks.append(f"{value}.dtype is {name}")
        return [*checks, f"{value}.dim() == {int(arg.rank)}"] if arg.rank >= 0 else checks

    def _guards(self, guards: Expr) -> list[str]:
        """The conditions that the key does not decide; a tensor's known sizes as one comparison, and all alignments."""
        rest: list[str] = []
        aligned: list[str] = []
        known: dict[tuple[str, Path], dict[int, int]] = {}
        pairs: list[Symbol] = []
        for condition in conjuncts(guards.substitute(self._target)):
            if condition.symbols() and self.invariants.decides(condition):
                continue
            fixed, path, pair = fixed_axis(condition), aligned_path(condition), pair_of(condition)
            if pair is not None:
                pairs.append(pair)
            elif path is not None:
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
                rest.append(f"{whole} == {tuple(int(numbers[i]) for i in range(len(numbers)))}")
            else:
                rest += [f"{whole}[{int(axis)}] == {int(number)}" for axis, number in numbers.items()]
        if aligned:
            rest.append(f"not ({' | '.join(aligned)}) & 15")
        if pairs:
            rest.append(f"({self._fits(pairs)} or ({' and '.join(map(self._pair, pairs))}))")
        return rest

    def _fits(self, pairs: list[Symbol]) -> str:
        """A quick look at all pairs; where it fails, each is asked."""
        paths = list(dict.fromkeys(path for pair in pairs for path in (pair.path, pair.other) if path is not None))
        numbers = [
            (paths.index(pair.path), paths.index(pair.other), pair.field == "in_step")
            for pair in pairs
            if pair.path is not None and pair.other is not None
        ]
        return f"surely_fit({bytes(n for pair in numbers for n in pair)!r}, {', '.join(map(self._value, paths))})"

    def _pair(self, symbol: Symbol) -> str:
        assert symbol.path is not None and symbol.other is not None
        return f"{symbol.field}({self._value(symbol.path)}, {self._value(symbol.other)})"

    def _expr(self, expr: Expr) -> str:
        return expr.substitute(self._target).python(self._symbol)

    def _symbol(self, name: str) -> str:
        symbol = Symbol.parse(name)
        if symbol.path is None:
            axis = int(symbol.axis)
            if self.names is None:
                return f"{symbol.field}s[{axis}]"
            self._bounds.add((symbol.field, axis))
            return f"{symbol.field}{axis}"
        match symbol.field:
            case "align":
                return f"({self._pointer(symbol.path)} % 16 == 0)"
            case "shape":
                local = self._local(("shape", symbol.path), self._value(symbol.path) + ".shape")
                return f"{local}[{int(symbol.axis)}]"
            case "stride":
                local = self._local(("stride", symbol.path), self._value(symbol.path) + ".stride()")
                return f"{local}[{int(symbol.axis)}]"
            case "digest":
                return f"digest_of({self._value(symbol.path)})"
            case "apart" | "in_step":
                return self._pair(symbol)
        return self._value(symbol.path)

    def _pointer(self, path: Path) -> str:
        return self._local(("pointer", path), self._value(path) + ".data_ptr()")

    def _value(self, path: Path) -> str:
        if path.steps:
            return self._local(path, read_step(self._value(Path(path.root, path.steps[:-1])), path.steps[-1]))
        if path.root == "__tileflow__" and self.names is not None:
            return "context"
        text, home = root_reader(path.root, self.scope)
        if home is None:
            return self._local(path, text) if self.names is None else f"own_{_name(path.root)}"
        name = f"home{len(self.namespace)}"
        self.namespace[name] = home
        return self._local(path, text.format(home=name))

    def _local(self, key: Any, source: str) -> str:
        if key not in self._locals:
            self._locals[key] = f"v{len(self._locals)}"
            self._reads.append(f"{self._locals[key]} = {source}")
        return self._locals[key]


def _name(text: str) -> str:
    """``text``, where source text may spell it as part of a name. Raises TableError."""
    if not is_name(text):
        raise TableError("a launcher's variables must be named by identifiers", got=repr(text)[:80])
    return text


def _element(arg: LaunchArg) -> str:
    """The signature word of a tensor's or descriptor's elements."""
    return arg.type.removeprefix("tensordesc<").removeprefix("*").split("[")[0]


def _scratch(size: int, device: torch.device) -> torch.Tensor:
    import torch

    return torch.empty(size, dtype=torch.uint8, device=device)


def _on_device(index: int, launch: Callable[..., Any], *args: Any) -> Any:
    """Launch again with the arguments' device current."""
    import torch

    with torch.cuda.device(index):
        return launch(*args)


def _explain(
    binary: Binary, scope: FunctionType | None, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]
) -> str:
    """Why the binary declines what it would have to launch with: the first thing that does not hold."""
    for arg in binary.abi.args:
        if arg.dtype:
            value = read_path(Path.parse(arg.path), frame, scope)
            kind = str(value.dtype).removeprefix("torch.")
            if (kind, value.dim()) != (arg.dtype, arg.rank):
                return f"{arg.path} of {arg.dtype} and rank {arg.rank} with {kind} and rank {value.dim()}"

    def read(name: str) -> int:
        return read_symbol(Symbol.parse(name), frame, scope, begins, ends)

    return explain_guards(binary.guards, read) or "nothing: it would accept the call now"
