"""A generated Triton kernel as torch on a CPU, a thread for each block of a cluster: what Triton's interpreter, which
runs one block after the other, cannot show of blocks that wait for each other.

It knows the functions that kernels of rows and sums are written with, and no others. Exchanges are done as their PTX
says they are: each stands for a box that all blocks fill, then all read.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from tileflow.emit.source import TritonSource
from tileflow.language.random import philox

WAIT_S = 30


@dataclass(frozen=True)
class Pointer:
    """An address: a tensor's memory, and offsets into it in elements."""

    memory: torch.Tensor
    offsets: Any = 0

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.memory, self.offsets + other)


@dataclass(frozen=True)
class Box:
    """A tensor that is copied by boxes of ``sides``: places beyond it are loaded as zeros and not stored."""

    tensor: torch.Tensor
    sides: tuple[int, ...]

    def load(self, first: list[Any]) -> torch.Tensor:
        """The box from the place ``first`` on."""
        found = torch.zeros(self.sides, dtype=self.tensor.dtype)
        part = self.tensor[self._inside(first)]
        found[tuple(slice(0, n) for n in part.shape)] = part
        return found

    def store(self, first: list[Any], value: torch.Tensor) -> None:
        """Store a box's values from the place ``first`` on."""
        part = self.tensor[self._inside(first)]
        part.copy_(value[tuple(slice(0, n) for n in part.shape)])

    def _inside(self, first: list[Any]) -> tuple[slice, ...]:
        return tuple(slice(int(f), int(f) + side) for f, side in zip(first, self.sides, strict=True))


