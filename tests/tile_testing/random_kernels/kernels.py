"""A whole random kernel: its arguments, views of them, one or two launches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from .draws import Draws
from .statements import body, expression
from .stores import store
from .tensors import LAYOUTS, RANGES, SAFE_LAYOUTS, Argument, Number, Tensor
from .values import DTYPES, FLOATS, Range, Value
from .writer import Loop, Writer

SIZES = (5, 1, 2, 3, 4, 7, 8, 13, 16, 17, 33, 40)
MOST_ITERATIONS = 4000  # of a launch, at blocks of one
HEADING = """import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

C0 = 0.5
C1 = 2


def twice(a, b=1):
    return a + a * b


def swapped(a, b):
    return b, a


def row_sums(x, t):
    total = tfl.zeros([t])
    for k in tfl.tile(x.size(1)):
        total += x[t, k].float().sum(1)
    return total


"""


@dataclass(frozen=True, slots=True)
class Program:
    """``source``: of a module with ``kernel``. ``exact``: of each output, whether every way gives the same bits."""

    source: str
    arguments: tuple[Argument | Number, ...]
    exact: tuple[bool, ...]

    def make(self, seed: int = 0, device: str = "cpu") -> tuple[Any, ...]:
        return tuple(a.make(seed + n, device) for n, a in enumerate(self.arguments))

    def script(self, seed: int = 0) -> str:
        """What can be pasted: the source, and arguments like those of a call."""
        lines = [f"{a!r}.make({seed + n})," for n, a in enumerate(self.arguments)]
        heading = "from torch import *\nfrom tile_testing.random_kernels.tensors import Argument, Number\n"
        heading += "from tile_testing.random_kernels.values import Range\n"
        text = "\n    ".join(lines).replace("torch.", "")
        return f"{self.source}\n\n{heading}\nargs = (\n    {text}\n)\nprint(kernel.run_eagerly(*args))\n"


def program(draws: Draws) -> Program:
    w = Writer(draws)
    sizes = [_size(draws) for _ in range(draws.between(1, 3))]
    arguments = _arguments(w, sizes)
    numbers = _numbers(w)
    views = _views(w)
    launches = [_launch(w, sizes) for _ in range(1 + draws.chance(20))]
    arguments += w.changed
    names = ", ".join(a.name for a in (*arguments, *numbers))
    lines = [f"    {line}" for line in views]
    for host, device in launches:
        lines += [*(f"    {line}" for line in host), *device]
    lines.append(f"    return ({''.join(f'{out.name}, ' for out in w.outputs)})")
    source = f"{HEADING}@tileflow.kernel\ndef kernel({names}):\n" + "\n".join(lines) + "\n"
    return Program(source, (*arguments, *numbers), tuple(out.range.step > 0 for out in w.outputs))


def _size(draws: Draws) -> int:
    return 0 if draws.chance(3) else draws.of(SIZES)


def _arguments(w: Writer, sizes: list[int]) -> list[Argument]:
    found = list[Argument]()
    for n in range(w.draws.between(1, 4)):
        rank = w.draws.weighted([(5, 2), (4, 1), (2, 3), (1, 0)]) if n else w.draws.weighted([(4, 2), (3, 1), (2, 3)])
        axes = [w.draws.of(sizes) + (2 if w.draws.chance(8) else 0) for _ in range(rank)]
        dtype = w.draws.of(DTYPES)
        layout = w.draws.of(tuple(LAYOUTS) if rank and min(axes) else SAFE_LAYOUTS[:1])
        found.append(Argument(f"x{n}", dtype, tuple(axes), RANGES[dtype], layout))
    if w.draws.chance(30):
        found += _factors(w, len(found), sizes)
    if w.draws.chance(40):
        size, rows = w.draws.of(sizes), w.draws.of(sizes)
        if size > 0:
            values = Range(0, size - 1, 1)
            found.append(Argument("idx", w.draws.of((torch.int64, torch.int32)), (rows,), values))
    w.tensors += [a.tensor for a in found]
    return found


def _factors(w: Writer, first: int, sizes: list[int]) -> list[Argument]:
    """Two matrices that a product takes."""
    dtype = w.draws.of(FLOATS)
    m, k, n = (w.draws.of(sizes) for _ in range(3))
    return [
        Argument(
            f"x{first + i}", dtype, axes, RANGES[dtype], w.draws.of(SAFE_LAYOUTS if min(axes) else ("contiguous",))
        )
        for i, axes in enumerate([(m, k), (k, n)])
    ]


def _numbers(w: Writer) -> list[Number]:
    found = list[Number]()
    w.numbers += [_number("2", 2), _number("0.5", 0.5), _number("C0", 0.5), _number("C1", 2)]
    for name, values in (("s0", (0.5, 2.0, -1.5, 0.0)), ("n0", (3, 1, 0, 2)), ("w0", ((1.0, 0.25), (2, 1)))):
        if w.draws.chance(40):
            value = w.draws.of(values)
            found.append(Number(name, value))
            if isinstance(value, tuple):
                w.numbers += [_number(f"{name}[{i}]", v) for i, v in enumerate(value)]
            else:
                w.numbers.append(_number(name, value))
    return found


def _number(text: str, value: float) -> Value:
    dtype = torch.float32 if isinstance(value, float) else torch.int64
    return Value(text, dtype, (), Range(value, value, 0.25 if isinstance(value, float) else 1.0), value)


def _views(w: Writer) -> list[str]:
    """Tensors that host code makes of the arguments."""
    lines = list[str]()
    for tensor in list(w.tensors):
        if not tensor.sizes or not w.draws.chance(20):
            continue
        text, sizes = w.draws.of(_ways(w.draws, tensor))
        name = w.name("h")
        lines.append(f"{name} = {tensor.name}{text}")
        w.tensors.append(Tensor(name, tensor.dtype, sizes, tensor.range))
    return lines


def _ways(draws: Draws, tensor: Tensor) -> list[tuple[str, tuple[int, ...]]]:
    first, *rest = tensor.sizes
    found = [(f".unsqueeze(0).expand(3, *[-1] * {len(tensor.sizes)})", (3, *tensor.sizes))]
    if len(tensor.sizes) == 2:
        found += [(".t()", (rest[0], first))]
    if first > 2:
        found += [(f".narrow(0, 1, {first - 2})", (first - 2, *rest)), ("[::2]", ((first + 1) // 2, *rest))]
        found += [("[1]", tuple(rest))] if rest else []
    return found


def _results(w: Writer) -> None:
    """Stores what nothing was made of."""
    if not w.values:
        expression(w)
    unread = [v for v in w.values if v.text not in w.read] or w.values[-1:]
    for value in unread[-4:]:
        store(w, value)


def _launch(w: Writer, sizes: list[int]) -> tuple[list[str], list[str]]:
    rank = w.draws.weighted([(4, 1), (4, 2), (1, 3)])
    loops = [Loop(w.name("t"), w.draws.of(sizes), True) for _ in range(rank)]
    while math.prod(loop.size for loop in loops) > MOST_ITERATIONS:
        loops.pop()
    rank = len(loops)
    w.host, w.lines, w.loops, w.launched, w.values, w.stored = [], [], loops, rank, [], []
    before = len(w.outputs) + len(w.changed)
    variables = ", ".join(loop.variable for loop in loops)
    ends = [w.size(loop.size) for loop in loops]
    heading = f"for {variables} in tfl.tile({ends[0] if rank == 1 else '[' + ', '.join(ends) + ']'}):"
    if rank == 1 and w.draws.chance(10):
        loops[0].is_tile = False
        heading = f"for {variables} in tfl.grid({ends[0]}):"
    with w.block(heading):
        body(w, 10)
        _results(w)
        if len(w.outputs) + len(w.changed) == before:  # a launch stores something
            store(w, w.given("tfl.full([], 3.0)", Value(w.name("v"), torch.float32, (), Range(3, 3, 1))))
    w.loops = []
    w.tensors += [out for out in w.outputs if out not in w.tensors and out.may_be_read]
    return w.host, w.lines
