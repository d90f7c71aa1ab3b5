"""The eager meaning: the user's own function on torch tensors, with real tiles.

Inside :func:`session` the language's functions work on tensors, one tile after another, so that ``print`` and
``breakpoint()`` stand where the author wrote them and a tile at the end of a size is as short as it really is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..config import Choice
from ..errors import TileflowError, TraceError
from ..runtime.numpy_numbers import plain_argument
from .askers import Asker, asker, is_ours, kind_of
from .captured_views import BY_ITEM, by_item, gives_views, name_of, name_of_view
from .cuts import cut_of
from .dim_identity import tensors_of
from .eager_calls import call, followed_call, is_captured, tile_of, widened
from .eager_changes import AUGMENTED, augmented, changed, check_part
from .eager_gathers import gathered, is_gather
from .eager_memory import check_assigned, is_view, put_back, read, view_of, write
from .eager_parts import follow, note_read, part_of
from .eager_session import Session, current, running
from .eager_sizes import (
    EXPANDS,
    FACTORIES,
    OF_NUMBERS,
    RESHAPES,
    as_whole,
    check_bits,
    counted,
    of_factory,
    of_sizes,
    reshaped,
)
from .global_tensors import check_reached
from .host_cuda import is_torchs
from .host_device import ASKING, MOVING, asked_by_own_mode, behind, host_device, speaks_to
from .in_place import check_unchanged, is_in_place, is_operator, note_changed, note_views
from .knob_names import KernelText, KnobNames
from .operand_dtypes import Operand, check_dtypes
from .places import place_of
from .rules import ASSIGNED_HINT, NO_OUT, OF_ROWS, along_a_row, takes_a_dim
from .stable_sorts import is_sort, sorted_stably
from .torch_rules import TorchRules
from .unsigned import computed

# torch's functions that draw random numbers, and what they mean in device code: random registers them
RANDOM: dict[Any, Callable[..., torch.Tensor]] = {}


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
            return call(func, args, kwargs)
        if is_ours(asker(frame)):
            return _as_tiles(call(func, args, kwargs), args)
        name = func.__name__
        if its.by_torch:
            is_torchs_own = is_in_place(name) and not is_operator(frame)
            found = call(func, args, kwargs) if is_torchs_own else self._in_device_code(func, args, kwargs)
            return _as_tiles(found, args)
        check_reached(args, name, frame, its.kernel, its.launches)
        if func is torch.Tensor.__setitem__:
            check_assigned(*args)
        check_unchanged(tensors_of((*args, *kwargs.values())))
        note_read(func, args)
        if kwargs and kwargs.get("out") is not None:
            raise TraceError(NO_OUT, got=f"torch.{name}(..., out=...)", hint=ASSIGNED_HINT)
        its.rules.check_call(func, args, kwargs, frame, its.kernel)
        check_dtypes(name, _operands(args, kwargs))
        _check_dim(name, args, kwargs)
        if (view := name_of_view(func)) and isinstance(args[0], torch.Tensor) and is_captured(args[0]):
            return view_of(view, args[0], args[1:], kwargs)
        check_bits(name, args, kwargs)
        check_part(name, args[0] if args else None, frame)
        found = self._in_device_code(func, args, kwargs)
        follow(func, args, kwargs, found)
        if not any(True for _ in tensors_of((*args, *kwargs.values()))):
            its.rules.check_made(func, found, frame)
        if is_in_place(name):
            found = put_back(name, args[0], found) if name not in AUGMENTED or not is_operator(frame) else found
        if name in AUGMENTED and found is not args[0]:
            note_changed(args[0])
        found = _as_tiles(found, args)
        _note_views(func, args, kwargs, found)
        return found

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
        if func in FACTORIES:
            return of_factory(func, args, kwargs)
        if func is torch.arange:
            return counted(args, kwargs)
        if func in OF_NUMBERS:
            kwargs = {"device": current(func.__name__).device, **kwargs}
        if func.__name__ in RESHAPES and not kwargs:
            if (whole := as_whole(func, *args)) is not None:
                return whole
            return reshaped(func, args)
        if func.__name__ in EXPANDS and not kwargs:
            return of_sizes(followed_call(func, args, {}, lambda *given: call(func, given, {})), args)
        if func is torch.Tensor.__getitem__:
            return read(*args)
        if func is torch.Tensor.__setitem__:
            return write(*args)
        if func.__name__ in AUGMENTED and not kwargs and len(args) == 2:
            return augmented(func, *args)
        if is_in_place(func.__name__):
            return self._in_device_code(changed(func.__name__), args, kwargs)
        if is_sort(func):
            return followed_call(
                func, args, kwargs, lambda *args, **kwargs: sorted_stably(computed, func, args, kwargs)
            )
        if is_gather(func):
            return followed_call(func, args, kwargs, lambda *args, **kwargs: gathered(computed, func, args, kwargs))
        return followed_call(func, args, kwargs, lambda *args, **kwargs: call(func, args, kwargs))


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


def _note_views(func: Any, args: Any, kwargs: Any, found: Any) -> None:
    """Note what is a view of a tile in registers: of a part of a tensor, memory has what its names change."""
    name, items = name_of(func), None
    if func is torch.Tensor.__getitem__ and is_view(args[1]):
        items = args[1] if isinstance(args[1], tuple) else (args[1],)
    elif name in BY_ITEM:
        items = by_item(name, args[0].ndim, args[1:], kwargs)
    is_named = gives_views(name) or items is not None
    for n, tile in enumerate(tensors_of(args)):
        if not is_captured(tile) and part_of(tile) is None:
            views = found if isinstance(found, (tuple, list)) else (found,)
            if not is_named or n:
                views = [view for view in views if _shares(view, tile)]
            cut = cut_of(items, tile.shape) if items is not None else {}
            note_views(views if len(views) > 1 else next(iter(views), None), tile, cut)


def _shares(view: Any, tile: torch.Tensor) -> bool:
    """Whether a result lies in the memory of an argument, as that of ``detach`` does."""
    if not isinstance(view, torch.Tensor) or not view.numel():
        return False
    try:
        where = view.untyped_storage().data_ptr()
        return where != 0 and where == tile.untyped_storage().data_ptr()
    except RuntimeError:  # no memory of theirs: torch's own under vmap, as its scans are, and fakes
        return False


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
    try:
        with running(Session(device, kernel, knobs, text.launches, rules)), _EagerMode(), asked_by_own_mode():
            yield
    except TileflowError as error:
        if error.where is None:
            error.stand_at(place_of(error))
        raise
    knobs.check()
