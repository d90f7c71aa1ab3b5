"""Keys of calls, for the cache in front of describing and looking up: the first half of a warm call.

Two calls with equal keys have equal Problems, but for the values of ints and floats, which are examples; and torch's
settings that the kernel can see are the same. :func:`call_key` reads the key of any call. A :class:`Form` is written
for calls whose arguments are of the same kinds as one that was seen: an attribute of a tensor costs 40 ns of Python,
and what is spent beside those (a loop, a call for each argument, nested tuples to hash) would cost as much again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from typing import Any

import torch
from torch.autograd import forward_ad

from .ambient import READERS
from .argtree import (
    FunctionShell,
    MappingShell,
    PartialShell,
    RecordShell,
    SequenceShell,
    check_levels,
    is_code,
    is_traced,
    open_shell,
)
from .bounded import BoundedCache
from .objects import SETTINGS as _SETTINGS
from .objects import MethodShell, ObjectShell, fast_reads

_Tensor = torch.Tensor
_grad_enabled = torch.is_grad_enabled
_inference = torch.is_inference_mode_enabled
_unpack_dual: Callable[[torch.Tensor], Any] = forward_ad.unpack_dual
_BY_VALUE = (bool, str, torch.dtype, type(None))
_NO_MEMORY = "no memory"


def is_dual(tensor: torch.Tensor) -> bool:
    """Whether the tensor carries a tangent of forward-mode differentiation, which a kernel would drop."""
    return not _inference() and _unpack_dual(tensor).tangent is not None


def call_key(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, ambient: Collection[str] = tuple(READERS)
) -> Hashable:
    """A hashable key of a call: shapes, strides, dtypes, device, alignment, whether a tensor is lazily negated or
    conjugated and whether autograd would record it, code-selecting scalars, callables, and the settings ``ambient``.

    Ints and floats enter by type alone. A function enters by its code, its globals and what it closes over now;
    what it reads of its globals, :mod:`.outside` watches. Unknown types enter by type; describing refuses them.
    """
    key = (*map(_key, args), *[READERS[name]() for name in ambient])
    return (*key, *kwargs, *map(_key, kwargs.values())) if kwargs else key


def _key(value: Any) -> Hashable:
    if isinstance(value, _Tensor):
        return _tensor_key(value)
    kind: Any = type(value)
    if kind is int or kind is float:
        return kind
    if kind in _BY_VALUE:
        return value  # type: ignore[no-any-return]
    opened = open_shell(value)
    if opened is not None:
        shell, parts = opened
        return (shell, *map(_key, parts))
    held: Hashable = value if isinstance(value, _SETTINGS) or is_code(value) else kind
    return held


def _tensor_key(value: torch.Tensor) -> Hashable:
    if is_traced(value):
        return type(value)
    try:
        shape, aligned = value.shape, not value.data_ptr() & 15
    except RuntimeError:  # nested, or of a transform of torch.func: describing refuses it
        return _NO_MEMORY
    grad = value.requires_grad and _grad_enabled()
    lazy = value.is_neg() or value.is_conj()
    return (shape, value.stride(), value.dtype, value.device, aligned, lazy, grad, is_dual(value))


# ---- forms --------------------------------------------------------------------------------------------------------


MISS = object()  # what a form gives for a call that it does not serve


class Form:
    """Serves calls that pass arguments of certain kinds in a certain way, by a key that is read fast.

    Tensors are read by one call of the C extension, where there is one, and attribute by attribute elsewhere.

    ``call(args, kwargs)`` counts and runs what was remembered for the key of the call; it gives :data:`MISS` where
    nothing was, or the arguments are of other kinds, another number or other names. ``key(args, kwargs)``: the key, or
    None likewise. Keys tell apart what those of :func:`call_key` do, for calls without complex tensors. ``words``: the
    names of its keywords.
    """

    __slots__ = ("_namespace", "call", "held", "key", "words")

    def __init__(
        self, reads: str, namespace: dict[str, Any], run: Callable[..., Any], limit: int, words: tuple[str, ...] = ()
    ) -> None:
        self.words = words
        self.held: BoundedCache[Any] = BoundedCache(limit)
        self._namespace = namespace
        namespace |= {"get": self.held.get, "run": run, "MISS": MISS}
        exec(compile(reads, "<key of a call>", "exec"), namespace)
        self.key: Callable[[tuple[Any, ...], Mapping[str, Any]], Hashable] = namespace["key"]
        self.call: Callable[[tuple[Any, ...], Mapping[str, Any]], Any] = namespace["call"]

    def watch(self, unchanged: Callable[[], bool] | None) -> bool:
        """Serve calls while ``unchanged()`` says that what the kernel reads besides its arguments is as it was. False:
        the form was written where nothing could change, and asks nothing."""
        if "unchanged" not in self._namespace:
            return unchanged is None
        self._namespace["unchanged"] = unchanged or _always
        return True


def form_of(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    run: Callable[..., Any],
    constants: Collection[str] = (),
    names: Sequence[str] = (),
    ambient: Collection[str] = (),
    limit: int = 1 << 14,
    positional: int = 0,
    reader: Callable[..., bytes] | None = None,
    unchanged: Callable[[], bool] | None = None,
    ints: Collection[str] = (),
) -> Form | None:
    """The form of calls like this one. None where an argument is of a kind that takes more than a few looks. Raises
    CallError where containers nest without end.

    ``run(context, *args, **kwargs)``: what a call is, with what was remembered for its key, which has a ``counter``.
    ``names``: of the parameters, in order, of which the first ``positional`` may be passed by position and by name;
    ``constants``: those whose numbers select code; ``ints``: those whose ints do. ``limit``: of its keys. ``reader``:
    what describes all tensors at once, :func:`tileflow.runtime.native.tensors_key`. ``unchanged``: see
    :meth:`Form.watch`; None where nothing can change.
    """
    writer = _FormWriter(reader)
    if unchanged is not None:
        writer.namespace["unchanged"] = unchanged
    try:
        for i, value in enumerate(args):
            name = names[i] if i < len(names) else ""
            writer.argument(f"a{i}", value, _select(name, constants, ints))
        for word, value in kwargs.items():
            writer.argument(f"k_{word}", value, _select(word, constants, ints))
    except _Unreadable:
        return None
    text = writer.text(len(args), tuple(kwargs), ambient, names[:positional])
    form = Form(text, writer.namespace, run, limit, tuple(kwargs))
    return form if form.key(tuple(args), kwargs) is not None else None  # of a dtype, say, that C cannot describe


def _always() -> bool:
    return True


def _select(name: str, constants: Collection[str], ints: Collection[str]) -> tuple[type, ...]:
    """The types of the numbers of an argument that select code."""
    return (int, float) if name in constants else (int,) if name in ints else ()


class _Unreadable(Exception):
    """An argument that has no fast key."""


class _FormWriter:
    """Writes the source of a form's two functions."""

    def __init__(self, reader: Callable[..., bytes] | None) -> None:
        self.namespace: dict[str, Any] = {
            "grad_enabled": _grad_enabled,
            "inference": _inference,
            "unpack_dual": _unpack_dual,
            "read_tensors": reader,
        }
        self.reader = reader
        self.tensors: list[str] = []  # that the reader describes, each of a type that it takes
        self.parts: list[str] = []
        self.tests: list[str] = []  # of kinds; each may stand on names that those before it made safe
        self.learned: list[str] = []

    def argument(self, name: str, value: Any, by_value: tuple[type, ...], level: int = 0) -> None:
        """What an argument called ``name`` in the text adds: tests of its kind, parts of the key. ``by_value``: the
        types of the numbers that enter the key."""
        if self.reader is not None and type(value) in (_Tensor, torch.nn.Parameter):
            self._refuse_complex(value)
            self.tensors.append(name)
            return
        self.tests.append(f"type({name}) is {self._known(type(value))}")
        if isinstance(value, _Tensor):
            self._tensor(name, value)
        elif type(value) in (int, float):
            read = f"repr({name})" if type(value) is float else name  # 0.0 and -0.0 are equal, NaN is not itself
            self.parts += [read] if type(value) in by_value else []
        elif type(value) in _BY_VALUE or isinstance(value, _SETTINGS) or is_code(value):
            self.parts.append(name)
        else:
            self._container(name, value, by_value, level)

    def _tensor(self, name: str, value: torch.Tensor) -> None:
        if is_traced(value):
            raise _Unreadable
        self._refuse_complex(value)
        # a kernel's tensors are on GPUs, whose ordinals are hashed faster than torch's devices; CPU and meta have one
        reads = ("shape", "stride()", "dtype", "get_device()", "is_meta", "data_ptr() & 15 == 0", "is_neg()")
        self.parts += [f"{name}.{read}" for read in reads]
        self.learned.append(name)

    def _refuse_complex(self, value: torch.Tensor) -> None:
        if value.is_complex():  # it may be conjugated, one more look
            raise _Unreadable

    def _container(self, name: str, value: Any, by_value: tuple[type, ...], level: int) -> None:
        opened = open_shell(value)
        if opened is None:
            raise _Unreadable
        check_levels(level)
        shell, parts = opened
        match shell:
            case SequenceShell():
                self.tests.append(f"len({name}) == {shell.count}")
                reads = [f"{name}[{i}]" for i in range(shell.count)]
            case MappingShell() if all(type(key) in (int, str) for key in shell.keys):
                self.tests.append(f"list({name}) == {self._known([*shell.keys])}")
                self.tests += [f"{name}.default_factory is {self._known(shell.factory)}"] if shell.factory else []
                reads = [f"{name}[{key!r}]" for key in shell.keys]
            case RecordShell() if len(shell.names) == len(fields(shell.type)):  # no other may have more values
                reads = [f"{name}.{field}" for field in shell.names]
            case ObjectShell():
                found = fast_reads(shell, name, self._known)
                if found is None:
                    raise _Unreadable
                self.tests += found[0]
                reads = found[1]
            case MethodShell():
                reads = [f"{name}.__func__", f"{name}.__self__"]
            case PartialShell():
                reads = [f"{name}.func", f"{name}.args", f"{name}.keywords"]
            case FunctionShell() if not (shell.defaults or shell.keywords or shell.itself):
                # its cells are read by position; a function of the same code has as many
                self.tests.append(f"{name}.__code__ is {self._known(shell.code)}")
                self.tests.append(f"{name}.__globals__ is {self._known(shell.globals)}")
                self.tests.append(f"not {name}.__defaults__ and not {name}.__kwdefaults__")
                if len(shell.cells) != len(shell.code.co_freevars):
                    raise _Unreadable
                reads = [f"{name}.__closure__[{i}].cell_contents" for i in range(len(shell.cells))]
            case _:
                raise _Unreadable
        for i, (read, part) in enumerate(zip(reads, parts, strict=True)):
            inner = f"{name}_{i}"
            if isinstance(shell, PartialShell) and i == 2:
                part = dict(value.keywords)  # in the order of this very partial, as the text reads it
            self.tests.append(f"(({inner} := {read}) is {inner})")
            self.argument(inner, part, by_value, level + 1)

    def _known(self, value: Any) -> str:
        name = f"known{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def text(self, count: int, words: tuple[str, ...], ambient: Collection[str], names: Sequence[str]) -> str:
        """Both functions: ``key`` gives the key, ``call`` looks it up, counts and runs. ``names``: of parameters that
        take positions."""
        takes = [f"a{i}" for i in range(count)]
        counts = [f"len(args) != {count}" if count else "args", f"len(kwargs) != {len(words)}" if words else "kwargs"]
        shared = [f"    if {' or '.join(counts)}:", "        return {miss}"]
        shared += [f"    {', '.join(takes)}, = args"] if takes else []
        # other words may be given, what a container is asked for may be gone, and a tensor of torch.func has no memory
        shared += ["    try:", *(f"        k_{word} = kwargs[{word!r}]" for word in words)]
        if self.tests:
            shared += [f"        if not ({' and '.join(self.tests)}):", "            return {miss}"]
        shared.append(f"        key = {self._key(ambient)}")
        learned = [*self.tensors, *self.learned]
        if learned:
            # while forward-mode differentiation is going on, each tensor may have a tangent: no form looks for them
            shared.append(f"        if not (inference() or unpack_dual({learned[0]})[0] is {learned[0]}):")
            shared.append("            return {miss}")
        shared += ["    except (RuntimeError, AttributeError, LookupError, ValueError):", "        return {miss}"]
        text = "\n".join(shared)
        watched = ["    if not unchanged():", "        return MISS"] if "unchanged" in self.namespace else []
        served = [
            *watched,
            "    context = get(key)",
            "    if context is None:",
            "        return MISS",
            "    context.counter.calls += 1",
            f"    return run({', '.join(['context', *takes, *_passed(names[count:], words)])})",
        ]
        key = f"def key(args, kwargs):\n{text}\n    return key\n".replace("{miss}", "None")
        call = f"def call(args, kwargs):\n{text}\n".replace("{miss}", "MISS") + "\n".join(served) + "\n"
        return key + call

    def _key(self, ambient: Collection[str]) -> str:
        parts = [*self.parts]
        if self.learned:
            learned = " or ".join(f"{name}.requires_grad" for name in self.learned)
            parts.append(f"({learned}) and grad_enabled()")  # a call that autograd records is refused whole
        for name in ambient:
            self.namespace[f"ambient_{name}"] = READERS[name]
            parts.append(f"ambient_{name}()")
        tensors = [f"read_tensors({', '.join(self.tensors)})"] if self.tensors else []
        if tensors and not parts:
            return tensors[0]
        return f"({' '.join(f'{part},' for part in [*tensors, *parts])})"


def _passed(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """The named arguments of a call as text. The leading ones go by position where their names follow one another,
    which Python passes faster."""
    by_position = [*takewhile(words.__contains__, names)]
    return [*(f"k_{name}" for name in by_position), *(f"{w}=k_{w}" for w in words if w not in by_position)]
