"""What a sweep leaves where names, calls or files meet that were taken to be apart."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, KERNEL, quick_tools, sweep_spec
from tileflow_cluster.protocol import Mode
from tileflow_experiments import closing, parquet, sweep
from tileflow_experiments import journal as journals
from tileflow_experiments.cli_table import merge_tables
from tileflow_experiments.exchange import t4
from tileflow_experiments.records import StudyKey
from tileflow_experiments.tables import with_code_of
from tileflow_experiments.tuning_task import TuningTask

from tileflow.errors import SpecError
from tileflow.runtime.bundle import load_bundle, load_tables
from tileflow.runtime.table import KernelId, Table
from tileflow.runtime.table_files import dump_table, load_table, table_file_name

WHOLE = {"strategy": {"name": "exhaustive"}, "budget": {"trials": 100}}


def one_call(key: StudyKey, mode: Mode) -> TuningTask:
    """Each problem makes the call of ``n=64``, as where another keyword of ``inputs`` changes values alone."""
    same = fakes.prepare(replace(key, problem=(("n", 64),)), mode)
    return replace(same, key=key)


def test_two_problems_that_make_one_call_share_a_row(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All trials were made, and the tables then refused: none was ever written."""
    tools = replace(quick_tools(), prepare=one_call)
    with caplog.at_level(logging.WARNING):
        assert sweep.run(sweep_spec(**WHOLE, device_classes=[GPU]), tmp_path, tools) == ""
    (row,) = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert row.problem.key == "x=float32[64]" and row.best_us == 10.0
    assert f"two problems of {KERNEL} make the call x=float32[64]" in caplog.text
    said = closing.of_sweep(tmp_path / "journal.jsonl", tmp_path / "tables").lines
    assert [line.split()[1] for line in said[1:3]] == ["n=64", "n=100"]
    assert all("10.0 us" in line and "no config works" not in line for line in said[1:3])


def test_kernels_of_other_alphabets_have_tables_of_their_own(tmp_path: Path) -> None:
    """Both were named ``fakes-gr--e.json``: the second table replaced the first."""
    names = ["fakes:größe", "fakes:grüße"]
    kernels = [{"kernel": name, "problems": [{"n": 64}]} for name in names]
    assert sweep.run(sweep_spec(kernels=kernels, device_classes=[GPU]), tmp_path, quick_tools()) == ""
    assert sorted(t.kernel.ref for t in load_tables(tmp_path / "tables")[0]) == names
    assert sorted(t.kernel.ref for t in load_bundle(tmp_path / "bundle").tables) == names


@pytest.mark.parametrize(
    "one, other", [("m:größe", "m:grüße"), ("a.b:c", "a:b.c"), ("m:कि", "m:कु"), ("m:k.backward(x)", "m:k.backward(y)")]
)
def test_a_file_name_is_of_one_kernel_and_stays_in_its_folder(one: str, other: str) -> None:
    assert table_file_name(one) != table_file_name(other)
    assert "/" not in table_file_name("../../etc:passwd")


def test_merging_keeps_kernels_apart_whose_short_names_are_one(tmp_path: Path) -> None:
    """``a.b:c`` and ``a:b.c`` were both written to ``a.b.c.json``: the rows of one were lost."""
    for ref, file in (("a.b:c", "one.json"), ("a:b.c", "other.json"), ("d:e", "third.json")):
        dump_table(Table.of(KernelId.of(ref, "c0ffee"), ()), tmp_path / file)
    out = tmp_path / "out"
    merge_tables([tmp_path / name for name in ("one.json", "other.json", "third.json")], out)
    assert sorted(t.kernel.ref for t in load_tables(out)[0]) == ["a.b:c", "a:b.c", "d:e"]
    assert (out / "d.e.json").exists()


def test_a_damaged_table_is_made_anew_from_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its error says to export it again, which gave the same error."""
    sweep.run(sweep_spec(), tmp_path, quick_tools())
    path = tmp_path / "tables/fakes-kernel.json"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    sweep.export(tmp_path, fakes.prepare)
    assert load_table(path).entries
    assert path.with_name(f"{path.name}.damaged").read_bytes() == whole[: len(whole) // 2]
    assert "is made anew" in caplog.text


def test_an_export_of_a_finished_sweep_keeps_what_only_its_end_built(tmp_path: Path) -> None:
    """Its tables lost the rows that take any size, and the rows their machine code, which the bundle still has."""
    sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, quick_tools())
    path = tmp_path / "tables/fakes-kernel.json"
    whole = load_table(path)
    assert whole.defaults and all(row.launches for row in whole.entries)
    for _ in range(2):
        sweep.export(tmp_path, fakes.prepare)
        again = load_table(path)
        assert (again.entries, again.portfolio, again.defaults) == (whole.entries, whole.portfolio, whole.defaults)
        assert again.devices == whole.devices
    assert {row.launches for row in load_bundle(tmp_path / "bundle").tables[0].entries} == {
        row.launches for row in again.entries
    }


def test_code_of_another_version_or_config_is_not_taken_over(tmp_path: Path) -> None:
    sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, quick_tools())
    built = load_table(tmp_path / "tables/fakes-kernel.json")
    bare = replace(built, entries=tuple(replace(row, launches=()) for row in built.entries), defaults={})
    assert with_code_of(bare, built) == built
    other = replace(bare, kernel=KernelId.of(KERNEL, "another"))
    assert with_code_of(other, built) == other
    retuned = replace(bare, entries=tuple(replace(row, toolchain="triton 99") for row in bare.entries))
    assert not any(row.launches for row in with_code_of(retuned, built).entries)


def test_what_cannot_be_exported_is_the_last_line_and_no_error_of_the_search(tmp_path: Path) -> None:
    """Exit code 2 says that nothing was written, when all trials were."""
    sweep.run(sweep_spec(), tmp_path, quick_tools())
    for path in (tmp_path / "bundle").rglob("bundle.json"):
        path.write_text("{}")
    said = sweep.resume(tmp_path, quick_tools())
    assert "bundle" in said
    assert load_table(tmp_path / "tables/fakes-kernel.json").entries


@pytest.mark.parametrize("name", ["tables", "bundle", "journal.jsonl"])
def test_a_link_to_nowhere_is_in_the_way_of_a_new_sweep(tmp_path: Path, name: str) -> None:
    """A folder cannot be made in its place, which was said after the search."""
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(SpecError, match=f"{name}, which is there already"):
        sweep.run(sweep_spec(), tmp_path, quick_tools())
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_folder_that_is_a_file_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SpecError, match=f"must be written to a folder, but got {tmp_path}/file, which is none"):
        sweep.run(sweep_spec(), tmp_path / "file" / below, quick_tools())


def test_numbers_and_texts_that_json_alone_can_hold_are_exported(tmp_path: Path) -> None:
    """A whole number that no float is ended an export with Arrow's error, a lone surrogate one of T4 with Python's."""
    sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, quick_tools())
    lines = journals.read(tmp_path / "journal.jsonl")
    line = next(line for line in lines if line["kind"] == "trial" and "median_us" in line)
    odd = line | {"p20_us": 2**63 - 1, "samples_us": [2**53 + 1, 0.5], "trial_id": "odd", "device_class": "\ud800"}
    record = journals.read_line(json.dumps(odd).encode())[1]
    assert record is not None
    assert parquet.write([record], tmp_path / "odd.parquet") == 1
    assert t4.file_name(record.study).isascii()
