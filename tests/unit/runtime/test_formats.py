"""Old formats: what commit 1d0fe62 wrote still loads, under the same digests, and is found by today's kernels."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
from tile_testing import DATA

from tileflow.runtime import RegionLaunch, load_bundle, load_table, table_text

FORMATS = DATA / "formats"
BUNDLE, TABLE = FORMATS / "bundle_of_schema_1", FORMATS / "table_of_schema_2.json"
TABLE_IDS = {
    "format_kernels:add": "51519de4f1d797bb7f9bb4b31cb4af37bdd798ffa76492d5b60fd9e752779adb",
    "format_kernels:normalised": "9dd6bfe57802456ff4a05b7d5059369cde09be6294fdb8a254d8ceea6ef94824",
}


def launches() -> list[RegionLaunch]:
    tables = load_bundle(BUNDLE).tables
    rows = [row for t in tables for row in (*t.entries, *t.portfolio, t.default) if row is not None]
    return [launch for row in rows for launch in row.launches]


def test_a_table_of_schema_2_loads_as_it_was_written() -> None:
    table = load_table(TABLE)
    assert table.table_id == "32d1c7fe159146a4499db96399dabd97f87af69aad04f8523293f2f19cdd149c"
    assert table_text(table) == TABLE.read_text()
    assert [e.origin for e in table.entries] == ["modelled", "measured"] and len(table.portfolio) == 1
    assert table.default is not None and not table.default.launches


def test_a_bundle_of_schema_1_loads_under_the_same_digests() -> None:
    bundle = load_bundle(BUNDLE)
    assert {t.kernel.ref: t.table_id for t in bundle.tables} == TABLE_IDS
    for table in bundle.tables:
        assert table_text(table) == (BUNDLE / "tables" / f"{table.kernel.ref.replace(':', '-')}.json").read_text()
    variants = [(launch.region, v) for launch in launches() for v in launch.variants]
    assert {v.mode for _, v in variants} == {"static", "dynamic"}
    assert {v.launch_abi.version for _, v in variants} == {1, 2}
    for region, variant in variants:
        binary = bundle.binary(region, variant)
        assert (binary.abi, binary.sha256) == (variant.launch_abi, variant.sha256)


def test_a_descriptor_of_an_old_bundle_is_read_in_full() -> None:
    args = [a for launch in launches() for v in launch.variants for a in v.launch_abi.args if a.kind == "descriptor"]
    (map_,) = [a.tensor_map for a in args]
    assert map_ is not None and map_.box == (16, 64) and map_.element_bytes == 2
    assert (args[0].dtype, args[0].rank, args[0].stored) == ("", -1, None)  # an ABI of version 2 does not say


@pytest.mark.parametrize("ref", TABLE_IDS)
def test_todays_kernels_find_rows_of_old_tables(ref: str) -> None:
    """A change of the canonical serialisation would orphan every table: this holds it to what 1d0fe62 wrote."""
    kernel = _kernels(ref)
    (table,) = [t for t in load_bundle(BUNDLE).tables if t.kernel.ref == ref]
    assert kernel.semantic_hash == table.kernel.semantic_hash
    problem = {"n": 4096} if ref.endswith("add") else {"m": 256, "n": 512}
    described = kernel.describe(*kernel.inputs(device="meta", **problem))
    assert described.key in {e.problem.key for e in table.entries}


def test_an_old_bundle_loads_from_anywhere(tmp_path: Path) -> None:
    shutil.copytree(BUNDLE, tmp_path / "elsewhere")
    assert {t.kernel.ref: t.table_id for t in load_bundle(tmp_path / "elsewhere").tables} == TABLE_IDS


def _kernels(ref: str) -> Any:
    spec = importlib.util.spec_from_file_location("format_kernels", FORMATS / "format_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, ref.partition(":")[2])
