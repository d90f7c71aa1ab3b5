"""What a schedule runs on: barriers, shared memory and the registers of groups, as the executor keeps them.

Everything that the hardware leaves open is open here too: a copy or a product that was issued is under way until the
interleaving completes it, and its registers or its slot must be left alone meanwhile. A product counts as one that
reads its operands until its group has *awaited* it, however early it was over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch

from ..errors import TileflowError
from .types import Barrier, Buffer, Multiply, Schedule, Shared

Registers = dict[str, Any]
Fault = Literal["deadlock", "race", "stale", "early", "order", "unfinished", "foreign", "unmasked"]


class ScheduleFault(TileflowError):
    """A protocol fault of a schedule. ``kind``: a ``deadlock``; a ``race`` over a slot or a register; ``stale``, the
    contents of another turn; ``early``, what is not there yet; ``order``, two groups at the matrix units; something
    ``unfinished`` at the end; ``foreign``, memory of another tile; or ``unmasked``, lanes past a loop's end."""

    def __init__(self, kind: Fault, constraint: str, got: str, where: object) -> None:
        super().__init__(
            constraint, got=got, where=str(where), hint="the schedule is wrong, whatever a GPU makes of it"
        )
        self.kind = kind


class Body(Protocol):
    """The values of one program: what tensors hold, and the parts of the author's body."""

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        """What the copy engine brings: a matrix, as it lies in memory."""

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> Registers:
        """The registers that a part writes."""

    def compute_piece(self, part: str, registers: Mapping[str, Any], turn: int, group: int, piece: int) -> Registers:
        """The same of a piece of the columns alone, from the left."""

    def save(self, name: str, value: Any, group: int) -> None:
        """What the copy engine takes away: the registers of a name."""

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        """What it takes away of a program that works on several tiles: some columns of the tile that has ``turn``."""


@runtime_checkable
class PartialBody(Protocol):
    """What else a :class:`Body` knows where the last block of a loop may be partial."""

    def is_full(self, turn: int) -> bool:
        """Whether all lanes of the turn's block lie before the loop's end."""

    def compute_full(self, part: str, registers: Mapping[str, Any], turn: int, group: int) -> Registers:
        """The registers that a part writes, without the masks of the loop's end."""


@runtime_checkable
class JointBody(Protocol):
    """What else a :class:`Body` knows where several boxes are one operand."""

    def box_of_part(self, buffer: str, turn: int, part: int) -> torch.Tensor:
        """What the copy engine brings to one part of a slot."""


@runtime_checkable
class AddingBody(Protocol):
    """What else a :class:`Body` knows where each turn's result is added to memory."""

    def add(self, value: torch.Tensor, turn: int, group: int) -> None:
        """What the copy engine adds of a turn: a group's part."""


