"""A process's memory by its users: the kernel's figure, the C heap's and Python's, side by side.

A leak of Python objects shows in ``python_blocks``, one of a C library in ``heap_mb``. Where only ``resident_mb``
grows, pages are mapped by something else, such as a driver, or the heap is fragmented (``heap_free_mb``).
"""

from __future__ import annotations

import ctypes
import os
import sys


class _Mallinfo2(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def resident_bytes() -> int:
    """Return the process's resident memory in bytes (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory() -> dict[str, float]:
    """Return resident memory, the C heap in use, free in it and mapped by it (MB), and Python's blocks.

    The heap's three figures are absent where the C library has no ``mallinfo2``.
    """
    found = {"resident_mb": resident_bytes() / 1e6, "python_blocks": float(sys.getallocatedblocks())}
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return found
    mallinfo2.restype = _Mallinfo2
    heap = mallinfo2()
    return found | {
        "heap_mb": heap.uordblks / 1e6,
        "heap_free_mb": heap.fordblks / 1e6,
        "heap_mapped_mb": heap.hblkhd / 1e6,
    }
