"""What is known of every op of a kind: the columns of the table in :mod:`op_table`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Protocol

from .attributes import Attrs
from .graph import Op, Operand
from .kinds import OpKind
from .positions import Positions
from .types import Dim, Value

if TYPE_CHECKING:
    from .checking import Checker


class Trait(Flag):
    """What passes ask of kinds of ops."""

    ACCESS = auto()  # reads or writes elements of a tensor, which an index names
    PRODUCT = auto()  # of matrices
    COLLECTIVE = auto()  # threads exchange what they hold
    BROADCASTS = auto()  # operands meet lane by lane, aligned at their last dimensions
    ON_SCALARS = auto()  # may stand in the function of a ``combine``
    BY_BLOCKS = auto()  # a block of a dimension takes no more than the same block of the operands
    BY_HALVES = auto()  # a copy of the op can compute the half of a tile's columns
    REARRANGES = auto()  # shows the elements of its operands, and nothing else
    STAYS_SHARED = auto()  # what it makes of a loaded tile is read from the shared memory where that one is
    AS_LOADED = auto()  # what it makes of a loaded tile counts as loaded
    SPECULATIVE = auto()  # cheap and without effect: may be computed though nobody asks


NO_TRAITS = Trait(0)


@dataclass(frozen=True, slots=True)
class Effects:
    """``reads``, ``writes``: paths of the tensors whose elements it may. ``is_seen``: it does more than that and its
    outputs, such as printing."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    is_seen: bool = False

    @property
    def is_pure(self) -> bool:
        """Whether the op is dead code where nobody reads its outputs."""
        return not self.writes and not self.is_seen

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that the op reads or writes, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Work:
    """``flops``: arithmetic for each element of ``dims``."""

    flops: int
    dims: tuple[Dim, ...]


NO_WORK = Work(0, ())


@dataclass(frozen=True, slots=True)
class Fill:
    """What an op needs in the masked lanes of the dimension ``axis`` of its input number ``input``."""

    input: int
    axis: int
    number: int | float


class Known(Protocol):
    """What is known of masked lanes, as the rules for them ask it."""

    def at(self, value: Operand, axis: int) -> float | None:
        """The number in the masked lanes of a dimension of ``value``; None where they hold no single known one."""

    def broadcast(self, operand: Operand, result: Value, axis: int) -> float | None:
        """The same of an operand that meets others lane by lane, in ``result``'s dimension ``axis``."""

    @property
    def positions(self) -> Positions:
        """What follows from where loops end."""


Verify = Callable[["Checker", Op], None]
Masked = Callable[[Known, Op, Value, int], float | None]


def nothing_known(known: Known, op: Op, value: Value, axis: int) -> float | None:
    """The rule of ops whose masked lanes hold what nobody knows."""
    return None


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row.

    ``operands``: the inputs in words. ``attrs``: the class of the attributes. ``inputs``: how many, at least and at
    most; None: any number. ``outputs``: how many; None: any number. ``regions``: how many, each number that may be.
    ``verify``: refuses ops whose operands, attributes and outputs do not fit, given the numbers above.
    ``masked``: the number in masked lanes of an output's dimension. ``fills``: those that the op needs in its inputs'.
    ``work``: arithmetic, for models. ``effects``: on memory and what else is seen.
    """

    kind: OpKind
    meaning: str
    operands: str
    attrs: type[Attrs]
    inputs: tuple[int, int | None]
    verify: Verify
    outputs: int | None = 1
    regions: tuple[int, ...] = (0,)
    traits: Trait = NO_TRAITS
    masked: Masked = nothing_known
    fills: Callable[[Op], tuple[Fill, ...]] = lambda op: ()
    work: Callable[[Op], Work] = lambda op: NO_WORK
    effects: Callable[[Op], Effects] = lambda op: NO_EFFECTS
