"""Which tiles Python's meaning has changed by now, under whatever name.

A tile is a value: what changes it in place, ``acc += 1``, binds one name anew. To Python all names of the tile are of
the changed one from then on, views of it too, so that a use by another name is refused. Names of one tile are known by
the objects that the author's code passes on, and where control flow makes others of them, by what these may be:

* ``base``: the tile that a view is of;
* ``same``: what a branch or a loop may leave a name with;
* ``entry``: what a name that a loop carries has in the first turn, and ``later``: tiles from outside the loop that it
  may have in the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .values import TileValue

Table = dict[int, tuple["TileValue", int]]  # by identity: tiles, each with a scope


class ChangedTiles:
    """``scopes``: those that the trace is inside of. ``loops``: of all scopes those of loops' bodies."""

    def __init__(self, scopes: Sequence[int], loops: set[int]) -> None:
        self.held: list[set[int]] = []  # of the loops around, the identities of what containers hold before them
        self._scopes, self._loops = scopes, loops
        self._changed: Table = {}
        self._through_views: Table = {}  # tiles of which views were changed
        self._in_later_turns: Table = {}  # tiles that later turns of a loop change
        self._used: Table = {}  # the innermost scope of the latest turn
        self._used_by_views: Table = {}

    # ---- uses and changes ---------------------------------------------------------------------------

    def use(self, tile: TileValue) -> None:
        """Note that the code reads ``tile`` here."""
        self._note(self._used, tile)
        for base in bases(tile):
            self._note(self._used_by_views, base)

    def _note(self, used: Table, tile: TileValue) -> None:
        known = used.get(id(tile), (tile, -1))[1]
        used[id(tile)] = tile, max(known, self._scopes[-1])

    def change(self, tile: TileValue) -> TileValue | None:
        """Note that Python's meaning changes ``tile`` here, which no name has from now on. Returns a tile of which each
        turn of a loop would change the same one again, or that a turn has read before it changes it; None without
        one."""
        is_held = any(id(tile) in held for held in self.held)
        found = list(self._ancestors(tile))
        for one, end, since in found:
            if not (one is tile and is_held) and self._is_of_all_turns(one, end):
                return one
            if since is not None and max(self._latest(self._used, one), self._latest(self._used_by_views, one)) >= since:
                return one
            for base in bases(one):
                if self._is_of_all_turns(base, end) or (since and self._latest(self._used, base) >= since):
                    return base
        for one, _, _ in found:
            self._changed[id(one)] = one, self._scopes[-1]
            for base in bases(one):
                self._through_views[id(base)] = base, self._scopes[-1]
        return next(filter(None, (self._change_later(one) for one, _, _ in found)), None)

    def _change_later(self, param: TileValue) -> TileValue | None:
        """Note that later turns change what ``param`` has in them. Returns one that a turn reads before; None else."""
        for one in param.later:
            uses = self._latest(self._used, one), self._latest(self._used_by_views, one)
            if param.scope not in self._scopes or max(uses) >= param.scope:
                return one
            if self._is_of_all_turns(one, self._scopes.index(param.scope)):
                return one
            self._in_later_turns[id(one)] = one, self._scopes[-1]
        return None

    def _ancestors(self, tile: TileValue) -> Iterator[tuple[TileValue, int, int | None]]:
        """What ``tile`` may be one with. Beside each: how many of the scopes around count for it, and the outermost of
        the loops that carry it."""
        todo: list[tuple[TileValue, int, int | None]] = [(tile, len(self._scopes), None)]
        seen = set[int]()
        while todo:
            one, end, since = todo.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one, end, since
            todo += [(other, end, since) for other in one.same]
            if one.entry is not None and one.scope in self._scopes:
                todo.append((one.entry, self._scopes.index(one.scope), one.scope))
            elif one.entry is not None:
                todo.append((one.entry, end, since))

    def _is_of_all_turns(self, tile: TileValue, end: int) -> bool:
        """Whether a loop, of the first ``end`` scopes, has the same tile in each of its turns."""
        if tile.scope not in self._scopes:
            return False
        return bool(self._loops & {*self._scopes[self._scopes.index(tile.scope) + 1 : end]})

    def _latest(self, used: Table, tile: TileValue) -> int:
        return used.get(id(tile), (tile, -1))[1]

    def is_changed(self, tile: TileValue) -> bool:
        """Whether Python's meaning of ``tile`` is another one by now: it was changed, a view of it was, or what it is a
        view of."""
        if not self._changed and not self._in_later_turns:
            return False
        if any(self._is_in(self._in_later_turns, one) for one in (tile, *bases(tile))):
            return True
        for one in ones(tile):
            if self._is_in(self._changed, one) or self._is_in(self._through_views, one):
                return True
            # what only a view of it changed, other views may not have
            if any(self._is_in(self._changed, same) for base in bases(one) for same in ones(base)):
                return True
        return False

    def was_changed(self, tile: TileValue) -> bool:
        """Whether ``tile`` itself was changed in whatever scope."""
        return id(tile) in self._changed

    def _is_in(self, table: Table, tile: TileValue) -> bool:
        return table.get(id(tile), (tile, -1))[1] in self._scopes

    # ---- places -------------------------------------------------------------------------------------

    def hand_on(self, since: int) -> None:
        """What was changed in scopes that were opened after the first ``since``, and are closed, is so in the one around
        them."""
        for known in self._tables:
            for key, (tile, scope) in list(known.items()):
                if scope > since and scope not in self._scopes:
                    known[key] = tile, self._scopes[-1]

    @property
    def _tables(self) -> tuple[Table, ...]:
        return self._changed, self._through_views, self._in_later_turns

    def snapshot(self) -> tuple[Table, ...]:
        """What is changed by now, to come back to by :meth:`restore`."""
        return tuple(dict(table) for table in self._tables)

    def restore(self, to: tuple[Table, ...]) -> None:
        """Let that be changed which was then."""
        for now, before in zip(self._tables, to, strict=True):
            now.clear()
            now.update(before)


def bases(tile: TileValue) -> Iterator[TileValue]:
    """The tiles that a tile is a view of, one after the other."""
    while tile.base is not None:
        tile = tile.base
        yield tile


def ones(tile: TileValue) -> Iterator[TileValue]:
    """The tiles that a tile may be one with, itself among them."""
    if not tile.same and tile.entry is None:
        yield tile
        return
    todo, seen = [tile], set[int]()
    while todo:
        one = todo.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += one.same if one.entry is None else (*one.same, one.entry)


def related(tile: TileValue) -> Iterator[TileValue]:
    """The tiles that a tile may be one with, and those that they may be views of."""
    for one in ones(tile):
        yield one
        for base in bases(one):
            yield from ones(base)
