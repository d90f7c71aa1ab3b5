"""What stands above a generated kernel: whose it is, and under which config."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from ..config import Choice
from ..errors import Location
from ..space.knob import SizeKnob
from ..space.knobs import ORDER, definition
from ..space.names import region_of
from .plan import KernelPlan

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a region comes from. ``kernel``: module and name; ``file``: without its folders, which differ from
    machine to machine; ``line``: of the function; ``loop``: the launch's own place."""

    kernel: str
    file: str
    line: int
    loop: Location | None


def heading(plan: KernelPlan, origin: Origin | None) -> list[str]:
    """The comment above a kernel, line by line. Knobs at their plain defaults are left out."""
    ir = plan.ir
    place = f"{origin.kernel} ({origin.file}:{origin.line})" if origin else ir.name
    lines = [f"# {place}, launch {ir.region}, {'static' if ir.shape_mode.is_static else 'run-time'} sizes"]
    settings = ", ".join(f"{name}={choice}" for name, choice in _settings(plan)) or "plain defaults"
    return lines + [f"#   {line}" for line in textwrap.wrap(settings, _WIDTH, break_long_words=False)]


def _settings(plan: KernelPlan) -> Iterator[tuple[str, Choice]]:
    """What the config says of this region that is not plain."""
    for name, choice in plan.config.items:
        knob = definition(name)
        if isinstance(knob, SizeKnob):
            if knob.word == "tunable" or name in plan.used:
                yield name, choice
        elif region_of(name) == plan.ir.region and choice != (_in_order(choice) if knob is ORDER else knob.default):
            yield name, choice


def _in_order(order: Choice) -> str:
    return ",".join(map(str, range(1 + str(order).count(","))))
