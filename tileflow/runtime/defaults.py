"""A table's defaults: rows whose variants together take any size, stride and alignment of their kinds of arguments.

They serve where no tuned row does, also on a device class that the table does not have, of the same architecture.
"""

from __future__ import annotations

from .problem import Problem
from .table import Fallback, Table


def defaults_for(table: Table, problem: Problem, vendor: str, arch: str, device: str = "") -> tuple[Fallback, ...]:
    """The rows to try for a call on a device of ``vendor`` and ``arch``, in order: those of its own class ``device``
    first, then those of other classes of the architecture, whose machine code it runs too."""
    found = []
    for name in sorted(table.defaults, key=lambda name: (name != device, name)):
        for row in table.defaults[name]:
            assert row.problem is not None  # validated
            if (row.vendor, row.arch) == (vendor, arch) and row.problem.kinds == problem.kinds:
                found.append(row)
    return tuple(found)
