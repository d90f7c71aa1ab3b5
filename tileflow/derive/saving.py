"""The forward pass of a kernel that also writes what its backward reads: its own text, with stores of statistics."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from ..frontend.split import HostFunction
from ..ir.attributes import AccessAttrs
from ..ir.graph import Op
from ..ir.kinds import OpKind
from .forward import Env, Speller, TileName, index_item, variable_name
from .host import Header, host_text, knob_variables, parameter_text
from .observe import Call, Launch
from .program import INDENT, Namer, Statement, prune, render
from .saved import Saved
from .sizes import equal_sizes, path_text
from .write import PRELUDE, Derived, launch_loop


class _StoringSpeller(Speller):
    """Spells stores too, and behind the values of ``statistics`` one of each."""

    statistics: list[tuple[Saved, str]]

    def op(self, op: Op, env: Env, lines: list[Statement]) -> None:
        """Append the lines of one op, stores among them."""
        if op.kind is OpKind.STORE:
            lines.append(self._store(op, env))
            return
        super().op(op, env, lines)
        lines += [one.stored(tensor, env) for one, tensor in self.statistics if one.value in op.outputs]

    def _store(self, op: Op, env: Env) -> str:
        items, mask = self.access(op, env)
        tensor, value = path_text(AccessAttrs.of(op).tensor), self.operand(op.inputs[0], env)
        if mask is None:
            return f"{tensor}[{', '.join(items) or '()'}] = {value}"
        return f"tfl.store({tensor}, [{', '.join(map(index_item, items))}], {value}, extra_mask={mask})"


class _Returns(ast.NodeTransformer):
    """Statistics behind what host code returns."""

    def __init__(self, names: Sequence[str], is_tuple: bool) -> None:
        self.names, self.is_tuple = names, is_tuple

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """What a function inside returns stays."""
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        """The result, or its parts, and the statistics."""
        assert node.value is not None
        own = ast.Starred(node.value, ast.Load()) if self.is_tuple else node.value
        elements: list[ast.expr] = [own, *(ast.Name(name, ast.Load()) for name in self.names)]
        return ast.Return(ast.Tuple(elements, ast.Load()))


def can_save(launch: Launch) -> bool:
    """Whether a launch can be written again: it has no atomics, and reads nothing that it writes."""
    read = {AccessAttrs.of(op).tensor for op in launch.ir.walk() if op.kind is OpKind.LOAD}
    return not read & launch.written and all(op.kind is not OpKind.ATOMIC for op in launch.ir.walk())


def saving(host: HostFunction, call: Call, saved: Sequence[Saved]) -> Derived:
    """The forward kernel that returns its results and behind them the statistics in ``saved``, in order."""
    text, name = host_text(host), f"{host.fn.__name__}_saving"
    namer = Namer({*map(str, text.names), *PRELUDE, name})
    kept = [(one, namer.fresh(f"saved_{i}")) for i, one in enumerate(saved) if one.result is None]
    lines: list[str] = []
    done = 0
    for number, (position, loop) in enumerate(text.launches):
        lines += [line for s in text.before[done:position] for line in ast.unparse(s).splitlines()]
        done = position
        own = [(one, tensor) for one, tensor in kept if one.launch == number]
        lines += _launch(host, call.launches[number], loop, own, namer) if own else ast.unparse(loop).splitlines()
    returns = _Returns([tensor for _, tensor in kept], call.is_tuple)
    lines += [
        line
        for s in text.after
        for line in ast.unparse(ast.fix_missing_locations(returns.visit(copy.deepcopy(s)))).splitlines()
    ]
    head = f"def {name}({', '.join(parameter_text(p, host) for p in text.parameters)}):"
    about = f'{INDENT}"""{host.fn.__name__}, and what its gradient reads."""'
    return Derived("\n".join([head, about, *(INDENT + line for line in lines)]) + "\n", name, (), (), False)


def _launch(host: HostFunction, launch: Launch, loop: ast.For, own: list[tuple[Saved, str]], namer: Namer) -> list[str]:
    ir, text = launch.ir, host_text(host)
    header = Header(host, loop, host.regions[ir.region].function, launch.frame)
    equal = equal_sizes(ir, {p.arg for p in text.parameters}.__contains__)
    speller = _StoringSpeller(ir, namer, header.bound, dict(knob_variables(host, text.before)), equal)
    speller.statistics = own
    env = Env(tiles={t: TileName(namer.fresh(variable_name(t)), header.is_grid) for t in ir.grid})
    body: list[Statement] = []
    speller.block(ir.body, env, body)
    axes = range(len(ir.grid))
    begins, ends = ([header.bound(which, a) for a in axes] for which in ("begin", "end"))
    variables, blocks = [env.tiles[t].variable for t in ir.grid], [header.block_size(a) for a in axes]
    device = path_text(ir.tensors[0].path)
    allocations = [
        f"{tensor} = torch.empty({one.shape}, dtype=torch.{one.value.type.dtype}, device={device}.device)"
        for one, tensor in own
    ]
    whole = launch_loop(header.is_grid, variables, begins, ends, blocks, prune(body)[0])
    return [*allocations, *render([whole], "")]
