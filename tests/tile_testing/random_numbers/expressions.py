"""An expression by random choices, of values that are at hand in a tile loop.

Python's ints are known for each tile while the expression is written, so that none of them passes the 64 bits that a
tile takes. Half types are rounded after each operation, as torch does: in between, device code keeps more digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from tile_testing.random_kernels.draws import Draws

SIZE, BLOCK = 20, 8
TILES = [
    SimpleNamespace(begin=b, end=min(b + BLOCK, SIZE), id=b // BLOCK, block_size=BLOCK) for b in range(0, SIZE, BLOCK)
]
INTS = ("int8", "uint8", "int16", "int32", "int64")
HALVES = ("float16", "bfloat16")
NUMBERS = (3, 1, -1, 7, -40001, 1 << 17, 70001, (1 << 31) - 1, -(1 << 31) + 1, 1 << 33, -5)
MOST = 1 << 62  # of Python's ints
_ITEMS = (2, -3, 30000, 5)  # of a tensor of int32 that the kernel loads scalars from


@dataclass(frozen=True, slots=True)
class Program:
    """``out[t] = text`` in a loop over tiles of BLOCK, with these ints of the call."""

    text: str
    n: int
    m: int

    @property
    def source(self) -> str:
        tensors = ", ".join(f"{name}: torch.Tensor" for name in (*tensors_of(), "items"))
        return (
            "import torch\n\nimport tileflow\nimport tileflow.language as tfl\n\n\n@tileflow.kernel\n"
            f"def kernel({tensors}, n: int, m: int) -> torch.Tensor:\n"
            "    out = torch.zeros(a_int64.size(0), dtype=torch.int64)\n"
            "    for t in tfl.tile(a_int64.size(0)):\n"
            f"        out[t] = {self.text}\n    return out\n"
        )

    @property
    def args(self) -> tuple[Any, ...]:
        return (*tensors_of().values(), torch.tensor(_ITEMS, dtype=torch.int32), self.n, self.m)


def tensors_of() -> dict[str, torch.Tensor]:
    """Two of each dtype, with its ends among their numbers."""
    generator, found = torch.Generator().manual_seed(1), {}
    for dtype in (*INTS, "bool"):
        kind = getattr(torch, dtype)
        low, high = (0, 1) if dtype == "bool" else (torch.iinfo(kind).min, torch.iinfo(kind).max)
        for name in "ab":
            x = torch.randint(max(low, -(1 << 62)), min(high, 1 << 62) + 1, (SIZE,), generator=generator)
            x[:4] = torch.tensor([low, high, 0, 1])
            found[f"{name}_{dtype}"] = x.to(kind)
    for dtype in HALVES:
        for name in "ab":
            found[f"{name}_{dtype}"] = (torch.randn(SIZE, generator=generator) * 40).to(getattr(torch, dtype))
    return found


@dataclass(frozen=True, slots=True)
class _Number:
    """One of Python's ints, with its value in each tile."""

    text: str
    values: tuple[int, ...]


