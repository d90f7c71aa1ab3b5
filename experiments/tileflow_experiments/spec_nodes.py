"""Values of a sweep's spec, read strictly: each knows its path, and names what is wrong with it."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tileflow.errors import SpecError

Parameter = int | float | bool | str

MOST_SECONDS = 10**9
MOST_SIZE = 2**63 - 1
SHOWN_CHARS = 200


def _shown(value: object) -> str:
    """Return ``value`` as Python writes it, cut short."""
    try:
        text = repr(value)
    except (ValueError, RecursionError) as error:  # Python writes no number of more than 4300 digits
        text = f"{type(value).__name__}, which cannot be shown: {error}"
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the file and its path. Each reader raises SpecError for what it is not."""

    value: object
    path: str

    def error(self, constraint: str, hint: str) -> SpecError:
        """The error for this value."""
        return SpecError(constraint, got=_shown(self.value), where=self.path or "the top level", hint=hint)

    def entries(self) -> dict[str, Node]:
        """The nodes of a mapping."""
        if not isinstance(self.value, Mapping) or not self.value or not all(isinstance(k, str) for k in self.value):
            raise self.error("the field must be a non-empty mapping with text keys", "write key: value")
        return {key: Node(child, f"{self.path}.{key}" if self.path else key) for key, child in self.value.items()}

    def mapping(self, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()) -> dict[str, Node]:
        """The nodes of a mapping that has all of ``required``, and no others but ``optional``."""
        fields = self.entries()
        known = required + optional
        for key, child in fields.items():
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]}? " if close else ""
                raise SpecError(
                    "the spec may only have known fields",
                    got=repr(key),
                    where=child.path,
                    hint=f"{hint}known: {', '.join(known)}",
                )
        for key in required:
            if key not in fields:
                path = f"{self.path}.{key}" if self.path else key
                raise SpecError("a required field must be there", got="nothing", where=path, hint=f"add {key}: ...")
        return fields

    def sequence(self, empty: bool = False) -> list[Node]:
        """The nodes of a list."""
        if not isinstance(self.value, list) or not (self.value or empty):
            raise self.error("the field must be a non-empty list", "write [a, b] or one '- ' line each")
        return [Node(child, f"{self.path}[{i}]") for i, child in enumerate(self.value)]

    def text(self) -> str:
        """Text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.error("the field must be text", "quote it where YAML reads a number or a date")
        return self.value

    def one_of(self, known: Iterable[str], what: str, more: str = "") -> str:
        """One of the names in ``known``. ``what``: what they name; ``more``: for the hint."""
        known = tuple(known)
        if self.value not in known:
            close = difflib.get_close_matches(str(self.value), known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise self.error(f"the field must be {what} that tileflow knows", f"{hint}known: {', '.join(known)}{more}")
        return str(self.value)

    def integer(self, least: int, most: int) -> int:
        """A whole number from ``least`` to ``most``."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not least <= self.value <= most:
            raise self.error(f"the field must be a whole number from {least} to {most}", "write digits without quotes")
        return self.value

    def seconds(self) -> float:
        """A time above 0."""
        value = self.value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= MOST_SECONDS:
            raise self.error(
                f"the field must be a number of seconds above 0, at most {MOST_SECONDS}",
                "write digits without quotes, and 1000 for 1e3, which YAML reads as text",
            )
        return float(value)

    def parameter(self) -> Parameter:
        """A value of a problem: a finite number, text, or a truth value."""
        if isinstance(self.value, float) and not math.isfinite(self.value):
            raise self.error("a number must be finite", "write a finite number")
        if isinstance(self.value, int) and abs(self.value) > MOST_SIZE:
            raise self.error(f"a whole number must be at most {MOST_SIZE}", "no tensor has a larger size")
        if not isinstance(self.value, int | float | bool | str):
            raise self.error("the field must be a number, text or true/false", "nested values are not taken here")
        return self.value
