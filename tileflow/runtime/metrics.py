"""The counters as OpenMetrics 1.0 text, for a Prometheus scraper; caches register what they hold beside them.

Serve :func:`openmetrics` under CONTENT_TYPE at ``/metrics``; docs/guides/deployment.md shows how.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ..errors import SpecError
from .observe import LOOKUP_EVENTS, counters, say_once

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Number = int | float
# one number, or one for each set of labels
Reading = Number | Iterable[tuple[Mapping[str, str], Number]]

_UNITS = ("bytes", "seconds")
# OpenMetrics derives sample names with these; a family called so could be taken for another's sample.
_RESERVED = frozenset({"total", "created", "count", "sum", "bucket", "gcount", "gsum", "info"})
_UNREADABLE = "tileflow_unreadable_metrics"


class _Family(NamedTuple):
    name: str
    kind: str
    help: str
    read: Callable[[], Reading]

    def text(self) -> str:
        """The family's lines. Raises what ``read`` raises, so that half a family is never served."""
        unit = next((unit for unit in _UNITS if self.name.endswith("_" + unit)), None)
        lines = [f"# TYPE {self.name} {self.kind}"]
        if unit is not None:
            lines.append(f"# UNIT {self.name} {unit}")
        lines.append(f"# HELP {self.name} {_escaped(self.help)}")
        suffix = "_total" if self.kind == "counter" else ""
        for labels, value in _samples(self.read()):
            lines.append(f"{self.name}{suffix}{_label_set(labels)} {_number(value)}")
        return "\n".join(lines) + "\n"


_families: dict[str, _Family] = {}


def register_gauge(name: str, help: str, read: Callable[[], Reading]) -> None:
    """Show what ``read()`` returns at each scrape: something that goes up and down (keys, modules, bytes).

    A name that ends in ``_bytes`` or ``_seconds`` has that unit. ``read`` runs in the scraper's thread, and must be
    quick. Raises SpecError where the name is not OpenMetrics' or is taken.
    """
    _register(_Family(name, "gauge", help, read))


def register_counter(name: str, help: str, read: Callable[[], Reading]) -> None:
    """Register a counter, of something that only grows (evictions), as :func:`register_gauge` does a gauge. The sample
    is called ``name_total``."""
    _register(_Family(name, "counter", help, read))


def openmetrics() -> str:
    """All counters and registered readings, as one exposition that ends in ``# EOF``.

    A reading that raises is left out, logged once, and counted in ``tileflow_unreadable_metrics``.
    """
    parts = []
    unreadable = 0
    for family in tuple(_families.values()):
        try:
            parts.append(family.text())
        except Exception as error:  # one broken reading must not hide the others
            unreadable += 1
            say_once(logging.WARNING, "openmetrics", family.name, f"not readable: {type(error).__name__}: {error}")
    parts.append(_Family(_UNREADABLE, "gauge", "Readings left out of this scrape.", lambda: unreadable).text())
    return "".join(parts) + "# EOF\n"


def _register(family: _Family) -> None:
    if not _is_name(family.name) or family.name.rpartition("_")[2] in _RESERVED:
        raise SpecError(
            "a metric's name must be OpenMetrics' and have no suffix that it gives a meaning to",
            got=family.name,
            hint="letters, digits and _, as tileflow_bound_keys",
        )
    if family.name in _families or family.name == _UNREADABLE:
        raise SpecError(
            "a metric must be registered once",
            got=family.name,
            hint="one reading can return several numbers, each with its labels",
        )
    _families[family.name] = family


def _samples(reading: Reading) -> Iterator[tuple[Mapping[str, str], Number]]:
    if isinstance(reading, (int, float)):
        yield {}, reading
    else:
        yield from reading


def _label_set(labels: Mapping[str, str]) -> str:
    for name in labels:
        if not _is_name(name):
            raise SpecError("a label's name must be letters, digits and _", got=name)
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    # a path in a reason may hold bytes that are not UTF-8 (lone surrogates); an exposition must be
    return text.encode("utf-8", "replace").decode()


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(int(value))
    special = {float("inf"): "+Inf", float("-inf"): "-Inf"}
    return "NaN" if value != value else special.get(value, repr(value))


# ---- the counters of observe ----------------------------------------------------------------------------------------


def _calls() -> Iterator[tuple[Mapping[str, str], int]]:
    for row in counters():
        if row.step not in LOOKUP_EVENTS:
            yield {"kernel": row.kernel, "step": row.step, "device": row.device, "reason": row.reason}, row.calls


def _misses() -> Iterator[tuple[Mapping[str, str], int]]:
    for row in counters():
        if row.step == "miss":
            yield {"kernel": row.kernel, "device": row.device, "reason": row.reason}, row.calls


def _passed_over() -> Iterator[tuple[Mapping[str, str], int]]:
    for row in counters():
        if row.step in LOOKUP_EVENTS and row.step != "miss":
            yield {"kernel": row.kernel, "event": row.step, "device": row.device, "reason": row.reason}, row.calls


register_counter("tileflow_calls", "Calls, warm ones included, by the step that served them and why.", _calls)
register_counter("tileflow_misses", "Lookups that found no row of a table.", _misses)
register_counter("tileflow_rows_passed_over", "Rows and tables that a lookup met and could not use.", _passed_over)
