"""One call of a kernel as plain Python: its knobs, the loops that are running, and where the author's code stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from itertools import islice
from types import CodeType, FrameType

import torch

from ..errors import CallError, TraceError
from ..lazy_dataclass import dataclass
from ..runtime.ambient import draw_seed
from .askers import is_ours
from .dim_identity import Lanes, lanes_of
from .eager_indexing import DeviceInt
from .eager_tiles import EagerTile, loop_tile, with_ends
from .knob_names import CallSite, KnobNames
from .torch_rules import TorchRules

DEFAULT_BLOCK = 32


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


@contextmanager
def running(session: Session) -> Iterator[None]:
    """``session`` is the one that language calls find."""
    token = _SESSION.set(session)
    try:
        yield
    finally:
        _SESSION.reset(token)


def current(what: str) -> Session:
    """The session, or CallError: ``what`` was called outside a kernel."""
    found = _SESSION.get()
    if found is None:
        raise CallError(
            f"tileflow.language.{what} works inside a @tileflow.kernel function only",
            hint="decorate the function, or use tileflow.interpret()",
        )
    return found


def is_in_a_loop() -> bool:
    """Whether device code runs as plain Python here."""
    found = _SESSION.get()
    return found is not None and bool(found.loops)


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
        axes.append([loop_tile(begin, end, block, n, count, here.device) for n in range(count)])
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
        jagged = with_ends(replace(tile, lanes=Lanes(tile.begin, parent, lengths)))
        current("jagged_tile").loops[-1] = (jagged,)
        yield jagged


def _product(axes: list[list[EagerTile]]) -> Iterator[tuple[EagerTile, ...]]:
    if not axes:
        yield ()
        return
    for first in axes[0]:
        for rest in _product(axes[1:]):
            yield first, *rest
