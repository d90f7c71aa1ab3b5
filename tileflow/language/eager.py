"""The eager meaning: the user's own function on torch tensors, with real tiles.

Inside :func:`session` the language's functions work on tensors, one tile after another, so that ``print`` and
``breakpoint()`` stand where the author wrote them and a tile at the end of a size is as short as it really is.
"""

from __future__ import annotations

import linecache
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial, wraps
from itertools import islice
from math import prod
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..config import Choice
from ..errors import CallError, ShapeError, TileflowError, TraceError
from ..lazy_dataclass import dataclass
from ..runtime.ambient import draw_seed
from ..runtime.numpy_numbers import plain_argument
from .alignment import opposite
from .askers import Asker, asker, is_ours, kind_of
from .assignments import ASSIGNED, instead_of_a_view, instead_of_assignment
from .captured_views import BY_ITEM, by_item, name_of_view, spelled_view, taken
from .dim_identity import BLOCK, Lanes, lanes_of, tag, tensors_of
from .eager_gathers import gathered, is_gather
from .eager_indexing import DeviceInt, IndexedElements, TileEnd, TileLike, is_size, is_traced, lanes_by, tile_between
from .eager_parts import Part, check_kept, follow, is_outside, note_read, part_of, place_of_store, take
from .global_tensors import check_reached
from .host_cuda import is_torchs
from .host_device import ASKING, MOVING, asked_by_own_mode, behind, host_device, speaks_to
from .in_place import check_unchanged, is_in_place, is_operator, note_changed, put
from .jagged import followed
from .knob_names import CallSite, KernelText, KnobNames
from .operand_dtypes import Operand, check_dtypes
from .partial_tiles import fitted, keep_partial, widen
from .places import place_of
from .rules import (
    AS_WIDE,
    ASSIGNED_HINT,
    CONVERTED,
    INDEX_OF_A_TILE,
    KEPT,
    NO_OUT,
    OF_ROWS,
    along_a_row,
    and_the_index,
    flatten,
    instead_of_growing,
    instead_of_in_place,
    instead_of_item_of_a_tile,
    outside,
    takes_a_dim,
)
from .stable_sorts import is_sort, sorted_stably
from .stored_names import stored_through
from .torch_rules import TorchRules
from .unsigned import computed

DEFAULT_BLOCK = 32
INT32_MAX = 2**31 - 1
_PACKAGE = __package__.partition(".")[0]


@dataclass(slots=True)
class Session:
    """One call of the function whose code is ``kernel``. ``launches``: the lines of each. ``loops``: of those that are
    running, the tiles. ``by_torch``: whether a reference runs, which stands for what is no PyTorch and may say all that
    torch can."""

    device: torch.device
    kernel: CodeType
    knobs: KnobNames
    launches: tuple[range, ...]
    rules: TorchRules
    loops: list[tuple[EagerTile, ...]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)  # of the outermost loop that runs, once torch's generator was asked
    by_torch: bool = False


# The user's own function takes no context, so its language calls find the session here.
_SESSION: ContextVar[Session | None] = ContextVar("tileflow_eager_session", default=None)


