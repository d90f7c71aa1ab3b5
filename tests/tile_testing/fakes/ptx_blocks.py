"""The PTX of exchanges in a cluster, run on a CPU: the threads of all blocks, between barriers in any order.

It knows the instructions of :mod:`tileflow.emit.cluster_loops` and :mod:`tileflow.emit.exchanges` and no others. A word
of shared memory that one thread writes and another one reads or writes, with no barrier of the cluster between, is a
race, which raises.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_STATEMENT = re.compile(r"(?:@(\w+) )?([\w.:]+)(?: (.*))?")


@dataclass
class Memory:
    """The boxes of one block. ``touched``: by address, who wrote it since the last barrier, and who read it."""

    size: int
    words: dict[int, Any] = field(default_factory=dict)
    touched: dict[int, tuple[set[Any], set[Any]]] = field(default_factory=dict)

    def access(self, at: int, who: Any, *, writes: bool) -> int:
        """Note an access. Raises AssertionError for a race, and outside of the box."""
        assert 0 <= at < self.size, f"{at} of {self.size} bytes"
        writers, readers = self.touched.setdefault(at, (set(), set()))
        others = (writers | readers if writes else writers) - {who}
        assert not others, f"{who} and {others} meet at {at}"
        (writers if writes else readers).add(who)
        return at


def run(
    texts: Sequence[str], box: int, registers: dict[tuple[int, int], list[Any]], size: int, order: random.Random
) -> None:
    """Run ``texts``, one after the other, by the threads (block, number) of ``registers``, which they change. ``box``:
    bytes of each of the two boxes, ``size``: of a register."""
    memories = {block: Memory(2 * box) for block, _ in registers}
    threads = [_thread(texts, block, number, own, memories, size) for (block, number), own in registers.items()]
    while threads:
        order.shuffle(threads)
        threads = [thread for thread in threads if next(thread, "ended") != "ended"]
        for memory in memories.values():
            memory.touched.clear()  # all are at one barrier


def _thread(
    texts: Sequence[str], block: int, number: int, own: list[Any], memories: dict[int, Memory], size: int
) -> Iterator[str]:
    """One thread, which stops at each barrier."""
    kept: dict[str, Any] = {"cluster_box": 0, "cluster_boxes": (block, 0)}
    for text in texts:
        named = {**kept, "%cluster_ctarank": block, "%tid.x": number}
        yield from _text(text, (block, number), own, named, memories, size)
        kept = {name: named[name] for name in kept}


def _text(
    text: str,
    who: tuple[int, int],
    own: list[Any],
    named: dict[str, Any],
    memories: dict[int, Memory],
    size: int,
) -> Iterator[str]:
    """One thread in one text."""

    def value(word: str) -> Any:
        if word.startswith("$"):
            return own[int(word[1:])]
        return int(word) if word.lstrip("-").isdigit() else named[word]

    def put(word: str, what: Any) -> None:
        if word.startswith("$"):
            own[int(word[1:])] = what
        else:
            named[word] = what

    for statement in re.sub(r"[{}](?=\n|$)", "", text.strip("{}")).replace("\n", " ").split(";"):
        found = _STATEMENT.fullmatch(statement.strip())
        if found is None or found[2].startswith("."):
            continue
        guard, name, rest = found[1], found[2], found[3] or ""
        if guard and not named[guard]:
            continue
        operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
        if name == "barrier.cluster.wait.acquire":
            yield name
        elif name.startswith("st."):
            where, offset = _place(operands[0], value)
            for n, word in enumerate(_words(operands[1])):
                at = memories[where].access(offset + n * size, who, writes=True)
                memories[where].words[at] = value(word)
        elif name.startswith("ld."):
            where, offset = _place(operands[1], value)
            assert where == who[0]
            for n, word in enumerate(_words(operands[0])):
                at = memories[where].access(offset + n * size, who, writes=False)
                put(word, memories[where].words[at])
        elif name != "barrier.cluster.arrive.release":
            put(operands[0], _computed(name, list(map(value, operands[1:]))))


def _computed(name: str, given: list[Any]) -> Any:
    if name.startswith(("max.", "min.")):
        return _extremum(name, given)
    match name.partition(".")[0], given:
        case "mov", [a]:
            return a
        case "mad", [a, b, (where, at)]:
            return where, at + a * b
        case "and", [a, b]:
            return a & b
        case "xor", [a, b]:
            return a ^ b
        case "setp", [a, b]:
            return a < b if ".lt." in name else a == b
        case "sub" | "add", [(where, at), b]:
            return where, at + b if name.startswith("add") else at - b
        case "sub", [a, b]:
            return a - b
        case "add", [a, b]:
            return a + b
        case "mul", [a, b]:
            return a * b
        case "mapa", [(_, at), where]:
            return where, at
    raise AssertionError(f"no instruction that is known: {name} {given}")


def _extremum(name: str, given: list[Any]) -> Any:
    """The larger or the smaller number; of a NaN and a number the NaN, if the instruction says so, else the number."""
    odd, even = [n for n in given if n != n], [n for n in given if n == n]
    if odd and (".NaN." in name or not even):
        return odd[0]
    return (max if name.startswith("max.") else min)(even)


def _place(text: str, value: Any) -> tuple[int, int]:
    name, _, more = text.strip("[]").partition("+")
    where, at = value(name)
    return where, at + int(more or 0)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.strip("{}").split(",")]
