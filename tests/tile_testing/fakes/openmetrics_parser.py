"""A strict reader of OpenMetrics text, of the parts that tileflow writes: gauges and counters without timestamps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]

_METADATA = re.compile(r"# (TYPE|UNIT|HELP) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)")
_STRING = r'"(?:[^"\\\n]|\\["\\n])*"'
_PAIR = rf"[a-zA-Z_][a-zA-Z0-9_]*={_STRING}"
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|[+-]Inf|NaN"
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{({_PAIR}(?:,{_PAIR})*)\}})? ({_NUMBER})")
_PAIRS = re.compile(rf"([a-zA-Z_][a-zA-Z0-9_]*)=({_STRING})")


@dataclass
class Family:
    kind: str
    unit: str = ""
    help: str = ""
    samples: dict[Labels, float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    """The families by name. Raises ValueError for a line that OpenMetrics 1.0 does not allow there."""
    text.encode("utf-8")
    if not text.endswith("# EOF\n"):
        raise ValueError("an exposition ends in # EOF and a line feed")
    families: dict[str, Family] = {}
    current = ""
    for line in text[: -len("# EOF\n")].split("\n")[:-1]:
        if (match := _METADATA.fullmatch(line)) is not None:
            current = _metadata(families, current, *match.groups())
        elif (match := _SAMPLE.fullmatch(line)) is not None:
            _sample(current, families[current], *match.groups())
        else:
            raise ValueError(f"neither metadata nor a sample: {line!r}")
    return families


def _metadata(families: dict[str, Family], current: str, word: str, name: str, rest: str) -> str:
    if word == "TYPE":
        if name in families or rest not in ("counter", "gauge"):
            raise ValueError(f"{name} is there twice, or is of type {rest}")
        families[name] = Family(rest)
        return name
    if name != current or families[name].samples:
        raise ValueError(f"{word} of {name} is not at the head of its family")
    if word == "UNIT" and not name.endswith("_" + rest):
        raise ValueError(f"{name} must end in its unit {rest}")
    setattr(families[name], word.lower(), _unescaped(rest))
    return name


def _sample(name: str, family: Family, sample: str, labels: str | None, value: str) -> None:
    if sample != (f"{name}_total" if family.kind == "counter" else name):
        raise ValueError(f"{sample} is no sample of {name}, a {family.kind}")
    pairs = tuple((key, _unescaped(text[1:-1])) for key, text in _PAIRS.findall(labels or ""))
    if pairs in family.samples or len(dict(pairs)) != len(pairs):
        raise ValueError(f"{sample} has these labels twice: {pairs}")
    number = float(value)
    if family.kind == "counter" and not number >= 0:
        raise ValueError(f"a counter must not be {value}")
    family.samples[pairs] = number


def _unescaped(text: str) -> str:
    return re.sub(r'\\(["\\n])', lambda match: "\n" if match[1] == "n" else match[1], text)
