"""Names of a kernel's variables: the author's where there is one, unique, and nothing that the text means otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..ir.attributes import ForeignAttrs, LoopAttrs
from ..ir.graph import KernelIR, Op, once
from ..ir.kinds import LOOPS, OpKind
from ..ir.types import Value
from .plan import OWN, constexpr_name, parameter_name, symbol_name


class Names:
    """Those of one scope: a kernel's, or a helper's."""

    def __init__(self, ir: KernelIR) -> None:
        self._given = _given(ir)
        self._taken = set(_reserved(ir))
        self._counts: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """Names that the text has of its own."""
        self._taken |= set(names)

    def fresh(self, prefix: str) -> str:
        """``v0``, ``v1`` ..."""
        while True:
            count = self._counts.get(prefix, 0)
            self._counts[prefix] = count + 1
            if (name := f"{prefix}{count}") not in self._taken:
                self._taken.add(name)
                return name

    def of(self, value: Value, prefix: str) -> str:
        """The author's name for a value, the first time as it is; else one that begins with ``prefix``."""
        given = self._given.get(value.id)
        if given is None:
            return self.fresh(prefix)
        name, count = given, 0
        while name in self._taken:
            count += 1
            name = f"{given}_{count}"
        self._taken.add(name)
        return name


@once
def _given(ir: KernelIR) -> dict[int, str]:
    """What values are called, by their ids. A loop's variable has the author's name, what it starts with and what a
    turn makes of it the same with a suffix."""
    names = {n: name for n, name in ir.value_names.items() if _is_plain(name)}
    carried = {p.id for op in ir.walk() for region in op.regions for p in region.params}
    carried |= {v.id for op in ir.walk() if op.regions for v in op.outputs}
    for op in ir.walk():
        if op.kind in LOOPS:
            _around(op, names, carried)
    return names


def _around(loop: Op, names: dict[int, str], carried: set[int]) -> None:
    (body,) = loop.regions
    entries = loop.inputs[LoopAttrs.of(loop).bounds :] if loop.kind is OpKind.FOR else loop.inputs
    for entry, param, result in zip(entries, body.params, body.results, strict=True):
        name = names.get(param.id)
        for value, suffix in ((entry, "start"), (result, "next")):
            if name and isinstance(value, Value) and value.id not in carried and names.get(value.id) == name:
                names[value.id] = f"{name}_{suffix}"


def _is_plain(name: str) -> bool:
    """Whether a name is one that a value may have: no helper's, no knob's constant's and no descriptor's."""
    is_ours = name.startswith(("_", "BLOCK_", "REDUCE_", "TUNABLE_")) or "_desc_" in name
    return name.isascii() and name.isidentifier() and not is_ours


@once
def _reserved(ir: KernelIR) -> frozenset[str]:
    """Python's words, and all that a kernel's text may name besides its values."""
    found = set(OWN)
    tiles = [constexpr_name(tile).lower() for tile in ir.tiles]
    found |= {f"{tile}_{part}" for tile in tiles for part in ("begin", "idx", "mask", "at", "count")}
    found |= {f"{tensor.name}_ptr" for tensor in ir.tensors} | {parameter_name(s.name) for s in ir.scalars}
    found |= {symbol_name(symbol) for symbol in ir.hints}
    for op in ir.walk():
        if op.kind is OpKind.FOREIGN:  # the author's own text, and what it calls
            its = ForeignAttrs.of(op)
            found |= {word for text in (its.text, *(t for _, t in its.functions)) for word in re.findall(r"\w+", text)}
            found |= {name for name, _ in its.functions}
    return frozenset(found)
