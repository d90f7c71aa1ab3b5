"""What changes a tile in place, ``tile += 1`` and ``tile.add_(1)``: a tile is a value, so that the name is bound to
another one. The one before is, to torch, changed: no other name has it from then on, nor a caller, for they would have
what it was."""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch

from ..errors import TraceError
from .cuts import Spans, are_apart
from .rules import CHANGED, CHANGED_HINT

_LOADS = ("LOAD_METHOD", "LOAD_ATTR")
_OPERATORS = ("BINARY_OP", "COMPARE_OP", "UNARY_", "CONTAINS_OP")


def is_in_place(name: str) -> bool:
    """Whether a method of that name changes its tensor."""
    return name.endswith("_") and not name.endswith("__")


def root_of(call: ast.expr) -> ast.expr | None:
    """What a chain of such methods changes, ``acc`` of ``acc.add_(1).neg_()``; None of all else."""
    match call:
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if is_in_place(method):
            return root_of(inner) or inner
    return None


def authors(frame: FrameType) -> FrameType:
    """The author's frame, around those of torch's own text."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
        frame = frame.f_back
    return frame


def is_operator(frame: FrameType) -> bool:
    """Whether the author's code runs an operator there, whatever of torch's is between."""
    frame = authors(frame)
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(_OPERATORS)


def is_statement(frame: FrameType, tile: torch.Tensor, name: str) -> bool:
    """Whether the author's code calls the method ``name`` of a variable's tile, or of what brackets or a name of a part
    of a tensor name in memory, and uses its result no further but for another such method:
    ``acc.clamp_(min=0).add_(1)``."""
    frame = authors(frame)
    is_named = hasattr(tile, "tileflow_place") or hasattr(tile, "tileflow_part")
    is_named = is_named or any(item is tile for held in frame.f_locals.values() for item in _items(held))
    return is_named and _is_dropped(frame.f_code, frame.f_lasti, name)


def _items(held: Any) -> Iterable[Any]:
    """What a variable holds: itself, or what a list or a dictionary does, which may get another item."""
    return held if isinstance(held, list) else held.values() if isinstance(held, dict) else (held,)


@lru_cache(maxsize=1024)
def _is_dropped(code: CodeType, at: int, name: str) -> bool:
    known = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    is_method = any(step.argval == name for step in known if step.offset <= at and step.opname in _LOADS)
    then = next((step for step in known if step.offset > at), None)
    if then is None or not is_method:
        return False
    return then.opname == "POP_TOP" or (then.opname in _LOADS and is_in_place(str(then.argval)))


def put(tile: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """``tile``, which is what was ``made`` from now on. Views of it stay what they were, and are not used again."""
    tile.data = made
    vars(tile).pop("tileflow_part", None)  # a tile of its own, wherever it was loaded from
    vars(tile).update(vars(made))
    vars(tile)["tileflow_turn"] = _turn(tile) + 1
    _note_written(tile)
    return tile


def note_changed(tile: torch.Tensor) -> None:
    """Note that an operator changes ``tile``."""
    tile.tileflow_changed = True  # type: ignore[attr-defined]
    _note_written(tile)


def note_views(found: Any, of: torch.Tensor, cut: Spans | None = None) -> None:
    """Note that the author's text made the tiles that it ``found`` as views of one. ``cut``: what one view names;
    several are apart."""
    several, call = isinstance(found, (tuple, list)), object()
    for number, view in enumerate(found if several else (found,)):
        if isinstance(view, torch.Tensor) and view is not of and not hasattr(view, "tileflow_base"):
            view.tileflow_base = of, _turn(of)  # type: ignore[attr-defined]
            view.tileflow_cut = {call: (number, number + 1, 1)} if several else cut or {}  # type: ignore[attr-defined]


def check_unchanged(args: Iterable[Any]) -> None:
    """Raises TraceError where a tile among ``args`` is one that was changed, that a view of was, or that is a view of
    one that was."""
    for tile in args:
        if isinstance(tile, torch.Tensor) and _is_changed(tile):
            raise TraceError(CHANGED, got=f"a tile of shape {tuple(tile.shape)}", hint=CHANGED_HINT)


def _is_changed(tile: torch.Tensor) -> bool:
    if hasattr(tile, "tileflow_changed") or hasattr(tile, "tileflow_written"):
        return True
    for base, since in _bases(tile):
        views = getattr(base, "tileflow_written", ())
        if hasattr(base, "tileflow_changed") or _turn(base) != since:
            return True
        if any(view is not tile and not are_apart(_cut(view), _cut(tile)) for view in views):
            return True
        tile = base
    return False


def _bases(tile: torch.Tensor) -> Iterator[tuple[torch.Tensor, int]]:
    """The tiles that a tile is a view of, one after the other, and how often each had been changed by then."""
    while (known := getattr(tile, "tileflow_base", None)) is not None:
        yield known
        tile = known[0]


def is_loaded(tile: torch.Tensor, but_blocks: bool = False) -> bool:
    """Whether a tile, or what it is a view of, was loaded by an index of which torch has a view: of any, or only of one
    without a loop's tile."""
    kinds = [getattr(one, "tileflow_loaded", None) for one in (tile, *(base for base, _ in _bases(tile)))]
    return any(is_block is not None and not (is_block and but_blocks) for is_block in kinds)


def _cut(view: torch.Tensor) -> Spans:
    """What a view names of the tile that it is of."""
    cut: Spans = view.tileflow_cut  # type: ignore[attr-defined]
    return cut


def _turn(tile: torch.Tensor) -> int:
    """How often a method has changed the tile."""
    turn: int = getattr(tile, "tileflow_turn", 0)
    return turn


def _note_written(tile: torch.Tensor) -> None:
    """Note that what a tile is a view of is changed with it."""
    for base, _ in _bases(tile):
        base.tileflow_written = (*getattr(base, "tileflow_written", ()), tile)  # type: ignore[attr-defined]
        tile = base
