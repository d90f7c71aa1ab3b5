"""``dataclass`` as in the standard library, whose methods are generated when they are first called.

Most of what it costs to import the runtime is the standard library's ``dataclass``, which compiles up to six methods
for each class: 60 ms of 90 for some 60 classes, of which a process calls a third. Here a class gets stubs; the first
call of one puts the standard library's own method in its place. What a class may be declared with, and how it then
behaves, is unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # to type checkers it is the very same
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False):
        """:func:`dataclasses.dataclass`, for the options that this project uses."""
        if cls is None:
            return lambda decorated: _declare(decorated, frozen, eq, slots)
        return _declare(cls, frozen, eq, slots)


def _declare(cls: type, frozen: bool, eq: bool, slots: bool) -> type:
    own = set(vars(cls))
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard library would write the signature of a stub there
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    names = ["__init__", "__repr__", *(["__eq__"] if eq else []), *(["__hash__"] if eq and frozen else [])]
    for name in names:
        if name not in own:
            setattr(made, name, _stub(made, name, frozen, slots))
    if eq and not frozen and "__hash__" not in own:
        made.__hash__ = None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made  # type: ignore[no-any-return]


def _stub(cls: type, name: str, frozen: bool, slots: bool) -> Callable[..., Any]:
    """A method that puts the generated one in its place and calls it."""

    def stub(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        method = generated_method(cls, name, frozen, slots)
        setattr(cls, name, method)
        return method(self, *args, **kwargs)

    stub.__name__, stub.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return stub


def generated_method(cls: type, name: str, frozen: bool, slots: bool) -> Callable[..., Any]:
    """What the standard library generates for a twin with the same fields: its methods name no class."""
    twin = dataclasses.make_dataclass(
        cls.__name__,
        [(field.name, field.type, _copy(field)) for field in dataclasses.fields(cls)],
        namespace={"__doc__": cls.__doc__, **{n: getattr(cls, n) for n in ("__post_init__",) if hasattr(cls, n)}},
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in ("__eq__", "__hash__"),
        unsafe_hash=name == "__hash__",
        frozen=name == "__init__" and frozen,  # then it assigns past __setattr__
        slots=name == "__init__" and slots,  # then it assigns defaults, which are no attributes of the class
    )
    method: Callable[..., Any] = vars(twin)[name]
    method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"
    return method


def _copy(field: dataclasses.Field[Any]) -> Any:
    """The declaration again: a class takes possession of its own."""
    return dataclasses.field(
        default=field.default,
        default_factory=field.default_factory,
        init=field.init,
        repr=field.repr,
        hash=field.hash,
        compare=field.compare,
        metadata=field.metadata,
        kw_only=bool(field.kw_only),
    )


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
