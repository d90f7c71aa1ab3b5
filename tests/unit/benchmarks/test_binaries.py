"""What ``scripts/bench binaries`` reads from machine code, against sources of which it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("triton")

from tileflow_benchmarks.suite.binaries import BinaryFacts, instructions, of_cell, to_markdown
from tileflow_benchmarks.suite.cells import Cell

from tileflow.api import load_kernel
from tileflow.runtime import clear, load
from tileflow.runtime.table import Entry, KernelId, Table
from tileflow.runtime.table_files import dump_table
from tileflow.target import target

DEVICE = "nvidia-h200"


@pytest.fixture(autouse=True)
def own_caches_and_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    clear()
    yield
    clear()


def cell(kernel: str, **problem: int | str) -> Cell:
    return Cell(f"examples.{kernel}", tuple(problem.items()), "memory")


def test_of_words() -> None:
    sass = """
        /*0000*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0010*/               @P0 LDG.E R8, desc[UR4][R2.64+0x20] ;
        /*0020*/              @!P1 LDG.E.EF.U16 R8, desc[UR4][R2.64] ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R3], desc[UR4][R2.64] ;
        /*0040*/              @UP0 UTMALDG.2D [UR8], [UR4] ;
        /*0050*/                   STG.E.64 desc[UR4][R2.64], R4 ;
        /*0060*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0070*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0080*/                   RED.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5 ;
        /*0090*/                   STL.64 [R1], R4 ;
        /*00a0*/                   LDS.128 R4, [R3] ;
    """
    loads, stores, others = instructions(sass)
    assert loads == Counter({"128": 2, "32": 1, "16": 1, "box": 1})
    assert stores == Counter({"64": 1})
    assert others == Counter({"wgmma": 1, "mma": 1, "atomic": 1, "local": 1})


def test_a_product_is_the_copy_engines_and_the_warp_groups() -> None:
    (facts,) = of_cell(cell("matmul:matmul", m=4096, n=4096, k=4096, dtype="bfloat16"), DEVICE)
    assert set(facts.loads) == set(facts.stores) == {"box"} and facts.others["wgmma"] > 0
    assert (facts.config, facts.spills) == ("default", 0)


def test_a_row_of_a_table_is_what_is_built(tmp_path: Path) -> None:
    """The other config is seen in the binary."""
    wanted = cell("vector_add:vector_add", n=1 << 20, dtype="float32")
    kernel = load_kernel(wanted.kernel)
    lowered = kernel.lower(kernel.inputs(device="meta", n=1 << 20, dtype="float32"), target(DEVICE))
    config = lowered.space.normalise(lowered.default.with_({"num_warps": 2}))
    row = Entry(DEVICE, lowered.problem, config, "measured", 5.0, 5.0, 0.1, 50, measured_on=DEVICE)
    dump_table(Table.of(KernelId.of(kernel.name, kernel.semantic_hash), [row]), tmp_path / "table.json")
    (before,) = of_cell(wanted, DEVICE)
    load(tmp_path / "table.json")
    (after,) = of_cell(wanted, DEVICE)
    (other,) = of_cell(cell("vector_add:vector_add", n=1 << 19, dtype="float32"), DEVICE)
    assert (before.config, after.config, other.config) == ("default", "tuned", "default")
    assert before.warps != 2 == after.warps
    assert set(after.loads) == {"128"}


def test_of_an_amd_gpu_widths_are_not_told() -> None:
    facts = of_cell(cell("softmax:softmax", m=512, n=1024, dtype="float32"), "amd-mi300x")
    assert facts and all(set(f.loads) == {"any"} and f.loads["any"] and not f.spills for f in facts)
    assert to_markdown(facts).count("\n") == 2 + len(facts)


def test_a_row_a_launch() -> None:
    counted = Counter({"16": 1, "128": 3, "box": 2, "64": 0})
    facts = BinaryFacts(
        "softmax", "default", "softmax_0", 80, 0, 16, 4, 0.375, counted, Counter(), Counter({"wgmma": 4})
    )
    assert to_markdown([facts]).splitlines()[-1] == (
        "| softmax | default | softmax_0 | 80 | 0 | 16 | 4 | 38% | 3 x 128, 1 x 16, 2 x box |  | 4 x wgmma |"
    )
