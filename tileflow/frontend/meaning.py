"""What a function means, as canonical text and its hash: itself and every user function that it reaches.

Standard library only: production hashes a kernel to find its rows in a table.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import hashlib
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any, cast

from tileflow.canonical import TreeWriter
from tileflow.errors import KernelError
from tileflow.frontend.liveness import free_names
from tileflow.frontend.source import FunctionSource, function_source, location, lookup
from tileflow.runtime.asked_names import among, in_trees, read_by_syntax
from tileflow.runtime.libraries import is_library


def semantic_hash(fn: Callable[..., Any]) -> str:
    """SHA-256, in hex, of what ``fn`` means: itself and every user function that it reaches, with their constants.

    The serialisation is our own and the same on every Python: see :mod:`tileflow.canonical`. Functions of torch,
    tileflow and the standard library count by their qualified name; tensors do not count. Raises KernelError when a
    function's source cannot be read.
    """
    return digest(serialise(fn))


def digest(serialised: str) -> str:
    """SHA-256, in hex, of a function as :func:`serialise` writes it."""
    return hashlib.sha256(serialised.encode("utf-8", "surrogatepass")).hexdigest()


# every spelling of a matrix product that the tracer knows, and whatever else contains one of these
_PRODUCTS = re.compile("MatMult|matmul|mm|mv|dot|einsum|linear|conv|inner|outer|ger|attention|triton")


def may_multiply(serialised: str) -> bool:
    """Whether code, as :func:`serialise` writes it, may hold a matrix product. False is sure, True is not."""
    return _PRODUCTS.search(serialised) is not None


def code_hash(value: Callable[..., Any]) -> str:
    """The same hash for a callable passed as an argument, of any kind: a library's function counts by name, a class
    with all that it and its bases define."""
    writer = _Writer()
    text = writer.whole_class(value) if isinstance(value, type) else writer.value(value)
    writer.text.append(text)  # the functions that it refers to follow
    return digest(writer.finish())


def serialise(fn: Callable[..., Any]) -> str:
    """The text under ``semantic_hash``: one line for each function, in the order in which ``fn`` reaches them."""
    writer = _Writer()
    writer.function(cast(types.FunctionType, fn))
    return writer.finish()


def serialise_value(value: object) -> tuple[str, bool]:
    """The text under ``code_hash`` of a value of any kind, and whether nothing in it counts by its type alone."""
    writer = _Writer()
    writer.text.append(writer.value(value))
    text = writer.finish()
    return text, writer.is_whole


UNBOUND = object()

_BAKED = (bool, str, types.NoneType, enum.Enum)
_FUNCTION = types.FunctionType
_NUMBERS = (int, float, complex)
_MODULE = "torch.nn.modules.module.Module"
_TRANSPARENT = {_MODULE, "types.SimpleNamespace"}  # a library's classes of plain attributes
# what a class has besides what its objects do
_OF_CLASSES = frozenset(
    f"__{name}__"
    for name in (
        "abstractmethods", "annotate_func", "annotations", "annotations_cache", "dataclass_fields", "dataclass_params",
        "delattr", "dict", "doc", "eq", "firstlineno", "hash", "init", "match_args", "module",
        "non_callable_proto_members", "orig_bases", "parameters", "protocol_attrs", "replace", "repr", "setattr",
        "slots", "static_attributes", "weakref",
    )
)  # fmt: skip


class _Writer(TreeWriter):
    """Collects the functions that a function reaches, each serialised once, in the order of discovery."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.numbers: dict[types.FunctionType, int] = {}
        self.waiting: list[types.FunctionType] = []
        self.containers: list[object] = []
        self.source: FunctionSource | None = None
        self.asked: frozenset[str] = frozenset()  # attributes that the function being written asks for, of anything
        self.is_whole = True  # until a value counts by its type alone

    def function(self, fn: types.FunctionType) -> str:
        """A reference to a user's function, which is written when its turn comes."""
        if fn not in self.numbers:
            self.numbers[fn] = len(self.numbers)
            self.waiting.append(fn)
        return f"(function {self.numbers[fn]})"

    def finish(self) -> str:
        while self.waiting:
            fn = self.waiting.pop(0)
            self.source = function_source(fn)
            tree = self.source.tree
            self.asked = in_trees(ast.walk(tree))
            tree.args.defaults, tree.args.kw_defaults = [], []  # their values count
            defaults = [self.value(v) for v in fn.__defaults__ or ()]
            defaults += [f"{name}={self.value(v)}" for name, v in sorted((fn.__kwdefaults__ or {}).items())]
            reads = [f"{path}={self.value(v)}" for path, v in _references(fn, tree)]
            self.text.append(f"{self.node(tree)} (defaults {' '.join(defaults)}) (reads {' '.join(reads)})")
        return "\n".join(self.text)

    def unknown(self, node: ast.AST) -> KernelError:
        """The error of a node that no kernel holds, with its place."""
        where = location(self.source, node) if self.source and hasattr(node, "lineno") else None
        return KernelError("kernels cannot contain this syntax", got=type(node).__name__, where=where)

    def value(self, v: object) -> str:
        """A value that a function refers to: constants by value, functions by what they mean, other objects by type."""
        match v:
            case enum.Enum():
                self.is_whole &= not _is_local(type(v))
                return f"({_qualified(type(v))}.{v.name})"
            case None | bool() | types.EllipsisType() | int() | float() | complex() | str() | bytes():
                return super().value(v)
            case tuple() | list() | set() | frozenset() | dict():
                return self.container(v)
            case types.ModuleType():
                return f"(module {v.__name__})"
            case _ if typing.get_origin(v) in (typing.Union, types.UnionType):  # one class since Python 3.14
                return f"(union {' '.join(map(self.value, typing.get_args(v)))})"
            case functools.partial():
                return f"(partial {self.value(v.func)} {self.value(v.args)} {self.value(v.keywords)})"
            case types.MethodType():
                return f"(method {self.value(v.__func__)} {self.value(v.__self__)})"
            case types.FunctionType() if not is_library(v.__module__):
                return self.function(v)
            case type() if not is_library(v.__module__):
                self.is_whole &= not _is_local(v)
                return f"(name {_qualified(v)}{self.attributes(v, self.of_class(v))})"
            case type() | types.FunctionType() | types.BuiltinFunctionType() | types.MethodDescriptorType():
                self.is_whole &= not _is_local(v)
                return f"(name {_qualified(v)})"
            case _ if v is UNBOUND:
                return "(unbound)"
        # our kernels, caches; Triton's functions. A user's __getattr__ may raise anything
        inner = inspect.getattr_static(v, "__wrapped__", None) or inspect.getattr_static(v, "fn", None)
        if isinstance(inner, types.FunctionType):
            self.is_whole &= is_library(type(v).__module__)
            return self.value(inner)
        if any(_qualified(base) in ("torch.Tensor", "torch._tensor.Tensor") for base in type(v).__mro__):
            self.is_whole = False
            return "(tensor)"
        if type(v).__module__ == "torch":  # dtype, device, layout, memory_format
            return f"({v})"
        self.is_whole = False
        return f"(object {_qualified(type(v))}{self.attributes(v, self.of_object(v))})"

    def whole_class(self, kind: type) -> str:
        """The text of a class with its methods and constants, the same for whoever asks."""
        held = {n: v for n, v in _members(kind).items() if n not in _OF_CLASSES and n != "_abc_impl"}
        if issubclass(kind, enum.Enum):
            # what Python notes in an enum differs between versions, and a flag's grows as its members are combined
            held = {n: v for n, v in held.items() if isinstance(v, _FUNCTION) or not _is_sunder(n)}
            held["__members__"] = {name: member.value for name, member in kind.__members__.items()}
        baked = (*_BAKED, *_NUMBERS, _FUNCTION, str, tuple, list, dict, set, frozenset)
        return (
            f"(name {_qualified(kind)}{self.attributes(kind, {n: v for n, v in held.items() if isinstance(v, baked)})})"
        )

    def attributes(self, owner: object, found: dict[str, object]) -> str:
        """What a trace bakes in of an object or a class, after its name; nothing where that is nothing."""
        if any(owner is outer for outer in self.containers):
            return ""
        self.containers.append(owner)
        text = "".join(f" {name}={self.value(held)}" for name, held in sorted(found.items()))
        self.containers.pop()
        return text

    def of_class(self, kind: type) -> dict[str, object]:
        """The constants and methods of a user's class that are asked for, or called where it is."""
        defined = _members(kind)
        asked = _asked_of(defined, self.asked)
        return {n: x for n, x in defined.items() if n in asked and isinstance(x, (*_BAKED, *_NUMBERS, _FUNCTION))}

    def of_object(self, v: object) -> dict[str, object]:
        """Attributes that select code; numbers too, where no launch reads them again by their path."""
        held: dict[str, object] = getattr(v, "__dict__", None) or {}
        kind = type(v)
        own: dict[str, object]
        inside: dict[str, object] = {}
        if any(_qualified(base) == _MODULE for base in kind.__mro__):
            inside = {f"{n}.": held[n] for n in ("_parameters", "_buffers", "_modules") if held.get(n)}
        if any(_qualified(base) in _TRANSPARENT for base in kind.__mro__) and is_library(kind.__module__):
            own = {n: x for n, x in held.items() if not n.startswith("_") and isinstance(x, (*_BAKED, *_NUMBERS))}
            return own | self.of_class(kind) | inside
        if is_library(kind.__module__):
            return {}
        asked = _asked_of(_members(kind), self.asked)
        own = {n: held[n] for n in among(asked, held)}
        own = {n: x for n, x in own.items() if isinstance(x, (*_BAKED, *(_NUMBERS if n.startswith("_") else ())))}
        return self.of_class(kind) | own | inside

    def container(self, v: Any) -> str:
        if any(v is outer for outer in self.containers):
            return "(recursive)"
        self.containers.append(v)
        if isinstance(v, dict):
            items = sorted(f"{self.value(key)}:{self.value(item)}" for key, item in v.items())
        elif isinstance(v, tuple | list):
            items = [self.value(item) for item in v]
        else:
            items = sorted(self.value(item) for item in v)
        self.containers.pop()
        return f"({type(v).__name__} {' '.join(items)})"


