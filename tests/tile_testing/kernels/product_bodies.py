"""Values for schedules of one product: small matrices, written down without the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tileflow.schedule.product import Shape, product
from tileflow.schedule.types import Schedule

ROWS, COLUMNS, INNER = 4, 8, 4
PIECES = Shape((ROWS, INNER), (COLUMNS, INNER), 2, (64, 256), 2, right_transposed=True, sums=128)
BESIDE = Shape((ROWS, INNER), (COLUMNS, INNER), 2, (64, 128), 2, right_transposed=True, sums=128, products=2)
BESIDE_POINTERS = Shape((ROWS, INNER), (COLUMNS, INNER), 2, right_transposed=True, products=2)
POINTERS = Shape((ROWS, INNER), (COLUMNS, INNER), 2, right_transposed=True)


def made(groups: int = 2, stages: int = 3, ping_pong: bool = True, shape: Shape = PIECES) -> Schedule:
    return product(shape, groups, stages, ping_pong)


class Plain:
    """One program's tiles: ``act(left @ right.T)``, of which groups have rows or tiles."""

    def __init__(self, schedule: Schedule, tiles: int, turns: int) -> None:
        generator = torch.Generator().manual_seed(turns)
        self.turns, self.parts = turns, schedule.buffer("left").slots // schedule.stages
        self.left = torch.randn(tiles, self.parts, turns, ROWS, INNER, generator=generator)
        self.right = torch.randn(tiles, turns, COLUMNS, INNER, generator=generator)
        self.stored = torch.zeros(tiles, self.parts, ROWS, COLUMNS)

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        assert turn is not None
        tile, turn = divmod(turn, self.turns)
        return self.left[tile, max(group, 0), turn] if buffer == "left" else self.right[tile, turn]

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        assert part == "finish" and turn is not None
        found = registers["sums"].relu()
        self.by_pointers(found, turn, group)
        return {"result": found}

    def compute_piece(
        self, part: str, registers: Mapping[str, Any], turn: int, group: int, piece: int
    ) -> dict[str, Any]:
        assert part == "finish"
        return {"result": registers[f"sums_{piece}"].relu()}

    def by_pointers(self, found: torch.Tensor, turn: int, group: int) -> None:
        """Where the copy engine stores nothing."""

    def put(self, value: torch.Tensor, turn: int, piece: int, group: int) -> None:
        width = value.shape[1]
        part = group if self.parts > 1 else 0
        self.stored[turn // self.turns, part, :, piece * width : (piece + 1) * width] = value

    @property
    def expected(self) -> torch.Tensor:
        products = torch.einsum("pgtri,ptci->pgrc", self.left, self.right)
        return products.relu()


class ByPointers(Plain):
    """The same with a store of the author's own threads."""

    def by_pointers(self, found: torch.Tensor, turn: int, group: int) -> None:
        self.stored[turn // self.turns, group if self.parts > 1 else 0] = found


class Beside(Plain):
    """Two products of the left operand: ``act(left @ right.T) * (left @ other.T)``."""

    def __init__(self, schedule: Schedule, tiles: int, turns: int) -> None:
        super().__init__(schedule, tiles, turns)
        generator = torch.Generator().manual_seed(turns + 1)
        self.rights = torch.randn(2, tiles, turns, COLUMNS, INNER, generator=generator)

    def box(self, buffer: str, turn: int | None, group: int) -> torch.Tensor:
        assert buffer == "left"
        return super().box(buffer, turn, group)

    def box_of_part(self, buffer: str, turn: int, part: int) -> torch.Tensor:
        assert buffer == "right"
        tile, turn = divmod(turn, self.turns)
        return self.rights[part, tile, turn]

    def compute(self, part: str, registers: Mapping[str, Any], turn: int | None, group: int) -> dict[str, Any]:
        assert part == "finish" and turn is not None
        first, second = registers.values()
        self.by_pointers(first.relu() * second, turn, group)
        return {}

    def compute_piece(
        self, part: str, registers: Mapping[str, Any], turn: int, group: int, piece: int
    ) -> dict[str, Any]:
        first, second = registers.values()
        return {"result": first.relu() * second}

    @property
    def expected(self) -> torch.Tensor:
        first, second = torch.einsum("pgtri,nptci->npgrc", self.left, self.rights)
        return first.relu() * second


class BesideByPointers(Beside, ByPointers):
    """The same with a store of the author's own threads."""
