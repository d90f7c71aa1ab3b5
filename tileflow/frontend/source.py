"""From a Python function to its AST with the positions of the user's file, and back; and the hash of what it means.

Standard library only: production reads a kernel's source too, to find its row in a table.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import hashlib
import inspect
import linecache
import re
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

from tileflow.errors import KernelError, Location
from tileflow.frontend.ast_fields import FIELDS
from tileflow.frontend.liveness import free_names
from tileflow.frontend.syntax import copied
from tileflow.lazy_dataclass import dataclass


class Lines(Protocol):
    """Whatever knows its file and that file's lines."""

    @property
    def file(self) -> str: ...

    @property
    def lines(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function and its definition. ``tree`` is a copy to change; for a lambda, ``def <lambda>: return ...``."""

    fn: types.FunctionType
    tree: ast.FunctionDef
    file: str
    lines: Sequence[str]


def location(source: Lines, node: ast.AST) -> Location:
    """Where ``node`` begins in the user's file."""
    line: int = getattr(node, "lineno", 1)
    text = source.lines[line - 1].rstrip("\n") if line <= len(source.lines) else ""
    before = text.encode()[: getattr(node, "col_offset", 0)]  # the AST counts bytes, a caret counts characters
    return Location(source.file, line, len(before.decode(errors="replace")), text)


_DECORATED = "the decorator stands right above `def`, below all others"
_NOT_PLAIN: dict[type, str] = {
    staticmethod: "write @staticmethod above it", classmethod: "write a function, or @staticmethod above it",
    property: "write a function", type: "decorate a function: a class's tensors are its arguments",
    functools.partial: "decorate the function that the partial calls, and give the rest with the call",
}  # fmt: skip


def plain_function(fn: Any) -> types.FunctionType:
    """``fn``, which a decorator of kernels is given. Raises KernelError where it is no plain function of a file's."""
    if not isinstance(fn, types.FunctionType):
        hint = next((text for kind, text in _NOT_PLAIN.items() if isinstance(fn, kind)), _DECORATED)
        if hasattr(fn, "run_eagerly") or hasattr(fn, "__tileflow_kernel__"):
            hint = "it is a kernel already: decorate it once"
        raise KernelError("a kernel is made of a plain Python function", got=f"{type(fn).__name__} {fn!r}"[:120],
                          hint=hint)  # fmt: skip
    if hasattr(fn, "__wrapped__"):
        raise KernelError("a kernel is made of the function that holds its loops",
                          where=f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}",
                          got=f"what another decorator made of {fn.__qualname__}", hint=_DECORATED)  # fmt: skip
    return fn


def check_runs_to_its_end(fn: types.FunctionType) -> None:
    """Raises KernelError for generators and async functions."""
    kinds = {inspect.CO_GENERATOR: "a generator", inspect.CO_COROUTINE: "an async function",
             inspect.CO_ASYNC_GENERATOR: "an async generator"}  # fmt: skip
    kind = next((text for flag, text in kinds.items() if fn.__code__.co_flags & flag), None)
    if kind is not None:
        raise KernelError("a kernel runs to its end when it is called", got=f"{fn.__qualname__}, {kind}",
                          where=f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}",
                          hint="return the results, without yield or await")  # fmt: skip


def function_source(fn: Callable[..., Any]) -> FunctionSource:
    """Parse the definition of ``fn``, decorators stripped, with the line and column numbers of its file.

    Raises KernelError when ``fn`` is no plain function or its text cannot be found.
    """
    if not isinstance(fn, types.FunctionType):
        raise KernelError("only a plain Python function has source that can be compiled", got=repr(fn))
    code = fn.__code__
    file = _parsed(fn)
    found = file.functions.get((code.co_name, code.co_firstlineno), [])
    if not found:
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            check_runs_to_its_end(fn)
        raise KernelError(
            f"{code.co_name} must stand in its file where it was imported from",
            got=f"no such definition at {code.co_filename}:{code.co_firstlineno}",
            hint="the file changed after its import, or the function is generated: import it again",
        )
    node = copied(_at_position(code, found, file.lines))
    tree = node if isinstance(node, ast.FunctionDef) else _as_function(node)
    tree.decorator_list = []
    return FunctionSource(fn, tree, code.co_filename, file.lines)


@dataclass(frozen=True, slots=True)
class _File:
    """A parsed file, with its function definitions by the name and first line that their code objects have."""

    lines: list[str]
    functions: dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]]


_files: dict[str, _File] = {}


