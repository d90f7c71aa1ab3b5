"""The text of each op kind: one function a kind; each module registers its own with the family that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ..ir.graph import Op
from ..ir.kinds import OpKind
from .context import Context

C = TypeVar("C", bound=Context)
Rule = Callable[[C, Op], None]


class Rules(dict[OpKind, Rule[C]], Generic[C]):
    """A family's rules. ``base``: what it has in common with others; its own go first."""

    def __init__(self, base: Rules[Context] | None = None) -> None:
        super().__init__()
        self._base = base

    def __missing__(self, kind: OpKind) -> Rule[C]:
        if self._base is None:
            raise KeyError(kind)
        return self._base[kind]

    @property
    def kinds(self) -> frozenset[OpKind]:
        """All that have a rule."""
        return frozenset(self) | (self._base.kinds if self._base is not None else frozenset())

    def emits(self, *kinds: OpKind) -> Callable[[Rule[C]], Rule[C]]:
        """Register what writes the ops of these kinds."""

        def register(rule: Rule[C]) -> Rule[C]:
            self.update(dict.fromkeys(kinds, rule))
            return rule

        return register


# element by element, whatever the layout of a tile: rules for every family
COMMON: Rules[Context] = Rules()
TRITON: Rules[Context] = Rules(COMMON)
