"""The shared memory that a schedule takes, known before anything is compiled: Gluon does not check it."""

from __future__ import annotations

from .types import Schedule

BARRIER_BYTES = 8
# What Triton adds: the arguments that it hands to the other warps, and their states (3.6.0 and 3.7.1: up to 300)
OVERHEAD = 1024


def buffer_bytes(schedule: Schedule) -> int:
    """What the schedule's own buffers and barriers take."""
    buffers = sum(b.slot_bytes * b.slots for b in schedule.buffers)
    return buffers + BARRIER_BYTES * sum(b.slots for b in schedule.barriers)


def shared_bytes(schedule: Schedule) -> int:
    """An upper bound on the bytes of shared memory of a block."""
    return buffer_bytes(schedule) + schedule.scratch + schedule.given + OVERHEAD
