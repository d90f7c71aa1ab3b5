"""What a trace finds out about a region that the next one begins with: which parts of tensors the region stores
through, and of which tensors what was loaded is a copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taken:
    """Where the author's code takes a part of a tensor, ``x[b]``: the tensor's path, and the instruction that does."""

    path: str
    file: str
    function: str
    line: int
    instruction: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a tile holds of the tensor at ``path``, of which torch has a view and registers a copy. ``is_block``: a
    loop's tile names it."""

    path: str
    is_block: bool


@dataclass(frozen=True, slots=True)
class Found:
    """What a trace of a region found out at its end, which the next one begins with. ``copied``: paths of the tensors
    of which what was loaded is a copy, since the region writes to them; ``through``: where parts are taken that the
    region stores through, which are no copies."""

    copied: frozenset[str] = frozenset()
    through: frozenset[Taken] = frozenset()

    def and_also(self, other: Found) -> Found:
        """Both."""
        return Found(self.copied | other.copied, self.through | other.through)
