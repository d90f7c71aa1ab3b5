"""A whole derived kernel as text: host code, a loop for each launch in reverse order, the gradients that it returns."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import GradientError
from ..expr import is_knob
from ..frontend.host_values import SymbolicInt
from ..frontend.liveness import bound_names, free_names
from ..frontend.split import HostFunction
from ..ir.attributes import AccessAttrs
from ..ir.kinds import OpKind
from ..parsing import module_tree
from ..runtime.paths import Symbol
from .exchange import exchange
from .forward import HINT, Env, Speller, TileName, variable_name
from .host import Header, HostText, host_text, knob_variables, needed, parameter_text, result_names
from .named_elements import asked, disjoint, exclusive, is_overwritten
from .observe import Call, Launch, observe
from .program import INDENT, Branch, Gradient, Loop, Namer, Statement, prune, render, walk
from .reverse import RegionReverse
from .saved import Saved
from .sizes import equal_sizes, path_text
from .sums import Reversed, Sum, accumulation_lines, partial_lines, plan_partials, summed, whole_first

PRELUDE = ("torch", "math", "tfl", "pull_back")


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived kernel. ``text``: its functions. ``name``: of the kernel's. ``arguments``: the text of each argument of
    the forward kernel that it returns the gradient of, in order. ``results``: which results it takes gradients of.
    ``by_value``: whether the values of int arguments were asked, so that others may have another text."""

    text: str
    name: str
    arguments: tuple[str, ...]
    results: tuple[int, ...]
    by_value: bool


@dataclass(frozen=True, slots=True)
class Through:
    """The lines that take gradients through the host code before the launches, and the arguments' by name."""

    lines: list[str]
    grads: dict[str, str]


def derive(
    name: str, host: HostFunction, args: Sequence[Any], wanted: Sequence[str] = (), saved: Sequence[Saved] = ()
) -> Derived:
    """The backward kernel of one kind of call, for the arguments of the parameters ``wanted``; empty for all.
    ``saved``: what its forward pass saved. Raises GradientError where a gradient is not derived."""
    return Writer(name, host, observe(name, host, args, wanted), saved).write()


