"""Triton text that a kernel's author wrote: parsed, so that names can be replaced, and freed of where it stood."""

from __future__ import annotations

import ast
import builtins
import inspect
import string
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from ...errors import TraceError
from ...parsing import expression_tree, module_tree

ARGUMENT = "__argument_{}__"
_CONSTANTS = (bool, int, float, str, type(None))


def parse(text: str, names: Sequence[str]) -> str:
    """``text`` with the placeholders ``{name}`` as identifiers ``__argument_name__``. Raises TraceError where it is no
    Python, or names a placeholder that is not there."""
    text = textwrap.dedent(text).strip()
    try:
        used = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
        unknown = sorted(used - set(names))
        if unknown:
            raise TraceError(
                "a placeholder of inline Triton is an argument",
                got=f"{{{unknown[0]}}}",
                hint=f"there are {', '.join(f'{{{n}}}' for n in names) or 'none'}",
            )
        named = {name: ARGUMENT.format(name) for name in names}
        filled = _ByName().vformat(text, (), named)
        module_tree(filled)
    except (SyntaxError, ValueError) as error:
        raise TraceError("inline Triton is Python text", got=str(error), hint="write one expression") from error
    return filled


class _ByName(string.Formatter):
    """Fields by name, also those that are digits."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs[str(key)]


def has_result(text: str) -> bool:
    """Whether the last statement is an expression."""
    return isinstance(module_tree(text).body[-1], ast.Expr)


def assigned(text: str) -> list[str]:
    """The names that the text binds."""
    nodes = ast.walk(module_tree(text))
    return sorted({n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})


def replaced(text: str, names: Mapping[str, str]) -> list[str]:
    """The statements of ``text`` with names replaced by expressions."""
    tree = _Replace({name: expression_tree(new) for name, new in names.items()}).visit(module_tree(text))
    return [ast.unparse(statement) for statement in tree.body]


class _Replace(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self.names.get(node.id, node)
        return ast.Name(found.id, node.ctx) if isinstance(found, ast.Name) else found


# ---- functions ----------------------------------------------------------------------------------


def jit_function(function: Any, known: dict[str, str]) -> str:
    """The name of a ``@triton.jit`` function in the generated module; ``known`` gets its text after the name, and
    before it those of the functions that it calls. Raises TraceError where it reads what cannot be written down."""
    fn = getattr(function, "fn", None)
    if not isinstance(fn, FunctionType):
        raise TraceError("tfl.triton_kernel calls a @triton.jit function", got=repr(function)[:200])
    (tree,) = module_tree(textwrap.dedent(inspect.getsource(fn))).body
    assert isinstance(tree, ast.FunctionDef)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
    free = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - bound
    tree.decorator_list = []
    captured = inspect.getclosurevars(fn)
    values = {**captured.builtins, **fn.__globals__, **captured.nonlocals}
    names = {name: _global(name, values, fn, known) for name in sorted(free) if name != fn.__name__}
    made = _Replace({n: expression_tree(text) for n, text in names.items() if text}).visit(tree)
    text = ast.unparse(made).removeprefix(f"def {fn.__name__}") + "\n"
    name = f"{fn.__name__}_{zlib.crc32(text.encode()):08x}"
    known[name] = text
    return name


def _global(name: str, values: Mapping[str, Any], fn: FunctionType, known: dict[str, str]) -> str:
    """What stands for a global in the generated module; nothing where its name does."""
    import triton.language as tl

    value = values.get(name, getattr(builtins, name, None))
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, _CONSTANTS):
        return repr(value)
    if isinstance(value, ModuleType) and value.__name__ == "triton":
        return "triton"
    if isinstance(value, ModuleType) and value.__name__.startswith("triton.language"):
        return "tl" + value.__name__.removeprefix("triton.language")
    of_triton = next((n for n, v in vars(tl).items() if v is value), None)
    if of_triton is not None:
        return f"tl.{of_triton}"
    if hasattr(value, "fn"):
        return jit_function(value, known)
    if getattr(builtins, name, None) is value:
        return ""
    raise TraceError(
        "a Triton function in a kernel reads Triton's names, other Triton functions and constants",
        got=f"{name} = {value!r} in {fn.__name__}"[:200],
        hint="pass it as an argument",
    )
