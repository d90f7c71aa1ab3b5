"""The Triton text of each op kind: one function a kind; each family registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir.graph import Op
from ..ir.kinds import OpKind

if TYPE_CHECKING:
    from .kernel import Emitter

Rule = Callable[["Emitter", Op], None]

EMIT: dict[OpKind, Rule] = {}


def emits(*kinds: OpKind) -> Callable[[Rule], Rule]:
    """Register what writes the ops of these kinds."""

    def register(rule: Rule) -> Rule:
        EMIT.update(dict.fromkeys(kinds, rule))
        return rule

    return register
