"""Ways through a binary's loops: what a turn executes, where branches of it leave instructions out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from .gluon_text import machine_code

_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+ )?(\S+)(.*);")
_ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP")  # of a block of instructions


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions without a branch between them, by their operations, and the labels that may come next."""

    operations: tuple[str, ...]
    nexts: tuple[str, ...]


def shortest_turns(code: bytes) -> list[Counter[str]]:
    """The shortest way round each loop with products of warp groups, as how often it has each operation. It leaves out
    what a branch can leave out: masks of few turns."""
    blocks = _blocks(machine_code(code))
    found = dict[frozenset[str], Counter[str]]()
    for name, block in blocks.items():
        if "HGMMA" in block.operations and (way := _round(blocks, name)):
            found[frozenset(way)] = Counter(word for step in way for word in blocks[step].operations)
    return list(found.values())


def _blocks(text: str) -> dict[str, Block]:
    """Blocks by their labels; those behind a branch have numbers."""
    found: dict[str, Block] = {}
    name, words, nexts = "0", list[str](), list[str]()

    def end(after: str, falls_through: bool) -> None:
        nonlocal name, words, nexts
        found[name] = Block(tuple(words), (*nexts, after) if falls_through else tuple(nexts))
        name, words, nexts = after, [], []

    for line in text.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            end(label[1], falls_through=True)
        elif instruction := _INSTRUCTION.match(line):
            predicate, operation, operands = instruction.groups()
            words.append(operation.split(".")[0])
            if words[-1] in _ENDS:
                nexts += re.findall(r"`\((\.L_x_\d+)\)", operands) if words[-1] == "BRA" else []
                may_not = bool(predicate) or re.match(r"\s*!?U?P\d", operands) is not None
                end(str(len(found) + 1), falls_through=may_not)
    end("", falls_through=False)
    return found


def _round(blocks: dict[str, Block], start: str) -> tuple[str, ...]:
    """The blocks of the shortest way from a block back to it; none where there is no way."""
    waiting, known = [(0, start, (start,))], set[str]()
    while waiting:
        length, name, way = heappop(waiting)
        if name == start and length:
            return way[:-1]
        if name in known:
            continue
        known |= {name} if length else set()
        for after, size in _after(blocks, name):
            heappush(waiting, (length + size, after, (*way, after)))
    return ()


def _after(blocks: dict[str, Block], name: str) -> Iterator[tuple[str, int]]:
    for after in blocks[name].nexts:
        if after in blocks:
            yield after, max(len(blocks[after].operations), 1)
