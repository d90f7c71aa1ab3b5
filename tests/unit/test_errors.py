"""Errors: what they say, where they point, that they travel between processes, and whether a retry helps."""

from __future__ import annotations

import inspect
import pickle

import pytest

from tileflow import errors
from tileflow.errors import ClusterError, Location, MissingAttribute, SpecError, TileflowError, TraceError

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, Exception) and cls.__module__ == errors.__name__
]
PLACE = Location("kernels/softmax.py", 12, column=10, text="    y = x.sorted()\n")


def test_an_error_says_constraint_got_place_and_next_step() -> None:
    error = SpecError("budget_s must be positive", got=-3, where="sweep.yaml", hint="leave it out for 60 s")
    assert str(error) == "budget_s must be positive, but got -3\n  at sweep.yaml\n  leave it out for 60 s"


def test_what_is_not_known_is_not_said() -> None:
    assert str(SpecError("a sweep must name a kernel")) == "a sweep must name a kernel"
    assert "but got 0" in str(SpecError("budget_s must be positive", got=0))


def test_a_place_in_the_source_shows_the_line_with_a_caret() -> None:
    lines = str(TraceError("tiles have no sorted()", where=PLACE)).splitlines()
    assert lines[1] == "  at kernels/softmax.py:12"
    source, caret = lines[2], lines[3]
    assert source == "    y = x.sorted()"
    assert source[caret.index("^") :] == "sorted()"


@pytest.mark.parametrize("indent", ["", "  ", "\t\t", "        "])
@pytest.mark.parametrize("offset", [0, 4])
def test_the_caret_stands_under_the_column_whatever_the_indentation(indent: str, offset: int) -> None:
    place = Location("k.py", 1, column=len(indent) + offset, text=f"{indent}y = sorted(x)")
    source, caret = place.caret().splitlines()
    assert source[caret.index("^") :] == "y = sorted(x)"[offset:]


def test_a_place_without_text_has_no_caret() -> None:
    assert Location("k.py", 3).caret() == ""
    assert str(TraceError("no", where=Location("k.py", 3))) == "no\n  at k.py:3"


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("where", [None, "sweep.yaml", PLACE])
def test_errors_pickle_whole(cls: type[TileflowError], where: Location | str | None) -> None:
    error = cls("must hold", got=[1, "a"], where=where, hint="try this")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert (copy.constraint, copy.got, copy.where, copy.hint) == (error.constraint, error.got, error.where, error.hint)
    assert str(copy) == str(error)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_one_of_ours_documented_and_drawn_in_the_hierarchy(cls: type[TileflowError]) -> None:
    assert issubclass(cls, TileflowError)
    assert cls.__doc__
    drawn = {line.strip("| +-").split()[0] for line in (errors.__doc__ or "").splitlines() if line.strip("| ")}
    assert cls.__name__ in drawn


def test_only_infrastructure_is_worth_a_retry() -> None:
    assert {cls for cls in CLASSES if cls.retryable} == {ClusterError}


def test_a_missing_attribute_keeps_hasattr_s_meaning() -> None:
    class Tile:
        def __getattr__(self, name: str) -> object:
            raise MissingAttribute("tiles have no such method", got=name)

    assert not hasattr(Tile(), "sorted")
    with pytest.raises(TraceError, match="sorted"):
        Tile().sorted()
