"""Rules that the eager and the compiled meaning of an index share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from ..runtime.numpy_numbers import plain_argument

# What another dialect means by the same text, while its kernels are traced or run as plain Python:
# 1-D tiles of ints of no loop, as of ``arange(8)``, are an outer product in an index even where their sizes agree.
OUTER_CONSTANTS: ContextVar[bool] = ContextVar("OUTER_CONSTANTS", default=False)

ONCE = "the index of a store or an atomic names a loop's lanes in one dimension, unless it spells out pairs"


def named_twice(lanes: Sequence[object], items: Sequence[tuple[int, ...]]) -> int | None:
    """The first dimension of an index by itself whose lanes another dimension is of too, as those of ``out[t, y[t]]``;
    None where there is none. ``lanes``: of each dimension, None where it is of no loop. ``items``: the dimensions that
    each item of the index has; those that ``[:, None]`` made pairs of have several."""
    alone = sorted({axes[0] for axes in items if len(axes) == 1})
    return next((a for a in alone if lanes[a] is not None and list(lanes).count(lanes[a]) > 1), None)


def most_behind(items: Sequence[tuple[int, ...]], is_own: Sequence[bool]) -> int:
    """How many dimensions a loaded index has behind those of a loop's lanes, at most. ``items``: the dimensions that
    each item of the index has; ``is_own``: of each dimension, whether it is of that loop."""
    return max((len(axes) - 1 - n for axes in items for n, axis in enumerate(axes) if is_own[axis]), default=0)


def once_hint(tile: str, behind: int = 0) -> str:
    """How to write one element for each lane, and all pairs. ``behind``: the dimensions of the loaded index ``y``
    behind the tile's own."""
    rows, loaded = lane_index(tile, behind), loaded_index(tile, behind)
    pairs = lane_index(tile, behind + 1)
    return f"one element for each lane of {tile}: out[{rows}, {loaded}]; all pairs: out[{pairs}, {loaded}[None, :]]"


def lane_index(tile: str, behind: int) -> str:
    """A tile's lanes against an index that has so many dimensions ``behind`` these."""
    return f"{tile}.index" + (f"[:{', None' * behind}]" if behind else "")


def loaded_index(tile: str, behind: int) -> str:
    """An index that was loaded by a tile, with so many whole dimensions ``behind`` its own."""
    return f"y[{tile}{', :' * behind}]"


IMPLEMENTED = "a tile has torch's methods that tileflow implements"


def instead_of_in_place(plain: str) -> str:
    """What to write for a method that changes a tile, of which ``plain`` gives a new one."""
    return f"a tile is a value: assign it, x = x.{plain}(...)"


CHANGED = "a tile that was changed in place, by inplace=True or by +=, is not used again under another name"
CHANGED_HINT = (
    "use the result: v = F.relu(v), and of a function what it returns: x = f(x); two names are of two tiles by "
    "b = a.clone(), or where a = a + 1 makes another; a view of a tile, a.T or a[:, None], is another name of it"
)


def outside(what: str) -> str:
    """The rule of the language's functions of a tensor and an index. ``what``: the function, and what it does."""
    return f"{what} a tensor that reaches the kernel from outside"


def and_the_index(what: str) -> str:
    """What to write for such a function of a tile."""
    calls = {"tfl.load": "tfl.load(x, [tile])", "tfl.store": "tfl.store(out, [tile], value)"}
    return f"pass it and the index: {calls.get(what.partition(' ')[0], 'tfl.atomic_add(out, [tile], 1)')}"


PART_CHANGED = "an operator that assigns gives a name another tile, where torch changes the tensor that it is a part of"


def instead_of_changing_a_part(what: str) -> str:
    """What to write for ``part += value``."""
    plain = what.removesuffix("=")
    return f"part[...] {what} value stores there; row = part {plain} value, or row = part.clone(), is a tile of its own"


BLOCK_CHANGED = "a method in place changes what a name has in registers, where torch changes the tensor that has it too"


def instead_of_changing_a_block(name: str) -> str:
    """What to write for ``block.add_(value)`` of a block in registers, ``block = x[t, :]``."""
    stores = f"x[t, :].{name}(...), by the index itself, stores, as x[t, :] = value does"
    return f"{stores}; x[t, :].clone() is a tile of its own"


OF_A_COPY = "a method changes in place what brackets name in memory, where torch has a view: by ints, slices and tiles"
OF_A_COPY_HINT = "out[index] += value stores, as do out[index] = value, and tfl.atomic_add where places meet"
KEEPS_ITS_TILES = "a method in place gives a container another tile, and a tuple keeps its items"
KEEPS_ITS_TILES_HINT = "hold the tiles in a list; or name one, tile = parts[0], and change that"


PART_IN_TURNS = "a name that is stored through is of one part of a tensor in all turns of a loop"
TAKEN_ANEW = "take the part inside the loop, or give the other one another name"
PART_STALE = "in plain Python a part of a tensor that is stored through is taken after all else that stores there"
STALE_HINT = "take it anew behind the other store, part = x[i]; or store by that name alone"

