"""A whole derived kernel as text: host code, one loop for each launch in reverse order, and the gradients it returns."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import GradientError
from ..frontend.liveness import bound_names, free_names
from ..frontend.split import HostFunction
from ..ir.attributes import AccessAttrs
from ..ir.kinds import OpKind
from .forward import HINT, Env, Speller, TileName, index_item, variable_name
from .host import Header, HostText, host_text, knob_variables, needed, parameter_text, result_names
from .observe import Call, Launch, observe
from .places import Named, disjoint, named
from .program import INDENT, Gradient, Loop, Namer, Statement, facts, prune, render, walk
from .reverse import RegionReverse, Taken
from .sizes import equal_sizes, path_text

PRELUDE = ("torch", "tfl", "pull_back")


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived kernel. ``text``: its functions. ``name``: of the kernel's. ``arguments``: the text of each argument of
    the forward kernel that it returns the gradient of, in order. ``results``: which results it takes gradients of."""

    text: str
    name: str
    arguments: tuple[str, ...]
    results: tuple[int, ...]


@dataclass(slots=True)
class Sum:
    """The gradient of one tensor while its parts are found. ``name``: of the tensor that collects them; ``like``: the
    text of the tensor itself. ``given``: the text of a gradient that it starts from."""

    name: str
    like: str
    dtype: str
    parts: list[tuple[Launch, Gradient]] = field(default_factory=list)
    given: str | None = None
    is_atomic: bool = False
    is_partial: bool = False

    @property
    def total(self) -> str:
        """The gradient itself, as text."""
        return f"{self.name}.to({self.like}.dtype)" if self.is_atomic and self.wide != self.dtype else self.name

    @property
    def wide(self) -> str:
        """What atomics add in."""
        return self.dtype if self.dtype == "float64" else "float32"


@dataclass(frozen=True, slots=True)
class Through:
    """The lines that take gradients through the host code before the launches, and the arguments' by name."""

    lines: list[str]
    grads: dict[str, str]


@dataclass(slots=True)
class Partial:
    """Sums over blocks of one loop of a launch, of which each program adds up its own in registers. ``block``: how
    many elements of the loop a program takes. ``of``: the gradients, by their part's id, and the names of what holds
    them in registers and in memory."""

    tile: str
    block: str
    rows: str
    of: dict[int, tuple[Sum, str, str]]


@dataclass(slots=True)
class Reversed:
    """The backward pass of one launch: its loop's bounds, the names of its tiles, and its lines."""

    launch: Launch
    header: Header
    env: Env
    lines: list[Statement]
    speller: Speller
    partial: Partial | None = None


def derive(name: str, host: HostFunction, args: Sequence[Any]) -> Derived:
    """The backward kernel of one kind of call. Raises GradientError where a gradient is not derived."""
    return _Writer(name, host, observe(name, host, args)).write()