def _references(fn: types.FunctionType, tree: ast.FunctionDef) -> list[tuple[str, object]]:
    """What the free names of a function mean, ordered by name; attributes of the user's own modules are followed."""
    found: dict[str, object] = {}
    for name in free_names(tree):
        value = lookup(fn, name, UNBOUND)
        is_own = isinstance(value, types.ModuleType) and not is_library(value.__name__)
        chains = _chains(tree, name) if is_own else []
        for chain in chains or [()]:
            path, inner = name, value
            for attribute in chain:
                if not isinstance(inner, types.ModuleType) or is_library(inner.__name__):
                    break
                path, inner = f"{path}.{attribute}", getattr(inner, attribute, UNBOUND)
            found[path] = inner
    return sorted(found.items())


def _chains(tree: ast.FunctionDef, name: str) -> list[tuple[str, ...]]:
    """The chains of attributes that the body takes of ``name``."""
    chains = []
    for node in ast.walk(tree):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == name:
            chains.append(tuple(chain))
    return chains


def _members(kind: type) -> dict[str, object]:
    """What a user's class and its bases define: of a property its getter, of methods those whose text can be read. Of a
    library's class only what it was generated with, as a traced module's ``forward``."""
    found: dict[str, object] = {}
    for owner in reversed(kind.__mro__[:-1]):
        for name, held in vars(owner).items():
            function = getattr(held, "fget", None) or getattr(held, "__func__", None) or held
            is_code = isinstance(function, _FUNCTION)
            if is_library(owner.__module__) and not (is_code and function.__module__ is None):
                continue
            if not is_code or _tree_of(function) is not None:
                found[name] = function
    return found