def _parsed(fn: types.FunctionType) -> _File:
    name = fn.__code__.co_filename
    linecache.checkcache(name)
    lines = linecache.getlines(name, fn.__globals__)
    if not lines:
        raise KernelError(
            f"the source of {fn.__qualname__} must be readable",
            got=f"nothing under the name {name}",
            hint="define it in a .py file or a notebook cell, not through exec, eval or a plain interactive prompt",
        )
    known = _files.get(name)
    if known is None or known.lines != lines:
        known = _files[name] = _File(lines, _definitions(ast.parse("".join(lines), filename=name)))
    return known


def _definitions(module: ast.Module) -> dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]]:
    found: dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found


def _at_position(
    code: types.CodeType, found: Sequence[ast.FunctionDef | ast.Lambda], lines: Sequence[str]
) -> ast.FunctionDef | ast.Lambda:
    """Of the definitions on one line the one whose body holds all positions of ``code``; of nested ones the inner."""
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column) and (line, column) != (end_line, end_column)
    ]
    if len(found) > 1 and spans:
        inside = [n for n in found if all(_start(n) <= a and b <= _end(n) for a, b in spans)]
        found = sorted(inside, key=lambda n: (_start(n), _end(n)))[-1:]
    if len(found) != 1:
        where = Location(code.co_filename, code.co_firstlineno, 0, lines[code.co_firstlineno - 1].rstrip("\n"))
        hint = "put each lambda on a line of its own, or use def"
        raise KernelError("a lambda must be recognisable by its position", where=where, hint=hint)
    return found[0]


def _start(node: ast.FunctionDef | ast.Lambda) -> tuple[Any, Any]:
    first = node.body[0] if isinstance(node, ast.FunctionDef) else node.body
    return first.lineno, first.col_offset


def _end(node: ast.FunctionDef | ast.Lambda) -> tuple[Any, Any]:
    last = node.body[-1] if isinstance(node, ast.FunctionDef) else node.body
    return last.end_lineno, last.end_col_offset


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    body = ast.copy_location(ast.Return(node.body), node.body)
    tree = ast.parse("def f(): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.name, tree.args, tree.body = "<lambda>", node.args, [body]
    return ast.copy_location(tree, node)


def compile_function(fn: types.FunctionType, tree: ast.FunctionDef, first: str) -> types.FunctionType:
    """``tree`` as a function in the place of ``fn``: its file, lines, globals, defaults and closure cells.

    The new function has one more positional parameter, ``first``, before the others.
    """
    return with_code(fn, compile_code(fn, tree, first))


def compile_code(fn: types.FunctionType, tree: ast.FunctionDef, first: str) -> types.CodeType:
    """The code of ``compile_function``'s function, which other closures of the same definition may share."""
    arguments = copied(tree.args)
    for a in ast.walk(arguments):
        if isinstance(a, ast.arg):
            a.annotation = None
    arguments.posonlyargs.insert(0, ast.arg(first))
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    inner = ast.parse("def f(): pass").body[0]
    outer = ast.parse(f"def factory({', '.join(fn.__code__.co_freevars)}): pass").body[0]
    assert isinstance(inner, ast.FunctionDef) and isinstance(outer, ast.FunctionDef)
    # Names free in fn must stay free in the new function: the factory's parameters stand for its closure, and the new
    # function's own name must not hide a global, which a recursive function finds itself by.
    inner.name, inner.args, inner.body = f"__tileflow_{tree.name}", arguments, tree.body
    outer.body = [ast.copy_location(inner, tree)]
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, tree)], []))
    flags = fn.__code__.co_flags & annotations.compiler_flag  # the one that changes what is compiled
    code = compile(module, fn.__code__.co_filename, "exec", flags, dont_inherit=True)
    made = _code_named(_code_named(code, "factory"), inner.name)
    return made.replace(co_name=tree.name, co_qualname=fn.__code__.co_qualname)