class _Writer:
    def __init__(self, name: str, host: HostFunction, call: Call) -> None:
        self.where, self.host, self.call = name, host, call
        self.text: HostText = host_text(host)
        self.name = f"{host.fn.__name__}_backward"
        self.namer = Namer({*map(str, self.text.names), *PRELUDE, self.name, self._helper_name})
        if len(call.launches) != len(self.text.launches):
            raise GradientError("each launch of a kernel whose backward is derived happens once", where=name,
                                got=f"{len(call.launches)} of {len(self.text.launches)}", hint=HINT)  # fmt: skip
        if not call.asked:
            raise GradientError("a derived backward has a result with a gradient", where=name,
                                got="none that a launch wrote", hint="return floating-point tensors")  # fmt: skip
        self.sums: dict[int, Sum] = {}  # by the tensor's id
        self.views: dict[int, str] = {}  # tensors that host code makes of arguments, by id
        rebound = bound_names(self.text.before)
        self.given = {name: self.namer.fresh(f"{name}_given") for name in call.differentiable if name in rebound}
        self.seeds: dict[int, str] = {}
        self.beside: dict[str, str] = {}  # of arguments on which host code after the launches depends itself
        self.reversed: list[Reversed] = []

    def write(self) -> Derived:
        names = result_names(self.text.after)
        grads = [self.namer.fresh(f"grad_{names[i]}" if len(names) == len(self.call.results) else
                                  "grad" if len(self.call.asked) == 1 else f"grad_{i}") for i in self.call.asked]  # fmt: skip
        pulled = self._seed(grads)
        self._intermediate()
        for launch, (_, loop) in zip(reversed(self.call.launches), reversed(self.text.launches), strict=True):
            self._reverse(launch, loop)
        body = self._body(pulled)
        body = [*(f"{new} = {name}" for name, new in self.given.items()), *body]
        parameters = ", ".join([*(parameter_text(p, self.host) for p in self.text.parameters), *grads])
        arguments = [a for a in self.call.differentiable]
        head = [f"def {self.name}({parameters}):",
                f'{INDENT}"""The gradients of {", ".join(arguments)} of {self.host.fn.__name__}."""']  # fmt: skip
        text = "\n".join([*self._helper(), *self._view_helper(), *head, *(INDENT + line if line else "" for line in body)]) + "\n"
        return Derived(text, self.name, tuple(arguments), self.call.asked)

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
            raise GradientError("host code after the launches reads arguments by their names, where a backward is derived",
                                got=", ".join(lost), where=self.where, hint=HINT)  # fmt: skip
        return reached

    def _written(self) -> list[tuple[str, Any]]:
        """The tensors that launches wrote and host code reads after them, by name."""
        read = self._read_after()
        found = {path: t for launch in self.call.launches for path, t in launch.tensors.items()
                 if path in launch.written and path in read and t.is_floating_point()}  # fmt: skip
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
        return [f"def {self._helper_name}({', '.join(parameters)}):",
                f'{INDENT}"""What {self.host.fn.__name__} returns, of what its launches wrote."""',
                *(INDENT + line for line in lines), "", ""]  # fmt: skip

    def _intermediate(self) -> None:
        """What one launch writes and a later one reads has a gradient of its own."""
        for n, launch in enumerate(self.call.launches):
            for path, tensor in launch.tensors.items():
                earlier = [one for one in self.call.launches[:n] for p, t in one.tensors.items()
                           if t is tensor and p in one.written]  # fmt: skip
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
        speller = Speller(ir, self.namer, header.bound, knobs, equal_sizes(ir, arguments.__contains__))
        self._check(launch)
        env = Env(tiles={t: TileName(self.namer.fresh(variable_name(t)), header.is_grid) for t in ir.grid})

        def seed(path: str) -> str | None:
            return self.seeds.get(id(launch.tensors[path]))

        def wanted(path: str) -> bool:
            return self._sum(launch, path) is not None

        reverse = RegionReverse(speller, seed, wanted)
        lines, live = prune(reverse.run(env))
        lost = sorted(live & reverse.unavailable.keys())
        if lost:
            raise GradientError("a backward is derived where no turn of a loop needs what the one before it gave",
                                got=f"a loop over {reverse.unavailable[lost[0]].attrs.tile} that carries such a value",  # type: ignore[attr-defined]
                                where=reverse.unavailable[lost[0]].loc, hint=HINT)  # fmt: skip
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
            raise GradientError("a tensor that host code makes of arguments has a name, where a backward is derived",
                                got=path, where=self.where, hint=HINT)  # fmt: skip
        return path

    def _check(self, launch: Launch) -> None:
        """Raises GradientError where a region reads what it writes, or may write an element twice."""
        ir, kinds = launch.ir, (OpKind.LOAD, OpKind.STORE)
        accesses = [(op, launch.tensors[AccessAttrs.of(op).tensor]) for op in ir.walk() if op.kind in kinds]
        stores = [(op, t) for op, t in accesses if op.kind is OpKind.STORE and t.is_floating_point()]
        for n, (op, tensor) in enumerate(stores):
            if any(other is tensor for one, other in accesses if one.kind is OpKind.LOAD):
                raise GradientError("a launch whose backward is derived does not read what it writes", where=op.loc,
                                    got=AccessAttrs.of(op).tensor, hint=f"keep the value in a variable; or {HINT}")  # fmt: skip
            if any(other is tensor and not disjoint(ir, op, one) for one, other in stores[:n]):
                raise GradientError("stores of a kernel whose backward is derived are to elements of their own",
                                    got=f"two to {AccessAttrs.of(op).tensor}", where=op.loc, hint=HINT)  # fmt: skip

    # ---- what is written to the gradients --------------------------------------------------------

    def _plan_partials(self) -> None:
        """Where all programs along one loop of a launch add to the same elements, each sums up a block of it."""
        for done in self.reversed:
            grid = set(done.launch.ir.grid)
            for found in self.sums.values():
                if len(found.parts) != 1 or found.given is not None or found.parts[0][0] is not done.launch:
                    continue
                (_, part), outer = found.parts[0], {t.variable for t in done.env.tiles.values()}
                own = named(done.launch.ir, _taken(part).op)
                missing = grid - own.tiles
                if not own.by_lane or len(missing) != 1 or set(_taken(part).tiles) != grid or part.mask is not None:
                    continue
                (tile,) = missing
                index = frozenset().union(*(facts(f"x[{i}]").reads - {"x"} for i in part.index)) if part.index else frozenset()
                if done.header.is_grid or (done.partial is not None and done.partial.tile != tile):
                    continue
                if index - outer or done.env.tiles[tile].variable in index or not done.header.begins_at_0:
                    continue
                if done.partial is None:
                    done.partial = Partial(tile, self.namer.fresh("block"), self.namer.fresh("rows"), {})
                done.partial.of[id(part)] = (found, self.namer.fresh(f"sum_{found.name[5:]}"),
                                             self.namer.fresh(f"partial_{found.name[5:]}"))  # fmt: skip
                found.is_partial = True

    def _partial_lines(self, done: Reversed) -> tuple[list[str], list[str]]:
        """The lines before and after a launch whose programs sum up blocks."""
        partial = done.partial
        if partial is None:
            return [], []
        end = done.header.bound("end", done.launch.ir.grid.index(partial.tile))
        before = [f"{partial.block} = tfl.register_block_size({end})"]
        after = []
        for found, _, memory in partial.of.values():
            whole = named(done.launch.ir, _taken(found.parts[0][1]).op).is_whole
            count = f"({end} + {partial.block} - 1) // {partial.block}"
            before.append(f"{memory} = torch.{'empty' if whole else 'zeros'}({count}, *{found.like}.shape, "
                          f"dtype=torch.{found.wide}, device={found.like}.device)")  # fmt: skip
            narrow = "" if found.wide == found.dtype else f".to({found.like}.dtype)"
            after.append(f"{found.name} = {memory}.sum(0){narrow}")
        return before, after

    def _settle(self, found: Sum) -> tuple[str, list[str]]:
        """How the parts of a gradient are added up: the line that allocates it, and the line of each part."""
        known = [(launch, gradient, named(launch.ir, _taken(gradient).op)) for launch, gradient in found.parts]
        alone = [n.by_lane and n.tiles >= set(_taken(g).tiles) for _, g, n in known]
        like = f"{found.name} = torch.zeros_like({found.like})"
        if found.given is not None:
            like = f"{found.name} = {found.given}.clone()"
        elif all(alone) and self._are_disjoint(found):
            empty = len(known) == 1 and known[0][2].is_whole
            return (like.replace("zeros", "empty") if empty else like), [_store(found, g) for _, g in found.parts]
        if all(self._is_owned(launch, n, known) for launch, _, n in known):
            first = found.given is None and alone[0] and known[0][2].is_whole
            lines = [_store(found, g) if first and i == 0 else _update(found, g) for i, (_, g) in enumerate(found.parts)]
            return (like.replace("zeros", "empty") if first else like), lines
        found.is_atomic = True
        given = f"{found.name} = {found.given}.to(torch.{found.wide}, copy=True)"
        dtype = f", dtype=torch.{found.wide}" if found.wide != found.dtype else ""
        return (given if found.given else f"{like[:-1]}{dtype})"), [_atomic(found, g) for _, g in found.parts]

    def _are_disjoint(self, found: Sum) -> bool:
        parts = found.parts
        return all(one is other and disjoint(one.ir, _taken(a).op, _taken(b).op)
                   for n, (one, a) in enumerate(parts) for other, b in parts[:n])  # fmt: skip

    def _is_owned(self, launch: Launch, own: Named, known: list[tuple[Launch, Gradient, Named]]) -> bool:
        """Whether no two programs of a launch name the same element."""
        grid = set(launch.ir.grid)
        owners = [{o for o in n.owners if o[0] in grid} for other, _, n in known if other is launch]
        return own.by_lane and own.tiles >= grid and all(o == owners[0] for o in owners)

    # ---- the text -------------------------------------------------------------------------------

    def _body(self, pulled: list[str]) -> list[str]:
        allocations, lines_of = [], {}
        self._plan_partials()
        for found in self.sums.values():
            if not found.is_partial:
                allocation, lines = self._settle(found)
                allocations.append(allocation)
                lines_of.update(zip((id(g) for _, g in found.parts), lines, strict=True))
        loops = [line for done in self.reversed for line in self._loop(done, lines_of)]
        through = self._through_views()
        returned = [self._returned(leaf, through) for leaf in self.call.differentiable]
        rest = [*pulled, *allocations, *loops, *through.lines, f"return {', '.join(returned)}"]
        return [*self._before(rest, pulled), *rest]

    def _returned(self, leaf: str, through: Through) -> str:
        found = self.sums.get(id(self.call.leaves[leaf]))
        parts = [*([self.beside[leaf]] if leaf in self.beside else []), *([found.total] if found else []), *([through.grads[leaf]] if leaf in through.grads else [])]
        return " + ".join(parts) or f"torch.zeros_like({self.given.get(leaf, leaf)})"

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
        return [f"def {self._views_name}({', '.join([*inputs, *others])}):",
                f'{INDENT}"""What the launches of {self.host.fn.__name__} read of its arguments."""',
                *(INDENT + line for line in lines), f"{INDENT}return {', '.join(self.views.values())}", "", ""]  # fmt: skip

    def _through_views(self) -> Through:
        if not self.views:
            return Through([], {})
        inputs, others = self._view_inputs()
        if not inputs:
            raise GradientError("views that a backward is derived for are of arguments that are tensors",
                                got=", ".join(self.views.values()), where=self.where, hint=HINT)  # fmt: skip
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
        ir, header, partial = done.launch.ir, done.header, done.partial
        variables = [done.env.tiles[t].variable for t in ir.grid]
        axes = range(len(variables))
        begins, ends = ([header.bound(which, a) for a in axes] for which in ("begin", "end"))
        blocks = [header.block_size(a) for a in axes]
        body = done.lines
        if partial is not None:
            axis = ir.grid.index(partial.tile)
            given = f", block_size={blocks[axis]}" if blocks[axis] else ""
            inner = Loop(variables[axis], f"tfl.tile({partial.rows}.begin, {partial.rows}.end{given})", body)
            variables[axis], blocks[axis] = partial.rows, partial.block
            body = self._summed(done, partial, inner, lines_of)
        over = [_several(begins)] if set(begins) != {"0"} else []
        over.append(_several(ends))
        if any(blocks):
            over.append(f"{'step' if header.is_grid else 'block_size'}={_several([str(b) for b in blocks])}")
        loop = Loop(", ".join(variables), f"tfl.{'grid' if header.is_grid else 'tile'}({', '.join(over)})", body)
        before, after = self._partial_lines(done)
        return [*before, *render([_placed(loop, lines_of)], ""), *after]

    def _summed(self, done: Reversed, partial: Partial, inner: Loop, lines_of: dict[int, str]) -> list[Statement]:
        """A program's sums: set to 0, added to in the loop over its block, and stored."""
        before: list[Statement] = []
        after: list[Statement] = []
        for found, register, memory in partial.of.values():
            (_, part), op = found.parts[0], _taken(found.parts[0][1]).op
            shape = done.speller.shape(op.output.dims, done.env)
            before.append(f"{register} = tfl.zeros({shape}, dtype=torch.{found.wide})")
            lines_of[id(part)] = f"{register} = {register} + {part.value}"
            after.append(f"{memory}[{', '.join((f'{partial.rows}.id', *part.index))}] = {register}")
        return [*before, inner, *after]