def bound(source: TritonSource, given: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The arguments of ``source``, by name. ``given``: tensors and numbers by path. ``sizes``: of launch symbols."""
    found: dict[str, Any] = {}
    for arg in source.args:
        if arg.value is not None:
            found[arg.name] = arg.value.evaluate(sizes)
        elif arg.kind == "descriptor":
            _, sides, _ = re.split(r"[\[\]]", arg.type)
            found[arg.name] = Box(given[arg.path], tuple(map(int, sides.split(","))))
        else:
            found[arg.name] = given[arg.path]
    return found


class _Cluster:
    """What the blocks of one program share."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.barrier = threading.Barrier(parts, timeout=WAIT_S)
        self.boxes: dict[tuple[int, int], list[Any]] = {}

    def exchanged(self, number: tuple[int, int], rank: int, value: torch.Tensor) -> list[torch.Tensor]:
        """The values of all blocks, once each has stored its own at the places ``number``."""
        self.boxes.setdefault(number, [None] * self.parts)[rank] = value
        self.barrier.wait()
        return [v.clone() for v in self.boxes[number]]


def run(source: TritonSource, arguments: dict[str, Any], programs: int) -> list[int]:
    """Run ``source`` with all its programs, one after the other, and the blocks of each at once. Returns how many
    barriers of the cluster each block waited at."""
    waits: list[int] = []
    for program in range(programs):
        cluster = _Cluster(source.cluster)
        with ThreadPoolExecutor(source.cluster) as pool:
            blocks = [pool.submit(_block, source, arguments, program, rank, cluster) for rank in range(source.cluster)]
            failed = [e for b in blocks if (e := b.exception()) and not isinstance(e, threading.BrokenBarrierError)]
            if failed:
                raise failed[0]
            waits += [block.result() for block in blocks]
    return waits


def _block(source: TritonSource, arguments: dict[str, Any], program: int, rank: int, cluster: _Cluster) -> int:
    waited: list[str] = []

    def inline_asm_elementwise(text: str, constraints: str, args: list[Any], dtype: Any, **_: Any) -> Any:
        waited.append(text)
        if not isinstance(args[0], torch.Tensor):
            assert "barrier.cluster" in text and len(waited) == 1
            return cluster.barrier.wait()
        numbers = [cluster.exchanged((len(waited), i), rank, own) for i, own in enumerate(args)]
        if "there0" in text:  # put together in pairs; only blocks that take may look at that
            is_taker = rank == 0 or "gives0" not in text
            return _put_together(numbers[0], text) if is_taker else torch.full_like(args[0], -(2**20))
        assert all(own.numel() == 1 for own in args)
        (room,) = (int(size) for size in re.findall(r"cluster_boxes\[(\d+)\]", waited[0]))
        assert cluster.parts * sum(own.element_size() for own in args) <= room // 2
        assert len(dtype) == constraints.count("=")
        return [number for own in numbers for number in own]

    names = {**vars(_language(program * source.cluster + rank)), "inline_asm_elementwise": inline_asm_elementwise}
    text = source.code.replace("import triton.language as tl\n", "").replace("import triton\n", "")
    space: dict[str, Any] = {"tl": SimpleNamespace(**names), "triton": SimpleNamespace(jit=lambda function: function)}
    exec(text, space)
    pointed = {name: Pointer(v.view(-1)) if isinstance(v, torch.Tensor) else v for name, v in arguments.items()}
    try:
        space[source.name](**pointed, **dict(source.constexprs))
    except BaseException:
        cluster.barrier.abort()  # or the others wait for it
        raise
    return len(waited)


_TWO = {"add": torch.add, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum}


def _put_together(values: list[torch.Tensor], text: str) -> torch.Tensor:
    """All of them in one, as the text does it: neighbours first."""
    (instruction,) = set(re.findall(r"\b(add|mul|max|min)\.[\w.]+ \$", text))
    two = _TWO[instruction]
    while len(values) > 1:
        values = [two(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _language(block: int) -> SimpleNamespace:
    def load(at: Pointer, mask: Any = True, other: float = 0.0, **_: Any) -> torch.Tensor:
        offsets, kept = torch.broadcast_tensors(torch.as_tensor(at.offsets), torch.as_tensor(mask))
        assert not kept.any() or int(offsets[kept].max()) < at.memory.numel()
        found = at.memory[torch.where(kept, offsets, 0)]
        return torch.where(kept, found, torch.tensor(other, dtype=found.dtype))

    def store(at: Pointer, value: torch.Tensor, mask: Any = True, **_: Any) -> None:
        offsets, value, kept = torch.broadcast_tensors(torch.as_tensor(at.offsets), value, torch.as_tensor(mask))
        at.memory[offsets[kept]] = value[kept]

    def reduce(value: torch.Tensor, axis: int, combine: Any) -> torch.Tensor:
        while value.size(axis) > 1:
            value = combine(*value.chunk(2, axis))
        return value.squeeze(axis)

    return SimpleNamespace(
        constexpr=lambda value: value,
        static_assert=lambda condition, text: None,  # Triton's: of shapes that its values have
        program_id=lambda axis: block if axis == 0 else 0,
        arange=torch.arange,
        range=lambda begin, end, step, **_: range(int(begin), int(end), int(step)),
        load=load,
        store=store,
        reduce=reduce,
        dot=lambda a, b, acc=0.0, **_: acc + a.float() @ b.float(),
        permute=lambda value, axes: value.permute(axes),
        sum=lambda value, axis: value.sum(axis),
        max=lambda value, axis: value.amax(axis),
        min=lambda value, axis: value.amin(axis),
        maximum=lambda a, b, propagate_nan=None: torch.maximum(*map(torch.as_tensor, (a, b))),
        minimum=lambda a, b, propagate_nan=None: torch.minimum(*map(torch.as_tensor, (a, b))),
        PropagateNan=SimpleNamespace(ALL=None),
        abs=torch.abs,
        exp2=torch.exp2,
        exp=torch.exp,
        log=torch.log,
        log2=torch.log2,
        rsqrt=torch.rsqrt,
        sqrt_rn=lambda value: torch.sqrt(torch.as_tensor(value)),
        sqrt=torch.sqrt,
        where=lambda c, a, b: torch.where(torch.as_tensor(c), torch.as_tensor(a), torch.as_tensor(b)),
        full=lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        broadcast_to=lambda value, shape: value.broadcast_to(shape),
        cast=lambda value, dtype: torch.as_tensor(value).to(dtype),
        philox=lambda seed, counter, *rest: philox(torch.broadcast_tensors(counter, *map(torch.as_tensor, rest)), seed),
        join=lambda a, b: torch.stack(torch.broadcast_tensors(a, b), -1),
        reshape=lambda value, shape: value.reshape(shape),
        uint32=torch.int64,  # words that are not negative
        int1=torch.bool,
        **{name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")},
        **{name: getattr(torch, name) for name in ("int8", "uint8", "int16", "int32", "int64")},
    )
