"""Dividing: the lanes of a dimension dealt out to the blocks of a cluster, which exchange what each reduces of its own.

Which dimension it can be: :mod:`clusters`. An exchange costs each block a wait for all others, so that numbers which do
not need one another are exchanged at once: what needs the first of them is put off until the last one is there. The two
means of a norm's gradient, in a loop over its rows, took 0.87 of the time so (H200, 2026-11-30; two blocks of 8192
lanes, docs/measurements/default-rules.md).
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import ConfigError
from ..ir.attributes import ClusterExchangeAttrs, ReduceAttrs
from ..ir.graph import Block, DividedRow, KernelIR, Op, Operand, uses
from ..ir.kinds import OpKind
from ..ir.op_table import effects_of
from ..ir.types import Dim, Value
from .clusters import Whole, clustered_row
from .folds import folded
from .rewrite import Fresh

MOST_AT_ONCE = 8  # numbers of one exchange, which each block has places for


def divide_row(ir: KernelIR, blocks: int) -> KernelIR:
    """The region with its rows held by so many blocks of a cluster. Raises ConfigError where none can."""
    row = clustered_row(ir)
    if isinstance(row, Whole):
        raise ConfigError(
            f"blocks of a cluster hold a row together where they can exchange what they reduce: {row.reason}",
            got=f"ctas={blocks}",
            hint="choose 1",
        )
    body = _divided(ir.body, row.dim, Fresh(ir))
    return replace(ir, body=body, divided=DividedRow(row.dim.extent, blocks))


def _divided(block: Block, dim: Dim, fresh: Fresh) -> Block:
    exchanges = _Exchanges(dim, fresh)
    for op in block.ops:
        exchanges.take(op)
    exchanges.finish(block.results)
    return Block(block.params, tuple(exchanges.ops), block.results)


class _Exchanges:
    """The ops of one block, in the author's order but for those that wait for an exchange."""

    def __init__(self, dim: Dim, fresh: Fresh) -> None:
        self.ops: list[Op] = []
        self._dim, self._fresh = dim, fresh
        self._parts: list[tuple[Op, Value]] = []  # reductions that await their exchange, and what a block has of each
        self._waiting: list[Op] = []
        self._awaited: set[Value] = set()  # what is known behind the exchange alone

    def take(self, op: Op) -> None:
        """The next op of the author's."""
        is_exchanged = op.kind is OpKind.REDUCE and folded(op) == self._dim
        if op.regions or (is_exchanged and (self._waits(op) or len(self._parts) == MOST_AT_ONCE)):
            self._exchange()
        if is_exchanged:
            part = self._fresh.value(op.output.type, op.output)
            self.ops.append(op.with_(outputs=(part,)))
            self._parts.append((op, part))
            self._awaited.add(op.output)
        elif self._waits(op):
            self._waiting.append(op)
            self._awaited.update(op.outputs)
        else:
            self.ops.append(op.with_(regions=tuple(_divided(r, self._dim, self._fresh) for r in op.regions)))

    def finish(self, results: tuple[Operand, ...]) -> None:
        """All that waits, at the block's end."""
        self._exchange()
        assert not self._awaited.intersection(results)

    def _waits(self, op: Op) -> bool:
        """Whether an op needs what the exchange gives, or follows in memory on one that does."""
        effects = effects_of(op)
        has_effect = bool(effects.reads or effects.writes or effects.is_seen)
        late = map(effects_of, self._waiting)
        return not self._awaited.isdisjoint(uses(Block((), (op,), ()))) or (
            has_effect and any(its.writes or its.is_seen or (its.reads and effects.writes) for its in late)
        )

    def _exchange(self) -> None:
        if self._parts:
            fns = tuple(ReduceAttrs.of(op).fn for op, _ in self._parts)
            inputs = tuple(part for _, part in self._parts)
            outputs = tuple(op.output for op, _ in self._parts)
            loc = self._parts[0][0].loc
            self.ops.append(Op(OpKind.CLUSTER_EXCHANGE, inputs, outputs, ClusterExchangeAttrs(fns), (), loc))
        self.ops += self._waiting
        self._parts, self._waiting, self._awaited = [], [], set()
