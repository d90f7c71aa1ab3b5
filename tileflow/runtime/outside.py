"""What a kernel reads besides its arguments, and whether it is still what it was when it was read.

A trace bakes in what device code reads of globals, closure cells, attributes and entries of containers, in the kernel
and in every function that it reaches. :func:`read_outside` follows those reads over live objects, by the names that
bytecode holds, so that no source is needed. It gives a test of some nanoseconds a read, which a warm call makes, and a
signature: equal signatures trace to equal code, so that a value that is set back finds what was made for it.

Numbers and tensors that a launch reads again by their paths (see :mod:`.paths`) count by their types alone. A global
that comes to hide one of Python's builtins is not seen.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from enum import Enum
from functools import cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from ..lazy_dataclass import dataclass
from .argtree import FunctionShell, RecordShell, is_traced, open_shell
from .asked_names import among, in_code, read_by_syntax
from .key_invariants import DeviceReads
from .libraries import is_library
from .objects import HOOKS, REGISTERED, ObjectShell

_PLAIN = (int, float, complex, str, bytes)
_CALLED = frozenset({"__call__", "forward"})  # what a call of an object calls
_OF_MODULES = (*REGISTERED, *HOOKS)  # private attributes of a torch.nn.Module that hold its parts, and what it runs
_LEVELS = 64
_FAILS = (LookupError, AttributeError, ValueError, TypeError)


class Outside:
    """What was read at one time. ``unchanged``: whether all of it is as it was; None where nothing can change.

    ``signature``: hashable; what it names by identity is kept alive by ``held``.
    """

    __slots__ = ("held", "signature", "unchanged")

    def __init__(self, unchanged: Callable[[], bool] | None, signature: Hashable, held: tuple[Any, ...]) -> None:
        self.unchanged, self.signature, self.held = unchanged, signature, held

    def holds(self) -> bool:
        """Whether all that was read is unchanged."""
        return self.unchanged is None or self.unchanged()


def read_outside(fn: FunctionType, reads: DeviceReads, others: Iterable[Any] = ()) -> Outside:
    """What the kernel ``fn`` reads now. ``others``: functions and classes that calls passed, for what those read."""
    walk = _Walk()
    walk.kernel(fn, reads)
    for other in others:
        walk.passed(other, reads.attributes)
    return walk.finish()


def passed_code(values: Iterable[Any]) -> Iterator[tuple[Hashable, Any]]:
    """The functions and classes among arguments, by what tells them apart from those that read something else."""
    for value in values:
        opened = open_shell(value)
        if opened is None:
            continue
        shell, parts = opened
        if isinstance(shell, FunctionShell):
            yield (value.__code__, id(value.__globals__)), value
        elif isinstance(shell, (RecordShell, ObjectShell)):
            yield id(type(value)), type(value)
        yield from passed_code(parts)


@dataclass(frozen=True, slots=True)
class _Reads:
    """The names that a code object and those inside it read: globals, cells, attributes."""

    globals: tuple[str, ...]
    cells: tuple[str, ...]
    attributes: frozenset[str]


@cache
def _reads(code: CodeType) -> _Reads:
    globals_: set[str] = set()
    cells: set[str] = set()
    attributes: set[str] = set()
    todo = [code]
    while todo:
        inner = todo.pop()
        todo += [const for const in inner.co_consts if isinstance(const, CodeType)]
        attributes |= in_code(inner)
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                globals_.add(instruction.argval)
            elif instruction.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
                cells.add(instruction.argval)
    return _Reads(tuple(sorted(globals_)), tuple(sorted(cells & {*code.co_freevars})), frozenset(attributes))


class _Walk:
    """Follows reads: tests in the order in which each makes the next one safe, and parts of the signature."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.parts: list[Hashable] = []
        self.namespace: dict[str, Any] = {
            "same": _same,
            "holds": _holds,
            "number": _number,
            "grad_enabled": torch.is_grad_enabled,
            "FAILS": _FAILS,
        }
        self._names: dict[int, str] = {}
        self._seen: dict[Any, int] = {}
        self._level = 0

    def finish(self) -> Outside:
        unchanged = None
        if self.tests:
            tests = " and ".join(dict.fromkeys(self.tests))
            text = f"def unchanged():\n    try:\n        return {tests}\n    except FAILS:\n        return False\n"
            exec(compile(text, "<what a kernel reads>", "exec"), self.namespace)
            unchanged = self.namespace["unchanged"]
        return Outside(unchanged, tuple(self.parts), tuple(self.namespace.values()))

    def kernel(self, fn: FunctionType, reads: DeviceReads) -> None:
        """What device code reads is captured by path; of what host code reads only functions can reach it unseen,
        and what is made of a tensor that requires grad."""
        for name in sorted(reads.names):
            self._free(fn, name, False, reads.attributes)
        for name in sorted(reads.handed - reads.names):
            found = _free_value(fn, name)
            if _holds_functions(found) or isinstance(found, torch.Tensor):
                self._free(fn, name, False, reads.attributes, functions_only=True)

    def passed(self, value: Any, attributes: frozenset[str]) -> None:
        """A function's cells and defaults are arguments, which keys hold; its globals are not."""
        if isinstance(value, FunctionType):
            self.parts.append((value.__code__, id(value.__globals__)))
            self._known(value.__globals__)
            self._globals(value, _reads(value.__code__).attributes | attributes)
        else:
            self._class(self._known(value), value, attributes)

    # ---- names --------------------------------------------------------------------------------------

    def _free(
        self, fn: FunctionType, name: str, numbers: bool, attributes: frozenset[str], functions_only: bool = False
    ) -> None:
        """A free name of a function: a cell, a global, or nothing yet."""
        if name in fn.__code__.co_freevars:
            cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)]
            text = f"{self._known(cell)}.cell_contents"
        else:
            text = f"{self._known(fn.__globals__)}[{name!r}]"
        found = _free_value(fn, name)
        if found is _MISSING:
            if not hasattr(builtins, name):
                self.parts.append((name, "missing"))
                self._missing(fn, name)
            return
        if isinstance(found, ModuleType) and _is_usual(name, found):
            return
        self.parts.append(name)
        self._value(text, found, numbers, attributes, functions_only=functions_only)

    def _missing(self, fn: FunctionType, name: str) -> None:
        if name not in fn.__code__.co_freevars:
            self.tests.append(f"{name!r} not in {self._known(fn.__globals__)}")

    def _globals(self, fn: FunctionType, attributes: frozenset[str]) -> None:
        for name in _reads(fn.__code__).globals:
            self._free(fn, name, True, attributes)

    def _known(self, value: Any) -> str:
        """The name of an object in the test's namespace, which keeps it alive."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"o{len(self.namespace)}"
            self.namespace[name] = value
        return name

    # ---- values -------------------------------------------------------------------------------------

    def _value(
        self,
        text: str,
        value: Any,
        numbers: bool,
        attributes: frozenset[str],
        pinned: bool = False,
        functions_only: bool = False,
    ) -> None:
        """A value that ``text`` reads. ``numbers``: whether those in it are baked into a trace; ``pinned``: whether the
        read cannot give another object; ``functions_only``: whether only functions matter."""
        kind = type(value)
        if self._plain(text, value, numbers, pinned):
            return
        if not pinned:
            self.tests.append(f"{text} is {self._known(value)}")
        key = (id(value), numbers, attributes)
        if key in self._seen or self._level > _LEVELS:
            self.parts.append(("seen", self._seen.get(key)))
            return
        self._seen[key] = len(self._seen)
        self._level += 1
        name = self._known(value)
        if isinstance(value, FunctionType):
            self._function(name, value, numbers)
        elif isinstance(value, (tuple, list, dict)):
            self._container(name, value, numbers, attributes, functions_only)
        elif isinstance(value, (set, frozenset)):
            self.parts.append((kind, frozenset(value)))
            self.tests += [f"{name} == {self._known(frozenset(value))}"] if kind is set else []
        elif isinstance(value, partial):
            for part in (value.func, value.args, value.keywords):
                self._value(self._known(part), part, numbers, attributes, pinned=True)
        elif isinstance(value, MethodType):
            for owner in (value.__func__, value.__self__):
                self._value(self._known(owner), owner, numbers, attributes, pinned=True)
        elif isinstance(value, ModuleType):
            self._module(name, value, attributes)
        elif isinstance(value, type):
            self._class(name, value, attributes)
        else:
            self._object(name, value, numbers, attributes)
        self._level -= 1

    def _plain(self, text: str, value: Any, numbers: bool, pinned: bool) -> bool:
        """A value without parts."""
        kind: Any = type(value)
        if isinstance(value, torch.Tensor):
            if (
                numbers
                and value.ndim == 0
                and (value.device.type == "cpu" or value.is_inference())
                and not is_traced(value)
            ):
                # device code of a helper reads what it holds; torch counts no writes through numpy, nor in inference
                number = _number(value)
                self.parts.append((kind, number))
                self.tests.append(f"type({text}) is {self._known(kind)} and number({text}) == {self._known(number)}")
            elif numbers and value.ndim == 0:
                self.parts.append((kind, id(value), value._version))
                self.tests.append(f"{text} is {self._known(value)} and {text}._version == {value._version}")
            else:
                recorded = value.requires_grad and torch.is_grad_enabled()  # which a trace refuses
                self.parts.append((kind, recorded))
                self.tests.append(f"type({text}) is {self._known(kind)}")
                self.tests.append(f"({text}.requires_grad and grad_enabled()) is {recorded}")
        elif kind in (int, float) and not numbers:
            self.parts.append(kind)
            self.tests += [] if pinned else [f"type({text}) is {self._known(kind)}"]
        elif value is None or kind is bool or isinstance(value, Enum) or value is ... or value is NotImplemented:
            self.parts.append((kind, id(value)))
            self.tests += [] if pinned else [f"{text} is {self._known(value)}"]
        elif kind.__module__ == "numpy" and kind.__name__ == "ndarray":
            held = (value.dtype.str, value.shape, value.tobytes())
            self.parts.append((kind, held))
            self.tests.append(f"holds({text}, {self._known(held)})")
        elif kind in _PLAIN:
            self.parts.append((kind, repr(value)))
            known = self._known(value)
            self.tests += [] if pinned else [f"({text} is {known} or same({text}, {known}))"]
        else:
            return False
        return True

    def _function(self, name: str, fn: FunctionType, numbers: bool) -> None:
        if is_library(fn.__module__):
            self.parts.append(id(fn))
            return
        code, attributes = fn.__code__, _reads(fn.__code__).attributes
        self.parts.append((code, id(fn.__globals__)))
        self._known(fn.__globals__)
        self.tests.append(f"{name}.__code__ is {self._known(code)}")
        # calls of one without defaults pass all, so that it may get some unseen
        for what in ("__defaults__", "__kwdefaults__"):
            default = getattr(fn, what)
            if default:
                self.tests.append(f"{name}.{what} is {self._known(default)}")
                self.parts.append(what)
                self._value(self._known(default), default, True, attributes, pinned=True)
        for cell in _reads(code).cells:
            self._free(fn, cell, numbers, attributes)
        self._globals(fn, attributes)

    def _container(
        self, name: str, value: Any, numbers: bool, attributes: frozenset[str], functions_only: bool
    ) -> None:
        pinned = isinstance(value, tuple)
        items = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
        if functions_only:
            items = [(key, item) for key, item in items if _holds_functions(item)]
        elif isinstance(value, dict):  # paths lead to what is under some keys by their order
            self.tests.append(f"[*{name}] == {self._known([*value])}")
        elif not pinned:
            self.tests.append(f"len({name}) == {len(value)}")
        self.parts.append((type(value), len(items)))
        for key, item in items:
            simple = type(key) in (int, str)
            self.parts.append(key if simple else id(key))
            read = f"{name}[{key!r}]" if simple else f"{name}[{self._known(key)}]"
            self._value(read, item, numbers, attributes, pinned, functions_only)

    # ---- modules, classes, objects ------------------------------------------------------------------

    def _module(self, name: str, module: ModuleType, attributes: frozenset[str]) -> None:
        self.parts.append(id(module))
        if is_library(module.__name__):
            return
        held = vars(module)
        for attribute in sorted(attributes & held.keys()):  # not among any: a module has too many
            self.parts.append(attribute)
            self._value(f"{self._known(held)}[{attribute!r}]", held[attribute], True, attributes)

    def _class(self, name: str, kind: type, attributes: frozenset[str]) -> frozenset[str]:
        """What is asked of a class, methods too. Gives the attributes that those ask for besides."""
        self.parts.append(id(kind))
        if is_library(kind.__module__) or kind.__module__ == "builtins":
            return attributes
        named = frozenset(n for owner in kind.__mro__ if not is_library(owner.__module__) for n in vars(owner))
        wanted, done = attributes | _CALLED | read_by_syntax(named) | among(attributes, named), frozenset[str]()
        while wanted != done:
            done = wanted
            for attribute in sorted(wanted):
                for function in _functions_in(_of_class(kind, attribute)[1]):
                    wanted |= _reads(function.__code__).attributes
        for attribute in sorted(wanted):
            owner, found = _of_class(kind, attribute)
            if owner is None or found is _MISSING:
                continue
            self.parts.append(attribute)
            read = f"{self._known(owner)}.__dict__[{attribute!r}]"
            functions = [] if isinstance(found, FunctionType) else _functions_in(found)
            if functions:  # of a property, a classmethod
                self.tests.append(f"{read} is {self._known(found)}")
                for function in functions:
                    self._value(self._known(function), function, True, wanted, pinned=True)
            elif not hasattr(type(found), "__get__") or isinstance(found, FunctionType):
                self._value(read, found, True, wanted)
        return wanted

    def _object(self, name: str, value: Any, numbers: bool, attributes: frozenset[str]) -> None:
        """The attributes that are asked for of a user's object, all public ones of a library's."""
        kind = type(value)
        held: Any = getattr(value, "__dict__", None)
        named = held if isinstance(held, dict) else {}
        wrapped = named.get("__wrapped__") or named.get("fn")  # of a cache, a kernel, a function of Triton's
        if isinstance(wrapped, FunctionType):
            self.parts.append(id(kind))
            self._value(self._known(wrapped), wrapped, True, attributes, pinned=True)
            return
        if is_library(kind.__module__) or kind.__module__ == "builtins":
            if not isinstance(held, dict) or not isinstance(value, (torch.nn.Module, SimpleNamespace)):
                self.parts.append(id(value))
                return
            self.parts.append(id(kind))
            asked: Collection[str] = [k for k in held if not k.startswith("_") or k in _OF_MODULES]
            numbers = True
        else:
            asked = self._class(self._known(kind), kind, attributes)
            asked |= frozenset(_OF_MODULES if isinstance(value, torch.nn.Module) else ())
            self.tests.append(f"{name}.__class__ is {self._known(kind)}")
            asked |= among(asked, named)
        of_properties = _asked_by_properties(kind, frozenset(asked))
        for attribute in sorted(asked):
            if isinstance(held, dict) and attribute in held:
                read, found = f"{self._known(held)}[{attribute!r}]", held[attribute]
            elif attribute.isidentifier() and type(getattr(kind, attribute, None)).__name__ == "member_descriptor":
                read, found = f"{name}.{attribute}", getattr(value, attribute, _MISSING)  # a slot
            else:
                continue
            if found is not _MISSING:
                self.parts.append(attribute)
                bakes = numbers or attribute.startswith("_") or attribute in of_properties
                self._value(read, found, bakes, frozenset(asked) | attributes)


_MISSING: Any = object()


def _free_value(fn: FunctionType, name: str) -> Any:
    if name in fn.__code__.co_freevars:
        try:
            return (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)].cell_contents
        except ValueError:  # not bound yet
            return _MISSING
    return fn.__globals__.get(name, _MISSING)


def _is_usual(name: str, module: ModuleType) -> bool:
    """Whether nobody rebinds this module: it is a library under its own name, or the language under any name."""
    root = module.__name__.partition(".")[0]
    return (module.__name__ == name and is_library(name)) or root in ("tileflow", "tileflow_runtime")


def _holds_functions(value: Any) -> bool:
    """Whether it is a user's function or a container of some."""
    if isinstance(value, (tuple, list)):
        return any(map(_holds_functions, value))
    if isinstance(value, dict):
        return any(map(_holds_functions, value.values()))
    return isinstance(value, FunctionType) and not is_library(value.__module__)


