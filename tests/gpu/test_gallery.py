"""Every kernel of ``examples/`` on the GPU against its reference: dtypes, layouts, sizes, both modes, many configs.

Its crew of processes takes every core: run it by itself, without ``-n``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

import pytest
import torch
from tile_testing.compiler_gallery import GALLERY
from tile_testing.runs.gallery_cells import jobs

import tileflow
from examples import physarum

if TYPE_CHECKING:
    from tile_testing.runs.cells import Cell
    from tile_testing.runs.crew import Crew

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

Pending = dict[str, list[Future[list["Cell"]]]]


@pytest.fixture(scope="module")
def pending(crew: Crew, request: pytest.FixtureRequest) -> Pending:
    """The cells of each kernel that is asked for, all under way: a core that has no more of one goes on to the next."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    return {name: [crew.cells(job) for job in jobs(name)] for name in GALLERY if name in asked}


@pytest.mark.parametrize("name", GALLERY)
def test_cells(pending: Pending, gallery_cells: list[Cell], name: str) -> None:
    """The default config and random ones, compiled and launched. Those that the GPU has no room for are counted."""
    found = [cell for future in pending.pop(name) for cell in future.result()]
    gallery_cells += found
    wrong = [f"{cell.call} under {cell.config}: {cell.reason}" for cell in found if cell.status == "failed"]
    assert not wrong, f"{len(wrong)} of {len(found)} cells:\n" + "\n".join(wrong)
    assert any(cell.status == "ok" for cell in found)


@pytest.fixture(scope="module")
def eager(crew: Crew) -> Iterator[dict[str, Future[str]]]:
    yield {name: crew.ask("tile_testing.runs.gallery_cells:check_eagerly", name) for name in GALLERY}


@pytest.mark.parametrize("name", GALLERY)
def test_eager_meaning(eager: dict[str, Future[str]], name: str) -> None:
    assert eager[name].result() == ""


def test_a_step_of_physarum() -> None:
    """Both kernels in turn. An agent at a threshold of its senses may turn otherwise: sines differ in the last bit."""
    agents, size = 10_000, 256
    generator = torch.Generator("cuda").manual_seed(0)
    x, y, angle = (torch.rand(agents, device="cuda", generator=generator) * scale for scale in (size, size, 6.28))
    compiled = eager = (x, y, angle, torch.rand(size, size, device="cuda", generator=generator))
    for seed in range(3):
        compiled = physarum.step(tuple(t.clone() for t in compiled), seed)
        with tileflow.interpret({"block:tile": agents, "block:tile_y": size, "block:tile_x": size}):
            eager = physarum.step(tuple(t.clone() for t in eager), seed)
    for got, wanted in zip(compiled[:3], eager[:3], strict=True):
        strayed = ~torch.isclose(got, wanted, rtol=1e-4, atol=1e-3)
        assert strayed.sum() <= agents // 1000
    assert (compiled[3] - eager[3]).abs().sum() <= 4 * agents // 1000
    torch.testing.assert_close(compiled[3].sum(), eager[3].sum())
