"""Whether device code could store anything, by its text: asked of a launch that left nothing behind.

Where Python chose a way through the code, the other one may have been the one that stores, and the call is right
(``if out is not None: out[tile] = value``). Where no way stores, the launch is a mistake.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import FunctionType

from ..errors import TileflowError
from .language_registry import replaceable_builtin
from .liveness import Names, local_names
from .source import function_source, resolve
from .torch_registry import METHODS
from .user_code import is_user
from .values import TileValue

_LEAVES = frozenset({"store", "device_print", "inline_asm_elementwise", "inline_triton", "triton_kernel"})
_CONTAINERS = (ast.List, ast.Dict, ast.ListComp, ast.DictComp)
_OF_CONTAINERS = frozenset({"append", "extend", "insert", "pop", "items", "keys", "values", "get", "update"})


def may_store(body: Iterable[ast.stmt], fn: FunctionType, local: Names) -> bool:
    """Whether a way through ``body``, code of ``fn`` or within it, may store, update or print something.

    ``local``: the names whose values depend on the run. What a call does that cannot be told is taken for a store.
    """
    return _Text(fn, local, set()).may_store(list(body))


class _Text:
    """The text of one function. ``seen``: the functions that were asked already."""

    def __init__(self, fn: FunctionType, local: Names, seen: set[object]) -> None:
        self.fn, self.local, self.seen = fn, local, seen

    def may_store(self, body: list[ast.stmt]) -> bool:
        nodes = [node for s in body for node in ast.walk(s)]
        own = {
            t.id
            for n in nodes
            if isinstance(n, ast.Assign) and isinstance(n.value, _CONTAINERS)
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        return any(self._stores(node, own) or (isinstance(node, ast.Call) and self._calls(node)) for node in nodes)

    def _stores(self, node: ast.AST, own: set[str]) -> bool:
        """Whether ``node`` is stored into by index, other than as a container that the code made itself."""
        if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Store):
            return False
        return not (isinstance(node.value, ast.Name) and node.value.id in own)

    def _calls(self, node: ast.Call) -> bool:
        """Whether what ``node`` calls may store."""
        function = resolve(node.func, self.fn, self.local)
        if function is None:
            known = isinstance(node.func, ast.Attribute) and (
                node.func.attr in METHODS or node.func.attr in _OF_CONTAINERS or hasattr(TileValue, node.func.attr)
            )
            return not known
        named = getattr(function, "__tileflow_device__", None)
        if named is not None:
            return named in _LEAVES or named.startswith("atomic_")
        if not isinstance(function, FunctionType) or not (
            is_user(function) or hasattr(function, "__tileflow_inline__")
        ):
            return replaceable_builtin(function) is not None or is_user(function)
        return self._function(function)

    def _function(self, function: FunctionType) -> bool:
        if function in self.seen:
            return False
        self.seen.add(function)
        try:
            source = function_source(function)
        except TileflowError:  # no text: it may do anything
            return True
        local = local_names(source.tree) | set(function.__code__.co_freevars)
        return _Text(function, local, self.seen).may_store(source.tree.body)
