"""The GPU's test of the gallery without a GPU: what it enumerates, and its processes with Triton's interpreter."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from tile_testing.compiler_gallery import GALLERY
from tile_testing.runs.construct_cells import ConstructJob
from tile_testing.runs.crew import Crew
from tile_testing.runs.gallery_cells import MODES, GalleryJob, jobs
from tile_testing.runs.interpreted import Case
from tile_testing.runs.planted_jobs import ENDS, Planted

SMALL = GalleryJob(Case("examples.vector_add:vector_add", (37,), seeds=(1,)))


@pytest.mark.parametrize("name", GALLERY)
def test_every_way_of_calling_a_kernel_is_there(name: str) -> None:
    it, cases = GALLERY[name], [job.case for job in jobs(name)]
    assert len(set(cases)) == len(cases)
    assert {(c.dtype, c.mode) for c in cases if c.layout == "plain"} == {(d, m) for d in it.dtypes for m in MODES}
    assert {(c.layout, c.mode) for c in cases} >= {(layout, m) for layout in it.layouts for m in MODES}
    assert {c.sizes for c in cases} >= {*it.rows("odd"), *it.rows("empty"), *it.rows("layout")}
    for dtype in it.dtypes:
        seeds = [seed for c in cases if c.dtype == dtype for seed in c.seeds]
        assert len(set(seeds)) == len(seeds) >= 20
    assert max(c.sizes for c in cases if c.seeds) > max(it.rows("odd"))


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    pytest.importorskip("triton")
    with Crew(1, "cpu", {"TRITON_INTERPRET": "1"}) as crew:
        yield crew


def test_cells_are_tried_and_judged(crew: Crew) -> None:
    assert pickle.loads(pickle.dumps(SMALL)) == SMALL
    found = crew.cells(SMALL).result()
    assert [cell.status for cell in found] == ["ok", "ok"] and len({cell.config for cell in found}) == 2
    assert [cell.status for cell in crew.cells(ConstructJob("language", "index_plus", "dynamic")).result()] == [
        "ok"
    ] * 2
    assert crew.ask("tile_testing.runs.gallery_cells:check_eagerly", "examples.softmax:softmax").result() == ""
    assert crew.ask("tile_testing.kernels.descriptor_kernels:check", "product").result() == []


@pytest.mark.parametrize("end", ENDS)
def test_what_goes_wrong_is_one_cell(crew: Crew, end: str) -> None:
    """Whatever becomes of a config, those before it and after it are tried, and so is the next job."""
    first, second, third = crew.cells(Planted(end)).result()
    assert first.status == third.status == "ok"
    status, says = ENDS[end]
    assert second.status == status and says in second.reason
    assert crew.cells(Planted("raises")).result()[2].status == "ok"


def test_a_call_that_does_not_lower_is_one_cell(crew: Crew) -> None:
    (cell,) = crew.cells(Planted("unlowered")).result()
    assert cell.status == "failed" and "no such size" in cell.reason
