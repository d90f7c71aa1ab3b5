"""``lazy_dataclass.dataclass`` beside the standard library's: the same classes, whose methods are made when called."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from tileflow import lazy_dataclass

Decorator = Callable[..., Any]
OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "eq": False},
]


def make(decorator: Decorator, options: dict[str, bool]) -> type[Any]:
    class Point:
        x: int
        y: float = 2.0
        tags: list[str] = field(default_factory=list, compare=False)
        hidden: int = field(default=0, repr=False)
        derived: int = field(init=False, default=7)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

    return decorator(**options)(Point)  # type: ignore[no-any-return]


@pytest.fixture(params=OPTIONS, ids=str)
def twins(request: pytest.FixtureRequest) -> list[type[Any]]:
    return [make(decorator, request.param) for decorator in (lazy_dataclass.dataclass, dataclasses.dataclass)]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "use",
    [
        lambda c: repr(c(1)),
        lambda c: repr(c(1, y=3, tags=["a"], hidden=5)),
        lambda c: c(1, 2, ["a"]) == c(1, 2, ["b"]),
        lambda c: c(1) == c(2),
        lambda c: c(1) == 1,
        lambda c: len({hash(one) for one in (c(1, tags=["a"]), c(1, tags=["b"]))}),
        lambda c: c.__hash__ is None,
        lambda c: setattr(c(1), "x", 3),
        lambda c: delattr(c(1), "x"),
        lambda c: c(),
        lambda c: c(1, derived=3),
        lambda c: c(1, 2, [], 3, 4),
        lambda c: c(-1),
        lambda c: dataclasses.replace(c(1), y=9).y,
        lambda c: dataclasses.asdict(c(1)),
        lambda c: [f.name for f in dataclasses.fields(c)],
        lambda c: c.__match_args__,
        lambda c: repr(copy.deepcopy(c(1, tags=["a"]))),
        lambda c: c(1).tags is c(1).tags,
        lambda c: hasattr(c(1), "__dict__"),
        lambda c: c.__init__.__qualname__,
    ],
)
def test_a_class_behaves_as_the_standard_library_s(twins: list[type[Any]], use: Callable[[Any], Any]) -> None:
    lazy, standard = twins
    expected = outcome(lambda: use(standard))
    assert outcome(lambda: use(lazy)) == expected  # made now
    assert outcome(lambda: use(lazy)) == expected  # found made


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Base:
    """One that can be pickled."""

    x: int


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Derived(Base):
    y: int = 1

    def __repr__(self) -> str:
        return "own"


def test_pickles_and_subclasses() -> None:
    assert pickle.loads(pickle.dumps(Derived(3, 4))) == Derived(3, 4)
    assert Derived(3) != Base(3) and Base(3) == Base(3)
    assert repr(Derived(3)) == "own" and repr(Base(3)) == "Base(x=3)"
    assert len({Derived(3), Derived(3), Base(3)}) == 2


def test_a_method_is_generated_once_and_at_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    generate = lazy_dataclass.generated_method

    def counted(cls: type, name: str, frozen: bool, slots: bool) -> Any:
        made.append(name)
        return generate(cls, name, frozen, slots)

    monkeypatch.setattr(lazy_dataclass, "generated_method", counted)
    point = make(lazy_dataclass.dataclass, {"frozen": True, "slots": True})
    assert made == []
    assert point(1).x + point(2).x == 3
    assert made == ["__init__"]
    assert point(1) == point(1)
    assert made == ["__init__", "__eq__"]


def test_a_frozen_class_has_no_other_attributes() -> None:
    """The standard library's says so for fields only, and raises a TypeError about super() for others."""
    with pytest.raises(dataclasses.FrozenInstanceError, match="other"):
        Base(1).other = 3  # type: ignore[attr-defined]
