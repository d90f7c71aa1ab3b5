"""Bundles: digests, and nothing outside the directory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import get_args

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.errors import TableError
from tileflow.runtime import Bundle, KernelId, Table, launches_of, load_bundle, write_bundle
from tileflow.runtime.bundle import Check

binary, entry, problem, table = examples.binary, examples.entry, examples.problem, examples.table
KERNEL, HASH = examples.KERNEL, examples.HASH

STATIC, DYNAMIC = binary(b"static"), binary(b"dynamic", mode="dynamic")


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    rows = table(entry(64, 64, launches=launches_of([STATIC, DYNAMIC])))
    return write_bundle([rows], [STATIC, DYNAMIC, binary(b"named by no row")], tmp_path / "bundle")


def test_a_bundle_gives_back_what_was_written(bundle: Bundle) -> None:
    for check in get_args(Check):
        again = load_bundle(bundle.origin, check)
        assert again == bundle
        (launch,) = again.tables[0].entries[0].launches
        assert [again.binary(launch.region, v) for v in launch.variants] == [STATIC, DYNAMIC]
    names = {f"{b.sha256}.cubin" for b in (STATIC, DYNAMIC)}
    assert {p.name for p in (bundle.path / "binaries").iterdir()} == names


def test_amd_code_is_kept_as_hsaco(tmp_path: Path) -> None:
    code = binary(b"gcn", target="amd-mi300x")
    bundle = write_bundle([table(entry(64, 64, "amd-mi300x", launches=launches_of([code])))], [code], tmp_path)
    assert (bundle.path / "binaries" / f"{code.sha256}.hsaco").read_bytes() == b"gcn"


def test_a_snapshot_holds_nothing_of_the_one_before(bundle: Bundle) -> None:
    again = write_bundle([table(entry(64, 64, launches=launches_of([DYNAMIC])))], [DYNAMIC], bundle.origin)
    assert [p.name for p in (again.path / "binaries").iterdir()] == [f"{DYNAMIC.sha256}.cubin"]
    assert load_bundle(bundle.origin) == again != bundle


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    rows = table(entry(64, 64, launches=launches_of([STATIC])))
    with pytest.raises(TableError, match=f"none for {STATIC.sha256}"):
        write_bundle([rows], [], tmp_path / "new")
    with pytest.raises(TableError, match="one table a kernel"):
        write_bundle([rows, rows], [STATIC], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(TableError, match="new, empty or a bundle"):
        write_bundle([rows], [STATIC], tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_changed_code_is_refused(bundle: Bundle) -> None:
    """At load (finding 12), and where it is read lazily, when it is asked for."""
    (bundle.path / "binaries" / f"{STATIC.sha256}.cubin").write_bytes(b"evil")
    with pytest.raises(TableError, match="digest that is its name"):
        load_bundle(bundle.path)
    lazy = load_bundle(bundle.path, "lazy")
    (launch,) = lazy.tables[0].entries[0].launches
    with pytest.raises(TableError, match="digest that is its name"):
        lazy.binary(0, launch.variants[0])
    assert lazy.binary(0, launch.variants[1]) == DYNAMIC
    (bundle.path / "binaries" / f"{DYNAMIC.sha256}.cubin").unlink()
    with pytest.raises(TableError, match="every binary that its tables name"):
        lazy.binary(0, launch.variants[1])
    with pytest.raises(TableError, match="check must be one of all, lazy"):
        load_bundle(bundle.path, "never")  # type: ignore[arg-type]


def test_a_changed_or_exchanged_table_is_refused(bundle: Bundle) -> None:
    (path,) = (bundle.path / "tables").iterdir()
    original = path.read_text()
    path.write_text(original.replace("10.0", "11.0"))
    with pytest.raises(TableError, match="digest of the table's content"):
        load_bundle(bundle.path)
    from tileflow.runtime import table_text

    path.write_text(table_text(table(entry(128, 64))))
    with pytest.raises(TableError, match="the one that its manifest names"):
        load_bundle(bundle.path)


@pytest.mark.parametrize("name", ["../../secret.json", "/etc/passwd", "..", "a/b.json", "a\\b.json", "", "a\0.json"])
def test_a_manifest_leads_nowhere_else(name: str, bundle: Bundle) -> None:
    (bundle.path / "bundle.json").write_text(json.dumps({"schema_version": 1, "tables": {name: "0" * 64}}))
    with pytest.raises(TableError, match="named without a path"):
        load_bundle(bundle.path)


def test_links_out_of_the_bundle_are_not_followed(bundle: Bundle, tmp_path: Path) -> None:
    file = bundle.path / "binaries" / f"{STATIC.sha256}.cubin"
    (tmp_path / "outside").write_bytes(STATIC.code)
    file.unlink()
    file.symlink_to(tmp_path / "outside")
    with pytest.raises(TableError, match="inside the bundle"):
        load_bundle(bundle.origin)
    (launch,) = bundle.tables[0].entries[0].launches
    with pytest.raises(TableError, match="inside the bundle"):
        load_bundle(bundle.origin, "lazy").binary(0, launch.variants[0])


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("", "readable manifest"),
        ('{"schema_version": 3, "tables": {}}', "at most 2, but got 3"),
        ('{"schema_version": 1}', "schema_version 1 and tables"),
        ('{"schema_version": 1, "tables": {}, "run": "rm"}', "schema_version 1 and tables"),
        ('{"schema_version": 1, "tables": {"a.json": 3}}', "schema_version 1 and tables"),
        ("[]", "schema_version, and tables or snapshots"),
        ('{"schema_version": 2, "snapshots": []}', "schema_version, and tables or snapshots"),
        ('{"schema_version": 2, "snapshots": "../.."}', "schema_version, and tables or snapshots"),
        ('{"schema_version": 2, "snapshots": ["../.."]}', "schema_version, and tables or snapshots"),
        ('{"schema_version": 2, "snapshots": ["' + "0" * 64 + '"]}', "hold the snapshot that it names"),
    ],
)
def test_a_damaged_manifest_is_refused(manifest: str, message: str, bundle: Bundle) -> None:
    (bundle.path / "bundle.json").write_text(manifest)
    with pytest.raises(TableError, match=message):
        load_bundle(bundle.path)
    (bundle.path / "bundle.json").unlink()
    with pytest.raises(TableError, match="readable manifest") as raised:
        load_bundle(bundle.path)
    assert "a sweep's is its folder bundle" in str(raised.value.hint)


def test_kernels_of_one_module_have_files_of_their_own(tmp_path: Path) -> None:
    tables = [Table.of(KernelId.of(f"kernels:{n}", examples.HASH), ()) for n in ("Softmax.forward", "Softmax.backward")]
    write_bundle(tables, [], tmp_path)
    assert {t.kernel.ref for t in load_bundle(tmp_path).tables} == {t.kernel.ref for t in tables}


def test_a_variant_without_a_binary_cannot_be_launched(bundle: Bundle) -> None:
    (launch,) = bundle.tables[0].entries[0].launches
    with pytest.raises(TableError, match="name its binary"):
        bundle.binary(0, dataclasses.replace(launch.variants[0], sha256=None))
