"""Sizes and paths of the IR as source text of the kernel's host code and device code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..errors import GradientError
from ..expr import Expr
from ..ir.graph import KernelIR
from ..runtime.paths import Path, Symbol


def path_text(path: str) -> str:
    """Source text of what is at a path of the host frame. Raises GradientError where none names it."""
    parsed = Path.parse(path)
    text = parsed.root
    for kind, name in parsed.steps:
        if kind == "item":
            text += f"[{name}]"
        elif kind == "key":
            text += f"[{name!r}]"
        elif kind == "attr":
            text += f".{name}"
        else:
            raise GradientError(
                "a derived backward reads what the kernel's arguments hold",
                got=f"{path}, which a function closes over",
                hint="pass it to the kernel as an argument, or write the backward: tileflow.differentiable",
            )
    return text


def equal_sizes(ir: KernelIR, is_argument: Callable[[str], bool]) -> Mapping[str, Expr]:
    """The size to write for each one that the region's guards say equals others: an argument's if there is one."""
    groups: dict[str, set[str]] = {}
    for guard in ir.guards:
        if guard.op == "eq" and all(a.op == "sym" for a in guard.args):
            merged = {str(a.args[0]) for a in guard.args}
            for name in list(merged):
                merged |= groups.get(name, set())
            groups.update(dict.fromkeys(merged, merged))
    chosen = {}
    for name, group in groups.items():
        best = min(group, key=lambda n: (".shape." not in n or not is_argument(_root(n)), ".shape." not in n, n))
        chosen[name] = Expr.sym(best)
    return chosen


def fixed_sizes(ir: KernelIR) -> Mapping[str, int]:
    """The numbers that launch symbols are in each call of the example's kind: those of shapes, and what the region's
    guards say."""
    found = {name: number for name, number in ir.hints.items() if ".shape." in name}
    for guard in ir.guards:
        pairs = (guard.args, guard.args[::-1]) if guard.op == "eq" else ()
        found.update({str(a.args[0]): b.constant for a, b in pairs if a.op == "sym" and b.constant is not None})
    return found


def _root(symbol: str) -> str:
    return re.split(r"[.]", symbol)[0]


def symbol_text(symbol: str, bound: Callable[[str, int], str]) -> str:
    """Source text of a launch symbol; ``bound`` gives that of the outermost loop's."""
    parsed = Symbol.parse(symbol)
    if parsed.field in ("begin", "end"):
        return bound(parsed.field, parsed.axis)
    text = path_text(symbol.rsplit(f".{parsed.field}", 1)[0] if parsed.field != "value" else symbol)
    if parsed.field == "value":
        return text
    return f"{text}.{'size' if parsed.field == 'shape' else 'stride'}({parsed.axis})"
