"""Runs a schedule on a CPU, on real values, under interleavings that mean it harm.

Roles take their steps one at a time; copies and products that were issued are over when the interleaving says so. A
:class:`Chooser` picks who goes on: at random, or as nastily as it can (``NASTY``). What it finds raises a
:class:`ScheduleFault`, which names the step and, of a deadlock, who waits for what.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from .machine import (
    AddingBody,
    Body,
    Box,
    Cluster,
    Gate,
    Group,
    JointBody,
    Memory,
    Operand,
    Outgoing,
    PartialBody,
    Product,
    RaggedBody,
    Registers,
    ScheduleFault,
    SlotState,
    Transfer,
    as_tf32,
)
from .types import (
    Arrive,
    ArriveCluster,
    Await,
    AwaitPuts,
    Compute,
    Copy,
    Cut,
    EachTile,
    Give,
    IfAny,
    IfFull,
    IfWhole,
    Join,
    Multiply,
    OfBlock,
    OfCluster,
    OfGroup,
    Piece,
    Put,
    Repeat,
    Role,
    Save,
    Scatter,
    Schedule,
    Share,
    Shared,
    Slot,
    Split,
    Staged,
    Step,
    Take,
    Turns,
    Wait,
    WaitCluster,
    count_of_tile,
    first_of_tile,
    start_of,
)


@dataclass(eq=False, slots=True)
class Event:
    """Something that may happen next. ``kind``: ``producer``, ``splitter``, ``consumer``, ``copy`` or ``product``;
    ``number``: of the group; ``age``: how many of its kind were issued after it; ``block``: where in a cluster."""

    kind: str
    number: int
    age: int
    happen: Callable[[], object]
    block: int = 0


Chooser = Callable[[Sequence[Event]], Event]


def at_random(seed: int) -> Chooser:
    """Any of them, the same for the same seed."""
    return random.Random(seed).choice


def _preferring(*order: str, slow: int | None = None, newest: bool = False, slow_block: int | None = None) -> Chooser:
    """The first kind of ``order`` that can go on, those not named last; the consumer group ``slow``, and the block
    ``slow_block`` of a cluster, only where nobody else can."""

    def choose(events: Sequence[Event]) -> Event:
        def rank(event: Event) -> tuple[bool, int, int]:
            is_slow = event.number == slow and event.kind in ("consumer", "product")
            is_slow |= event.block == slow_block
            place = order.index(event.kind) if event.kind in order else len(order)
            return is_slow, place, event.age if newest else -event.age

        return min(events, key=rank)

    return choose


NASTY: dict[str, Chooser] = {
    "the producer as far ahead as it can": _preferring("producer", "copy", "consumer", "product"),
    "copies and products as late as they can": _preferring("producer", "consumer", "product", "copy"),
    "products last": _preferring("producer", "copy", "consumer", "product"),
    "the producer last": _preferring("consumer", "product", "copy", "producer"),
    "the splitter as far ahead as it can": _preferring("splitter", "copy", "producer", "consumer", "product"),
    "copies at once": _preferring("copy", "product", "consumer", "producer"),
    "the newest copy first": _preferring("producer", "consumer", "copy", "product", newest=True),
    "the first group last": _preferring("producer", "copy", "consumer", "product", slow=0),
    "the second group last": _preferring("producer", "copy", "consumer", "product", slow=1),
    "the first group last, copies late": _preferring("producer", "consumer", "product", "copy", slow=0),
    "the second group last, copies late": _preferring("producer", "consumer", "product", "copy", slow=1),
}
NASTY_BLOCKS: dict[str, Chooser] = {
    f"block {n} last": _preferring("producer", "copy", "consumer", "product", slow_block=n) for n in range(2)
}


def execute(schedule: Schedule, body: Body, turns: Turns, choose: Chooser, tiles: int = 1) -> None:
    """Run one program of so many ``tiles`` with ``turns`` turns, each or one after the other. Raises ScheduleFault."""
    execute_cluster(schedule, (body,), turns, choose, tiles)


def execute_cluster(schedule: Schedule, bodies: Sequence[Body], turns: Turns, choose: Chooser, tiles: int = 1) -> None:
    """Run the blocks of a cluster, whose ``bodies`` are in the order of their numbers. Raises ScheduleFault."""
    blocks = [_Execution(schedule, body, turns, tiles, number) for number, body in enumerate(bodies)]
    cluster = Cluster(len(blocks), [name for block in blocks for name in block.names])
    for block in blocks:
        block.cluster = cluster
    while any(not block.is_over for block in blocks):
        events = [event for block in blocks for event in block.events()]
        if not events:
            waiting = "; ".join(reason for block in blocks for reason in block.waiting())
            raise ScheduleFault("deadlock", "somebody can go on until all roles are over", waiting, "the schedule")
        choose(events).happen()
    left = [name for block in blocks for name in block.left()] + [f"{cluster.left} pieces given"] * bool(cluster.left)
    if left:
        raise ScheduleFault("unfinished", "nothing is under way at the end", ", ".join(left), "the end")


def interleavings(seeds: int) -> Iterator[tuple[str, Chooser]]:
    """Every nasty one, and so many at random."""
    yield from NASTY.items()
    for seed in range(seeds):
        yield f"seed {seed}", at_random(seed)


@dataclass(slots=True)
class _Where:
    """The place of a fault; its words are written where there is one."""

    step: Step
    group: int
    turn: int
    turns: Turns

    def __str__(self) -> str:
        return f"{self.step} of group {self.group} in turn {self.turn} of {self.turns}"


@dataclass(slots=True)
class _Blocked:
    """A step that waits. ``reason`` is asked once nothing can go on."""

    ready: Callable[[], bool]
    reason: Callable[[], str]


_Run = Iterator[_Blocked | None]


def _name_of(role: Role, number: int) -> str:
    return f"{role.name} {number}" if role.groups > 1 else role.name


class _Task:
    """A role at one of its steps."""

    def __init__(self, role: Role, number: int, run: _Run) -> None:
        self.role, self.number, self._run = role, number, run
        self.name = _name_of(role, number)
        self.blocked: _Blocked | None = None
        self.is_over = False

    @property
    def can_go_on(self) -> bool:
        return not self.is_over and (self.blocked is None or self.blocked.ready())

    def step(self) -> None:
        try:
            self.blocked = next(self._run)
        except StopIteration:
            self.is_over = True


class _Execution:
    """One block. ``number``: it has in its ``cluster``."""

    cluster: Cluster

    def __init__(self, schedule: Schedule, body: Body, turns: Turns, tiles: int, number: int) -> None:
        self._schedule, self._body, self._turns, self._tiles = schedule, body, turns, tiles
        self._number = number
        self._memory = Memory(schedule)
        self._groups = [Group(n) for n in range(schedule.consumer.groups)]
        self._in_order: int | None = None  # the group whose turn at the matrix units it is
        helpers = [(role, 0) for role in reversed(schedule.helpers)]
        roles = [*helpers, *((schedule.consumer, g.number) for g in self._groups)]
        self._tasks = [_Task(role, n, self._program(role.program, n, 0, role)) for role, n in roles]

    @property
    def names(self) -> list[tuple[int, str]]:
        """What the cluster knows the roles by."""
        return [(self._number, task.name) for task in self._tasks]

    @property
    def is_over(self) -> bool:
        """Whether all roles are."""
        return all(task.is_over for task in self._tasks)

    def events(self) -> list[Event]:
        """What may happen next."""
        memory = self._memory
        found = [Event(t.role.name, t.number, 0, t.step, self._number) for t in self._tasks if t.can_go_on]
        for age, transfer in enumerate(reversed(memory.transfers)):
            found.append(Event("copy", -1, age, partial(memory.complete, transfer), self._number))
        for age, outgoing in enumerate(reversed([o for o in memory.outgoing if not o.over])):
            found.append(Event("copy", -1, age, outgoing.complete, self._number))
        for group in self._groups:  # a group's products are over in order
            for product in group.under_way()[:1]:
                happen = partial(group.complete, product)
                found.append(Event("product", group.number, 0, happen, self._number))
        return found

    def waiting(self) -> list[str]:
        """Who waits for what."""
        of = f" of block {self._number}" if self._schedule.blocks > 1 else ""
        return [f"{t.name}{of} waits for {t.blocked.reason()}" for t in self._tasks if not t.is_over and t.blocked]

    def left(self) -> list[str]:
        """What is under way."""
        products = [p.name for g in self._groups for p in g.products]
        return [t.name for t in self._memory.transfers] + products + [o.name for o in self._memory.outgoing]

    # ---- programs -------------------------------------------------------------------------------

    def _program(self, steps: tuple[Step, ...], number: int, turn: int, role: Role) -> _Run:
        for step in steps:
            match step:
                case EachTile(inner, dealt):
                    groups = self._schedule.consumer.groups
                    for n in range(number, self._tiles, groups) if dealt else range(self._tiles):
                        yield from self._program(inner, number, start_of(n, self._turns), role)
                case Repeat(first, inner):
                    begin = first_of_tile(turn, self._turns)
                    for t in range(first, count_of_tile(turn, self._turns)):
                        yield from self._program(inner, number, begin + t, role)
                case IfAny(inner):
                    if count_of_tile(turn, self._turns):
                        yield from self._program(inner, number, turn, role)
                case IfWhole(inner, others):
                    chosen = inner if self._ragged.is_whole(turn, number) else others
                    yield from self._program(chosen, number, turn, role)
                case IfFull(at, inner, others):
                    is_full = self._partial.is_full(at.at(turn, self._turns))
                    yield from self._program(inner if is_full else others, number, turn, role)
                case ArriveCluster() | WaitCluster() | Give() | Join():
                    yield from self._of_cluster(step, number, turn, role)
                    yield None
                case _:
                    yield from self._step(step, number, turn)
                    yield None

    def _of_cluster(self, step: OfCluster, number: int, turn: int, role: Role) -> _Run:
        """What a role does with those of other blocks."""
        where = _Where(step, number, turn, self._turns)
        cluster, name = self.cluster, (self._number, _name_of(role, number))
        match step:
            case ArriveCluster():
                cluster.arrive(name, where)
            case WaitCluster():
                if not cluster.passes(name):
                    yield _Blocked(lambda: cluster.passes(name), lambda: cluster.lacking(name))
                cluster.waited(name)
            case Give(pieces):
                registers = self._groups[number].read(pieces, where)
                cluster.give(name, number, [registers[p] for p in pieces], where)
            case Join(pieces, into):
                own = self._groups[number].read(pieces, where)[pieces[self._number]]
                self._groups[number].write({into: cluster.join(name, number, own, where)}, where)

    def _step(self, step: Step, number: int, turn: int) -> _Run:
        where = _Where(step, number, turn, self._turns)
        match step:
            case Wait(barrier, slot, round_):
                barrier_ = self._schedule.barrier(barrier)
                position = self._position(slot, number, turn)
                gate = self._memory.gate(barrier_, position)
                stages = barrier_.slots if barrier_.per == "stage" else 1
                which = round_.at(stages, turn, self._turns, number, self._schedule.consumer.groups)
                if not gate.passes(which):
                    what = f"round {which} of {barrier}[{position}] ({barrier_.says})"
                    yield _Blocked(lambda: gate.passes(which), lambda: f"{what}, {gate}")
            case Arrive(barrier, slot, hands_over):
                self._gate(barrier, slot, number, turn).arrive()
                self._in_order = None if hands_over else self._in_order
            case Copy():
                self._copy(step, number, turn, where)
            case Multiply():
                self._multiply(step, number, turn, where)
            case Await():
                yield from self._await(step, self._groups[number], where)
            case Compute():
                self._groups[number].write(self._computed(step, number, turn, where), where)
            case Cut() | Take():
                self._rename(step, self._groups[number], where)
            case Save(value, buffer, slot):
                place_ = self._place(buffer, slot, number, turn)
                self._leave_alone(place_, where)
                self._body.save(value, self._groups[number].read((value,), where)[value], number)
            case Share():
                self._share(step, number, turn, where)
            case Split():
                self._split(step, number, turn, where)
            case Put():
                self._put(step, number, turn, where)
            case AwaitPuts(pending):
                yield from self._await_puts(number, pending)
            case Scatter(value, at, piece):
                part = self._groups[number].read((value,), where)[value]
                self._ragged.scatter(part, at.at(turn, self._turns), self._piece(piece), number)

    def _computed(self, step: Compute, number: int, turn: int, where: _Where) -> Registers:
        registers = self._groups[number].read(step.reads, where)
        if step.box is not None:
            registers[step.box.buffer] = self._contents(step.box, step.part, number, turn, where)
        place = None if step.turn is None else step.turn.at(turn, self._turns)
        if step.piece is None and not step.full:
            return self._body.compute(step.part, registers, place, number)
        assert place is not None
        if step.full:
            if not self._partial.is_full(place):
                constraint = "a part without masks is of a turn whose block is full"
                raise ScheduleFault("unmasked", constraint, f"the partial block of turn {place}", where)
            return self._partial.compute_full(step.part, registers, place, number)
        assert step.piece is not None
        return self._body.compute_piece(step.part, registers, place, number, self._piece(step.piece))

    def _piece(self, piece: Piece) -> int:
        return self._number if isinstance(piece, OfBlock) else piece

    def _rename(self, step: Cut | Take, group: Group, where: _Where) -> None:
        """Registers under other names: all of them, or their columns in pieces."""
        whole = group.read((step.value,), where)[step.value]
        if isinstance(step, Take):
            group.write({step.into: whole}, where)
        else:
            parts = whole.chunk(len(step.pieces), dim=-1)
            group.write(dict(zip(step.pieces, parts, strict=True)), where)

    @property
    def _partial(self) -> PartialBody:
        assert isinstance(self._body, PartialBody)
        return self._body

    @property
    def _ragged(self) -> RaggedBody:
        assert isinstance(self._body, RaggedBody)
        return self._body

    def _copy(self, step: Copy, number: int, turn: int, where: _Where) -> None:
        buffer = self._schedule.buffer(step.buffer)
        position = self._position(step.slot, number, turn, buffer.parts)
        at = None if step.turn is None else step.turn.at(turn, self._turns)
        group = position if isinstance(step.slot, OfGroup) else self._part(step.slot, number)
        name = f"the copy of {step.buffer} for " + (f"group {group}" if at is None else f"turn {at}")
        gate = self._gate(step.full, step.slot, number, turn)
        if isinstance(step.slot, Staged) and step.slot.part is not None:
            assert isinstance(self._body, JointBody) and at is not None
            name += f", part {step.slot.part}"
            contents = self._body.box_of_part(step.buffer, at, step.slot.part)
        else:
            contents = self._body.box(step.buffer, at, group)
        transfer = Transfer(self._memory.place(buffer, position), gate, buffer.box_bytes, contents, name)
        self._memory.fill(transfer.place, at, transfer, where)
        gate.bytes += buffer.box_bytes
        gate.arrive()

    def _multiply(self, step: Multiply, number: int, turn: int, where: _Where) -> None:
        if step.in_order:
            if self._in_order not in (None, number):
                raise ScheduleFault(
                    "order",
                    "one group at a time issues products in order",
                    f"group {number} while it is group {self._in_order}'s turn",
                    where,
                )
            self._in_order = number
        group = self._groups[number]
        name = f"{step.into} of group {number} in turn {turn}"
        if step.adds and not any(p.step.into == step.into for p in group.products):
            group.read((step.into,), where)
        left: Operand
        if isinstance(step.left, Shared):
            left = self._operand(step.left, name, number, turn, where)
        else:
            left = group.read((step.left,), where)[step.left]
        right = self._operand(step.right, name, number, turn, where)
        group.products.append(Product(number, step, left, right, name))

    def _contents(self, box: Shared, part: str, number: int, turn: int, where: _Where) -> torch.Tensor:
        """What a part of the author's body reads of a slot at once."""
        found = self._operand(box, part, number, turn, where)
        found.let_go(part)
        return found.contents.mT if box.transposed else found.contents

    def _operand(self, operand: Shared, reader: str, number: int, turn: int, where: _Where) -> Box:
        """The slot that a product reads from now on, all its parts."""
        buffer, slot = self._schedule.buffer(operand.buffer), operand.slot
        parts: list[Slot] = [slot]
        if isinstance(slot, Staged) and buffer.parts > 1:
            parts = [replace(slot, part=n) for n in range(buffer.parts)]
        read = tuple(self._read(replace(operand, slot=p), reader, number, turn, where) for p in parts)
        return Box(read, buffer.joined, operand.cut, number if operand.cut > 1 else 0)

    def _read(self, operand: Shared, reader: str, number: int, turn: int, where: _Where) -> SlotState:
        """One part of it."""
        place = self._place(operand.buffer, operand.slot, number, turn)
        if place.filling or place.contents is None:
            raise ScheduleFault(
                "early", "a slot is read once the copy into it was waited for", f"{operand.buffer} for {reader}", where
            )
        if isinstance(operand.slot, Staged):
            due: int | None = operand.slot.turn.at(turn, self._turns)
        else:  # of a program with several tiles: what came for this one
            due = None if place.turn is None else first_of_tile(turn, self._turns)
        if place.turn != due:
            raise ScheduleFault("stale", f"a product reads {operand.buffer} of turn {due}", f"turn {place.turn}", where)
        if place.turned != operand.turned:
            raise ScheduleFault("early", "a box is read once it is turned", f"{operand.buffer} for {reader}", where)
        place.readers.append(reader)
        return place

    def _await(self, step: Await, group: Group, where: _Where) -> _Run:
        late = group.products[: len(group.products) - step.pending]
        if any(not p.over for p in late):
            yield _Blocked(lambda: all(p.over for p in late), lambda: f"{len(late)} products of its own")
        group.awaited(step.pending)
        group.read(step.results, where)

    def _put(self, step: Put, number: int, turn: int, where: _Where) -> None:
        place = self._place(step.buffer, step.slot, number, turn)
        self._leave_alone(place, where)
        part = self._groups[number].read((step.value,), where)[step.value].clone()
        at = step.turn.at(turn, self._turns)
        piece = self._piece(step.piece)
        name = f"piece {piece} of group {number}'s {step.value} of the tile with turn {at}"
        if step.adds:
            assert isinstance(self._body, AddingBody)
            arrive = partial(self._body.add, part, at, number)
        else:
            arrive = partial(self._body.put, part, at, piece, number)
        self._memory.outgoing.append(Outgoing(number, place, arrive, name))
        place.readers.append(name)

    def _share(self, step: Share, number: int, turn: int, where: _Where) -> None:
        place = self._place(step.buffer, step.slot, number, turn)
        self._leave_alone(place, where)
        place.contents = self._groups[number].read((step.value,), where)[step.value].clone()
        place.turn = step.slot.turn.at(turn, self._turns)

    def _split(self, step: Split, number: int, turn: int, where: _Where) -> None:
        """A box's low parts, rounded to what the matrix units read of them, and the box itself where it is turned."""
        numbers = self._contents(step.box, "the splitter", number, turn, where)
        high = as_tf32(numbers)
        rest = torch.where(numbers.isfinite(), numbers - high, 0.0)
        low = (rest.contiguous().view(torch.int32) + (1 << 12)).view(torch.float32)
        assert isinstance(step.box.slot, Staged)
        for name, part in {step.low: low, **({step.box.buffer: numbers} if step.turns else {})}.items():
            place = self._place(name, step.box.slot, number, turn)
            self._leave_alone(place, where)
            place.contents = part.mT if step.turns else part
            place.turn = step.box.slot.turn.at(turn, self._turns)
            place.turned = name == step.box.buffer

    def _await_puts(self, number: int, pending: int) -> _Run:
        mine = [o for o in self._memory.outgoing if o.group == number]
        mine = mine[: len(mine) - pending] if pending else mine
        if any(not o.over for o in mine):
            yield _Blocked(lambda: all(o.over for o in mine), lambda: f"{len(mine)} copies of its results")
        for outgoing in mine:
            outgoing.place.readers.remove(outgoing.name)
            self._memory.outgoing.remove(outgoing)

    def _leave_alone(self, place: SlotState, where: _Where) -> None:
        if place.filling or place.readers:
            raise ScheduleFault(
                "race", "a slot is written when nobody fills or reads it", ", ".join(place.readers) or "a copy", where
            )

    # ---- slots ----------------------------------------------------------------------------------

    def _position(self, slot: Slot, number: int, turn: int, parts: int = 1) -> int:
        if isinstance(slot, OfGroup):
            return slot.at(number, self._schedule.consumer.groups)
        stage = slot.turn.at(turn, self._turns) % self._schedule.stages
        if slot.group is not None:
            return stage * self._schedule.consumer.groups + self._part(slot, number)
        return stage if slot.part is None else stage * parts + slot.part

    def _part(self, slot: Staged, number: int) -> int:
        """The group that a slot of a ring is for, or -1 where it is for all."""
        return -1 if slot.group is None else slot.group.at(number, self._schedule.consumer.groups)

    def _gate(self, name: str, slot: Slot, number: int, turn: int) -> Gate:
        """A slot of a ring has one, whichever groups have parts of it."""
        slot = Staged(slot.turn) if isinstance(slot, Staged) else slot
        return self._memory.gate(self._schedule.barrier(name), self._position(slot, number, turn))

    def _place(self, name: str, slot: Slot, number: int, turn: int) -> SlotState:
        buffer = self._schedule.buffer(name)
        return self._memory.place(buffer, self._position(slot, number, turn, buffer.parts))
