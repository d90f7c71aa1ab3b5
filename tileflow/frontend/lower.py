"""Lowering: run a kernel's host code on meta tensors and trace every region that it launches."""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from ..config import Choice
from ..errors import CallError, HostDataError, Location, TableError, TileflowError, TraceError
from ..expr import Expr, is_knob
from ..ir.graph import Block, BlockSymbol, KernelIR, Op, Tile, walk
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.overlap import with_pairs
from ..ir.races import folded, race
from ..language.host_device import host_code_on
from ..language.knobs import check_choices, limits
from ..parsing import module_tree
from ..runtime.argtree import bound_call, replace
from ..runtime.dispatch import host_knob
from ..runtime.guards import pair_of
from ..runtime.numpy_numbers import plain_number, plain_numbers
from ..runtime.overlap import is_in_step
from ..runtime.paths import Path, ascii_identifier, read_name, read_path
from ..target import Target
from . import operations
from .capture import Capturer, Memory, memory_of
from .control import Control, TileLoop
from .error_translation import translate_error, user_location
from .host_values import SymbolicInt, constant, expr_of
from .language_registry import DEVICE
from .liveness import free_names, local_names
from .rewrite import rewrite_region
from .source import function_source, location
from .split import HostFunction, RegionSource, path_of
from .stores import may_store
from .structural_names import StructuralNames
from .taken import Found
from .trace import Tracer
from .trace_mode import TraceMode
from .values import UNDEFINED, TileProxy
from .varying_ints import Variation, VaryingInts

_FAMILIES = operations.FAMILIES  # imported, they have filled the registries that tracing reads


@dataclass(frozen=True, slots=True)
class HostKnob:
    """A knob that host code asked for, at ``line`` of the user's file.

    ``choices``: of a tunable; ``low``, ``high``: of a block size.
    """

    name: str
    line: int
    low: int = 1
    high: int = 1
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True, slots=True)
class LoweredCall:
    """All regions that one call launches, in order, the knobs of its host code, and what that returned."""

    regions: tuple[KernelIR, ...]
    host_knobs: tuple[HostKnob, ...]
    result: Any = None


Watch = Callable[[KernelIR, Mapping[str, Any]], None]


def lower_call(
    host: HostFunction,
    args: tuple[Any, ...],
    mode: str,
    choices: Mapping[str, Choice] | None = None,
    watch: Watch | None = None,
    target: Target | None = None,
) -> LoweredCall:
    """Trace a call. ``args`` are meta tensors (or real ones) and scalars; ``choices`` answer the host code's knobs,
    ``target`` what it asks of its device.

    ``watch`` is shown each launch: its IR and the host function's locals. Who watches may let autograd record the host
    code, as regions cannot.

    Raises KernelError with the place in the user's source.
    """
    bound = bound_call(host.signature, host.fn.__qualname__, args, {})
    bound.arguments.update(plain_numbers(bound.arguments))
    given = tuple(bound.arguments.values())
    for name, value in bound.arguments.items():
        if name in host.constants:
            bound.arguments[name] = constant(value)
        elif type(value) is int:
            bound.arguments[name] = SymbolicInt(value, Expr.sym(name))
    variation = Variation(host.varying)
    context = _Lowering(host, mode, choices or {}, watch, memory_of(given), variation)
    try:
        with host_code_on(target, given):
            while True:
                try:
                    result = host.run(context, *bound.args, **bound.kwargs)
                    break
                except VaryingInts:
                    context = _Lowering(host, mode, choices or {}, watch, memory_of(given), variation)
    except TileflowError as error:
        if error.where is not None:
            raise
        where = user_location(error, {host.fn.__code__.co_filename})
        raise type(error)(error.constraint, got=error.got, where=where, hint=error.hint) from error
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        if isinstance(error, AssertionError) or "meta" not in str(error):
            raise
        raise HostDataError(
            "host code of a kernel that is lowered without data may not read values",
            got=str(error).splitlines()[0],
            where=user_location(error, {host.fn.__code__.co_filename}),
            hint="lower it from real example inputs",
        ) from error
    if not context.regions:
        source = function_source(host.fn)
        raise TraceError(
            "a kernel launches at least one tile loop",
            got="none in this call",
            where=location(source, source.tree),
            hint="write for tile in tfl.tile(n): ...; a function that calls kernels alone has no @tileflow.kernel",
        )
    return LoweredCall(tuple(context.regions), tuple(context.knobs.values()), result)


