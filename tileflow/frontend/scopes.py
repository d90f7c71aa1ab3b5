"""Where a trace is: the block that ops go to, which tiles Python's meaning has changed, and places to come back to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Location, TraceError
from ..ir.graph import Builder, Tile
from ..ir.types import Value
from ..language.rules import CHANGED, CHANGED_HINT
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
        self.overwritten: dict[int, tuple[TileValue, int]] = {}  # by identity: tiles changed in place, and the scope
        self.written_through: dict[int, tuple[TileValue, int]] = {}  # likewise: tiles of which views were changed
        self.held: list[set[int]] = []  # of the loops around, the identities of what containers hold before them
        self.stands_for: dict[Value, TileValue] = {}  # of what a loop carries, the tile that its first turn has
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
        turn of a loop would change the same one again."""
        inside = self.scopes[self.scopes.index(tile.scope) + 1 :]
        if self.loops & {*inside} and not any(id(tile) in held for held in self.held):
            raise self.was_overwritten(tile)
        for base in _bases(tile):  # each turn would change it again
            if self.loops & {*self.scopes[self.scopes.index(base.scope) + 1 :]}:
                raise self.was_overwritten(base)
        changed: TileValue | None = tile
        while changed is not None:
            self.overwritten[id(changed)] = changed, self.scopes[-1]
            self.written_through.update((id(base), (base, self.scopes[-1])) for base in _bases(changed))
            changed = self.stands_for.get(changed.value)

    def note_views(self, found: Any, of: TileValue) -> None:
        """Note that the author's text made the tiles that it ``found`` as views of one in registers: of a part of a
        tensor, memory has what its names change."""
        if of.taken is not None:
            return
        for view in found if isinstance(found, (tuple, list)) else (found,):
            if getattr(view, "base", view) is None and view is not of:
                view.base = of

    def was_overwritten(self, tile: TileValue) -> TraceError:
        """What is said where ``tile`` is used after it was changed in place."""
        return TraceError(CHANGED, got=repr(tile), where=self.location(), hint=CHANGED_HINT)

    def is_overwritten(self, tile: TileValue) -> bool:
        """Whether Python's meaning of ``tile`` is another one by now: it was changed, a view of it was, or what it is a
        view of."""
        is_known = self.overwritten.get(id(tile), (tile, -1))[1] in self.scopes
        through = self.written_through.get(id(tile), (tile, -1))[1] in self.scopes
        return is_known or through or (tile.base is not None and self._is_changed(tile.base))

    def _is_changed(self, base: TileValue) -> bool:
        """Whether ``base`` itself was changed: what only a view of it changed, other views may not have."""
        return any(self.overwritten.get(id(one), (one, -1))[1] in self.scopes for one in (base, *_bases(base)))

    def hand_on(self, since: int) -> None:
        """What was changed in place in scopes that were opened after the first ``since``, and are closed, is so in the
        one around them."""
        for known in (self.overwritten, self.written_through):
            for key, (tile, scope) in list(known.items()):
                if scope > since and scope not in self.scopes:
                    known[key] = tile, self.scopes[-1]

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
        own = (self.tiles, self.blocks, self.guards, self.value_names, self.overwritten, self.written_through)
        return Checkpoint(self.mark(), len(self.scopes), self.forced, tuple(dict(d) for d in own))

    def restore(self, to: Checkpoint) -> None:
        """Be where the trace was, as if nothing had been recorded since."""
        depth = len(self.scopes) - to.depth
        del self.scopes[to.depth :]
        for _ in range(depth):
            self.builder.pop()
        self.rewind(to.mark)
        self.at(to.forced)
        own: tuple[dict[Any, Any], ...] = (
            *(self.tiles, self.blocks, self.guards, self.value_names),
            *(self.overwritten, self.written_through),
        )
        for now, before in zip(own, to.tables, strict=True):
            now.clear()
            now.update(before)


def _bases(tile: TileValue) -> Iterator[TileValue]:
    """The tiles that a tile is a view of, one after the other."""
    while tile.base is not None:
        tile = tile.base
        yield tile
