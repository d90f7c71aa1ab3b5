"""Which tiles Python's meaning has changed by now, under whatever name.

A tile is a value: what changes it in place, ``acc += 1``, binds one name anew. To Python all names of the tile are of
the changed one from then on, views of it too, so that a use by another name is refused. Names of one tile are known by
the objects that the author's code passes on, and where control flow makes others of them, by what these may be:

* ``base``: the tile that a view is of, and ``cut``: what it names of that;
* ``same``: what a branch or a loop may leave a name with;
* ``entry``: what a name that a loop carries has in the first turn, and ``later``: tiles from outside the loop that it
  may have in the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..language.cuts import are_apart

if TYPE_CHECKING:
    from .values import TileValue

Uses = dict[int, tuple["TileValue", int]]  # by identity: tiles, each with the innermost scope of the latest turn
Changes = dict[int, tuple["TileValue", frozenset[int]]]  # by identity: tiles, each with the scopes that change it
Snapshot = tuple[Changes, Changes, dict[int, Changes]]


class ChangedTiles:
    """``scopes``: those that the trace is inside of. ``loops``: of all scopes those of loops' bodies."""

    def __init__(self, scopes: Sequence[int], loops: set[int]) -> None:
        self.held: list[set[int]] = []  # of the loops around, the identities of what containers hold before them
        self._scopes, self._loops = scopes, loops
        self._changed: Changes = {}
        self._changed_views: dict[int, Changes] = {}  # by the identity of the tile that they are of
        self._in_later_turns: Changes = {}  # tiles that later turns of a loop change
        self._used: Uses = {}
        self._used_views: dict[int, Uses] = {}

    # ---- uses and changes ---------------------------------------------------------------------------

    def use(self, tile: TileValue) -> None:
        """Note that the code reads ``tile`` here."""
        self._note(self._used, tile)
        for view in _views(tile):
            self._note(self._used_views.setdefault(id(view.base), {}), view)

    def _note(self, used: Uses, tile: TileValue) -> None:
        known = used.get(id(tile), (tile, -1))[1]
        used[id(tile)] = tile, max(known, self._scopes[-1])

    def change(self, tile: TileValue) -> TileValue | None:
        """Note that Python's meaning changes ``tile`` here, which no name has from now on. Returns a tile of which each
        turn of a loop would change the same one again, or that a turn has read before it changes it; None without
        one."""
        found = list(self._ancestors(tile))
        for one, end, since in found:
            is_held = any(id(one) in held for held in self.held)  # a container gets another in its place
            if not is_held and self._is_of_all_turns(one, end):
                return one
            if since is not None and self._latest_use(one) >= since:
                return one
            for view, base in zip(_views(one), bases(one), strict=True):
                if self._is_of_all_turns(base, end) or (since is not None and self._latest_use(base, view) >= since):
                    return base
        for one, _, _ in found:
            self._mark(self._changed, one)
            for view in _views(one):
                self._mark(self._changed_views.setdefault(id(view.base), {}), view)
        return next(filter(None, (self._change_later(one) for one, _, _ in found)), None)

    def _change_later(self, param: TileValue) -> TileValue | None:
        """Note that later turns change what ``param`` has in them. Returns one that a turn reads before; None else."""
        for one in param.later:
            if param.scope not in self._scopes or self._latest_use(one) >= param.scope:
                return one
            if self._is_of_all_turns(one, self._scopes.index(param.scope)):
                return one
            self._mark(self._in_later_turns, one)
        return None

    def _mark(self, changes: Changes, tile: TileValue) -> None:
        _, scopes = changes.get(id(tile), (tile, frozenset()))
        changes[id(tile)] = tile, scopes | {self._scopes[-1]}

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

    def _latest_use(self, tile: TileValue, changed: TileValue | None = None) -> int:
        """The innermost scope of its uses by name, and by all views of it; where only the view ``changed`` of it is
        changed, by those that may have elements of that."""
        uses = [self._used[id(tile)]] if id(tile) in self._used else []
        uses += self._used_views.get(id(tile), {}).values()
        return max((scope for one, scope in uses if changed is None or _meets(one, changed)), default=-1)

    def is_changed(self, tile: TileValue) -> bool:
        """Whether Python's meaning of ``tile`` is another one by now: it was changed, a view of it was, or what it is a
        view of."""
        if not self._changed and not self._in_later_turns:
            return False
        if any(self._is_in(self._in_later_turns, one) for one in (tile, *bases(tile))):
            return True
        for one in ones(tile):
            if self._is_in(self._changed, one) or self._has_changed_view(one):
                return True
            for view, base in zip(_views(one), bases(one), strict=True):
                if self._has_changed_view(base, view) or any(self._is_in(self._changed, same) for same in ones(base)):
                    return True
        return False

    def _has_changed_view(self, base: TileValue, view: TileValue | None = None) -> bool:
        """Whether a view of ``base`` was changed; given another ``view``, one that may have elements of that."""
        changed = self._changed_views.get(id(base), {}).values()
        return any(self._are_open(scopes) and (view is None or _meets(one, view)) for one, scopes in changed)

    def was_changed(self, tile: TileValue) -> bool:
        """Whether ``tile`` itself was changed in whatever scope."""
        return id(tile) in self._changed

    def _is_in(self, changes: Changes, tile: TileValue) -> bool:
        return id(tile) in changes and self._are_open(changes[id(tile)][1])

    def _are_open(self, scopes: frozenset[int]) -> bool:
        return not scopes.isdisjoint(self._scopes)

    # ---- places -------------------------------------------------------------------------------------

    def hand_on(self, since: int) -> None:
        """What was changed in scopes that were opened after the first ``since``, and are closed, is so in the one
        around them."""
        for known in (self._changed, self._in_later_turns, *self._changed_views.values()):
            for key, (tile, scopes) in known.items():
                known[key] = tile, frozenset(self._around(scope, since) for scope in scopes)

    def _around(self, scope: int, since: int) -> int:
        return self._scopes[-1] if scope > since and scope not in self._scopes else scope

    def snapshot(self) -> Snapshot:
        """What is changed by now, to come back to by :meth:`restore`."""
        views = {key: dict(table) for key, table in self._changed_views.items()}
        return dict(self._changed), dict(self._in_later_turns), views

    def restore(self, to: Snapshot) -> None:
        """Let that be changed which was then."""
        changed, later, views = to
        self._changed, self._in_later_turns = dict(changed), dict(later)
        self._changed_views = {key: dict(table) for key, table in views.items()}


def _meets(one: TileValue, view: TileValue) -> bool:
    """Whether two views of one tile, or that tile itself and a view, may have an element in common. Of views of one
    view those two are asked about."""
    return one is not view and (one.base is not view.base or not are_apart(one.cut, view.cut))


def _views(tile: TileValue) -> Iterator[TileValue]:
    """Of the tiles that a tile is a view of, one after the other, the view that is next to each."""
    while tile.base is not None:
        yield tile
        tile = tile.base


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