def lower_launch(
    host: HostFunction, region: int, frame: Mapping[str, Any], given: tuple[Any, ...], mode: str, target: Target
) -> LoweredCall:
    """Trace one launch out of what it captures: ``frame``, tensors on the meta device, and the arguments of ``tile``.

    Host code has run up to it and answered its own knobs, which are plain numbers here.
    """
    parameters = host.signature.parameters
    memory = memory_of(v for name, v in frame.items() if name in parameters)
    context = _Lowering(host, mode, {}, None, memory, Variation(host.varying))
    held = {
        name: constant(value)
        if name in host.constants
        else SymbolicInt(value, Expr.sym(name))
        if type(value) is int and name in parameters
        else value
        for name, value in frame.items()
    }
    arguments = given if given[2] is not None else given[:2]
    with host_code_on(target, frame.values()):
        context.launch(region, held, *arguments)
    return LoweredCall(tuple(context.regions), ())


class _Lowering:
    """The host context that traces. ``memory``: of the tensors that the call passed."""

    def __init__(
        self,
        host: HostFunction,
        mode: str,
        choices: Mapping[str, Choice],
        watch: Watch | None,
        memory: Memory,
        variation: Variation,
    ) -> None:
        self.host = host
        self.variation = variation
        self.memory = memory
        self.mode = mode
        self.choices = choices
        self.watch = watch
        self.regions: list[KernelIR] = []
        self.knobs: dict[str, HostKnob] = {}
        self.chosen: dict[str, int] = {}

    def launch(self, region: int, frame: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        source = self.host.regions[region]
        with torch.no_grad() if self.watch is not None else contextlib.nullcontext():
            ir = self._traced(source, frame, args, kwargs)
        if all(ir.hash != r.hash for r in self.regions):
            self.regions.append(ir)
        if self.watch is not None:
            self.watch(ir, frame)

    def _traced(
        self, source: RegionSource, frame: dict[str, Any], args: Any, kwargs: Any, known: Found | None = None
    ) -> KernelIR:
        """A region, traced again where it found out at its end what it writes to: with copies of what parts were read
        of (:mod:`.loaded_parts`), and with the parts that it stores through (:mod:`.part_views`)."""
        known = known or Found()
        region = _RegionTrace(self, source, frame, args, kwargs, known)
        try:
            ir = region.trace()
        except TileflowError:
            if region.found_out == Found():
                raise
        else:
            if region.found_out == Found():
                if self.watch is None:  # which is shown each launch once
                    self.variation.note(source.index, region.constants)
                return ir
        return self._traced(source, frame, args, kwargs, known.and_also(region.found_out))

    def host_call(self, site: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        line = sys._getframe(1).f_lineno
        try:
            args = inspect.signature(function).bind(*args, **kwargs).args
        except TypeError as error:
            raise CallError(
                f"tfl.{function.__name__} must be called as it is defined",
                got=str(error),
                hint=f"tfl.{function.__name__}{inspect.signature(function)}",
            ) from error
        name = host_knob(site, function, args)
        if function.__name__ == "register_block_size":
            low, high = limits(*args)
            self.knobs[name] = HostKnob(name, line, int(low), high)
            return self._symbolic(name, self.choices.get(name, min(32, high)))
        choices = check_choices(*args)
        known = self.knobs.get(name)
        if known is not None and known.choices != choices:
            raise CallError(
                "a tunable has one set of choices",
                got=f"{name}: {known.choices} and {choices}",
                hint="give the second another name",
            )
        self.knobs[name] = HostKnob(name, line, choices=choices)
        chosen = self.choices.get(name, choices[0])
        return chosen if isinstance(chosen, (str, bool)) else self._symbolic(name, chosen)

    def _symbolic(self, name: str, chosen: Choice) -> SymbolicInt:
        self.chosen[name] = int(chosen)
        return SymbolicInt(int(chosen), Expr.sym(name))


class _RegionTrace:
    """One launch, traced."""

    def __init__(
        self,
        lowering: _Lowering,
        source: RegionSource,
        frame: dict[str, Any],
        args: Any,
        kwargs: Any,
        known: Found,
    ) -> None:
        self.lowering, self.source, self.frame = lowering, source, frame
        fn = lowering.host.fn
        device = next((v.device for v in frame.values() if isinstance(v, torch.Tensor)), torch.device("meta"))
        names, files = StructuralNames(source.index), {fn.__code__.co_filename}
        self.tracer = Tracer(lowering.mode, {}, names, files, device, known)
        self.tracer.kernel = fn.__code__
        self.tracer.chosen = lowering.chosen
        self.control = Control(self.tracer)
        self.loop = self._loop(args, kwargs)
        self.begins_at_0 = (args[1] if len(args) > 1 else kwargs.get("end")) is None  # in every launch

    def _loop(self, args: Any, kwargs: Any) -> TileLoop:
        """What the outermost loop iterates over. Raises TraceError with its place."""
        t, loop = self.tracer, self.source.loop
        t.at(location(self.source, loop.iter))
        args, kwargs = replace(args, plain_number), replace(kwargs, plain_number)
        name = self.source.function.__name__
        try:
            found: TileLoop = t.run(DEVICE[name], f"tfl.{name}", args, kwargs)
        except TileflowError as error:
            raise type(error)(error.constraint, got=error.got, where=t.location(), hint=error.hint) from error
        if found.lengths is not None:
            raise TraceError(
                "jagged_tile stands inside another tile loop",
                got="an outermost one",
                where=t.location(),
                hint="write it in `for tile in tfl.tile(...):`, over lengths[tile]",
            )
        for bound in (*found.begins, *found.ends):
            if not isinstance(bound, int) or isinstance(bound, bool):
                raise TraceError(
                    "an outermost loop's bounds are ints",
                    got=f"{type(bound).__name__} {bound!r}"[:80],
                    where=t.location(),
                    hint="pass sizes: tensor.size(0), n // 2, int(x)",
                )
        for block in found.blocks:
            if block is not None and (not isinstance(block, int) or isinstance(block, bool) or block < 1):
                raise TraceError(
                    "a block size is an int of 1 or more",
                    got=repr(block),
                    where=t.location(),
                    hint="let the config choose it: tfl.register_block_size(high)",
                )
        t.at(None)
        return found

    @property
    def found_out(self) -> Found:
        """The tensors of which the trace read parts in place of a copy, and to which it writes; and the parts that it
        loaded, and stored through."""
        t = self.tracer
        written = {path for op in walk(Block((), t.builder.ops, ())) for path in effects_of(op).writes}
        copied = frozenset(path for path in t.read_again if not t.sharing(path).isdisjoint(written))
        return Found(copied, frozenset(t.through) - t.found.through)

    def trace(self) -> KernelIR:
        t, fn = self.tracer, self.lowering.host.fn
        host = self.lowering.host
        reads, memory = host.reads.names, self.lowering.memory
        varying = self.lowering.variation.of(self.source.index)
        capturer = Capturer(t, self.control.call, self.frame, host.passed, varying, reads, memory, fn)
        self.constants = capturer.constants
        self.given, self.control.outer = capturer.given, capturer.outer
        t.at(
            Location(
                self.source.file,
                self.source.loop.lineno,
                self.source.loop.col_offset,
                self.source.lines[self.source.loop.lineno - 1].rstrip(),
            )
        )
        proxies = self._grid()
        captured = [self._captured(capturer, fn, c.name) for c in self.source.captures]
        t.at(None)
        run = rewrite_region(self.source, fn)
        try:
            with TraceMode(t):
                run(self.control, *proxies, *captured)
        except AssertionError:  # of the author's, which another config may satisfy
            raise
        except Exception as error:
            if isinstance(error, TileflowError) and error.where is not None:
                raise
            missing = {c.name for c, v in zip(self.source.captures, captured, strict=True) if v is UNDEFINED}
            unbound = missing & {c.name for c in self.source.captures if c.kind == "global"}
            raise translate_error(error, t.files, unbound) from error
        return self._finish()

    def _captured(self, capturer: Capturer, fn: FunctionType, name: str) -> Any:
        try:
            value = read_name(name, self.frame, fn)
        except KeyError:
            return UNDEFINED
        return capturer.capture(value, name)

    def _grid(self) -> list[Any]:
        """The tiles of the outermost loop."""
        t, loop, proxies = self.tracer, self.loop, []
        for axis, target in enumerate(self._targets()):
            name = t.names.fresh(target)
            begin, end = self._bound("begin", axis, loop.begins[axis]), self._bound("end", axis, loop.ends[axis])
            block = self._block(name, axis)
            t.tiles[name] = Tile(name, block, begin, end, True, t.is_wide(begin, end))
            proxy = TileProxy(name, t, t.scopes[-1], Expr.of(0))
            proxies.append(t.tile_scalar(OpKind.TILE_BEGIN, proxy) if loop.scalar else proxy)
        return [tuple(proxies)] if self._is_whole else proxies

    @property
    def _is_whole(self) -> bool:
        """``for tiles in tile([m, n])``: one variable holds the tuple."""
        return self.loop.several and not isinstance(self.source.loop.target, ast.Tuple)

    def _targets(self) -> tuple[str, ...]:
        """The name of each axis."""
        targets, axes = self.source.targets, len(self.loop.ends)
        if self._is_whole:
            return targets * axes
        if len(targets) != axes:
            raise TraceError(
                "a tile loop has a variable for each axis",
                where=self.tracer.location(),
                got=f"{', '.join(targets)} for {axes} axes",
                hint="for a, b in tfl.tile([m, n]), for a in tfl.tile(m)",
            )
        return targets

    def _block(self, name: str, axis: int) -> Expr:
        t, given = self.tracer, self.loop.blocks[axis]
        if given is None:
            return t.new_block(name, int(self.loop.ends[axis]) - int(self.loop.begins[axis]))
        expr = expr_of(given)
        if expr is not None and expr.op != "sym" and not t.shape_mode.is_static:
            # it may hold this axis' size as a plain number, and a launch does not tell its block sizes
            t.assume(f"end.{axis}", int(self.loop.ends[axis]))
        if expr is not None and not all(map(is_knob, expr.symbols())):
            return self._block_of_arguments(given, expr)
        if expr is None:
            self._assume_block(axis, int(given))
            return Expr.of(int(given))
        return expr

    def _assume_block(self, axis: int, given: int) -> None:
        """A plain number of a container, of a global or made by host code may be another one in another call."""
        node = self.source.block_node(axis)
        path = None if node is None else path_of(node)
        if path is not None and self._holds(path, given):
            self.tracer.assume(path, given)
        elif node is not None and free_names(node):
            self.tracer.assume(f"end.{axis}", int(self.loop.ends[axis]))

    def _holds(self, path: str, number: int) -> bool:
        """Whether a launch that reads at ``path`` finds this int."""
        try:
            found = read_path(Path.parse(path), self.frame, self.lowering.host.fn)
        except (TableError, LookupError, AttributeError, ValueError):
            return False
        return isinstance(found, int) and found == number

    def _block_of_arguments(self, given: int, expr: Expr) -> Expr:
        """A block size that int arguments give: a constant, while the variables that it came from stay the same."""
        t = self.tracer
        held = {name: v for name, v in self.frame.items() if isinstance(v, SymbolicInt)}
        name = next((name for name, v in held.items() if v.expr == expr), None)
        if name is not None:
            t.assume(name, int(given))
            return Expr.of(int(given))
        for s in sorted(s for s in expr.symbols() if not is_knob(s)):
            if s not in held or held[s].expr != Expr.sym(s):
                raise TraceError(
                    "a block size is made of arguments that keep their names",
                    got=f"{given!r} = {expr}",
                    where=t.location(),
                    hint=f"give what replaces {s} another name",
                )
            t.assume(s, int(held[s]))
            expr = expr.substitute({s: int(held[s])})
        return expr

    def _bound(self, kind: str, axis: int, value: Any) -> Expr:
        """A bound of the grid: a constant in static mode; else a symbol, but a 0 stays 0 where that is assumed.

        A knob stays one; what host code computed from it may hold sizes as plain numbers, which another launch changes.
        """
        t = self.tracer
        symbol = f"{kind}.{axis}"
        expr = expr_of(value)
        if expr is not None and expr.op == "sym" and is_knob(str(expr.args[0])):
            return expr
        may_be_0 = t.shape_mode.keeps_layout or (kind == "begin" and self.begins_at_0)
        if t.shape_mode.is_static or (may_be_0 and int(value) == 0):
            t.assume(symbol, int(value))
            return Expr.of(int(value))
        t.hints[symbol] = int(value)
        return Expr.sym(symbol)

    def _check_effect(self) -> None:
        """Raises TraceError for a launch that leaves nothing behind, unless Python chose a way that stores nothing."""
        ops = walk(Block((), self.tracer.builder.ops, ()))
        if not all(effects_of(op).is_pure for op in ops):
            return
        loop, fn = self.source.loop, self.lowering.host.fn
        if self.control.has_chosen and may_store(loop.body, fn, local_names(function_source(fn).tree)):
            return
        where = Location(self.source.file, loop.lineno, loop.col_offset, self.source.lines[loop.lineno - 1].rstrip())
        raise TraceError(
            "an outermost tile loop stores what it computes",
            got="a launch without an effect",
            where=where,
            hint="out[tile] = value; a name assigned in the loop ends with it",
        )

    def _finish(self) -> KernelIR:
        t = self.tracer
        self._check_effect()
        used = {s for tile in t.tiles.values() for s in tile.block.symbols()} | _shape_symbols(t.builder.ops)
        host = {k.name: (k.low, k.high) for k in self.lowering.knobs.values() if not k.choices}
        blocks = {n: b for n, b in {**host, **t.blocks}.items() if n in used}
        ir = KernelIR(
            name=ascii_identifier(self.lowering.host.fn.__name__),
            region=self.source.index,
            mode=t.mode,
            tensors=tuple(t.tensors.values()),
            scalars=tuple(t.scalars.values()),
            tiles=dict(t.tiles),
            grid=tuple(t.tiles)[: len(self.loop.ends)],
            blocks=tuple(BlockSymbol(n, low, 1 << max(high - 1, 0).bit_length()) for n, (low, high) in blocks.items()),
            body=Block((), t.builder.ops, ()),
            guards=tuple(t.guards),
            hints=dict(t.hints),
            value_names=dict(t.value_names),
        )
        self._no_race(ir)
        ir = with_pairs(ir, self.given)
        self._require_in_step(ir)
        return ir

    def _require_in_step(self, ir: KernelIR) -> None:
        """Raises CallError where each launch of the traced call would: a search runs its configs on copies of the
        arguments, which overlap no more."""
        fn = self.lowering.host.fn
        for pair in filter(None, map(pair_of, ir.guards)):
            if pair.field != "in_step" or pair.path is None or pair.other is None:
                continue
            try:
                is_in_step(read_path(pair.path, self.frame, fn), read_path(pair.other, self.frame, fn))
            except CallError as error:
                where = location(self.source, self.source.loop)
                raise CallError(error.constraint, got=error.got, where=where, hint=error.hint) from None

    def _no_race(self, ir: KernelIR) -> None:
        if (several := folded(ir)) is not None:
            op, dim = several
            path = getattr(op.attrs, "tensor", "")
            raise CallError(
                "a tensor that a kernel stores into has memory for each of its elements",
                got=f"{path}, whose dimension {dim} has a stride of 0",
                where=op.loc,
                hint="pass a tensor of its own in place of what expand made, or add to it by tfl.atomic_add",
            )
        found = race(ir)
        if found is not None:
            op, tile = found
            raise TraceError(
                "programs that run in parallel do not overwrite each other's results",
                where=op.loc,
                got=f"a value for each {tile} stored to one element of {getattr(op.attrs, 'tensor', '')}",
                hint=f"add by {_as_atomic(op.loc)}, index by {tile}.id, or make the loop over {tile} an inner one; "
                f"where any of them will do, let one store: tfl.store(out, index, value, extra_mask={tile}.id == 0)",
            )


def _as_atomic(where: Location | None) -> str:
    """How to write the author's ``out[index] += value`` as an atomic; the function's name where the line is not one."""
    try:
        (line,) = module_tree("" if where is None else where.text.strip()).body
    except (SyntaxError, ValueError):  # part of a statement of several lines, or none
        return "tfl.atomic_add"
    match line:
        case ast.AugAssign(ast.Subscript(tensor, index), ast.Add(), value):
            if not any(isinstance(part, ast.Slice) for part in ast.walk(index)):
                return f"tfl.atomic_add({ast.unparse(tensor)}, {ast.unparse(index)}, {ast.unparse(value)})"
    return "tfl.atomic_add"


def _shape_symbols(ops: Iterable[Op]) -> set[str]:
    """The symbols in the shapes of what ``ops`` compute."""
    every = (v for op in walk(Block((), tuple(ops), ())) for v in op.outputs)
    return {s for v in every for d in v.dims for s in d.extent.symbols()}
