"""A call's arguments as a tree: the one place that says what of an argument is a container, and what is in it.

A *leaf* is a tensor, a number or a constant. Everything else is a *shell* over parts: a tuple, a list, a dictionary, a
dataclass, a function (over what it closes over and its defaults), a ``functools.partial``, a bound method, a module of
torch's or an object of a user's class (over their attributes, see :mod:`.objects`). A shell is hashable, knows
the path step to each part (see :mod:`.abi`), and makes the container again over other parts. Keys, descriptions,
templates of operators, tensors, effects and copies on the meta device are all walks over this tree, so that they agree.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from functools import cache, cached_property, partial  # noqa: TID251 -- an author's classes have the standard one
from types import CellType, FunctionType, MethodType
from typing import Any, Protocol

import torch

from ..errors import CallError
from ..lazy_dataclass import dataclass
from .objects import MethodShell, is_object, open_object
from .paths import Step, key_step

MOST_LEVELS = 64  # of containers in containers

_PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__


# ---- shells -------------------------------------------------------------------------------------------------------


class Shell(Protocol):
    """A container without its parts. Two calls whose shells and leaves agree have the same structure."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The path step to each part, in the order of the parts."""
        ...

    def make(self, parts: Sequence[Any]) -> Any:
        """The container over other parts."""
        ...


@dataclass(frozen=True, slots=True)
class SequenceShell:
    """A tuple, a named tuple or a list of ``count`` items."""

    type: type
    count: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for each item, by its index."""
        return tuple(("item", str(i)) for i in range(self.count))

    def make(self, parts: Sequence[Any]) -> Any:
        """The same kind of sequence of other items; a ``torch.Size`` becomes a tuple."""
        kind: Any = self.type
        if kind in (tuple, list) or hasattr(kind, "n_sequence_fields"):  # the last are torch's named results
            return kind(parts)
        if kind is torch.Size:  # it holds ints only; what stands for them may be something else
            return tuple(parts)
        if issubclass(kind, tuple):
            return tuple.__new__(kind, parts)
        made = _constructed(kind, list(parts))
        if made is None or not _are(list(made), parts):
            made = list.__new__(kind)
            list.extend(made, parts)
        return made


@dataclass(frozen=True, slots=True)
class MappingShell:
    """A dictionary with these keys, in order. ``factory``: what a ``defaultdict`` gives for others."""

    type: type
    keys: tuple[Hashable, ...]
    factory: Any = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for each key, in the dictionary's order."""
        return tuple(key_step(key, place) for place, key in enumerate(self.keys))

    def make(self, parts: Sequence[Any]) -> Any:
        """The same kind of dictionary with other values."""
        held: dict[Any, Any] = dict(zip(self.keys, parts, strict=True))
        if self.type is dict:
            return held
        made = None if issubclass(self.type, defaultdict) else _constructed(self.type, held)
        if made is None or not _are(list(dict.values(made)), parts):
            base = next(base for base in (OrderedDict, defaultdict, dict) if issubclass(self.type, base))
            made = base.__new__(self.type)
            if isinstance(made, defaultdict):
                made.default_factory = self.factory
            for key, value in held.items():
                base.__setitem__(made, key, value)
        return made


def _constructed(kind: Any, given: Any) -> Any:
    """What a user's class makes of the builtin container that it derives from; None where its constructor takes
    something else, whatever that raises."""
    try:
        return kind(given)
    except Exception:
        return None


def _are(items: Sequence[Any], parts: Sequence[Any]) -> bool:
    return len(items) == len(parts) and all(item is part for item, part in zip(items, parts, strict=True))


