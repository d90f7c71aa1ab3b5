"""What a traced or Python value is as an operand of the IR, and what to write for what is none."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from ..errors import TraceError
from ..ir.attributes import SizeAttrs
from ..ir.graph import Operand
from ..ir.kinds import OpKind
from ..ir.types import TileType
from ..runtime.numpy_numbers import plain_number
from ..runtime.wide_ints import NARROWER, WIDE, is_wide, spelled
from .intervals import int_dtype
from .promotion import dtype_name
from .refusals import as_operand
from .values import SymInt, TensorRef, TileProxy, TileValue, Undefined

if TYPE_CHECKING:
    from .trace import Tracer


def operand_of(t: Tracer, x: Any) -> Operand:
    """The IR operand that a traced or Python value stands for. Raises TraceError for anything else."""
    if isinstance(x, TileValue):
        if x.scope not in t.scopes:
            raise TraceError(
                "a tile is used only inside the loop or branch that made it",
                got=repr(x),
                where=t.location(),
                hint="assign it to a variable before the loop, so that the loop carries it",
            )
        t.use(x)
        return x.value
    if isinstance(x, SymInt):
        return t.emit(OpKind.SIZE, (), TileType(int_dtype(t, x.expr), weak=True), SizeAttrs(x.expr)).value
    if isinstance(x, (bool, int, float)):
        return _number(t, x)
    if isinstance(x, torch.Tensor) and x.ndim == 0 and x.device.type != "meta":
        return operand_of(t, t.full((), x.item(), dtype_name(x.dtype)))
    if isinstance(x, Undefined):
        raise TraceError(
            "a variable is assigned on every way to its use",
            got="one that was not",
            where=t.location(),
            hint="assign it before the loop, or in both branches",
        )
    if isinstance(x, TileProxy):
        raise TraceError(
            "a tile's indices are tile.index",
            got=f"{x!r} as a value",
            where=t.location(),
            hint=f"{x!r}.index is the 1-D tile of them, x[{x!r}] what a tensor holds",
        )
    if isinstance(x, TensorRef):
        if x.is_whole:
            return operand_of(t, x.all())
        raise t.placed(as_operand(repr(x), x.path))
    if (number := plain_number(x)) is not x:
        return _number(t, number)
    got = f"a tensor of shape {tuple(x.shape)}" if isinstance(x, torch.Tensor) else f"{type(x).__name__} {x!r}"
    raise TraceError(
        "an operand must be a tile, a size or a number", got=got[:200], where=t.location(), hint=_instead_of(x)
    )


def _number(t: Tracer, x: int | float | bool) -> int | float | bool:
    if is_wide(x):
        raise TraceError(WIDE, got=spelled(int(x)), where=t.location(), hint=NARROWER)
    return _plain(x)


def _instead_of(x: Any) -> str:
    """What to write for what is no operand."""
    hint = "combine tiles with tiles, sizes and numbers; load a captured tensor by indexing it"
    if x is None:
        hint = "choose by `if x is not None:`, which Python decides while the kernel is recorded"
    if isinstance(x, (list, tuple)):
        hint = "pass the numbers to the kernel in a tensor, or make a tile of tiles by torch.stack"
    if type(x).__module__ == "numpy":
        hint = "pass the numbers to the kernel in a tensor; a few of them: array[i], torch.tensor(array.tolist())"
        if getattr(x, "ndim", None) == 0:
            hint = "array.item() is the number in it"
    if isinstance(x, Enum):
        hint = "a member of an enum is no number: .value is what it stands for, and those of enum.IntEnum are ints"
    if isinstance(x, complex):
        hint = "tiles are real: keep the real and the imaginary parts in tiles of their own"
    if isinstance(x, torch.nn.Parameter):
        hint = "a module's weights too: pass the module or them to the kernel, weight=ln.weight, and load weight[:]"
    return hint


def _plain(number: float) -> int | float | bool:
    """The number itself of one whose class is the author's, as a member of ``enum.IntEnum`` is."""
    if isinstance(number, int):
        return number if isinstance(number, bool) else int(number)
    return float(number)