def with_code(fn: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """``fn`` with another code: the same globals, defaults and, by name, closure cells."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    return made


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def resolve(expression: ast.expr, fn: types.FunctionType, local: frozenset[str]) -> object:
    """What a name or a chain of attributes of modules and classes means in ``fn`` before it runs; None if unknown.

    ``local`` are the names whose value depends on the run.
    """
    if isinstance(expression, ast.Attribute):
        owner = resolve(expression.value, fn, local)
        named = isinstance(owner, types.ModuleType | type | types.SimpleNamespace)
        return getattr(owner, expression.attr, None) if named else None
    if isinstance(expression, ast.Name) and expression.id not in local:
        return _lookup(fn, expression.id, None)
    return None


def _lookup(fn: types.FunctionType, name: str, default: object) -> object:
    """The value of a name that is free in ``fn``: from a closure cell, a global or a builtin."""
    if name in fn.__code__.co_freevars:
        cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return default
    return fn.__globals__.get(name, getattr(builtins, name, default))


def semantic_hash(fn: Callable[..., Any]) -> str:
    """SHA-256, in hex, of what ``fn`` means: itself and every user function that it reaches, with their constants.

    The serialisation is our own and the same on every Python: a fixed list of AST fields, without positions, docstrings
    and annotations. Functions of torch, tileflow and the standard library count by their qualified name; tensors do
    not count. Raises KernelError when a function's source cannot be read.
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


# Plain functions of "builtins" are the user's: exec calls its module so where it is given no name.
LIBRARIES = (frozenset({"torch", "tileflow", "triton", "numpy"}) | sys.stdlib_module_names) - {"builtins"}

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
        "abstractmethods", "annotations", "dataclass_fields", "dataclass_params", "delattr", "dict", "doc", "eq",
        "firstlineno", "hash", "init", "match_args", "module", "orig_bases", "parameters", "repr", "setattr", "slots",
        "static_attributes", "weakref",
    )
)  # fmt: skip


class _Writer:
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
            self.asked = frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            tree.args.defaults, tree.args.kw_defaults = [], []  # their values count
            defaults = [self.value(v) for v in fn.__defaults__ or ()]
            defaults += [f"{name}={self.value(v)}" for name, v in sorted((fn.__kwdefaults__ or {}).items())]
            reads = [f"{path}={self.value(v)}" for path, v in _references(fn, tree)]
            self.text.append(f"{self.node(tree)} (defaults {' '.join(defaults)}) (reads {' '.join(reads)})")
        return "\n".join(self.text)

    def node(self, node: object) -> str:
        """One AST node, a list of them, or a plain value of a field."""
        match node:
            case ast.Constant():
                return self.value(node.value)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                parts: tuple[object, ...] = (node.name, *self.signature(node.args), node.decorator_list, node.body)
            case ast.Lambda():
                parts = (*self.signature(node.args), node.body)
            case ast.ClassDef():
                parts = (node.name, node.bases, node.keywords, node.decorator_list, node.body)
            case ast.AnnAssign():
                return self.node(ast.Assign([node.target], node.value or ast.Constant(...)))
            case ast.JoinedStr():
                parts = tuple(_joined(node.values))
            case ast.operator() | ast.unaryop() | ast.boolop() | ast.cmpop():
                return type(node).__name__
            case ast.AST() if type(node).__name__ in FIELDS:
                parts = tuple(getattr(node, name) for name in FIELDS[type(node).__name__])
            case ast.AST():
                where = location(self.source, node) if self.source and hasattr(node, "lineno") else None
                raise KernelError("kernels cannot contain this syntax", got=type(node).__name__, where=where)
            case list():
                return f"[{' '.join(self.node(n) for n in node if not _is_idle(n))}]"
            case _:
                return self.value(node)
        return f"({' '.join([type(node).__name__, *(self.node(part) for part in parts)])})"

    def signature(self, arguments: ast.arguments) -> tuple[object, ...]:
        names = (getattr(arguments, part) for part in ("posonlyargs", "args", "vararg", "kwonlyargs", "kwarg"))
        return (*names, arguments.defaults, arguments.kw_defaults)

    def value(self, v: object) -> str:
        """A value that a function refers to: constants by value, functions by what they mean, other objects by type."""
        match v:
            case enum.Enum():
                self.is_whole &= not _is_local(type(v))
                return f"({_qualified(type(v))}.{v.name})"
            case None | bool() | types.EllipsisType():
                return repr(v)
            case int():
                return hex(v)
            case float():
                return float(v).hex()
            case complex():
                return f"({self.value(v.real)} {self.value(v.imag)}j)"
            case str() | bytes():
                return f"{type(v).__name__[0]}{len(v)}:{v if isinstance(v, str) else v.hex()}"
            case tuple() | list() | set() | frozenset() | dict():
                return self.container(v)
            case types.ModuleType():
                return f"(module {v.__name__})"
            case functools.partial():
                return f"(partial {self.value(v.func)} {self.value(v.args)} {self.value(v.keywords)})"
            case types.MethodType():
                return f"(method {self.value(v.__func__)} {self.value(v.__self__)})"
            case types.FunctionType() if not _is_library(v.__module__):
                return self.function(v)
            case type() if not _is_library(v.__module__):
                self.is_whole &= not _is_local(v)
                return f"(name {_qualified(v)}{self.attributes(v, self.of_class(v))})"
            case type() | types.FunctionType() | types.BuiltinFunctionType() | types.MethodDescriptorType():
                self.is_whole &= not _is_local(v)
                return f"(name {_qualified(v)})"
            case _ if v is UNBOUND:
                return "(unbound)"
        inner = getattr(v, "__wrapped__", None) or getattr(v, "fn", None)  # our kernels, caches; Triton's functions
        if isinstance(inner, types.FunctionType):
            self.is_whole &= _is_library(type(v).__module__)
            return self.value(inner)
        if any(_qualified(base) in ("torch.Tensor", "torch._tensor.Tensor") for base in type(v).__mro__):
            self.is_whole = False
            return "(tensor)"
        if type(v).__module__ == "torch":  # dtype, device, layout, memory_format
            return f"({v})"
        self.is_whole = False
        return f"(object {_qualified(type(v))}{self.attributes(v, self.of_object(v))})"

    def whole_class(self, kind: type) -> str:
        """A class with its methods and constants, whoever asks for them."""
        held = {n: v for n, v in _members(kind).items() if n not in _OF_CLASSES and n != "_abc_impl"}
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
        if any(_qualified(base) in _TRANSPARENT for base in kind.__mro__) and _is_library(kind.__module__):
            own = {n: x for n, x in held.items() if not n.startswith("_") and isinstance(x, (*_BAKED, *_NUMBERS))}
            return own | self.of_class(kind) | inside
        if _is_library(kind.__module__):
            return {}
        asked = _asked_of(_members(kind), self.asked)
        own = {n: x for n, x in held.items() if n in asked}
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
        value = _lookup(fn, name, UNBOUND)
        is_own = isinstance(value, types.ModuleType) and not _is_library(value.__name__)
        chains = _chains(tree, name) if is_own else []
        for chain in chains or [()]:
            path, inner = name, value
            for attribute in chain:
                if not isinstance(inner, types.ModuleType) or _is_library(inner.__name__):
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