@dataclass(frozen=True, slots=True)
class RecordShell:
    """A dataclass's instance with these fields, those that have a value."""

    type: type
    names: tuple[str, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for each field."""
        return tuple(("attr", name) for name in self.names)

    def make(self, parts: Sequence[Any]) -> Any:
        """An instance of these fields, also where its constructor takes others."""
        made: Any = object.__new__(self.type)
        for name, value in zip(self.names, parts, strict=True):
            object.__setattr__(made, name, value)
        return made


@dataclass(frozen=True, slots=True)
class PartialShell:
    """A ``functools.partial`` with ``count`` positional arguments and these keywords, sorted."""

    count: int
    words: tuple[str, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps to the function, its positional arguments and its keywords."""
        return (("attr", "func"), ("attr", "args"), ("attr", "keywords"))

    def make(self, parts: Sequence[Any]) -> Any:
        """A ``functools.partial`` of the three parts."""
        function, args, keywords = parts
        return partial(function, *args, **keywords)


@dataclass(frozen=True, slots=True)
class FunctionShell:
    """A function's code. Its parts are the contents of its filled cells, then the defaults of its parameters.

    ``itself``: the cells that hold the function, which a recursive one has. ``function`` is a representative.
    """

    code: Any
    module: str | None
    scope: int
    cells: tuple[str, ...]
    itself: tuple[str, ...]
    defaults: tuple[str, ...]
    keywords: tuple[str, ...]
    name: str = field(compare=False)
    globals: dict[str, Any] = field(compare=False, repr=False)

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for each filled cell, then one for each default."""
        cells: tuple[Step, ...] = tuple(("cell", name) for name in self.cells)
        return cells + tuple(("default", name) for name in (*self.defaults, *self.keywords))

    def make(self, parts: Sequence[Any]) -> FunctionType:
        """A function of the same code over new cells and defaults; it is in its own cells where the first one was."""
        held = dict(zip(self.cells, parts, strict=False))
        rest = parts[len(self.cells) :]
        names = self.code.co_freevars
        cells = tuple(CellType(held[name]) if name in held else CellType() for name in names)
        made = FunctionType(
            self.code, self.globals, self.name, tuple(rest[: len(self.defaults)]) or None, cells or None
        )
        made.__kwdefaults__ = dict(zip(self.keywords, rest[len(self.defaults) :], strict=True)) or None
        if self.module is not None:
            made.__module__ = self.module
        for name, cell in zip(names, cells, strict=True):
            if name in self.itself:
                cell.cell_contents = made
        return made


def open_shell(value: Any) -> tuple[Shell, tuple[Any, ...]] | None:
    """The shell of a container and its parts; None for a leaf."""
    kind: Any = type(value)
    opener = _opener(kind)
    return None if opener is None else opener(value)


@cache
def _opener(kind: Any) -> Callable[[Any], tuple[Shell, tuple[Any, ...]]] | None:
    """How a container of this type is opened."""
    if issubclass(kind, torch.Tensor):
        return None
    for base, opener in _OPENERS:
        if issubclass(kind, base):
            return opener
    if issubclass(kind, torch.nn.Module):
        return _open_object
    if is_dataclass(kind):
        return _open_record
    return _open_object if is_object(kind) else None


def _open_sequence(value: Any) -> tuple[Shell, tuple[Any, ...]]:
    return SequenceShell(type(value), len(value)), tuple(value)


def _open_mapping(value: Any) -> tuple[Shell, tuple[Any, ...]]:
    factory = value.default_factory if isinstance(value, defaultdict) else None
    return MappingShell(type(value), tuple(value), factory), tuple(value.values())


def _open_record(value: Any) -> tuple[Shell, tuple[Any, ...]]:
    own = tuple(f.name for f in fields(value))
    if any(name not in own and not _is_cached(value, name) for name in getattr(value, "__dict__", ())):
        return _open_object(value)  # its constructor, or somebody later, gave it further attributes
    names = tuple(name for name in own if hasattr(value, name))
    return RecordShell(type(value), names), tuple(getattr(value, name) for name in names)


def _is_cached(value: Any, name: str) -> bool:
    """Whether the attribute is what a property of the class computed, which a copy computes again."""
    return isinstance(getattr(type(value), name, None), cached_property)


def _open_object(value: Any) -> tuple[Shell, tuple[Any, ...]]:
    return open_object(value, is_container)


def is_container(value: Any) -> bool:
    """Whether a value has a shell, and is no leaf."""
    kind: Any = type(value)
    return _opener(kind) is not None


def _open_method(value: MethodType) -> tuple[Shell, tuple[Any, ...]]:
    return MethodShell(), (value.__func__, value.__self__)


def _open_partial(value: partial[Any]) -> tuple[Shell, tuple[Any, ...]]:
    keywords = dict(sorted(value.keywords.items()))
    return PartialShell(len(value.args), tuple(keywords)), (value.func, value.args, keywords)


def _open_function(value: FunctionType) -> tuple[Shell, tuple[Any, ...]]:
    code = value.__code__
    cells: dict[str, Any] = {}
    itself: list[str] = []
    for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
        try:
            held = cell.cell_contents
        except ValueError:  # a recursive function that is not bound yet
            continue
        if held is value:
            itself.append(name)
        else:
            cells[name] = held
    defaults = value.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    named = positional[len(positional) - len(defaults) :]
    keywords = value.__kwdefaults__ or {}
    shell = FunctionShell(
        code,
        value.__module__,
        id(value.__globals__),
        tuple(cells),
        tuple(itself),
        named,
        tuple(keywords),
        value.__name__,
        value.__globals__,
    )
    return shell, (*cells.values(), *defaults, *keywords.values())


_OPENERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], tuple[Shell, tuple[Any, ...]]]], ...] = (
    ((tuple, list), _open_sequence),
    (dict, _open_mapping),
    (partial, _open_partial),
    (FunctionType, _open_function),
    (MethodType, _open_method),
)


# ---- walks --------------------------------------------------------------------------------------------------------


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of an argument, in order. Raises CallError where containers nest without end."""
    return (leaf for _, leaf in walk(value, ()))


def walk(value: Any, path: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """(path, leaf) of everything in an argument that is found at ``path``. Raises CallError for endless nesting."""
    opened = open_shell(value)
    if opened is None:
        yield path, value
        return
    check_levels(len(path))
    shell, parts = opened
    for step, part in zip(shell.steps, parts, strict=True):
        yield from walk(part, (*path, step))


def replace(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with every leaf changed; containers without a changed leaf are the same objects."""
    return _replaced(value, change, 0)


def _replaced(value: Any, change: Callable[[Any], Any], level: int) -> Any:
    opened = open_shell(value)
    if opened is None:
        return change(value)
    check_levels(level)
    shell, parts = opened
    made = [_replaced(part, change, level + 1) for part in parts]
    return value if all(new is old for new, old in zip(made, parts, strict=True)) else shell.make(made)


def tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among a call's arguments, wherever they are."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif open_shell(value) is not None:
            yield from (leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor))


def is_traced(tensor: torch.Tensor) -> bool:
    """Whether operators on the tensor are its class's own affair (fake and functional ones, DTensor): it has no memory
    that a kernel could be given."""
    return type(tensor).__torch_dispatch__ is not _PLAIN_DISPATCH


def is_code(value: Any) -> bool:
    """A module, a class or a builtin that a function closes over: its semantic hash sees it by name."""
    return inspect.ismodule(value) or inspect.isclass(value) or inspect.isbuiltin(value)


def path_text(name: str, steps: Iterable[Step]) -> str:
    """A path as tables and errors spell it: ``epilogue.cell:bias``."""
    return name + "".join(f".{kind}:{word}" for kind, word in steps)


def check_levels(levels: int) -> None:
    """Raises CallError for a part that deep in an argument."""
    if levels > MOST_LEVELS:
        raise nests_too_deep()


def nests_too_deep() -> CallError:
    """The error of containers in containers without end."""
    return CallError(
        f"a kernel's arguments nest at most {MOST_LEVELS} deep",
        got="more, or one that holds itself",
        hint="pass what the kernel needs of it: its tensors and its numbers",
    )


# ---- templates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaf:
    """The ``index``-th leaf that a graph sees: ``type`` as a schema of torch.library spells it, ``path`` where it was
    found."""

    index: int
    type: str
    path: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A leaf that a graph does not see: True, 1 and 1.0 are equal, so that its type is told too."""

    value: Any
    type: type


@dataclass(frozen=True, slots=True)
class Inner:
    """A container: its shell, and the templates of its parts."""

    shell: Shell
    parts: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """In the template of a result: the ``index``-th leaf of the call's arguments, the tensor itself."""

    index: int


Template = Hashable  # Leaf | Constant | Inner | Argument


def flatten(value: Any, path: str, found: list[Any], level: int = 0) -> Template:
    """The template of ``value``, found at ``path``: hashable, all but its tensors, ints and floats.

    Those are appended to ``found``. Raises CallError where containers nest without end.
    """
    opened = open_shell(value)
    if opened is not None:
        check_levels(level)
        shell, parts = opened
        named = zip(shell.steps, parts, strict=True)
        return Inner(shell, tuple(flatten(part, f"{path}_{_word(step)}", found, level + 1) for step, part in named))
    if isinstance(value, torch.Tensor):
        return _leaf("Tensor", value, path, found)
    if isinstance(value, torch.SymInt) or type(value) is int:
        return _leaf("SymInt", value, path, found)
    if isinstance(value, torch.SymFloat) or type(value) is float:
        return _leaf("float", value, path, found)
    if isinstance(value, torch.SymBool):  # becomes the one that it is now, guarded
        return Constant(bool(value), bool)
    return Constant(value, type(value))


def _word(step: Step) -> str:
    return f"default_{step[1]}" if step[0] == "default" else step[1]


def _leaf(type_: str, value: Any, path: str, found: list[Any]) -> Leaf:
    found.append(value)
    return Leaf(len(found) - 1, type_, path)


def flatten_result(value: Any, arguments: Sequence[Any], found: list[Any], like: Template | None = None) -> Template:
    """The template of what a call with the leaves ``arguments`` returned. Tensors among them are told by their places,
    and are not appended to ``found``. ``like``: of another such call, whose place counts where one tensor has two."""
    places = {id(leaf): index for index, leaf in enumerate(arguments) if isinstance(leaf, torch.Tensor)}
    every: list[Any] = []

    def told(template: Template, like: Template | None) -> Template:
        if isinstance(template, Inner):
            of = like.parts if isinstance(like, Inner) and len(like.parts) == len(template.parts) else None
            return Inner(template.shell, tuple(map(told, template.parts, of or (None,) * len(template.parts))))
        if not isinstance(template, Leaf):
            return template
        one = every[template.index]
        if isinstance(like, Argument) and one is arguments[like.index]:
            return like
        return Argument(places[id(one)]) if id(one) in places else _leaf(template.type, one, template.path, found)

    return told(flatten(value, "result", every), like)


def unflatten(template: Template, values: Sequence[Any], arguments: Sequence[Any] = ()) -> Any:
    """The value of a template over other leaves; ``arguments``: those of the call, of which a result holds some."""
    match template:
        case Leaf(index):
            return values[index]
        case Argument(index):
            return arguments[index]
        case Constant(value):
            return value
        case Inner(shell, parts):
            return shell.make([unflatten(part, values, arguments) for part in parts])
    raise AssertionError(template)


def leaves_of(template: Template) -> list[Leaf]:
    """The leaves of a template, in order."""
    if isinstance(template, Leaf):
        return [template]
    return [leaf for part in template.parts for leaf in leaves_of(part)] if isinstance(template, Inner) else []


def arguments_of(template: Template) -> list[int]:
    """The places of the arguments that a result holds, in order."""
    if isinstance(template, Argument):
        return [template.index]
    return [index for part in template.parts for index in arguments_of(part)] if isinstance(template, Inner) else []


def items(template: Template) -> tuple[Template, ...]:
    """The templates of a tuple's items."""
    assert isinstance(template, Inner)
    return template.parts


# ---- calls --------------------------------------------------------------------------------------------------------


class Signature(Protocol):
    """What is known of a function that is called; a ``tileflow.frontend.split.HostFunction`` is one.

    ``constants``: the parameters whose numbers are constants.
    """

    @property
    def signature(self) -> inspect.Signature:
        """The function's parameters with their defaults."""

    @property
    def constants(self) -> Collection[str]:
        """The names of the parameters whose numbers are constants of the code."""


def bind_call(
    signature: inspect.Signature, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """A call's arguments by parameter, defaults applied. Raises CallError where ``signature`` does not take them."""
    return bound_call(signature, name, args, kwargs).arguments


_OF_A_METHOD = "a kernel in a class is a plain function: give it the object first, or write @staticmethod above it"


def bound_call(
    signature: inspect.Signature, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The same, as ``inspect`` has them."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise CallError(
            f"{name} must be called as {signature}",
            got=str(error).removeprefix("got "),
            hint=_OF_A_METHOD
            if next(iter(signature.parameters), "") in ("self", "cls")
            else "arguments go by position or by these names",
        ) from None
    bound.apply_defaults()
    return bound


def flatten_call(host: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Template, list[Any]]:
    """The template of a call's arguments, one part a parameter, defaults applied; and its leaves. Raises CallError."""
    found: list[Any] = []
    templates = tuple(
        _constant(value) if name in host.constants else flatten(value, name, found)
        for name, value in bind_call(host.signature, "the kernel", args, kwargs).items()
    )
    return Inner(SequenceShell(tuple, len(templates)), templates), found


def unflatten_call(host: Signature, template: Template, values: Sequence[Any]) -> tuple[Any, ...]:
    """The positional arguments of a call's template over other leaves."""
    made: tuple[Any, ...] = unflatten(template, values)
    parameters = [*host.signature.parameters.values()]
    if parameters and parameters[-1].kind is parameters[-1].VAR_POSITIONAL:
        return (*made[:-1], *made[-1])
    return made


def _constant(value: Any) -> Template:
    """A template without leaves. A symbolic number becomes the one that it is now, guarded."""
    if isinstance(value, (tuple, list)):
        return Inner(SequenceShell(type(value), len(value)), tuple(map(_constant, value)))
    value = int(value) if isinstance(value, torch.SymInt) else value
    value = float(value) if isinstance(value, torch.SymFloat) else value
    return Constant(value, type(value))
