"""The source text of a launcher: one function around the enqueue of one binary, generated from its ABI."""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from ..errors import TableError
from ..expr import Expr
from ..target import find
from .abi import Binary, Copies, LaunchAbi, LaunchArg
from .guards import aligned_path, conjuncts, fixed_axis, pair_of
from .key_invariants import KeyInvariants
from .packing import parameter_formats
from .paths import Path, Symbol, is_name, read_step, root_reader
from .tensor_fields import ADDRESS, DTYPE, ORDINAL, READS, SHAPE, STRIDES, TensorReads

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


class LauncherWriter:
    """Writes the source of one launcher: each captured value, shape and pointer is read once, into a local."""

    def __init__(
        self,
        binary: Binary,
        scope: FunctionType | None,
        invariants: KeyInvariants,
        names: tuple[str, ...] | None,
        region: int,
        is_native: bool = False,
    ) -> None:
        self.binary = binary
        self.scope = scope
        self.invariants = invariants
        self.names = names
        self.region = region
        self.namespace: dict[str, Any] = {}
        self.maps: dict[int, LaunchArg] = {}  # by the number of the map
        self._copies: dict[str, str] = {}  # what makes a copy, and its name: of one tensor one, whatever its boxes
        self._combines: list[str] = []  # what follows the launch: copies go into their tensors
        self._reads: list[str] = []
        self._is_native = is_native
        self._tensors = {Path.parse(a.path) for a in binary.abi.args if a.kind in ("tensor", "descriptor")}
        self._fields, self._fields_of_copies, self._fields_of_scratch = TensorReads(), TensorReads(), TensorReads()
        self._locals: dict[Any, str] = {}
        self._bounds: set[tuple[str, int]] = set()  # (begin or end, axis): what a keyed launcher reads of its loop
        target = find(binary.target)
        self._target = {} if target is None else dict(target.symbols())

    def source(self) -> str:
        """The launcher's whole source: what it reads and checks, what declines the launch, and the enqueue."""
        abi = self.binary.abi
        captured = [(Path.parse(a.path), a) for a in abi.args if a.kind in ("tensor", "descriptor")]
        loose = {path: arg for path, arg in captured if not self.invariants.holds(path)}
        kinds = [check for path, arg in loose.items() for check in self._kind_checks(path, arg)]
        guards = self._guards(self.binary.guards)
        values, maps = self._values(abi)
        stored = self._stored(abi)
        extents = self._extents(abi)
        # what a binary assumes of a tensor comes first, so that no guard asks for a dimension that is not there
        accepts = " and ".join([*kinds, *guards])
        unfit = " or ".join(
            f"{self._field(path, ORDINAL)} != device_index or {self._value(path)}.is_neg()" for path in loose
        )
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
            *(f"        {line}" for line in [*self._read_lines(), *self._bounds_lines()] or ["pass"]),
            "    except MISSING as error:",
            "        raise missing(error) from error",
            *self._accept_lines(accepts, declined),
            *self._grid_lines(extents),
            *([f"    if {unfit}:", f"        raise unfit([{', '.join(map(self._value, loose))}])"] if loose else []),
            "    stream = current_stream()",
            "    if stream is None:",
            f"        return on_device(device_index, launch, {passed})",
            *(f"    {line}" for line in self._scratch_lines(abi, sizes, tensors)),
            *(f"    {name} = {text}" for text, name in self._copies.items()),
            *(f"    {line}" for line in self._fields_of_copies.lines(self._is_native)),
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
            *(f"    {line}" for line in self._combines),
            *self._version_lines(stored),
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
        is_plain = not any(arg.kind == "descriptor" or arg.copies is not None for arg in abi.args)
        if self.names is None or not is_plain or any(s for _, s, _ in abi.scratch):
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
        stored = self._stored(abi)
        extents, (_, launched) = self._extents(abi), self._sizes(abi)
        pairs = [pair for c in conjuncts(self.binary.guards) if (pair := pair_of(c)) is not None]
        launch = f"enqueue({', '.join([*launched, *values])})"
        launch += f" if {self._fits(pairs)} else DECLINED" if pairs else ""
        lines = [
            f"def launch({self._keyed_parameters(own)}):",
            "    try:",
            *(f"        {line}" for line in [*self._read_lines(), *self._bounds_lines()]),
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
            "        return True",
            *self._version_lines(stored),
            "    return True",
        ]
        return "\n".join(lines) + "\n"

    def _stored(self, abi: LaunchAbi) -> list[str]:
        """The tensors that the binary writes into and that autograd may have saved: all but new memory of the call."""
        paths = dict.fromkeys(Path.parse(arg.path) for arg in abi.args if arg.stored and arg.copies is None)
        return [self._value(path) for path in paths if path.steps or path.root not in self.invariants.fresh]

    def _version_lines(self, stored: list[str]) -> list[str]:
        """A kernel writes by address, which torch does not see. It counts writes so that a backward pass refuses what
        was overwritten meanwhile; in inference mode it counts none."""
        if not stored:
            return []
        return [
            "    if not in_inference_mode():",
            f"        count_write(({''.join(f'{value}, ' for value in stored)}))",
        ]

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
        """The lines that compute the grid's axes that are not constants. An empty grid launches nothing."""
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
                self._fields_of_scratch.local(f"s{i}", ADDRESS, f"s{i}_ptr")
        return [*lines, *self._fields_of_scratch.lines(self._is_native)]

    def _values(self, abi: LaunchAbi) -> tuple[list[str], dict[int, str]]:
        """The texts of the packed parameters, and of the tensor maps by their numbers."""
        values: list[str] = []
        maps: dict[int, str] = {}
        for arg in abi.args:
            if arg.copies is not None:
                values.append(f"{self._shared_out(arg, arg.copies)}.data_ptr()")
                continue
            if arg.tensor_map is None:
                values.append(self._argument(arg))
                continue
            path, number = Path.parse(arg.path), len(maps)
            shape = [self._expr(e) for e in arg.tensor_map.shape]
            if arg.tensor_map.copied:
                order = tuple(map(int, arg.tensor_map.copied))
                made = f"aligned_copy({self._value(path)}, {order})"
                copy = self._copies.setdefault(made, f"c{len(self._copies)}")
                pointer = self._fields_of_copies.local(copy, ADDRESS, f"{copy}_at")
                by = self._fields_of_copies.local(copy, STRIDES, f"{copy}_by")
                strides = [f"{by}[{n}]" for n in range(len(order))]
            else:
                pointer, strides = self._pointer(path), [self._expr(e) for e in arg.tensor_map.strides]
            self.maps[number] = arg
            maps[number] = f"map{number}({pointer}, {', '.join([*shape, *strides])})"
            values += [f"m{number}[0]", *shape, *strides]
        return values, maps

    def _shared_out(self, arg: LaunchArg, copies: Copies) -> str:
        """The name of the copies that programs change in the place of a tensor."""
        value, which = self._value(Path.parse(arg.path)), f"copies{len(self._combines)}"
        self.namespace[which] = copies
        name = self._copies.setdefault(f"copies_of({value}, {which})", f"c{len(self._copies)}")
        self._combines.append(f"combine({value}, {name}, {which})")
        return name

    def _argument(self, arg: LaunchArg) -> str:
        if arg.kind == "int":
            if arg.value is None:
                raise TableError("an int argument must have a value", got=arg.name, where=self.binary.abi.symbol)
            return self._expr(arg.value)
        path = Path.parse(arg.path)
        return self._pointer(path) if arg.kind == "tensor" else self._value(path)

    def _kind_checks(self, path: Path, arg: LaunchArg) -> list[str]:
        """What the binary assumes of a tensor that no key tells of: host code may make it by a setting of torch's, and
        a cell or a global may hold another one than when the kernel was built."""
        import torch

        dtype = arg.dtype or _DTYPES.get(_element(arg), "")
        checks = []
        if dtype:
            name = f"dtype_{_name(dtype)}"
            self.namespace[name] = getattr(torch, dtype, None)  # an older torch has no tensor of it to accept
            checks.append(f"{self._field(path, DTYPE)} is {name}")
        return [*checks, f"len({self._field(path, SHAPE)}) == {int(arg.rank)}"] if arg.rank >= 0 else checks

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
            whole = self._whole(field, path)
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
                return f"{self._whole('shape', symbol.path)}[{int(symbol.axis)}]"
            case "stride":
                return f"{self._whole('stride', symbol.path)}[{int(symbol.axis)}]"
            case "digest":
                return f"digest_of({self._value(symbol.path)})"
            case "apart" | "in_step":
                return self._pair(symbol)
        return self._value(symbol.path)

    def _pointer(self, path: Path) -> str:
        return self._field(path, ADDRESS)

    def _whole(self, field: str, path: Path) -> str:
        """A tensor's shape, or its strides."""
        return self._field(path, SHAPE if field == "shape" else STRIDES)

    def _field(self, path: Path, field: int) -> str:
        """The local that holds a field of the tensor at ``path``. What is no argument of the kernel's may be something
        else that has such an attribute, and is asked for that alone."""
        tensor = self._value(path)
        if path not in self._tensors:
            return self._local((tensor, field), READS[field].format(tensor))
        found = self._fields.local(tensor, field, f"v{len(self._locals)}")
        self._locals[tensor, field] = found
        return found

    def _read_lines(self) -> list[str]:
        """What reads all that is captured: the values first, then the tensors' fields."""
        return [*self._reads, *self._fields.lines(self._is_native)]

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
