"""What NVIDIA's machine code says that its assembler does not: which instructions are in loops.

An instruction has 16 bytes. Its lowest 12 bits are the opcode, the next four the predicate (7 is always); a branch's
distance from the next instruction is in units of 4 bytes, its lower 8 bits at bit 16, the others from bit 34. Read from
what ``nvdisasm`` prints of sm_90 and sm_100, which the tests hold this to; sm_80 has branches elsewhere.
"""

from __future__ import annotations

import struct

_SIZE = 16
_BRANCH, _EXIT, _RETURN = 0x947, 0x94D, 0x950
_LOCAL = frozenset({0x983, 0x387})  # LDL, STL
_ALWAYS = 7


def local_accesses_in_loops(code: bytes) -> int:
    """How many instructions of a kernel's code that load or store local memory may run again and again."""
    words = [first for first, _ in struct.iter_unpack("<QQ", code[: len(code) // _SIZE * _SIZE])]
    local = [at for at, word in enumerate(words) if word & 0xFFF in _LOCAL]
    if not local:
        return 0
    starts, edges = _flow(words)
    block_of = {
        at: block for block, start in enumerate(starts) for at in range(start, [*starts, len(words)][block + 1])
    }
    looped = {block for block in edges if block in _reached(edges, edges[block])}
    return sum(block_of[at] in looped for at in local)


def _flow(words: list[int]) -> tuple[list[int], dict[int, list[int]]]:
    """The first instructions of basic blocks, and which blocks follow each one."""
    targets = {at: _target(at, word) for at, word in enumerate(words) if word & 0xFFF == _BRANCH}
    ends = [at for at, word in enumerate(words) if word & 0xFFF in (_BRANCH, _EXIT, _RETURN)]
    inside = {at for at in (*targets.values(), *(end + 1 for end in ends)) if 0 <= at < len(words)}
    starts = sorted({0} | inside)
    number = {start: block for block, start in enumerate(starts)}
    edges: dict[int, list[int]] = {}
    for block, start in enumerate(starts):
        last = ([*starts, len(words)][block + 1]) - 1
        follows = [number[targets[last]]] if targets.get(last, -1) in number else []
        is_end = words[last] & 0xFFF in (_BRANCH, _EXIT, _RETURN) and (words[last] >> 12) & 0xF == _ALWAYS
        if not is_end and last + 1 in number:
            follows.append(number[last + 1])
        edges[block] = follows
        assert start <= last
    return starts, edges


def _target(at: int, word: int) -> int:
    upper = word >> 34
    upper -= 1 << 30 if upper >> 29 else 0
    return at + 1 + ((upper << 8) | ((word >> 16) & 0xFF)) * 4 // _SIZE


def _reached(edges: dict[int, list[int]], first: list[int]) -> set[int]:
    found, waiting = set[int](), list(first)
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += edges[block]
    return found