@dataclass(frozen=True, slots=True)
class EagerTile(TileLike):
    """A run of indices ``begin .. end - 1``; ``block_size`` is how long it would be in the middle of the loop, which
    goes from ``first`` up to ``limit``."""

    begin: int
    end: int
    block_size: int
    id: int
    count: int
    device: torch.device
    limit: int
    lanes: Lanes = field(default_factory=Lanes, compare=False)
    first: int = 0

    @property
    def index(self) -> torch.Tensor:
        """The indices, shape (end - begin,); int32, or int64 where the loop goes beyond."""
        dtype = torch.int32 if max(self.limit, self.end) <= INT32_MAX else torch.int64
        return tag(torch.arange(self.begin, self.end, dtype=dtype, device=self.device), (self.lanes,))

    def __add__(self, offset: int) -> EagerTile:
        return replace(self, begin=self.begin + offset, end=self.end + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> EagerTile:
        return self + -offset

    def __len__(self) -> int:
        return int(self.end) - int(self.begin)

    __index__ = __len__  # in shapes: x.expand(tile, 4)


class _EagerMode(TorchFunctionMode):
    """Indexing by the language's rules in device code, and half operands that accumulate into float32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, frame, its = kwargs or {}, sys._getframe(1), current("tile")
        if kind_of(frame) is not Asker.AUTHOR:
            frame = behind(frame)
        host = host_device()
        if host is not None and (func in ASKING or func in MOVING or "device" in kwargs):
            module = frame.f_globals.get("__name__") or ""
            if speaks_to(module):
                if func in ASKING:
                    if its.loops and not is_torchs(module):
                        its.rules.check_call(func, args, kwargs, frame, its.kernel)
                    return host.told(func, args, module)
                func, args, kwargs = host.moved(func, args, kwargs)
        if not its.loops:
            return _call(func, args, kwargs)
        if is_ours(asker(frame)):
            return _as_tiles(_call(func, args, kwargs), args)
        name = func.__name__
        if its.by_torch:
            is_torchs_own = is_in_place(name) and not is_operator(frame)
            found = _call(func, args, kwargs) if is_torchs_own else self._in_device_code(func, args, kwargs)
            return _as_tiles(found, args)
        check_reached(args, name, frame, its.kernel, its.launches)
        check_unchanged(args)
        note_read(func, args)
        if kwargs and kwargs.get("out") is not None:
            raise TraceError(NO_OUT, got=f"torch.{name}(..., out=...)", hint=ASSIGNED_HINT)
        its.rules.check_call(func, args, kwargs, frame, its.kernel)
        check_dtypes(name, _operands(args, kwargs))
        _check_dim(name, args, kwargs)
        if (view := name_of_view(func)) and isinstance(args[0], torch.Tensor) and _is_captured(args[0]):
            return _view(view, args[0], args[1:], kwargs)
        _check_bits(name, args, kwargs)
        _check_part(name, args[0] if args else None, frame)
        found = self._in_device_code(func, args, kwargs)
        follow(func, args, kwargs, found)
        if not any(True for _ in tensors_of((*args, *kwargs.values()))):
            its.rules.check_made(func, found, frame)
        if is_in_place(name):
            found = put(args[0], found) if name not in _AUGMENTED or not is_operator(frame) else found
        if name in _AUGMENTED and found is not args[0]:
            note_changed(args[0])
        return _as_tiles(found, args)

    def _in_device_code(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is torch.Tensor.__bool__ and args[0].numel() != 1:
            raise TraceError(
                "an if, and, or, not, while and a chained comparison in device code take scalars",
                got=f"a tile of shape {tuple(args[0].shape)}",
                hint="choose per element with torch.where(condition, a, b); conditions are (a) & (b), (a) | (b), ~a; "
                "in a function outside the kernel max and min of tiles are torch.maximum, torch.minimum, torch.clamp",
            )
        if func in RANDOM:
            return RANDOM[func](*args, **kwargs)
        args = widened(plain_argument(args))
        kwargs = {name: widened(plain_argument(value)) for name, value in kwargs.items()}
        if func in _FACTORIES:
            return _made(func, args, kwargs)
        if func is torch.arange:
            return _counted(args, kwargs)
        if func in _OF_NUMBERS:
            kwargs = {"device": current(func.__name__).device, **kwargs}
        if func.__name__ in _RESHAPES and not kwargs:
            if (whole := _as_whole(func, *args)) is not None:
                return whole
            return _reshaped(func, args)
        if func.__name__ in _EXPANDS and not kwargs:
            return _of_sizes(_followed(func, args, {}, lambda *given: _call(func, given, {})), args)
        if func is torch.Tensor.__getitem__:
            return _read(*args)
        if func is torch.Tensor.__setitem__:
            return _write(*args)
        if func.__name__ in _AUGMENTED and not kwargs and len(args) == 2:
            return _augmented(func, *args)
        if is_in_place(func.__name__):
            return self._in_device_code(_changed(func.__name__), args, kwargs)
        if is_sort(func):
            return _followed(func, args, kwargs, lambda *args, **kwargs: sorted_stably(computed, func, args, kwargs))
        if is_gather(func):
            return _followed(func, args, kwargs, lambda *args, **kwargs: gathered(computed, func, args, kwargs))
        return _followed(func, args, kwargs, lambda *args, **kwargs: _call(func, args, kwargs))


def _operands(args: Any, kwargs: Any) -> Iterator[Operand]:
    """The operands of a call that have a dtype."""
    tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
    return (Operand(str(x.dtype).removeprefix("torch."), bool(x.ndim)) for x in tensors)


def _check_dim(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises TraceError for the median of a whole tile: how many rows that has is the config's choice."""
    if name not in OF_ROWS or not args or not isinstance(args[0], torch.Tensor) or args[0].ndim < 2:
        return
    if kwargs.get("dim") is None and len(args) == 1 + name.endswith("quantile") - ("q" in kwargs):
        raise TraceError(takes_a_dim(name), got=f"a tile of shape {tuple(args[0].shape)}", hint=along_a_row(name))


def _as_tiles(found: Any, args: Sequence[Any]) -> Any:
    """What a function of torch's gave in a tile loop: the tensors in it that it was not given are tiles."""
    if found.__class__ is torch.Tensor and not any(found is given for given in args):
        return tile_of(found)
    for out in tensors_of(found if isinstance(found, (tuple, list)) else (found,)):
        if not any(out is given for given in args):
            tile_of(out)
    return found


def tile_of(tensor: torch.Tensor, kept: tuple[bool, ...] = ()) -> torch.Tensor:
    """Say that a tensor is a tile in registers; returns it. ``kept``: of each dimension of the tensor in memory that it
    was just loaded from, whether the index left it."""
    if not hasattr(tensor, "tileflow_kept"):
        tensor.tileflow_kept = kept  # type: ignore[attr-defined]
    return tensor


def _is_captured(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one that host code made or was given, and no tile."""
    return not hasattr(tensor, "tileflow_kept")


def _view(name: str, tensor: torch.Tensor, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A view of a captured tensor; by a scalar of the kernel what brackets give."""
    if name in BY_ITEM and any(isinstance(x, (DeviceInt, torch.Tensor)) for x in (*args, *kwargs.values())):
        return _read(tensor, by_item(name, tensor.ndim, args, kwargs))
    return taken(tensor, spelled_view(name, args, kwargs, "x"), "x")


def _read(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``. Raises TraceError for what a tile in registers is not indexed by."""
    if not hasattr(tensor, "tileflow_kept"):
        found = IndexedElements(tensor, index, reads=True)
        return _taken(tile_of(found.read(), found.kept), None, found)
    for item in flatten(index, is_traced, is_size):
        is_mask = isinstance(item, torch.Tensor) and item.dtype is torch.bool
        if is_mask or isinstance(item, (list, tuple)):
            got = f"a tile of bool of shape {tuple(item.shape)}" if isinstance(item, torch.Tensor) else f"{item!r}"
            hint = instead_of_item_of_a_tile(item, is_size, is_mask)
            raise TraceError(INDEX_OF_A_TILE, got=got[:100], hint=hint)
    tile = tile_of(IndexedElements(tensor, index, reads=True).read())
    whole, place = part_of(tensor) or (None, None)
    return tile if place is None else _taken(tile, whole, IndexedElements(place, index, reads=True))


def _taken(tile: torch.Tensor, whole: Part | None, found: IndexedElements) -> torch.Tensor:
    """``tile``, which brackets give of a tensor, or of its part ``whole``, with its place in memory noted."""
    place = found.view()
    if place is None:
        return tile
    part = take(tile, place, whole, found.is_outside)
    code, at = author().f_code, author().f_lasti // 2
    line, last, column, end = next(islice(code.co_positions(), at, None))
    if (line, column, last, end) in stored_through(code.co_filename):
        part.store()
    return tile


def _write(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value``. Raises TraceError for a tile in registers."""
    kept: tuple[bool, ...] | None = getattr(tensor, "tileflow_kept", None)
    if kept is None:
        return IndexedElements(tensor, index).write(value)
    place = place_of_store(tensor)
    if place is not None:
        value = value.clone() if isinstance(value, torch.Tensor) and part_of(value) is not None else value
        return None if is_outside(tensor) else IndexedElements(place, index).write(value)
    site = caller()
    view = instead_of_a_view(linecache.getline(site.file, site.line), kept)
    general = instead_of_assignment(index, tensor.ndim, value.ndim if isinstance(value, torch.Tensor) else 0)
    raise TraceError(ASSIGNED, got=f"a tile of shape {tuple(tensor.shape)}", hint=view or general)


# torch's functions that draw random numbers, and what they mean in device code: random registers them
RANDOM: dict[Any, Callable[..., torch.Tensor]] = {}


_RESHAPES = frozenset({"reshape", "view"})
_EXPANDS = frozenset({"expand", "broadcast_to"})


def _check_bits(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises TraceError for a tile's bits as a dtype of another width."""
    dtype = kwargs.get("dtype", args[-1]) if name == "view" and args else None
    if isinstance(dtype, torch.dtype) and args[0].dtype.itemsize != dtype.itemsize:
        raise TraceError(AS_WIDE, got=f"{args[0].dtype} as {dtype}".replace("torch.", ""), hint=CONVERTED)


def _as_whole(func: Any, tensor: torch.Tensor, *sizes: Any) -> torch.Tensor | None:
    """A slice by block sizes under its tiles' dimensions, ``x[t.begin * 2 : t.begin * 2 + 2 * b].reshape(t, 2)``: at a
    loop's end it is longer than they are, until it meets one of them. None where it is not."""
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    there = lanes_of(tensor)
    short = [isinstance(s, EagerTile) and len(s) < s.block_size and s.lanes not in there for s in shape]
    whole = [size.block_size if cut else size for size, cut in zip(shape, short, strict=True)]
    if not any(short) or not tensor.numel() or prod(int(size.__index__()) for size in whole) != tensor.numel():
        return None  # no elements are as many by either length
    own = tuple(BLOCK if cut else getattr(size, "lanes", None) for size, cut in zip(shape, short, strict=True))
    made: torch.Tensor = _call(func, (tensor, whole), {})
    return tag(made, own)


def _reshaped(func: Any, args: Sequence[Any]) -> Any:
    """A reshape, its dimensions tagged by the block sizes among its sizes."""
    cut = _as_short(*args)
    return _of_sizes(_followed(func, cut, {}, lambda *given: _call(func, given, {})), cut)


def _of_sizes(made: Any, args: Sequence[Any]) -> Any:
    """What a function made of the sizes behind its first argument, its dimensions tagged by the tiles among them."""
    sizes = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
    if not isinstance(made, torch.Tensor) or made.ndim != len(sizes):
        return made
    return tag(made, tuple(lanes_by(size) or own for size, own in zip(sizes, lanes_of(made), strict=True)))


def _as_short(tensor: torch.Tensor, *sizes: Any) -> tuple[Any, ...]:
    """The arguments of a reshape; of a tile that is shorter than its block, the block's size stands for its own."""
    own = lanes_of(tensor)
    running = [tile for loop in current("reshape").loops for tile in loop if tile.lanes in own]
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    lengths = [next((len(tile) for tile in running if tile.block_size is size), size) for size in shape]
    return (tensor, *sizes) if not running or isinstance(shape[0], torch.dtype) else (tensor, lengths)


def _followed(func: Any, args: Sequence[Any], kwargs: Any, compute: Callable[..., Any]) -> Any:
    """``compute``, which does of the arguments what ``func`` does, its result tagged with what its dimensions are."""
    args, kwargs = opposite(func, args, kwargs)
    cut = fitted(func, args)
    out = followed(func, cut, kwargs, partial(compute, **kwargs))
    keep_partial(func, args, cut, out, current("tile").loops[-1])
    return out


def widened(value: Any) -> Any:
    """``value``, accumulators inside block-wide again once the iteration in which they met a tile is over."""
    return widen(value, current("tile").loops)


def is_in_a_loop() -> bool:
    """Whether device code runs as plain Python here."""
    found = _SESSION.get()
    return found is not None and bool(found.loops)


def elementwise(func: Any, compute: Callable[..., Any], *operands: Any) -> torch.Tensor:
    """What ``compute`` makes of tiles and numbers per element, as ``func`` of torch's does."""
    return tile_of(_followed(func, widened(operands), {}, lambda *args: computed(compute, args, {})))


def product(compute: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """``compute`` of the operands of a product, of an accumulator before them if there are three."""
    func = torch.matmul if len(operands) == 2 else torch.addmm
    found: torch.Tensor = _followed(func, widened(operands), {}, compute)
    return found


# those of numbers, which are on the kernel's device too
_OF_NUMBERS = (torch.tensor, torch.as_tensor, torch.scalar_tensor, torch.eye, torch.linspace)
# torch's factories, and how many of their arguments stand before the sizes
_FACTORIES: dict[Any, int] = {
    torch.zeros: 0,
    torch.ones: 0,
    torch.empty: 0,
    torch.full: 0,
    torch.Tensor.new_zeros: 1,
    torch.Tensor.new_ones: 1,
    torch.Tensor.new_empty: 1,
    torch.Tensor.new_full: 1,
}


def _made(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """What a factory makes, on the kernel's device, its dimensions tagged by the block sizes among its sizes."""
    first = _FACTORIES[func]
    shape = kwargs["size"] if "size" in kwargs else args[first:]
    shape = shape[0] if shape and isinstance(shape[0], (list, tuple)) else shape
    if not first:
        kwargs = {"device": current(func.__name__).device, **kwargs}
    made: torch.Tensor = func(*args, **kwargs)
    return tag(made, tuple(map(lanes_by, shape[: made.ndim])))


def _counted(args: Any, kwargs: Any) -> torch.Tensor:
    """``torch.arange``, of the language's dtypes."""
    named = {name: kwargs[name] for name in ("start", "end", "step") if name in kwargs}
    given = dict(zip(("start", "end", "step"), args, strict=False)) | named
    if "end" not in given:
        given = {"start": 0, "end": given["start"]}
    return counting(given.get("start", 0), given["end"], given.get("step", 1), kwargs.get("dtype"))


def counting(start: Any, stop: Any, step: Any, dtype: torch.dtype | None) -> torch.Tensor:
    """``start``, ``start + step`` ... up to ``stop``; int32 unless a number is a float. From one end of a running tile
    to the other they are its lanes, else those of the block size that says how many."""
    if dtype is None:
        dtype = torch.float32 if any(isinstance(x, float) for x in (start, stop, step)) else torch.int32
    here = current("arange")
    made = torch.arange(_number(start), _number(stop), _number(step), dtype=dtype, device=here.device)
    between = tile_between(start, stop) if isinstance(step, int) and step == 1 else None
    lanes = between[0].lanes if between is not None and not between[1] else None
    if lanes is None and not isinstance(stop, EagerTile):
        length = stop if isinstance(start, int) and start == 0 else stop - start
        lanes = lanes_by(length if isinstance(step, int) and step == 1 else -(-length // step))
    return tag(made, (lanes,))


def _number(x: Any) -> Any:
    return len(x) if isinstance(x, EagerTile) else x.item() if isinstance(x, torch.Tensor) else x


# what torch calls for ``a op= b``, by name, and the operator with its sign
_AUGMENTED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add_": (operator.add, "+"), "sub_": (operator.sub, "-"), "mul_": (operator.mul, "*"),
    "div_": (operator.truediv, "/"), "floor_divide_": (operator.floordiv, "//"), "remainder_": (operator.mod, "%"),
    "pow_": (operator.pow, "**"), "__iand__": (operator.and_, "&"), "__ior__": (operator.or_, "|"),
    "__ixor__": (operator.xor, "^"), "__ilshift__": (operator.lshift, "<<"), "__irshift__": (operator.rshift, ">>"),
}  # fmt: skip


def _changed(name: str) -> Callable[..., torch.Tensor]:
    """What a method that changes a tile in place makes of it, of the tile's dtype and shape."""
    plain = _FILLING.get(name) or getattr(torch.Tensor, name[:-1])

    @wraps(plain, updated=())
    def call(tile: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = plain(tile, *args, **kwargs).to(tile.dtype)
        if made.shape != tile.shape:
            shapes = f"{tuple(tile.shape)} .{name} {tuple(made.shape)}"
            raise ShapeError(KEPT, got=shapes, hint=instead_of_in_place(name[:-1]))
        return made

    return call


_FILLING: dict[str, Callable[..., torch.Tensor]] = {
    "fill_": lambda tile, value: torch.full_like(tile, value),
    "zero_": lambda tile: torch.zeros_like(tile),
    "copy_": lambda tile, src, non_blocking=False: torch.as_tensor(src).expand(tile.shape).clone(),
}


def _check_part(name: str, tile: Any, frame: FrameType) -> None:
    """Raises TraceError for what would change a part of a tensor other than by an index."""
    if not is_in_place(name) and name not in _AUGMENTED:
        return
    what = f"{_AUGMENTED[name][1]}=" if name in _AUGMENTED and is_operator(frame) else f".{name}"
    check_kept(what, tile, name in _FILLING, frame)


def memory_of(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor that one of the language's functions reads or writes by an index: of a part of one, its place in
    memory. Raises TraceError for a tile of its own. ``what``: the function, and what it does."""
    if _is_captured(tensor):
        return tensor
    place = place_of_store(tensor)
    if place is None:
        raise TraceError(outside(what), got=f"a tile of shape {tuple(tensor.shape)}", hint=and_the_index(what))
    return place


def _augmented(func: Any, tile: torch.Tensor, other: Any) -> torch.Tensor:
    """``tile op= other``: a new tile of the same dtype and shape, for tiles are values that other names may have."""
    operation, sign = _AUGMENTED[func.__name__]

    def compute(tile: torch.Tensor, other: Any) -> torch.Tensor:
        result: torch.Tensor = computed(operation, (tile, other), {}).to(tile.dtype)
        if result.shape != tile.shape:
            shapes = f"{tuple(tile.shape)} {sign}= {tuple(result.shape)}"
            raise ShapeError(KEPT, got=shapes, hint=instead_of_growing(sign))
        return result

    return _followed(func, (tile, other), {}, compute)  # type: ignore[no-any-return]


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    if func in (torch.addmm, torch.baddbmm) and not kwargs and args[0].dtype != args[1].dtype:
        acc, a, b = args
        return acc + (a.to(acc.dtype) @ b.to(acc.dtype))
    if func in (torch.mm, torch.bmm) and (len(args) > 2 or kwargs):  # a dtype, which torch takes on a GPU only
        return _product_in(*args, **kwargs)
    return computed(func, args, kwargs)


def _product_in(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    return a.to(out_dtype) @ b.to(out_dtype)


@contextmanager
def session(
    device: torch.device,
    kernel: CodeType,
    text: KernelText,
    rules: TorchRules,
    config: Mapping[str, Choice] | None = None,
) -> Iterator[None]:
    """The eager meaning for the language's functions called inside. Raises ConfigError where ``config`` names a block
    size or a tunable that the kernel's text does not."""
    knobs = KnobNames(config or {}, text)
    token = _SESSION.set(Session(device, kernel, knobs, text.launches, rules))
    try:
        with _EagerMode(), asked_by_own_mode():
            yield
    except TileflowError as error:
        if error.where is None:
            error.stand_at(place_of(error))
        raise
    finally:
        _SESSION.reset(token)
    knobs.check()


def current(what: str) -> Session:
    """The session, or CallError: ``what`` was called outside a kernel."""
    found = _SESSION.get()
    if found is None:
        raise CallError(
            f"tileflow.language.{what} works inside a @tileflow.kernel function only",
            hint="decorate the function, or use tileflow.interpret()",
        )
    return found


def torch_seed() -> int:
    """The seed of the outermost loop that runs, out of torch's generator."""
    seeds = current("tile").seeds
    if not seeds:
        seeds.append(draw_seed())
    return seeds[0]


def block_size(what: str, limit: int) -> int:
    """The block size chosen for the caller's place; the default where the config does not name it."""
    chosen = current(what).knobs.host_block(caller())
    return DeviceInt(min(DEFAULT_BLOCK, max(limit, 1)) if chosen is None else chosen)


def author() -> FrameType:
    """The innermost frame outside the package."""
    frame = sys._getframe(1)
    while is_ours(frame):
        assert frame.f_back is not None
        frame = frame.f_back
    return frame


def caller() -> CallSite:
    """The place of the innermost frame outside the package."""
    frame = author()
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return CallSite(frame.f_code.co_filename, line or frame.f_lineno, column or 0)


def tiles(begins: list[int], ends: list[int], block_sizes: list[int | None]) -> Iterator[tuple[EagerTile, ...]]:
    """Every tuple of tiles of the box, the last axis fastest."""
    here = current("tile")
    chosen = here.knobs.enter(caller(), len(ends))
    axes = []
    for begin, end, given, choice in zip(begins, ends, block_sizes, chosen, strict=True):
        block = given or int(choice or DEFAULT_BLOCK)
        count = max(-(-(end - begin) // block), 0)
        axes.append([_tile(begin, end, block, n, count, here.device) for n in range(count)])
    if not here.loops:
        here.seeds.clear()
    here.loops.append(())
    try:
        for found in _product(axes):
            here.loops[-1] = found
            yield found
    finally:
        here.loops.pop()
        here.knobs.leave()


def jagged_tiles(lengths: torch.Tensor, block_size: int | None) -> Iterator[EagerTile]:
    """Tiles up to the largest length, whose lanes know the lengths of their parents."""
    (parent,) = lanes_of(lengths) if lengths.ndim == 1 else (None,)
    if parent is None:
        raise TraceError(
            "jagged_tile takes a 1-D tile of ints over the tile of a loop around it",
            got=lengths.shape,
            hint="load one length for each lane: lengths[tile]",
        )
    for (tile,) in tiles([0], [DeviceInt(lengths.max())], [block_size]):
        jagged = _with_ends(replace(tile, lanes=Lanes(tile.begin, parent, lengths)))
        current("jagged_tile").loops[-1] = (jagged,)
        yield jagged


def _tile(first: int, limit: int, block: int, number: int, count: int, device: torch.device) -> EagerTile:
    """Tile ``number`` of ``count`` in a loop from ``first`` up to ``limit``."""
    length, begin = limit - first, first + number * block
    end = DeviceInt.of_loop(min(begin + block, limit), length)
    places = DeviceInt.of_loop(begin, length), end, DeviceInt(block), DeviceInt.of_loop(number, length)
    return _with_ends(EagerTile(*places, DeviceInt(count), device, limit, Lanes(begin), first))


def _with_ends(tile: EagerTile) -> EagerTile:
    """A tile of a loop whose begin and end know it."""
    for place, is_last in ((tile.begin, False), (tile.end, True)):
        assert isinstance(place, DeviceInt)
        place.end_of = TileEnd(tile, is_last, 0)
    return tile


def _product(axes: list[list[EagerTile]]) -> Iterator[tuple[EagerTile, ...]]:
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for rest in _product(axes[1:]):
            yield first, *rest
