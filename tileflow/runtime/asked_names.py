"""Attributes that Python code asks for: by a dot, or by a name that it hands to ``getattr`` and the like.

Standard library only: the frontend reads trees, production reads bytecode.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterable, Iterator
from types import CodeType

BY_NAME = frozenset({"getattr", "hasattr", "vars", "attrgetter", "methodcaller", "__dict__", "__getattribute__"})
ANY = "*"  # among attributes that are asked for: any public one, since the code computes their names

_TO_TEXT = frozenset({"BUILD_STRING", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_OF_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# special methods that make, show and compare objects, which device code does not do with what it reads
_NOT_READ = frozenset(
    f"__{name}__"
    for name in (
        "class_getitem", "copy", "deepcopy", "del", "delattr", "doc", "eq", "format", "ge", "getnewargs",
        "getnewargs_ex", "getstate", "gt", "hash", "init", "init_subclass", "le", "lt", "module", "ne", "new",
        "post_init", "reduce", "reduce_ex", "repr", "replace", "setattr", "setstate", "sizeof", "str",
    )
)  # fmt: skip


def in_code(code: CodeType) -> frozenset[str]:
    """The attributes that a code object, without those inside it, asks for."""
    instructions = [*dis.get_instructions(code)]
    asked = {i.argval for i in instructions if i.opname in _OF_ATTRIBUTES}
    if not BY_NAME & (asked | {i.argval for i in instructions if isinstance(i.argval, str)}):
        return frozenset(asked)
    computes = any(i.opname in _TO_TEXT for i in instructions)
    return frozenset(asked | _handed(_texts(code.co_consts), computes))


def in_trees(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The attributes that these nodes ask for, each by itself."""
    nodes = list(nodes)
    asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    if not BY_NAME & (asked | names):
        return frozenset(asked)
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return frozenset(asked | _handed(texts, any(isinstance(node, ast.JoinedStr) for node in nodes)))


def among(asked: frozenset[str], names: Iterable[str]) -> frozenset[str]:
    """Which of ``names`` are asked for."""
    return frozenset(n for n in names if n in asked or (ANY in asked and not n.startswith("_")))


def read_by_syntax(names: Iterable[str]) -> frozenset[str]:
    """The special methods among a class's names that run where its objects are read: by an index, an operator."""
    return frozenset(n for n in names if n.startswith("__") and n.endswith("__") and n not in _NOT_READ)


def _handed(texts: Iterable[str], computes: bool) -> set[str]:
    """The names among the words of code that asks by name; any where it has none, or makes some of others."""
    names = {part for text in texts for part in text.split(".") if part.isidentifier()}
    return names | {ANY} if computes or not names else names


def _texts(constants: Iterable[object]) -> Iterator[str]:
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, (tuple, frozenset)):
            yield from _texts(constant)
