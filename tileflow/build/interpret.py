"""A launcher out of a TritonSource, through Triton's interpreter, on CPU tensors.

Only in a process that was started with ``TRITON_INTERPRET=1``: Triton reads it when ``triton.language`` is imported.
Its interpreter gives ``triton.language`` other functions for as long as a launch runs, and has one place for the number
of the block that runs, so that threads load and launch one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import torch

from ..emit.source import TritonSource
from ..errors import LaunchError
from ..expr import Expr
from ..runtime.abi import LaunchArg
from ..runtime.copies import combine, copies_of
from ..runtime.describe import refuse_recording
from ..runtime.guards import UNREADABLE, explain_guards
from ..runtime.launch import Launcher, other_kind
from ..runtime.launch_errors import tensor_error
from ..runtime.numpy_numbers import plain_number
from ..runtime.overlap import RELATIONS
from ..runtime.paths import READERS, Path, Symbol, digest_of, read_step, read_symbol, root_reader
from ..runtime.wide_ints import too_wide
from ..target import Target
from . import compat
from .compile import load_function
from .together import InTurn

Reader = Callable[[Mapping[str, Any]], Any]

_in_turn = InTurn()


def interpreter_launcher(
    source: TritonSource, scope: FunctionType | None = None, target: Target | None = None
) -> Launcher:
    """Runs ``source`` as numpy. ``scope``: the user's function, for captured cells and globals; ``target``: the values
    of ``target.*`` in grids and guards. Raises LaunchError in a process that does not interpret.
    """
    if not compat.interpreting():
        raise LaunchError(
            "Triton's interpreter needs a process of its own",
            got="TRITON_INTERPRET unset",
            hint="tileflow.measure.interpret starts one",
        )
    if source.language != "triton":
        raise LaunchError(
            "Triton's interpreter runs Triton's own functions",
            got=f"{source.name} in {source.language}",
            hint="tileflow.schedule.execute runs the schedule; choose pipelined for the text",
        )
    if source.cluster > 1:
        raise LaunchError(
            "Triton's interpreter has no clusters",
            got=f"{source.name} for clusters of {source.cluster} blocks",
            hint="choose ctas=1; lowered.interpretable(config) gives the nearest config",
        )
    with _in_turn():
        compat.mend_interpreter()
        return _Interpreted(source, scope, dict(target.symbols()) if target else {})


class _Interpreted:
    """Follows the ABI that a binary of this source would have: the same paths, guards and grid."""

    def __init__(self, source: TritonSource, scope: FunctionType | None, constants: Mapping[str, int]) -> None:
        self.guards = source.guards
        self._scope = scope
        self._function = load_function(source)
        self._source = source
        self._constants = constants
        self._arguments = {arg.name: self._argument(arg, scope) for arg in source.args}
        self._tensors = [(path_reader(Path.parse(arg.path), scope), arg) for arg in source.args if arg.dtype]
        ints = [arg.value for arg in source.args if arg.value is not None]
        self._blocks = {a.name: compat.block_shape(a.type) for a in source.args if a.tensor_map is not None}
        self._copies = {arg.name: arg.copies for arg in source.args if arg.copies is not None}
        self._stored = [arg.name for arg in source.args if arg.stored and arg.copies is None]
        self._maps = {a.name: (m.shape, m.strides) for a in source.args if (m := a.tensor_map) is not None}
        sides = [e for sides in self._maps.values() for side in sides for e in side]
        symbols = frozenset[str]().union(*(e.symbols() for e in (source.guards, *source.grid, *ints, *sides)))
        self._symbols = {name: symbol_reader(name, scope) for name in symbols if name not in constants}

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        bounds = {f"begin.{i}": v for i, v in enumerate(begins)} | {f"end.{i}": v for i, v in enumerate(ends)}
        captured = {**frame, **bounds}
        try:
            if any(other_kind(arg, read(captured)) for read, arg in self._tensors):
                return False  # as a binary declines: Triton's interpreter would read the bits as they are
            environment = {**self._constants, **{name: read(captured) for name, read in self._symbols.items()}}
        except UNREADABLE:  # as an item that a list no longer has: a guard without a value does not hold
            return False
        if not self.guards.holds(environment):
            return False
        tensors = [read(captured) for read, _ in self._tensors]
        if any(tensor.device.type != "cpu" or tensor.is_neg() for tensor in tensors):
            raise tensor_error(f"launch {self._source.region} ({self._source.name})", -1)(tensors)
        grid = tuple(extent.evaluate(environment) for extent in self._source.grid)
        if min(grid) > 0:
            arguments = {
                name: value.evaluate(environment) if isinstance(value, Expr) else value(captured)
                for name, value in self._arguments.items()
            }
            self._check_ints(arguments)
            stored: list[Any] = [arguments[name] for name in self._stored]
            for name, block in self._blocks.items():
                arguments[name] = compat.host_descriptor(self._seen(name, arguments[name], environment), block)
            copied: dict[str, Any] = {name: arguments[name] for name in self._copies}
            made = {name: copies_of(copied[name], copies) for name, copies in self._copies.items()}
            taken = {name: _taken(value) for name, value in {**arguments, **made}.items()}
            # by position: an author's number may be called ``grid`` or ``num_warps``, as the interpreter's own are
            self._run(grid, taken)
            for name, copies in self._copies.items():
                combine(copied[name], made[name], copies)
            torch.autograd.graph.increment_version(stored)  # it wrote by address, as a binary does
        return True

    def _run(self, grid: tuple[int, ...], arguments: Mapping[str, Any]) -> None:
        try:
            with _in_turn():
                self._function[grid](*arguments.values(), **dict(self._source.constexprs))
        except Exception:  # torch's error of a tensor without memory says neither which nor why
            refuse_recording(self._source.name, arguments)
            raise

    def _check_ints(self, arguments: Mapping[str, Any]) -> None:
        ints = ((str(arg.value), arguments[arg.name]) for arg in self._source.args if arg.value is not None)
        wide = too_wide(ints, f"launch {self._source.region} ({self._source.name})")
        if wide is not None:
            raise wide

    def explain(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> str:
        """The first thing that does not hold, and what it got."""
        for value, arg in self._tensors:
            if reason := other_kind(arg, value(frame)):
                return reason

        def read(name: str) -> int:
            known = self._constants.get(name)
            return read_symbol(Symbol.parse(name), frame, self._scope, begins, ends) if known is None else known

        return explain_guards(self.guards, read) or "nothing: it would accept the call now"

    def _seen(self, name: str, tensor: Any, environment: Mapping[str, int]) -> torch.Tensor:
        """A tensor with its dimensions in the order of its boxes."""
        shape, strides = (tuple(e.evaluate(environment) for e in side) for side in self._maps[name])
        seen: torch.Tensor = tensor.as_strided(shape, strides)
        return seen

    def _argument(self, arg: LaunchArg, scope: FunctionType | None) -> Expr | Reader:
        return arg.value if arg.value is not None else path_reader(Path.parse(arg.path), scope)


def _taken(value: Any) -> Any:
    """What Triton's interpreter takes: bytes for pairs of 4 bits, Python's numbers for numpy's."""
    if getattr(value, "dtype", None) is torch.float4_e2m1fn_x2:
        return value.view(torch.uint8)
    return plain_number(value)


