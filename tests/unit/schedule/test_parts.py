"""Products whose inner dimension is in parts: found, run as schedules on values, refused by name."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.part_kernels import REFUSED, by_a_tile, partial_sums

import examples.matmul
from examples.split_k import split_k_matmul
from tileflow.api import Kernel
from tileflow.config import Choice
from tileflow.errors import ConfigError
from tileflow.schedule.chained import Refusal
from tileflow.schedule.evaluate_product import ProductProgram, program_tiles
from tileflow.schedule.execute import NASTY, at_random, execute
from tileflow.schedule.product import Shape, product
from tileflow.schedule.single import Single, find_single
from tileflow.target import target

H200 = target("nvidia-h200")


def run(kernel: Kernel, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, ping_pong: bool, **more: Choice) -> None:
    """Both programs of a call under blocks of 64 or 128 rows, 128 columns and turns of 64."""
    lowered = kernel.lower((x.to("meta"), y.to("meta")), H200)
    choices = {"block:tile_m": 64 if ping_pong else 128, "block:tile_n": 128, "block:tile_k": 64, **more}
    config = lowered.space.complete({n.replace("tunable_", "tunable:"): c for n, c in choices.items()})
    ir = lowered.specialised_regions(config)[0]
    found = find_single(ir)
    assert isinstance(found, Single) and found.parts is not None, found
    box = None if found.saved is None else (64, 128)
    shape = Shape((64, 64), (64, 128), 2, box, 4 if box else 0, sums=128, by_pieces=found.by_columns)
    schedule = product(shape, 2, 2, ping_pong)
    sizes = {name: c for name, c in config.items if isinstance(c, int)}
    tiles = [ir.tiles[name] for name in ir.grid]
    counts = [(t.name, t.end.evaluate(sizes), t.block.evaluate(sizes)) for t in tiles]  # type: ignore[union-attr]
    nasty = list(NASTY.values())
    for number in range(2):
        own, tensors = program_tiles(counts, number, 2), {"x": x, "y": y, "out": out}
        body = ProductProgram(ir, found, config, tensors, {}, own, shape, ping_pong)
        choose = nasty[(3 * number + ping_pong) % len(nasty)] if number else at_random(number)
        execute(schedule, body, body.turns, choose, len(own))


def values(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    x, y = examples.matmul.inputs(72, 72, k)
    return x / 4, y / 4


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize(("k", "parts"), [(392, 2), (392, 4), (264, 8), (72, 2)])
def test_parts_are_added_up(k: int, parts: int, ping_pong: bool) -> None:
    """Whole parts and shorter ones; of eight parts of 128, five lie past the inner dimension of 264."""
    x, y = values(k)
    out = torch.zeros(72, 72)
    run(split_k_matmul, x, y, out, ping_pong, tunable_split_k=parts)
    torch.testing.assert_close(out, x.float() @ y.float(), atol=1e-3, rtol=1e-3)


def test_parts_that_are_tiles_of_a_grid() -> None:
    x, y = values(264)
    out = torch.zeros(72, 72)
    run(by_a_tile, x, y, out, ping_pong=False)
    torch.testing.assert_close(out, x.float() @ y.float(), atol=1e-3, rtol=1e-3)


def test_sums_of_each_part_are_stored_at_its_place() -> None:
    """By the copy engine: each part's, so that who adds them up decides in which order."""
    x, y = values(264)
    out = torch.zeros(3, 72, 72)
    run(partial_sums, x, y, out, ping_pong=False)
    for part in range(3):
        keys = slice(part * 128, (part + 1) * 128)
        torch.testing.assert_close(out[part], x[:, keys].float() @ y[keys].float(), atol=1e-3, rtol=1e-3)


def test_one_part_is_stored_as_it_is() -> None:
    """The author's own choice of one part has neither atomics nor an order that differs from run to run."""
    lowered = split_k_matmul.lower(values(512), H200)
    config = lowered.space.complete({"tunable:split_k": 1, "block:tile_k": 64})
    found = find_single(lowered.specialised_regions(config)[0])
    assert isinstance(found, Single) and found.saved is not None


@pytest.mark.parametrize(("kernel", "reason"), REFUSED, ids=[k.name.split(":")[1] for k, _ in REFUSED])
def test_what_has_no_such_schedule_is_refused_by_name(kernel: Kernel, reason: str) -> None:
    x, y = (torch.empty(256, 256, dtype=torch.bfloat16, device="meta") for _ in range(2))
    found = find_single(kernel.lower((x, y), H200).regions[0])
    assert isinstance(found, Refusal) and reason in str(found)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_turns_divide_a_part(mode: str) -> None:
    """Or the last turn of one would read what the next one sums: 3 * 128 in turns of 256. The space knows where sizes
    are its own, the emission in any case."""
    x, y = (
        torch.empty(64, 768, dtype=torch.bfloat16, device="meta"),
        torch.empty(768, 512, dtype=torch.bfloat16, device="meta"),
    )
    lowered = split_k_matmul.lower((x, y), H200, mode=mode)
    chosen: dict[str, Choice] = {
        "schedule": "warp_specialised", "tunable:split_k": 2, "block:tile_m": 64, "block:tile_n": 64,
        "block:tile_k": 256, "consumers": 1, "num_stages": 2,
    }  # fmt: skip
    config = lowered.space.complete(chosen)
    reasons = [c.reason for c in lowered.space.violations(config)]
    assert any("turns divide a part" in reason for reason in reasons) == (mode == "static")
    with pytest.raises(ConfigError, match="turns divide a part"):
        lowered.emit(config)
    assert lowered.emit(lowered.space.complete({**chosen, "block:tile_k": 128}))
