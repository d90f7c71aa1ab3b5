"""Barriers between accesses of one tensor, where one thread's must come after another's."""

from __future__ import annotations

from math import prod

from ..ir.attributes import AtomicAttrs
from ..ir.hazards import Access, hazards
from ..ir.kinds import OpKind
from .plan import KernelPlan

_ADDING = {OpKind.ATOMIC, OpKind.HISTOGRAM}
_IN_ANY_ORDER = frozenset({"add", "and", "or", "xor", "min", "max"})  # of atomics


def barriers(plan: KernelPlan, threads: int) -> set[int]:
    """The ids (Python's) of the ops that wait until every thread of the program has done what stands before them."""

    def conflict(earlier: Access, later: Access) -> bool:
        kinds = {earlier.op.kind, later.op.kind}
        if kinds <= _ADDING:
            functions = {AtomicAttrs.of(earlier.op).fn, AtomicAttrs.of(later.op).fn}
            return len(functions) > 1 or not functions <= _IN_ANY_ORDER
        if OpKind.HISTOGRAM in kinds:
            return True  # other threads than those of its lanes add its counts
        if earlier.writes and later.op.kind is not OpKind.STORE:
            return True  # what is stored once, by one of the threads that hold it, may be loaded by all of them
        # a thread keeps its own order; with fewer lanes than threads, several load one, and one of them stores it
        return not earlier.is_lanewise(later) or prod(plan.extent(d.extent) for d in later.dims) < threads

    return hazards(plan.ir, conflict)