def _of_class(kind: type, attribute: str) -> tuple[type | None, Any]:
    """The user's class that defines an attribute, and what it is there."""
    for owner in kind.__mro__:
        if attribute in vars(owner):
            return (None, _MISSING) if is_library(owner.__module__) else (owner, vars(owner)[attribute])
    return None, _MISSING


def _functions_in(value: Any) -> list[FunctionType]:
    """The user's functions of a method, a property, a static or class method."""
    found = (value, *(getattr(value, part, None) for part in ("fget", "__func__", "func")))
    return [f for f in found if isinstance(f, FunctionType) and not is_library(f.__module__)]


def _asked_by_properties(kind: type, attributes: frozenset[str]) -> frozenset[str]:
    """What properties read of the object itself, where no path leads."""
    getters = [_of_class(kind, name)[1] for name in attributes]
    functions = [f for getter in getters if not isinstance(getter, FunctionType) for f in _functions_in(getter)]
    return frozenset[str]().union(*(_reads(f.__code__).attributes for f in functions))


def _same(a: Any, b: Any) -> bool:
    """Whether two plain values are one to a trace; 0.0 and -0.0 are not."""
    return type(a) is type(b) and repr(a) == repr(b)


def _number(tensor: torch.Tensor) -> tuple[torch.dtype, str]:
    """What a tensor without dimensions holds on the CPU, so that NaN is NaN and -0.0 is not 0.0."""
    return tensor.dtype, repr(tensor.item())


def _holds(array: Any, held: tuple[Any, ...]) -> bool:
    """Whether it is an array of numpy's with this dtype, shape and bytes: anybody may change one in place."""
    return (
        type(array).__module__ == "numpy" and (array.dtype.str, array.shape) == held[:2] and array.tobytes() == held[2]
    )
