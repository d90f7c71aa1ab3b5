"""Random mixes of every kind of index item: the text of a kernel that reads or writes by one, and what torch gives."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import torch

HEAD = "import torch\nimport tileflow\nimport tileflow.language as tfl\n"


@dataclass
class Mix:
    """One index of one tensor. ``index``, ``result``: the text of the items for the tensor and for the result's shape.
    ``along``: for each dimension of the tensor its indices, shaped to broadcast over the result."""

    shape: tuple[int, ...]
    index: list[str] = field(default_factory=list)
    result: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    along: list[tuple[torch.Tensor, tuple[int, ...]]] = field(default_factory=list)
    loops: list[tuple[str, int]] = field(default_factory=list)
    vectors: list[torch.Tensor] = field(default_factory=list)

    def places(self) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """The indices and which lanes are inside the tensor, over the whole result."""
        rank = len(self.lengths)
        wide = []
        for indices, axes in self.along:
            shape = [1] * rank
            for axis, length in zip(axes, indices.shape, strict=True):
                shape[axis] = length
            wide.append(indices.reshape(shape).expand(self.lengths))
        inside = torch.ones(self.lengths, dtype=torch.bool)
        for indices, size in zip(wide, self.shape, strict=True):
            inside &= (indices >= 0) & (indices < size)
        return tuple(wide), inside

    def read(self, x: torch.Tensor) -> torch.Tensor:
        indices, inside = self.places()
        clamped = tuple(i.clamp(0, n - 1) for i, n in zip(indices, self.shape, strict=True))
        return torch.where(inside, x[clamped], 0)

    def write(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        indices, inside = self.places()
        out = x.clone()
        out[tuple(i[inside] for i in indices)] = value.expand(self.lengths)[inside]
        return out

    def kernel(self, name: str, writes: bool) -> str:
        """``name(x, s, v0, v1 ...)`` reads; ``name(x, value, s, v0 ...)`` writes in place."""
        vectors = "".join(f", v{n}" for n in range(len(self.vectors)))
        targets = ", ".join(n for n, _ in self.loops) or "_"
        sizes = ", ".join(str(n) for _, n in self.loops) or "1"
        index, result = ", ".join(self.index), ", ".join(self.result)
        body, first, last = f"out[{result}] = x[{index}]", "", f"torch.zeros({self.lengths}, dtype=x.dtype)"
        if writes:
            body, first, last = f"out[{index}] = value[{result}]", ", value", "x.clone()"
        if not self.result and not writes:
            body, last = f"out[0] = x[{index}]", "torch.zeros(1, dtype=x.dtype)"
        if not self.result and writes:
            body = f"out[{index}] = value[0]"
        lines = [
            "@tileflow.kernel",
            f"def {name}(x{first}, s{vectors}):",
            f"    out = {last}",
            "    b = tfl.register_block_size(8)",
            f"    for {targets}, in tfl.tile([{sizes}], block_size=b):",
            f"        {body}",
            "    return out\n",
        ]
        return "\n".join(lines)


def mix(rng: random.Random, distinct: bool) -> Mix:
    """A random index. ``distinct``: names no element twice, so that what is written is defined."""
    made = Mix(tuple(rng.choice((1, 5, 9, 12)) for _ in range(rng.randint(1, 4))))
    together = rng.sample(range(len(made.shape)), 2) if len(made.shape) > 1 and rng.random() < 0.3 else []
    shared: tuple[str, int, int] | None = None
    for dimension, size in enumerate(made.shape):
        if rng.random() < 0.15:
            _axis(made, "None", ":", 1)
        if dimension in together:
            shared = _together(made, rng, size, shared, distinct)
            continue
        kind = rng.choice(("tile", "shifted", "slice", "part", "window", "int", "scalar", "ints", "matrix"))
        _ITEMS[kind](made, rng, size, distinct)
    _ellipsis(made, rng)
    return made


def _axis(made: Mix, item: str, result: str, length: int) -> int:
    made.index.append(item)
    made.result.append(result)
    made.lengths.append(length)
    return len(made.lengths) - 1


def _loop(made: Mix, length: int) -> str:
    made.loops.append((f"t{len(made.loops)}", length))
    return made.loops[-1][0]


def _vector(made: Mix, rng: random.Random, size: int, shape: tuple[int, ...], distinct: bool) -> str:
    count = 1
    for n in shape:
        count *= n
    found = rng.sample(range(size), count) if distinct else [rng.randrange(size) for _ in range(count)]
    made.vectors.append(torch.tensor(found, dtype=rng.choice((torch.int32, torch.int64))).reshape(shape))
    return f"v{len(made.vectors) - 1}"


def _tile(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    length = rng.randint(1, size)
    tile = _loop(made, length)
    item = rng.choice((tile, f"{tile}.index", f"{tile}.begin : {tile}.end"))
    made.along.append((torch.arange(length), (_axis(made, item, tile, length),)))


def _shifted(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    offset = rng.choice((-3, -1, 1, 2))
    tile = _loop(made, size)
    axis = _axis(made, f"{tile} {'+' if offset > 0 else '-'} {abs(offset)}", tile, size)
    made.along.append((torch.arange(size) + offset, (axis,)))


def _slice(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    made.along.append((torch.arange(size), (_axis(made, ":", ":", size),)))


def _part(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    start, stop = rng.choice((None, 0, 1, -3, 2)), rng.choice((None, 3, -1, 20))
    found = torch.arange(size)[slice(start, stop)]
    if not len(found):
        _slice(made, rng, size, distinct)
        return
    item = f"{'' if start is None else start} : {'' if stop is None else stop}"
    made.along.append((found, (_axis(made, item, ":", len(found)),)))


def _window(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    """By block size, perhaps past the end or before the beginning; the loop covers the tensor. What a slice reads past
    the value's end is 0, and would be written where a slice before the beginning puts it."""
    offset = rng.choice((0, 0, 2, 2 if distinct else -2))
    tile = _loop(made, size)
    shift = f" + {offset}" if offset else ""
    axis = _axis(made, f"{tile}.begin{shift} : {tile}.begin{shift} + b", f"{tile}.begin : {tile}.id * b + b", size)
    made.along.append((torch.arange(size) + offset, (axis,)))