def _several(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _placed(statement: Statement, lines_of: dict[int, str]) -> Statement:
    if isinstance(statement, Loop):
        return Loop(statement.variables, statement.over, [_placed(s, lines_of) for s in statement.body])
    return lines_of[id(statement)] if isinstance(statement, Gradient) else statement


def _read(text: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(f"def f():\n{textwrap.indent(text, INDENT)}")) if isinstance(n, ast.Name)}


def _taken(gradient: Gradient) -> Taken:
    assert isinstance(gradient.facts, Taken)
    return gradient.facts


def _store(found: Sum, g: Gradient) -> str:
    if g.mask is None:
        return f"{found.name}[{', '.join(g.index) or '()'}] = {g.value}"
    return f"tfl.store({found.name}, [{_items(g)}], {g.value}, extra_mask={g.mask})"


def _update(found: Sum, g: Gradient) -> str:
    if g.mask is None:
        return f"{found.name}[{', '.join(g.index) or '()'}] = {found.name}[{', '.join(g.index) or '()'}] + {g.value}"
    before = f"tfl.load({found.name}, [{_items(g)}], extra_mask={g.mask})"
    return f"tfl.store({found.name}, [{_items(g)}], {before} + {g.value}, extra_mask={g.mask})"


def _atomic(found: Sum, g: Gradient) -> str:
    mask = f", extra_mask={g.mask}" if g.mask else ""
    return f"tfl.atomic_add({found.name}, [{_items(g)}], {g.value}{mask})"


def _items(g: Gradient) -> str:
    return ", ".join(map(index_item, g.index))