def symbol_reader(name: str, scope: FunctionType | None) -> Reader:
    """Reads the launch symbol ``name`` from a frame that also holds the loop's bounds as ``begin.<i>``, ``end.<i>``."""
    symbol = Symbol.parse(name)
    if symbol.path is None:
        return lambda captured: captured[name]
    read, field, axis = path_reader(symbol.path, scope), symbol.field, symbol.axis
    match field:
        case "align":
            return lambda captured: int(read(captured).data_ptr() % 16 == 0)
        case "shape":
            return lambda captured: read(captured).shape[axis]
        case "stride":
            return lambda captured: read(captured).stride()[axis]
        case "digest":
            return lambda captured: digest_of(read(captured))
        case "apart" | "in_step":
            assert symbol.other is not None
            relation, other = RELATIONS[field], path_reader(symbol.other, scope)
            return lambda captured: int(relation(read(captured), other(captured)))
    return read


def path_reader(path: Path, scope: FunctionType | None) -> Reader:
    """Reads what stands at ``path`` of a frame."""
    text, home = root_reader(path.root, scope)
    text = text.format(home="home") if home is not None else text
    for step in path.steps:
        text = read_step(text, step)
    names = {"home": home, **READERS}
    reader: Reader = eval(f"lambda frame: {text}", names)
    return reader
