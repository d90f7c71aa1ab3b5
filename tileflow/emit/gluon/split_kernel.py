"""The Gluon kernel of one float32 product in parts: its buffers and the functions that split boxes."""

from __future__ import annotations

from ...errors import ConfigError
from ...schedule.memory import shared_bytes
from ...schedule.product import Shape
from ...schedule.split_product import GROUPS, NAMES, TURN, share_multiprocessor, split_product
from ...schedule.types import Buffer, Schedule
from ...space.knobs import NUM_STAGES
from ...space.product_schedules import programs_that_fit
from .product_kernel import ProductKernel
from .split_roles import TURNED, SplitRoles


class SplitKernel(ProductKernel):
    """One emission."""

    own_names = NAMES

    def _check(self) -> None:
        super()._check()
        inner = self.extent(self.single.inner)
        if self.groups not in GROUPS or self.is_dealt or inner != TURN:
            raise ConfigError(
                f"{' or '.join(map(str, GROUPS))} groups share a tile of a float32 product, in turns of {TURN}",
                got=f"{self.groups} groups, each with tiles of its own: {self.is_dealt}, and turns of {inner}",
                hint="choose the schedule pipelined",
            )

    def _schedule(self) -> Schedule:
        self.scheduled: Shape = self._shape()
        self.pieces = self.scheduled.pieces
        return split_product(self.scheduled, self.groups, self.plan.launch(NUM_STAGES))

    def _programs(self) -> int:
        shared = share_multiprocessor(self.groups, self.sums)
        return programs_that_fit(shared_bytes(self.specialised), self.target) if shared else 1

    def _roles(self, turns: str) -> SplitRoles:
        return SplitRoles(self, self.specialised, turns)

    def _memory_of(self, buffer: Buffer) -> tuple[str, str]:
        if buffer.name in ("left", "right", "out"):
            return super()._memory_of(buffer)
        return "gl.float32", self.module.constant("TURNED", TURNED)
