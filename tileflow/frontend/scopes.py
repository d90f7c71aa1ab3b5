"""Where a trace is: the block that ops go to, which tiles Python's meaning has changed, and places to come back to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Location, TraceError
from ..ir.graph import Builder, Tile
from ..ir.types import Value
from ..language.rules import CHANGED, CHANGED_HINT
from .changed_tiles import ChangedTiles, Snapshot
from .dimensions import Dimensions
from .structural_names import StructuralNames

if TYPE_CHECKING:
    from .values import TileValue


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a trace had when it was made: see :meth:`Scopes.checkpoint`."""

    mark: tuple[tuple[int, int], dict[str, int]]
    depth: int
    forced: Location | None
    tables: tuple[dict[Any, Any], ...]
    changes: Snapshot


class Scopes(Dimensions):
    """The blocks that a trace is inside of, with what is known in each. ``names``: those that the IR has."""

    def __init__(self, mode: str, hints: dict[str, int], files: set[str], names: StructuralNames) -> None:
        super().__init__(mode, hints, files)
        self.names = names
        self.builder = Builder()
        self.tiles: dict[str, Tile] = {}
        self.blocks: dict[str, tuple[int, int]] = {}
        self.value_names: dict[int, str] = {}  # the author's, by the value's id
        self.scopes: list[int] = [0]
        self.loops: set[int] = set()  # of the scopes, those of loops' bodies
        self.changes = ChangedTiles(self.scopes, self.loops)
        self._scope_count = 0

    def name_value(self, value: Value, name: str) -> None:
        """Note what the author calls a value first."""
        self.value_names.setdefault(value.id, name.partition(".")[0].partition("[")[0])

    def open_scope(self) -> None:
        """Begin a block, of a loop's body or of a branch: ops go there until :meth:`close_scope`."""
        self._scope_count += 1
        self.scopes.append(self._scope_count)
        self.builder.push()

    def close_scope(self) -> tuple[Any, ...]:
        """End the innermost block and return its ops; its values are out of reach from then on."""
        self.scopes.pop()
        return self.builder.pop()

    @property
    def opened(self) -> int:
        """How many scopes were opened."""
        return self._scope_count

    # ---- tiles that were changed in place -----------------------------------------------------------

    def overwrite(self, tile: TileValue) -> None:
        """Note that Python's meaning changes ``tile`` here, which no name has from now on. Raises TraceError where each
        turn of a loop would change the same one again, or has read it by another name before."""
        found = self.changes.change(tile)
        if found is not None:
            raise self.was_overwritten(found)

    def was_overwritten(self, tile: TileValue) -> TraceError:
        """What is said where ``tile`` is used after it was changed in place."""
        return TraceError(CHANGED, got=repr(tile), where=self.location(), hint=CHANGED_HINT)

    def use(self, tile: TileValue) -> None:
        """Note that the code reads ``tile`` here. Raises TraceError where Python's meaning of it is another by now."""
        if self.changes.is_changed(tile):
            raise self.was_overwritten(tile)
        self.changes.use(tile)

    # ---- places to come back to ---------------------------------------------------------------------

    def mark(self) -> tuple[tuple[int, int], dict[str, int]]:
        """The place that the trace is at, to come back to by :meth:`rewind`."""
        return self.builder.mark(), self.names.snapshot()

    def rewind(self, mark: tuple[tuple[int, int], dict[str, int]]) -> None:
        """Go back to a place of the same scope: what was recorded since is dropped, its names are given again."""
        self.builder.rewind(mark[0])
        self.names.restore(mark[1])

    def checkpoint(self) -> Checkpoint:
        """All that the trace has, to come back to by :meth:`restore` out of whatever it was in the middle of."""
        own = (self.tiles, self.blocks, self.guards, self.value_names)
        tables = tuple(dict(d) for d in own)
        return Checkpoint(self.mark(), len(self.scopes), self.forced, tables, self.changes.snapshot())

    def restore(self, to: Checkpoint) -> None:
        """Be where the trace was, as if nothing had been recorded since."""
        depth = len(self.scopes) - to.depth
        del self.scopes[to.depth :]
        for _ in range(depth):
            self.builder.pop()
        self.rewind(to.mark)
        self.at(to.forced)
        self.changes.restore(to.changes)
        own: tuple[dict[Any, Any], ...] = (self.tiles, self.blocks, self.guards, self.value_names)
        for now, before in zip(own, to.tables, strict=True):
            now.clear()
            now.update(before)