def _asked_of(members: dict[str, object], asked: frozenset[str]) -> frozenset[str]:
    """The attributes that are asked for of an object with these members: by whoever holds it, and by its methods."""
    known, asked = frozenset[str](), asked | {"__call__", "forward"} | among(asked, members)
    asked |= read_by_syntax(n for n, held in members.items() if isinstance(held, _FUNCTION))
    while known != asked:
        known = asked
        methods = [held for name, held in members.items() if name in known and isinstance(held, _FUNCTION)]
        for tree in filter(None, map(_tree_of, methods)):
            asked |= in_trees(ast.walk(tree))
    return asked


def _tree_of(fn: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a method; None where it has no text, as those of a dataclass, which exec makes."""
    try:
        return None if is_library(fn.__module__) else function_source(fn).tree
    except KernelError:
        return None


def _is_sunder(name: str) -> bool:
    """Whether it is a name as ``enum`` reserves for itself, ``_missing_`` among them."""
    return name.startswith("_") and name.endswith("_") and not name.startswith("__")


def _is_local(v: Any) -> bool:
    """Whether it is a class that a function of the user's makes at each call, or a builtin that an object holds."""
    if isinstance(v, type):
        return "<locals>" in v.__qualname__ and not is_library(v.__module__)
    owner = getattr(v, "__self__", None)
    return not (owner is None or isinstance(owner, types.ModuleType | type))


def _qualified(v: Any) -> str:
    name: str = v.__name__
    if getattr(builtins, name, None) is v:  # Pythons disagree on the modules of some
        return f"builtins.{name}"
    owner = getattr(v, "__module__", None) or getattr(getattr(v, "__objclass__", None), "__module__", "builtins")
    return f"{owner}.{v.__qualname__}"