class _Writer:
    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.n, self.m = draws.of(NUMBERS), draws.of(NUMBERS)

    # ---- Python's ints --------------------------------------------------------------------------

    def number(self, depth: int) -> _Number:
        if depth == 0 or self.draws.chance(15):
            return self._given()
        kind = self.draws.weighted([(8, self._binary), (3, self._divided), (2, self._unary), (2, self._shifted),
                                    (2, self._chosen), (1, self._cut)])  # fmt: skip
        made = kind(depth - 1)
        return made if all(abs(v) < MOST for v in made.values) else self._given()

    def _given(self) -> _Number:
        rows: list[tuple[str, Callable[[Any], int]]] = [
            ("n", lambda t: self.n), ("m", lambda t: self.m), ("t.begin", lambda t: t.begin),
            ("t.end", lambda t: t.end), ("t.id", lambda t: t.id), ("a_int64.size(0)", lambda t: SIZE),
            ("t.block_size", lambda t: BLOCK), ("int(items[0])", lambda t: _ITEMS[0]),
            ("int(items[2])", lambda t: _ITEMS[2]), ("5", lambda t: 5), ("100003", lambda t: 100003),
        ]  # fmt: skip
        text, value = self.draws.of(rows)
        return _Number(text, tuple(map(value, TILES)))

    def _made(self, text: str, function: Callable[..., int], *of: _Number) -> _Number:
        return _Number(f"({text.format(*(x.text for x in of))})", tuple(map(function, *(x.values for x in of))))

    def _binary(self, depth: int) -> _Number:
        rows: list[tuple[str, Callable[[int, int], int]]] = [
            ("{} + {}", lambda a, b: a + b), ("{} * {}", lambda a, b: a * b), ("{} - {}", lambda a, b: a - b),
            ("{} & {}", lambda a, b: a & b), ("{} | {}", lambda a, b: a | b), ("{} ^ {}", lambda a, b: a ^ b),
            ("min({}, {})", min), ("max({}, {})", max),
        ]  # fmt: skip
        return self._made(*self.draws.of(rows), self.number(depth), self.number(depth))

    def _divided(self, depth: int) -> _Number:
        rows: list[tuple[str, Callable[[int, int], int]]] = [
            ("{} // (abs({}) + 1)", lambda a, b: a // (abs(b) + 1)),
            ("{} % (abs({}) + 1)", lambda a, b: a % (abs(b) + 1)),
            ("{} // -7 + {}", lambda a, b: a // -7 + b), ("{} % -1000 + {}", lambda a, b: a % -1000 + b),
        ]  # fmt: skip
        return self._made(*self.draws.of(rows), self.number(depth), self.number(depth))

    def _unary(self, depth: int) -> _Number:
        rows: list[tuple[str, Callable[[int], int]]] = [
            ("-{}", lambda a: -a), ("abs({})", abs), ("~{}", lambda a: ~a), ("{} ** 2", lambda a: a**2),
        ]  # fmt: skip
        return self._made(*self.draws.of(rows), self.number(depth))

    def _shifted(self, depth: int) -> _Number:
        bits = self.draws.of((1, 20, 33, 40))
        sign, function = self.draws.of([("<<", lambda a: a << bits), (">>", lambda a: a >> bits)])
        return self._made(f"{{}} {sign} {bits}", function, self.number(depth))

    def _chosen(self, depth: int) -> _Number:
        a, b, c, d = (self.number(depth) for _ in range(4))
        return self._made("{} if {} > {} else {}", lambda a, b, c, d: a if b > c else d, a, b, c, d)

    def _cut(self, depth: int) -> _Number:
        """Floats on the way, which are Python's too."""
        rows: list[tuple[str, Callable[[int], int]]] = [
            ("int({} * 0.7)", lambda a: int(a * 0.7)), ("round({} / 3)", lambda a: round(a / 3)),
            ("int({} / 3)", lambda a: int(a / 3)),
        ]  # fmt: skip
        made = self.number(depth)
        return made if max(map(abs, made.values)) > 1 << 40 else self._made(*self.draws.of(rows), made)

    # ---- tiles ----------------------------------------------------------------------------------

    def ints(self, depth: int) -> str:
        """A tile of ints of any dtype, or of bools."""
        if depth == 0 or self.draws.chance(10):
            dtype = self.draws.of(INTS)
            return self.draws.of((f"a_{dtype}[t]", f"b_{dtype}[t]", "t.index"))
        kinds = [(6, self._arithmetic), (4, self._with_number), (3, self._divided_tile), (3, self._bits),
                 (3, self._cast), (2, self._where), (2, self._one), (2, self._of_halves),
                 (1, self._reduced)]  # fmt: skip
        return self.draws.weighted(kinds)(depth - 1)

    def _arithmetic(self, depth: int) -> str:
        return f"({self.ints(depth)} {self.draws.of(('+', '-', '*', '&', '|', '^'))} {self.ints(depth)})"

    def _with_number(self, depth: int) -> str:
        sign, x, k = self.draws.of(("+", "-", "*", "&", "|", "^")), self.ints(depth), self.number(2).text
        return f"({x} {sign} {k})" if self.draws.chance(70) else f"({k} {sign} {x})"

    def _divided_tile(self, depth: int) -> str:
        divisor = self.draws.of((f"({self.ints(depth)} | 1)", "7", "-3", "1000"))
        return f"({self.ints(depth)} {self.draws.of(('//', '%'))} {divisor})"

    def _bits(self, depth: int) -> str:
        sign = self.draws.of(("<<", ">>"))
        bits = self.draws.of(("3", "9", "40", "64", "b_int8[t]", "(t.index * 5)", "b_int32[t]", "t.begin"))
        return f"({self.ints(depth)} {sign} {bits})"

    def _cast(self, depth: int) -> str:
        return f"{self.ints(depth)}.to(torch.{self.draws.of((*INTS, 'bool'))})"

    def _where(self, depth: int) -> str:
        return f"torch.where({self.mask(depth)}, {self.ints(depth)}, {self.ints(depth)})"

    def _one(self, depth: int) -> str:
        form = self.draws.of(
            ("(-{})", "{}.abs()", "(~{})", "torch.clamp({}, 3, 100)", "torch.sign({})", "{} ** 2", "{} ** 3")
        )
        return f"({form.format(self.ints(depth))})"

    def _reduced(self, depth: int) -> str:
        form = self.draws.of(("{}.sum()", "{}.amax()", "{}.amin()"))
        return f"({self.ints(0)} * {form.format(self.ints(depth))})"

    def mask(self, depth: int) -> str:
        sign = self.draws.of(("<", ">", "<=", ">=", "==", "!="))
        other = self.draws.of(
            (self.ints(depth), self.number(2).text, self.draws.of(("3", "-1", "0.5", "b_float16[t]")))
        )
        pairs = f"({self.ints(depth)} {sign} {other})"
        return self.draws.of(
            (pairs, "a_bool[t]", f"({self.half('float16', depth)} {sign} b_float16[t])", f"(~{pairs})")
        )

    def _of_halves(self, depth: int) -> str:
        x = self.half(self.draws.of(HALVES), depth)
        return self.draws.of((f"{x}.clamp(-100, 100).int()", f"torch.floor({x}).clamp(-99, 99).long()", f"{x}.isinf()",
                              f"{x}.bool()"))  # fmt: skip

    def half(self, dtype: str, depth: int) -> str:
        """A tile of a half type, rounded."""
        if depth == 0 or self.draws.chance(20):
            return f"{self.draws.of('ab')}_{dtype}[t]"
        x, form = (
            self.half(dtype, depth - 1),
            self.draws.of(("({} + {})", "({} * {})", "({} - {})", "torch.maximum({}, {})", "")),
        )
        if not form:
            return f"({x} * {self.draws.of(('3', '0.1', '1000', '1e-6'))}).to(torch.{dtype})"
        return f"{form.format(x, self.half(dtype, depth - 1))}.to(torch.{dtype})"


def program(draws: Draws) -> Program:
    w = _Writer(draws)
    if draws.chance(40):
        text = f"a_int64[t] + {w.number(draws.between(1, 4)).text}"
    else:
        text = w.ints(draws.between(1, 3))
    return Program(text, w.n, w.m)