@runtime_checkable
class RaggedBody(Protocol):
    """What else a :class:`Body` knows where some rows of a tile belong to other tiles."""

    def is_whole(self, turn: int, group: int) -> bool:
        """Whether all rows of a group's part of the tile that has ``turn`` are the tile's own."""

    def scatter(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        """What a group's own threads write of such a tile: some columns of the rows that are the tile's own."""


@dataclass(slots=True)
class Gate:
    """One barrier: how many rounds are over, and what the running one still lacks."""

    arrivals: int
    rounds: int = 0
    missing: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.missing = self.arrivals

    def arrive(self) -> None:
        """Count one arrival; the round ends with the last one."""
        self.missing -= 1
        self._end()

    def receive(self, count: int) -> None:
        """Count bytes that were copied; the round ends when none are missing."""
        self.bytes -= count
        self._end()

    def passes(self, round_: int) -> bool:
        """Whether a wait for a round passes. As on the hardware only its parity counts."""
        return self.rounds & 1 != round_ & 1

    def _end(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.rounds += 1
            self.missing = self.arrivals

    def __str__(self) -> str:
        lacking = f"{self.missing} of {self.arrivals} arrivals" if self.missing else "no arrival"
        return f"in round {self.rounds}, which lacks {lacking} and {self.bytes} bytes"


@dataclass(slots=True)
class SlotState:
    """One slot of a buffer: what it holds, of which turn, who fills it and who may still read it. ``turned``: a box
    whose dimensions the splitter has swapped."""

    contents: torch.Tensor | None = None
    turn: int | None = None
    filling: bool = False
    turned: bool = False
    readers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Box:
    """An operand in shared memory: the parts of a slot, beside each other along ``joined``; of their columns the
    ``own``-th of ``cut`` equal parts."""

    parts: tuple[SlotState, ...]
    joined: int
    cut: int = 1
    own: int = 0

    @property
    def contents(self) -> torch.Tensor:
        """The matrix that lies there."""
        found = [part.contents for part in self.parts if part.contents is not None]
        assert len(found) == len(self.parts)  # a place with a reader is neither filled nor emptied
        return torch.cat(found, dim=self.joined).chunk(self.cut, dim=-1)[self.own]

    def let_go(self, reader: str) -> None:
        """Nobody of this name reads it any more."""
        for part in self.parts:
            part.readers.remove(reader)


Operand = Box | torch.Tensor


@dataclass(eq=False, slots=True)
class Product:
    """A product under way, or over but not awaited."""

    group: int
    step: Multiply
    left: Operand
    right: Operand
    name: str
    over: bool = False


@dataclass(eq=False, slots=True)
class Transfer:
    """A copy under way."""

    place: SlotState
    gate: Gate
    bytes: int
    contents: torch.Tensor
    name: str


@dataclass(eq=False, slots=True)
class Outgoing:
    """What the copy engine writes to a tensor. It counts as a reader of its slot until its group has awaited it."""

    group: int
    place: SlotState
    arrive: Callable[[], None]
    name: str
    over: bool = False

    def complete(self) -> None:
        """End the write: its slot has a reader less."""
        self.arrive()
        self.over = True


class Memory:
    """The shared memory of a block."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._gates = {b.name: [Gate(b.arrivals) for _ in range(b.slots)] for b in schedule.barriers}
        self._places = {b.name: [SlotState() for _ in range(b.slots * b.parts)] for b in schedule.buffers}
        self.transfers: list[Transfer] = []
        self.outgoing: list[Outgoing] = []  # not awaited

    def gate(self, barrier: Barrier, slot: int) -> Gate:
        """The barrier of one slot."""
        return self._gates[barrier.name][slot]

    def place(self, buffer: Buffer, slot: int) -> SlotState:
        """A slot; past the last one of a buffer memory that holds something else, here its first."""
        return self._places[buffer.name][slot % (buffer.slots * buffer.parts)]

    def fill(self, place: SlotState, turn: int | None, transfer: Transfer, where: object) -> None:
        """Start a copy into a slot."""
        if place.filling:
            got = f"{transfer.name} while another copy fills it"
            raise ScheduleFault("race", "a slot is filled once at a time", got, where)
        if place.readers:
            got = f"{transfer.name} while {', '.join(place.readers)} may"
            raise ScheduleFault("race", "a slot is filled when nobody may read it", got, where)
        place.filling, place.turn, place.contents, place.turned = True, turn, None, False
        self.transfers.append(transfer)

    def complete(self, transfer: Transfer) -> None:
        """End a copy: its slot has the contents, and its barrier their bytes."""
        transfer.place.filling = False
        transfer.place.contents = transfer.contents
        self.transfers.remove(transfer)
        transfer.gate.receive(transfer.bytes)


class Cluster:
    """What blocks of a cluster share: one barrier, at which all their roles arrive, and what blocks gave each other. A
    role is known by its block and its name."""

    def __init__(self, blocks: int, roles: Sequence[tuple[int, str]]) -> None:
        self.blocks = blocks
        self._arrived, self._waited = dict.fromkeys(roles, 0), dict.fromkeys(roles, 0)
        self._given: dict[tuple[int, int, int], tuple[torch.Tensor, int]] = {}  # what, and before which arrival

    def arrive(self, role: tuple[int, str], where: object) -> None:
        """One arrival of a role."""
        if self._arrived[role] > self._waited[role]:
            raise ScheduleFault("order", "a role waits for a cluster before it arrives again", str(role), where)
        self._arrived[role] += 1

    def passes(self, role: tuple[int, str]) -> bool:
        """Whether all roles have arrived as often as this one."""
        return min(self._arrived.values()) >= self._arrived[role]

    def waited(self, role: tuple[int, str]) -> None:
        """A role knows what happened before its last arrival."""
        self._waited[role] = self._arrived[role]

    def lacking(self, role: tuple[int, str]) -> str:
        """Who has not arrived as often."""
        late = (f"{name} of block {n}" for (n, name), count in self._arrived.items() if count < self._arrived[role])
        return f"the cluster, where {', '.join(late)} did not arrive"

    def give(self, role: tuple[int, str], group: int, pieces: Sequence[torch.Tensor], where: object) -> None:
        """Write to the memory of the other blocks."""
        block, _ = role
        if not self._waited[role]:
            raise ScheduleFault("early", "memory of a block is written when it has begun", f"block {block}'s", where)
        for to in range(self.blocks):
            if to != block:
                self._given[to, group, block] = pieces[to].clone(), self._arrived[role]

    def join(self, role: tuple[int, str], group: int, own: torch.Tensor, where: object) -> torch.Tensor:
        """A block's own piece and what the others gave it of it."""
        block, _ = role
        total = own.clone()
        for giver in ((block + n) % self.blocks for n in range(1, self.blocks)):
            piece, before = self._given.pop((block, group, giver), (own, self._waited[role]))
            if before >= self._waited[role]:  # the giver's next arrival was not waited for
                got = f"that of block {giver}"
                raise ScheduleFault("early", "what others gave is read when the cluster was waited for", got, where)
            total += piece
        return total

    @property
    def left(self) -> int:
        """How many pieces nobody has read."""
        return len(self._given)


class Group:
    """The registers of one consumer group, and its products."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.registers: Registers = {}
        self.products: list[Product] = []  # not awaited, oldest first

    def read(self, names: tuple[str, ...], where: object) -> Registers:
        """Registers by name. Raises ScheduleFault for those that a product under way still writes."""
        for name in names:
            for product in self.products:
                if product.step.into == name:
                    raise ScheduleFault(
                        "early",
                        "a product's result is read once the product was awaited",
                        f"{name} of {product.name}",
                        where,
                    )
        return {name: self.registers[name] for name in names}

    def write(self, values: Registers, where: object) -> None:
        """Set registers. Raises ScheduleFault for those that a product under way still reads or writes."""
        for product in self.products:
            for name in (product.step.left, product.step.into):
                if name in values:
                    raise ScheduleFault(
                        "race",
                        "registers of a product are left alone until it was awaited",
                        f"{name} of {product.name} is written",
                        where,
                    )
        self.registers.update(values)

    def complete(self, product: Product) -> None:
        """The product is over: its result lies in registers that nobody may read before it was awaited."""
        step = product.step
        left, right = (_matrix(v).float() for v in (product.left, product.right))
        left, right = (as_tf32(left), as_tf32(right)) if step.tf32 else (left, right)
        left = left.mT if isinstance(step.left, Shared) and step.left.transposed else left
        result = left @ (right.mT if step.right.transposed else right)
        self.registers[step.into] = self.registers[step.into] + result if step.adds else result
        product.over = True

    def under_way(self) -> list[Product]:
        """The products that were issued and are not complete."""
        return [p for p in self.products if not p.over]

    def awaited(self, pending: int) -> None:
        """All but the last ``pending`` products were awaited: they read nothing any more."""
        kept = self.products[len(self.products) - pending :] if pending else []
        for product in self.products:
            if product not in kept:
                for place in (product.left, product.right):
                    if isinstance(place, Box):
                        place.let_go(product.name)
        self.products = kept


def as_tf32(numbers: torch.Tensor) -> torch.Tensor:
    """What the matrix units read of float32 numbers: all but the last 13 bits (PTX ISA 9.7.15, ``wgmma`` of tf32)."""
    return (numbers.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32)


def _matrix(value: Operand) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else value.contents