def _int(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    number = rng.randrange(-size, size)
    made.index.append(str(number))
    made.along.append((torch.tensor(number % size), ()))


def _scalar(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    """``s`` holds 0, and its last element too."""
    made.index.append(rng.choice(("s[0]", "s[-1]")))
    made.along.append((torch.tensor(0), ()))


def _ints(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    length = rng.randint(1, size)
    vector, tile = _vector(made, rng, size, (length,), distinct), _loop(made, length)
    made.along.append((made.vectors[-1].long(), (_axis(made, f"{vector}[{tile}]", tile, length),)))


def _matrix(made: Mix, rng: random.Random, size: int, distinct: bool) -> None:
    """Two dimensions of the result; all tiles of ints would broadcast with it, so that it stands alone."""
    if size < 4 or any("v" in i or ".index" in i for i in made.index) or len(made.along) + 1 != len(made.shape):
        _slice(made, rng, size, distinct)
        return
    vector = _vector(made, rng, size, (2, size // 2), distinct)
    rows, columns = _loop(made, 2), _loop(made, size // 2)
    first = _axis(made, f"{vector}[{rows}, {columns}]", rows, 2)
    made.result.append(columns)
    made.lengths.append(size // 2)
    made.along.append((made.vectors[-1].long(), (first, first + 1)))


def _together(
    made: Mix, rng: random.Random, size: int, shared: tuple[str, int, int] | None, distinct: bool
) -> tuple[str, int, int]:
    """Two tiles of ints of one loop: element by element."""
    if shared is None:
        length = min(made.shape) if distinct else rng.randint(1, 12)
        tile = _loop(made, length)
        vector = _vector(made, rng, size, (length,), distinct)
        axis = _axis(made, f"{vector}[{tile}]", tile, length)
        made.along.append((made.vectors[-1].long(), (axis,)))
        return tile, length, axis
    tile, length, axis = shared
    vector = _vector(made, rng, size, (length,), distinct)
    made.index.append(f"{vector}[{tile}]")
    made.along.append((made.vectors[-1].long(), (axis,)))
    return shared


def _ellipsis(made: Mix, rng: random.Random) -> None:
    """Some run of whole dimensions as an ellipsis."""
    whole = [n for n, item in enumerate(made.index) if item == ":"]
    if whole and rng.random() < 0.4:
        made.index[whole[0]] = "..."


_ITEMS = {"tile": _tile, "shifted": _shifted, "slice": _slice, "part": _part, "window": _window, "int": _int,
          "scalar": _scalar, "ints": _ints, "matrix": _matrix}  # fmt: skip


def arguments(made: Mix, seed: int, writes: bool) -> tuple[torch.Tensor, ...]:
    """The kernel's arguments; ints, so that every answer is exact."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, 1000, made.shape, generator=generator, dtype=torch.int32)
    value = torch.randint(1, 1000, made.lengths or (1,), generator=generator, dtype=torch.int32)
    rest = (torch.zeros(3, dtype=torch.int64), *made.vectors)
    return (x, value, *rest) if writes else (x, *rest)


def wanted(made: Mix, args: tuple[torch.Tensor, ...], writes: bool) -> torch.Tensor:
    if writes:
        return made.write(args[0], args[1] if made.lengths else args[1][0])
    found = made.read(args[0])
    return found if made.lengths else found[None]