def _joined(values: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The parts of an f-string: neighbouring texts joined, empty ones dropped, as Pythons differ in that."""
    text = ""
    for v in values:
        if isinstance(v, ast.Constant):
            text += str(v.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        if isinstance(v, ast.FormattedValue) and isinstance(v.format_spec, ast.JoinedStr) and not v.format_spec.values:
            v.format_spec = None
        yield v
    if text:
        yield ast.Constant(text)


def _is_idle(node: object) -> bool:
    """Statements without a meaning: ``pass``, docstrings, bare annotations, type aliases."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass) or type(node).__name__ == "TypeAlias" or _is_declaration(node)


def _is_declaration(node: object) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is None


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _members(kind: type) -> dict[str, object]:
    """What a user's class and its bases define: of a property its getter, of methods those whose text can be read. Of a
    library's class only what it was generated with, as a traced module's ``forward``."""
    found: dict[str, object] = {}
    for owner in reversed(kind.__mro__[:-1]):
        for name, held in vars(owner).items():
            function = getattr(held, "fget", None) or getattr(held, "__func__", None) or held
            is_code = isinstance(function, _FUNCTION)
            if _is_library(owner.__module__) and not (is_code and function.__module__ is None):
                continue
            if not is_code or _tree_of(function) is not None:
                found[name] = function
    return found


def _asked_of(members: dict[str, object], asked: frozenset[str]) -> frozenset[str]:
    """The attributes that are asked for of an object with these members: by whoever holds it, and by its methods."""
    known, asked = frozenset[str](), asked | {"__call__", "forward"}
    while known != asked:
        known = asked
        methods = [held for name, held in members.items() if name in known and isinstance(held, _FUNCTION)]
        for tree in filter(None, map(_tree_of, methods)):
            asked |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return asked


def _tree_of(fn: types.FunctionType) -> ast.FunctionDef | None:
    """The definition of a method; None where it has no text, as those of a dataclass, which exec makes."""
    try:
        return None if _is_library(fn.__module__) else function_source(fn).tree
    except KernelError:
        return None


def _is_local(v: Any) -> bool:
    """Whether it is a class that a function of the user's makes at each call, or a builtin that an object holds."""
    if isinstance(v, type):
        return "<locals>" in v.__qualname__ and not _is_library(v.__module__)
    owner = getattr(v, "__self__", None)
    return not (owner is None or isinstance(owner, types.ModuleType | type))


def _qualified(v: Any) -> str:
    name: str = v.__name__
    if getattr(builtins, name, None) is v:  # Pythons disagree on the modules of some
        return f"builtins.{name}"
    owner = getattr(v, "__module__", None) or getattr(getattr(v, "__objclass__", None), "__module__", "builtins")
    return f"{owner}.{v.__qualname__}"