REACHED = "device code reads tensors that reach it as arguments or variables of the kernel"
GLOBAL_HINT = (
    "a launch captures the tensors that its kernel and the functions that it calls name, or are passed: a private one "
    "of a class is passed, or named by a variable of the kernel, bias = Constants._bias, that they read"
)


def found_elsewhere(what: str) -> str:
    """What was done to a tensor that no launch captures."""
    return f"torch.{what} on a tensor found elsewhere"


NO_OUT = "a tile is a value: a torch function in a tile loop gives its result, and takes no out="
ASSIGNED_HINT = "assign the result: y[tile] = torch.add(a, b)"
KEPT = "a tile keeps its shape under an operator that assigns, as in torch"


def instead_of_growing(op: str) -> str:
    """What to write for ``a op= b`` where ``a op b`` has another shape than ``a``."""
    return (
        f"write a = a {op} b, which gives the name another tile; what a tensor takes has its index's shape: reduce it"
    )


FORWARDS = "a slice in device code has a step of 1 or more"
FORWARDS_IN_A_TILE = "a slice of a tile in registers has elements, in order: its step is 1 or more"
BACKWARDS_IN_A_TILE = "torch.flip reverses a dimension"
BACKWARDS = "gather: x[tile, n - 1 - tfl.arange(n)], or torch.flip on the tile"
AS_WIDE = "a tile is reinterpreted as a dtype of the same width"
CONVERTED = "convert by .to(dtype)"
MEET = "dimensions that meet must have the same size"
ALIGNED = "shapes align at the right: [:, None] puts a dimension of 1 at the end, [None, :] in front"
ORDER = "tiles that meet, and a tile and the index that it is stored to, have their dimensions in one order"
TURNED = "turn one of them: .T, or .permute(1, 0)"
INDEX = "an index is a tile, a slice, an int, a size or a tile of ints"
INDEX_OF_A_TILE = "a tile in registers is indexed by slices, None, ints, and one tile of ints or several loops' tiles"
_MOST_SHOWN = 60  # characters of a list that a hint repeats


def flatten(index: Any, is_traced: Callable[[Any], bool], is_size: Callable[[Any], bool]) -> list[Any]:
    """An index as a flat list; a tuple of tiles inside, as a loop over several gives, counts as its tiles.

    A list of numbers stays one item, also where they are sizes: it would name elements, and is no part of an index.
    """
    flat: list[Any] = []
    index = plain_argument(index)
    for item in index if isinstance(index, tuple) else (index,):
        parts = item if isinstance(item, (tuple, list)) else ()
        known = all(is_traced(i) or is_size(i) for i in parts)
        if isinstance(item, (tuple, list)) and known and (not parts or any(map(is_traced, parts))):
            flat.extend(item)
        else:
            flat.append(item)
    return flat


def instead_of_item(item: Any, is_size: Callable[[Any], bool]) -> str:
    """What to write in an index for what is none of its items."""
    if not isinstance(item, (list, tuple)):
        return "write x[tile, 0]; convert floats by .int()"
    return of_numbers(item, is_size) or "load several elements by a slice or a tile of ints"


def of_numbers(item: Any, is_size: Callable[[Any], bool]) -> str:
    """What to write for a list of ints in an index; empty for anything else."""
    if not isinstance(item, (list, tuple)) or not item or not all(map(is_size, item)):
        return ""
    known = [i for i in item if type(i) is int]
    if any(i < 0 for i in known):
        return "a list of ints as a tile of them, torch.tensor([...]), counted from the start: -1 as x.size(dim) - 1"
    text = repr(known) if len(known) == len(item) else ""
    return f"a list of ints as a tile of them: torch.tensor({text if 0 < len(text) <= _MOST_SHOWN else '[...]'})"


def instead_of_item_of_a_tile(item: Any, is_size: Callable[[Any], bool], is_mask: bool) -> str:
    """What to write in the index of a tile for what is none of its items."""
    if is_mask:
        return "torch.where(mask, x, 0) keeps the shape; tfl.store(out, index, x, extra_mask=mask) writes some"
    return (
        of_numbers(item, is_size)
        or "index the tensor once, w[i, rows, columns] for w[i][rows, columns]; "
        "or use torch.gather, torch.chunk, or torch.where and a sum"
    )


def takes_a_dim(name: str) -> str:
    """The rule of a function of the elements of a row, as the median, that has no meaning for a whole tile."""
    return f"{name} takes a dim, or a tile of one"


def along_a_row(name: str) -> str:
    """What to write for such a function without a dim."""
    call = "torch.quantile(x, q, dim)" if name == "quantile" else f"x.{name}(dim)"
    return f"along a dimension of a constant size: {call}; how many rows a tile has is the config's choice"


OF_ROWS = frozenset({"median", "nanmedian", "quantile", "nanquantile"})  # that torch takes of all elements, too
