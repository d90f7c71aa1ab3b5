"""Names that follow from the structure of device code alone: of tiles, blocks and call sites."""

from __future__ import annotations


class StructuralNames:
    """Hands out structural names: ``tile_m``, then ``tile_m#1``; ``tile_m@1`` in region 1."""

    def __init__(self, region: int) -> None:
        self._suffix = f"@{region}" if region else ""
        self._counts: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """``name`` with the count of those before it, and the region's suffix."""
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return (name if count == 0 else f"{name}#{count}") + self._suffix

    def snapshot(self) -> dict[str, int]:
        """The state, for a trace that may be done again."""
        return dict(self._counts)

    def restore(self, snapshot: dict[str, int]) -> None:
        """Go back to the counts of ``snapshot``: names given since are given again."""
        self._counts = dict(snapshot)

    def numbered(self, name: str) -> str:
        """``name#0``, ``name#1`` ...: the ids of call sites."""
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return f"{name}#{count}{self._suffix}"
