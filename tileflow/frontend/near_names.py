"""Names near one that is not there: of a slip of the pen by its letters, of another function by the words it shares."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

# words that functions of different meanings share
_COMMON = frozenset({"loss", "norm", "like", "with", "copy", "native", "from", "type", "size", "tensor", "tensors"})
_LEAST = 4  # letters of a word that says something


def near_names(name: str, known: Collection[str], exists: bool) -> list[str]:
    """Up to three of ``known``. ``exists``: whether ``name`` is a function of torch's, which nobody mistyped: one of
    similar letters is another function then."""
    if not exists:
        return difflib.get_close_matches(name, known, n=3)
    words = _words(name)
    near = sorted((other for other in known if words & _words(other)), key=lambda other: _unlikeness(name, other))
    return near[:3]


def _words(name: str) -> set[str]:
    """The words of a name that say what is done, without the number of dimensions behind them."""
    return {w for w in re.sub(r"\d+d?$", "", name).split("_") if len(w) >= _LEAST and w not in _COMMON}


def _unlikeness(name: str, other: str) -> tuple[float, str]:
    return -difflib.SequenceMatcher(None, name, other).ratio(), other


def listed(names: Iterable[str]) -> str:
    """The hint that names them; where to look where there are none."""
    found = ", ".join(names)
    return f"near it: {found}" if found else "docs/reference/language.md lists what there is; or call it in host code"