class Writer:
    """Writes one backward kernel. ``saved``: what the forward pass saved, parameters between the forward kernel's and
    the gradients."""

    def __init__(self, name: str, host: HostFunction, call: Call, saved: Sequence[Saved] = ()) -> None:
        self.where, self.host, self.call = name, host, call
        self.text: HostText = host_text(host)
        self.name = f"{host.fn.__name__}_backward"
        self.namer = Namer({*map(str, self.text.names), *PRELUDE, self.name, self._helper_name})
        self.saved = [(one, self.namer.fresh(f"saved_{i}")) for i, one in enumerate(saved)]
        if len(call.launches) != len(self.text.launches):
            raise GradientError(
                "each launch of a kernel whose backward is derived happens once",
                where=name,
                got=f"{len(call.launches)} of {len(self.text.launches)}",
                hint=HINT,
            )
        if not call.asked:
            raise GradientError(
                "a derived backward has a result with a gradient",
                where=name,
                got="none that a launch wrote",
                hint="return floating-point tensors",
            )
        self.sums: dict[int, Sum] = {}  # by the tensor's id
        self.views: dict[int, str] = {}  # tensors that host code makes of arguments, by id
        rebound = bound_names(self.text.before)
        self.given = {name: self.namer.fresh(f"{name}_given") for name in call.differentiable if name in rebound}
        self.seeds: dict[int, str] = {}
        self.beside: dict[str, str] = {}  # of arguments on which host code after the launches depends itself
        self.reversed: list[Reversed] = []

    def write(self) -> Derived:
        """The kernel. Raises GradientError where a gradient is not derived."""
        names = result_names(self.text.after)
        grads = [self.namer.fresh(self._grad_name(names, i)) for i in self.call.asked]
        pulled = self._seed(grads)
        self._intermediate()
        for launch, (_, loop) in zip(reversed(self.call.launches), reversed(self.text.launches), strict=True):
            self._reverse(launch, loop)
        body = self._body(pulled)
        body = [*(f"{new} = {name}" for name, new in self.given.items()), *body]
        own = [parameter_text(p, self.host) for p in self.text.parameters]
        parameters = ", ".join([*own, *(tensor for _, tensor in self.saved), *grads])
        arguments = self.call.differentiable
        head = [
            f"def {self.name}({parameters}):",
            f'{INDENT}"""The gradients of {", ".join(arguments)} of {self.host.fn.__name__}."""',
        ]
        text = (
            "\n".join([*self._helper(), *self._view_helper(), *head, *(INDENT + line if line else "" for line in body)])
            + "\n"
        )
        return Derived(text, self.name, arguments, self.call.asked, any(map(self._is_by_value, self.reversed)))

    def _is_by_value(self, done: Reversed) -> bool:
        """Whether what an int argument holds chose lines: a size of a launch's stores, or a number that device code
        branches by, slices by, and the like."""
        fields = {Symbol.parse(s).field for guard in done.launch.ir.guards for s in guard.symbols() if not is_knob(s)}
        if not fields.isdisjoint(("value", "digest")):
            return True
        frame = done.launch.frame
        names = {s for s in asked(done.launch.ir) if s in frame} | {
            name for name in done.header.names if any(s.startswith(("begin.", "end.")) for s in asked(done.launch.ir))
        }
        values = (frame.get(name) for name in names)
        return any(isinstance(v, SymbolicInt) and not all(map(is_knob, v.expr.symbols())) for v in values)

    def _grad_name(self, names: list[str], result: int) -> str:
        if len(names) == len(self.call.results):
            return f"grad_{names[result]}"
        return "grad" if len(self.call.asked) == 1 else f"grad_{result}"

    # ---- gradients of what is written ------------------------------------------------------------

    def _seed(self, grads: list[str]) -> list[str]:
        """Name the gradient of each tensor that launches wrote; the lines that compute them from the results'."""
        if self.call.is_direct:
            for i, grad in zip(self.call.asked, grads, strict=True):
                self.seeds[id(self.call.results[i])] = grad
            return []
        written = self._written()
        names = [self.namer.fresh(f"grad_{name}") for name, _ in written]
        for (_, tensor), name in zip(written, names, strict=True):
            self.seeds[id(tensor)] = name
        self.beside = {leaf: self.namer.fresh(f"grad_{leaf}_beside") for leaf in self._leaves_after()}
        target = ", ".join([*names, *self.beside.values()]) + ("," if len(names) + len(self.beside) == 1 else "")
        asked = f"[{', '.join(map(str, self.call.asked))}]"
        inputs = ", ".join([*(name for name, _ in written), *(self.given.get(n, n) for n in self.beside)])
        others = ", ".join(self._helper_arguments())
        return [f"{target} = pull_back({self._helper_name}, [{inputs}], [{others}], {asked}, [{', '.join(grads)}])"]

    def _leaves_after(self) -> tuple[str, ...]:
        """The arguments that host code after the launches is differentiated for. Raises GradientError where it reads
        one in another way than by its name."""
        reached, read = self.call.reached, self._read_after()
        if lost := [leaf for leaf in reached if leaf not in read or leaf in self.given]:
            raise GradientError(
                "host code after the launches of a derived kernel reads arguments by their names",
                got=", ".join(lost),
                where=self.where,
                hint=HINT,
            )
        return reached

    def _written(self) -> list[tuple[str, Any]]:
        """The tensors that launches wrote and host code reads after them, by name."""
        read = self._read_after()
        found = {
            path: t
            for launch in self.call.launches
            for path, t in launch.tensors.items()
            if path in launch.written and path in read and t.is_floating_point()
        }
        return list(found.items())

    @property
    def _helper_name(self) -> str:
        return f"{self.host.fn.__name__}_results"

    def _read_after(self) -> set[str]:
        from ..frontend.liveness import Liveness

        return set(Liveness(list(self.text.after)).entry)

    def _helper_arguments(self) -> list[str]:
        written = {name for name, _ in self._written()}
        return sorted((self._read_after() & self.text.bound) - written - self.beside.keys())

    def _helper(self) -> list[str]:
        """Host code after the launches as a function of what they wrote."""
        if self.call.is_direct:
            return []
        parameters = [*(name for name, _ in self._written()), *self.beside, *self._helper_arguments()]
        lines = [line for s in self.text.after for line in ast.unparse(s).splitlines()]
        return [
            f"def {self._helper_name}({', '.join(parameters)}):",
            f'{INDENT}"""What {self.host.fn.__name__} returns, of what its launches wrote."""',
            *(INDENT + line for line in lines),
            "",
            "",
        ]

    def _intermediate(self) -> None:
        """What one launch writes and a later one reads has a gradient of its own."""
        for n, launch in enumerate(self.call.launches):
            for path, tensor in launch.tensors.items():
                earlier = [
                    one
                    for one in self.call.launches[:n]
                    for p, t in one.tensors.items()
                    if t is tensor and p in one.written
                ]
                if earlier and tensor.is_floating_point() and path not in launch.written:
                    name = self.namer.fresh(f"grad_{path}")
                    found = Sum(name, path, str(tensor.dtype)[6:], given=self.seeds.get(id(tensor)))
                    self.sums.setdefault(id(tensor), found)
                    self.seeds[id(tensor)] = self.sums[id(tensor)].name

    # ---- launches -------------------------------------------------------------------------------

    def _reverse(self, launch: Launch, loop: ast.For) -> None:
        ir = launch.ir
        region = self.host.regions[ir.region]
        header = Header(self.host, loop, region.function, launch.frame)
        knobs = dict(knob_variables(self.host, self.text.before))
        arguments = {p.arg for p in self.text.parameters}
        equal = equal_sizes(ir, arguments.__contains__)
        speller = Speller(ir, self.namer, header.bound, knobs, equal)
        speller.apart = {value: call.function for value, call in launch.calls.items()}
        speller.saved = {
            one.value: partial(one.loaded, tensor, speller)
            for one, tensor in self.saved
            if self.call.launches[one.launch] is launch
        }
        self._check(launch)
        env = Env(tiles={t: TileName(self.namer.fresh(variable_name(t)), header.is_grid) for t in ir.grid})

        def seed(path: str) -> str | None:
            return self.seeds.get(id(launch.tensors[path]))

        def wanted(path: str) -> bool:
            return self._sum(launch, path) is not None

        reverse = RegionReverse(speller, seed, wanted, launch.calls)
        lines, live = prune(reverse.run(env))
        lost = sorted(live & reverse.unavailable.keys())
        if lost:
            raise GradientError(
                "a backward is derived where no turn of a loop needs what the one before it gave",
                got=f"a loop over {reverse.unavailable[lost[0]].attrs.tile} that carries such a value",  # type: ignore[attr-defined]
                where=reverse.unavailable[lost[0]].loc,
                hint=HINT,
            )
        lines = whole_first(ir, lines)
        for statement in walk(lines):
            if isinstance(statement, Gradient):
                found = self._sum(launch, statement.tensor)
                assert found is not None
                found.parts.append((launch, statement))
        self.reversed.append(Reversed(launch, header, env, lines, speller))

    def _sum(self, launch: Launch, path: str) -> Sum | None:
        """The gradient that a tensor's loads add to; None where nobody asks for it."""
        tensor = launch.tensors[path]
        if id(tensor) not in self.sums and tensor.requires_grad:
            leaf = self.call.leaf(tensor)
            if self.call.is_unwanted(tensor):
                return None
            if leaf is None:
                if id(tensor) in self.call.written:
                    return None
                leaf = self.views[id(tensor)] = self._view(path)
            leaf = self.given.get(leaf, leaf) if id(tensor) not in self.views else leaf
            name = self.namer.fresh("grad_" + "".join(c if c.isalnum() else "_" for c in leaf).strip("_"))
            self.sums[id(tensor)] = Sum(name, leaf, str(tensor.dtype)[6:])
        return self.sums.get(id(tensor))

    def _view(self, path: str) -> str:
        if not path_text(path).isidentifier():
            raise GradientError(
                "a tensor that host code makes of arguments has a name, where a backward is derived",
                got=path,
                where=self.where,
                hint=HINT,
            )
        return path

    def _check(self, launch: Launch) -> None:
        """Raises GradientError where a region reads what it writes, or may write an element twice."""
        ir, kinds = launch.ir, (OpKind.LOAD, OpKind.STORE)
        accesses = [(op, launch.tensors[AccessAttrs.of(op).tensor]) for op in ir.walk() if op.kind in kinds]
        stores = [(op, t) for op, t in accesses if op.kind is OpKind.STORE and t.is_floating_point()]
        for n, (op, tensor) in enumerate(stores):
            if any(other is tensor for one, other in accesses if one.kind is OpKind.LOAD):
                raise GradientError(
                    "a launch whose backward is derived does not read what it writes",
                    where=op.loc,
                    got=AccessAttrs.of(op).tensor,
                    hint=f"keep the value in a variable; or {HINT}",
                )
            earlier = (one for one, other in stores[:n] if other is tensor)
            if is_overwritten(ir, op) or not all(disjoint(ir, op, one) or exclusive(ir, op, one) for one in earlier):
                raise GradientError(
                    "stores of a kernel whose backward is derived are to elements of their own",
                    got=f"two to {AccessAttrs.of(op).tensor}, or one in each turn of a loop",
                    where=op.loc,
                    hint=HINT,
                )

    # ---- the text -------------------------------------------------------------------------------

    def _body(self, pulled: list[str]) -> list[str]:
        allocations: list[str] = []
        lines_of: dict[int, str] = {}
        plan_partials(self.reversed, self.sums.values())
        exchanged = self._exchanged()
        for found in self.sums.values():
            if not found.is_partial and not found.is_exchanged and not self._is_zero(found):
                allocation, lines = accumulation_lines(found)
                allocations.append(allocation)
                lines_of.update(zip((id(g) for _, g in found.parts), lines, strict=True))
        loops = [line for done in self.reversed for line in (*self._loop(done, lines_of), *exchanged[id(done)])]
        through = self._through_views()
        returned = [self._returned(leaf, through) for leaf in self.call.differentiable]
        if not loops:
            loops, returned[0] = self._launched(returned[0])
        rest = [*pulled, *allocations, *loops, *through.lines, f"return {', '.join(returned)}"]
        return [*self._before(rest, pulled), *rest]

    def _exchanged(self) -> dict[int, list[str]]:
        """The launches that compute one gradient each, by that (Python's id) whose loops they exchange."""
        lines: dict[int, list[str]] = {}
        for done in self.reversed:
            lines[id(done)] = []
            for found in self.sums.values():
                if (own := exchange(done, found)) is not None:
                    found.is_exchanged = True
                    lines[id(done)] += own
        return lines

    def _returned(self, leaf: str, through: Through) -> str:
        found = self.sums.get(id(self.call.leaves[leaf]))
        parts = [
            *([self.beside[leaf]] if leaf in self.beside else []),
            *([found.total] if found and not self._is_zero(found) else []),
            *([through.grads[leaf]] if leaf in through.grads else []),
        ]
        return " + ".join(parts) or self._no_gradient(leaf)

    def _is_zero(self, found: Sum) -> bool:
        """Whether nothing adds to an argument's gradient, which nobody but the caller reads."""
        is_read = found.name in self.seeds.values() or found.like in self.views.values()
        return not found.parts and found.given is None and not is_read

    def _no_gradient(self, leaf: str) -> str:
        return f"torch.zeros_like({self.given.get(leaf, leaf)})"

    def _launched(self, text: str) -> tuple[list[str], str]:
        """A launch that writes the first gradient, and its text: a kernel has one, also where no gradient needs it."""
        written, tile, flat = (self.namer.fresh(name) for name in ("written", "tile", "flat"))
        leaf = self.call.differentiable[0]
        like, lines, value = self.given.get(leaf, leaf), [], "0.0"
        if text != self._no_gradient(leaf):
            lines, value = [f"{flat} = ({text}).contiguous().view(-1)"], f"{flat}[{tile}]"
        lines.append(f"{written} = torch.empty({like}.numel(), dtype={like}.dtype, device={like}.device)")
        loop = Loop(tile, f"tfl.tile({written}.size(0))", [f"{written}[{tile}] = {value}"])
        return [*lines, *render([loop], "")], f"{written}.view({like}.shape)"

    # ---- tensors that host code makes of arguments -----------------------------------------------

    @property
    def _views_name(self) -> str:
        return f"{self.host.fn.__name__}_views"

    def _view_lines(self) -> tuple[list[ast.stmt], set[str]]:
        """The statements that make the views, and the parameters that they read."""
        live, kept = set(self.views.values()), []
        for statement in reversed(self.text.before):
            if bound_names([statement]) & live:
                kept.append(statement)
                live = (live - bound_names([statement])) | free_names(statement)
        return kept[::-1], live & {p.arg for p in self.text.parameters}

    def _view_inputs(self) -> tuple[list[str], list[str]]:
        read = self._view_lines()[1]
        return [n for n in self.call.differentiable if n in read], sorted(read - set(self.call.differentiable))

    def _view_helper(self) -> list[str]:
        """The views as a function of the arguments."""
        if not self.views:
            return []
        inputs, others = self._view_inputs()
        lines = [line for s in self._view_lines()[0] for line in ast.unparse(s).splitlines()]
        return [
            f"def {self._views_name}({', '.join([*inputs, *others])}):",
            f'{INDENT}"""What the launches of {self.host.fn.__name__} read of its arguments."""',
            *(INDENT + line for line in lines),
            f"{INDENT}return {', '.join(self.views.values())}",
            "",
            "",
        ]

    def _through_views(self) -> Through:
        if not self.views:
            return Through([], {})
        inputs, others = self._view_inputs()
        if not inputs:
            raise GradientError(
                "views that a backward is derived for are of arguments that are tensors",
                got=", ".join(self.views.values()),
                where=self.where,
                hint=HINT,
            )
        names = [self.namer.fresh(f"grad_{name}") for name in inputs]
        grads = ", ".join(self.sums[view].total for view in self.views)
        target = ", ".join(names) + ("," if len(names) == 1 else "")
        given = ", ".join(self.given.get(n, n) for n in inputs)
        asked = list(range(len(self.views)))
        line = f"{target} = pull_back({self._views_name}, [{given}], [{', '.join(others)}], {asked}, [{grads}])"
        return Through([line], dict(zip(inputs, names, strict=True)))

    def _before(self, rest: list[str], pulled: list[str]) -> list[str]:
        """Host code before the launches, with those launches again whose results are read."""
        live = _read("\n".join(rest[len(pulled) :] if self.call.is_linear else rest))
        statements = list(self.text.before)
        for n in reversed(range(len(self.text.launches))):
            position, loop = self.text.launches[n]
            written = {path.split(".")[0] for path in self.call.launches[n].written}
            if written & live:
                statements.insert(position, loop)
                live |= _read(ast.unparse(loop))
        return needed(statements, live | _read("\n".join(pulled) or "pass"))

    def _loop(self, done: Reversed, lines_of: dict[int, str]) -> list[str]:
        if not done.lines:
            return []
        ir, header, own = done.launch.ir, done.header, done.partial
        variables = [done.env.tiles[t].variable for t in ir.grid]
        axes = range(len(variables))
        begins, ends = ([header.bound(which, a) for a in axes] for which in ("begin", "end"))
        blocks = [header.block_size(a) for a in axes]
        body = done.lines
        if own is not None:
            axis = ir.grid.index(own.tile)
            given = f", block_size={blocks[axis]}" if blocks[axis] else ""
            inner = Loop(variables[axis], f"tfl.tile({own.rows}.begin, {own.rows}.end{given})", body)
            variables[axis], blocks[axis] = own.rows, own.block
            body = summed(done, own, inner, lines_of)
        loop = launch_loop(header.is_grid, variables, begins, ends, blocks, body)
        before, after = partial_lines(done)
        return [*before, *render([_placed(loop, lines_of)], ""), *after]


def launch_loop(
    is_grid: bool,
    variables: Sequence[str],
    begins: Sequence[str],
    ends: Sequence[str],
    blocks: Sequence[str | None],
    body: list[Statement],
) -> Loop:
    """The loop of a launch."""
    over = [_several(begins)] if set(begins) != {"0"} else []
    over.append(_several(ends))
    if any(blocks):
        over.append(f"{'step' if is_grid else 'block_size'}={_several([str(b) for b in blocks])}")
    return Loop(", ".join(variables), f"tfl.{'grid' if is_grid else 'tile'}({', '.join(over)})", body)


def _several(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _placed(statement: Statement, lines_of: dict[int, str]) -> Statement:
    if isinstance(statement, Loop):
        return Loop(statement.variables, statement.over, [_placed(s, lines_of) for s in statement.body])
    if isinstance(statement, Branch):
        then, other = ([_placed(s, lines_of) for s in side] for side in (statement.then, statement.other))
        return Branch(statement.condition, then, other)
    return lines_of[id(statement)] if isinstance(statement, Gradient) else statement


def _read(text: str) -> set[str]:
    return {
        n.id for n in ast.walk(module_tree(f"def f():\n{textwrap.indent(text, INDENT)}")) if isinstance(n, ast.Name)
    }
