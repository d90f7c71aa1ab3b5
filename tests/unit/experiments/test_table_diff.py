"""``tileflow table diff`` and ``merge``: what a reviewer sees of two tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes import runtime_examples as examples
from tileflow_experiments.cli import app
from tileflow_experiments.cli_table import merge_tables
from typer.testing import CliRunner

from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.runtime import Change, Entry, KernelId, Table, compare, dump_table, load_table

Say = Callable[..., tuple[int, str]]


def row(m: int, best_us: float, warps: int = 4, toolchain: str = "triton 3.6.0", ci95: float = 0.1) -> Entry:
    entry: Entry = examples.entry(m, 64)
    return replace(
        entry, best_us=best_us, ci95=ci95, n=5, origin="measured", measured_on=entry.device, toolchain=toolchain,
        config=Config.of({"num_warps": warps}), launches=(), requirements=(),
    )  # fmt: skip


def table(*rows: Entry) -> Table:
    made: Table = examples.table(*rows)
    return made


def kinds(old: Table, new: Table) -> dict[str, Change]:
    return {change.problem: change.kind for change in compare(old, new)}


def test_each_row_is_told_by_its_interval() -> None:
    old = table(row(1, 10.0), row(2, 10.0), row(3, 10.0), row(4, 10.0), row(5, 10.0))
    new = table(row(1, 9.0, 8), row(2, 11.0), row(3, 10.1), row(4, 5.0, toolchain="triton 3.7.1"), row(6, 1.0))
    expected = [Change.BETTER, Change.WORSE, Change.EQUAL, Change.OTHER, Change.GONE, Change.NEW]
    assert list(kinds(old, new).values()) == expected
    opposite = {Change.BETTER: Change.WORSE, Change.WORSE: Change.BETTER, Change.NEW: Change.GONE,
                Change.GONE: Change.NEW}  # fmt: skip
    assert list(kinds(new, old).values()) == [opposite.get(kind, kind) for kind in expected]


def test_modelled_times_are_not_compared() -> None:
    modelled = replace(row(1, 5.0), origin="modelled", measured_on="", n=0)
    assert list(kinds(table(row(1, 10.0)), table(modelled)).values()) == [Change.OTHER]


def test_tables_of_two_kernels() -> None:
    with pytest.raises(TableError, match="of one kernel to be compared"):
        list(compare(table(), Table.of(KernelId.of("kernels:other", examples.HASH), ())))


@pytest.fixture
def say() -> Say:
    def call(*arguments: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["table", *map(str, arguments)])
        return result.exit_code, result.output

    return call


def test_what_a_reviewer_reads(say: Say, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    dump_table(table(row(1, 10.0), row(2, 10.0), row(3, 10.0)), old)
    dump_table(table(row(1, 8.0, 8), row(2, 12.5), row(3, 10.0)), new)
    code, text = say("diff", old, new)
    assert code == 0 and text.splitlines()[-1] == "1 better, 1 worse, 1 equal"
    assert "10.00 ± 0.10 us -> 8.00 ± 0.10 us, 1.25x" in text and "num_warps" in text
    assert "10.00 ± 0.10 us -> 12.50 ± 0.10 us, 0.80x" in text
    assert text.count("equal") == 1, "a row that did not change is not printed"
    assert say("diff", old, new, "--equal")[1].count("equal") == 2
    assert say("diff", old, new, "--fail-on-worse")[0] == 1
    assert say("diff", old, old, "--fail-on-worse") == (0, f"{examples.KERNEL}\n3 equal\n")


def test_a_kernel_that_one_side_lacks(say: Say, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    dump_table(table(row(1, 10.0)), old / "a.json")
    other = Table.of(KernelId.of("kernels:other", examples.HASH), ())
    dump_table(other, new / "b.json")
    code, text = say("diff", old, new, "--fail-on-worse")
    assert code == 1 and "1 gone" in text and "kernels:other" in text


def test_merged_by_command(say: Say, tmp_path: Path) -> None:
    for name, rows in (("a", [row(1, 10.0), row(2, 5.0)]), ("b", [row(1, 8.0, 8), row(3, 5.0)])):
        dump_table(table(*rows), tmp_path / f"{name}.json")
    code, text = say("merge", tmp_path / "a.json", tmp_path / "b.json", "--out", tmp_path / "merged")
    (path,) = (tmp_path / "merged").glob("*.json")
    merged = load_table(path)
    assert code == 0 and "3 rows of 4" in text
    assert [entry.best_us for entry in merged.entries] == [8.0, 5.0, 5.0]


def test_tables_that_do_not_merge_leave_every_file_as_it_was(say: Say, tmp_path: Path) -> None:
    """The tables before the one that does not merge were written."""
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "merged"
    for folder, memory in ((old, 141), (new, 80)):
        folder.mkdir()
        dump_table(table(row(1, 10.0)), folder / "a.json")
        (device,) = table(row(1, 10.0)).devices.values()
        unknown = {"nvidia-h900": replace(device, mem_gb=memory)}
        other = Table.of(KernelId.of("kernels:other", "0" * 64), (), devices=unknown)
        dump_table(other, folder / "b.json")
    assert say("merge", old, new, "--out", out)[0] != 0
    assert not out.exists()
    out.mkdir()
    dump_table(Table.of(KernelId.of("kernels:other", "0" * 64), ()), out / "kernels.other.json")
    dump_table(table(row(2, 10.0)), out / f"{examples.KERNEL.replace(':', '.')}.json")
    before = {path: path.read_bytes() for path in out.glob("*.json")}
    assert say("merge", old, "--out", out)[0] != 0
    assert {path: path.read_bytes() for path in out.glob("*.json")} == before


def test_tables_are_merged_into_a_folder_that_is_among_them(say: Say, tmp_path: Path) -> None:
    """The second merge into a folder of winners was refused, with the name of a function of Python."""
    night, out = tmp_path / "night.json", tmp_path / "winners"
    for best_us, *rows in ((10.0, row(1, 10.0)), (8.0, row(1, 8.0, 8))):
        dump_table(table(*rows), night, replaces=load_table(night).table_id if night.exists() else None)
        code, _ = say("merge", *([out] if out.exists() else []), night, "--out", out)
        (path,) = out.glob("*.json")
        assert code == 0 and [entry.best_us for entry in load_table(path).entries] == [best_us]
    dump_table(table(row(2, 5.0)), tmp_path / "other.json")
    before = path.read_bytes()
    result = CliRunner().invoke(app, ["table", "merge", f"{tmp_path}/other.json", "--out", str(out)])
    assert isinstance(result.exception, TableError)
    assert f"tileflow table merge {path} TABLES --out {out} keeps its rows" in str(result.exception)
    assert path.read_bytes() == before


def test_a_merge_leaves_no_second_table_of_a_version(say: Say, tmp_path: Path) -> None:
    """A sweep's own folder had ``module-kernel.json`` with the rows from before beside ``module.kernel.json``."""
    out = versions(tmp_path / "out", ("a", 10.0))
    better = versions(tmp_path / "better", ("a", 8.0))
    result = CliRunner().invoke(app, ["table", "merge", str(out), str(better), "--out", str(out)])
    assert isinstance(result.exception, TableError) and "k-a.json, beside which" in str(result.exception)
    assert [path.name for path in out.glob("*.json")] == ["k-a.json"]
    assert say("merge", better, "--out", versions(tmp_path / "beside", ("b", 1.0)))[0] == 0


def versions(folder: Path, *versions_: tuple[str, float]) -> Path:
    """A folder of tables of one kernel, a row each, as of closures or from before and after an edit."""
    folder.mkdir()
    for version, best_us in versions_:
        made = table(row(1, best_us))
        made = Table.of(replace(made.kernel, semantic_hash=version * 64), made.entries, devices=made.devices)
        dump_table(made, folder / f"k-{version}.json")
    return folder


def test_each_version_of_a_kernel_is_compared_with_itself(say: Say, tmp_path: Path) -> None:
    """Of several tables of one kernel the last was compared, and the rows of the others were nowhere."""
    old = versions(tmp_path / "old", ("a", 10.0), ("b", 10.0), ("c", 10.0))
    new = versions(tmp_path / "new", ("a", 20.0), ("b", 10.0), ("c", 5.0))
    code, text = say("diff", old, new, "--fail-on-worse")
    assert code == 1 and text.splitlines()[-1] == "1 better, 1 worse, 1 equal"
    (tmp_path / "new/k-a.json").unlink()
    code, text = say("diff", old, new, "--fail-on-worse")
    assert (code, text.splitlines()[-1]) == (1, "1 gone, 1 better, 1 equal")


def test_an_edited_kernel_is_compared_with_what_it_was(say: Say, tmp_path: Path) -> None:
    old = versions(tmp_path / "old", ("a", 10.0), ("b", 10.0))
    new = versions(tmp_path / "new", ("a", 10.0), ("d", 5.0))
    text = say("diff", old, new)[1]
    assert f"another version of the kernel: {'b' * 12}, now {'d' * 12}" in text
    assert text.splitlines()[-1] == "1 better, 1 equal"


def test_versions_of_a_kernel_are_merged_each_with_itself(say: Say, tmp_path: Path) -> None:
    """A user's own folder has a table for each, and could be merged with none."""
    mine = versions(tmp_path / "mine", ("a", 10.0), ("b", 7.0))
    theirs = versions(tmp_path / "theirs", ("a", 8.0))
    code, _ = say("merge", mine, theirs, "--out", tmp_path / "merged")
    found = [load_table(path) for path in sorted((tmp_path / "merged").glob("*.json"))]
    assert code == 0
    assert [(t.kernel.semantic_hash[0], [e.best_us for e in t.entries]) for t in found] == [("a", [8.0]), ("b", [7.0])]


def test_a_place_that_is_no_folder_is_refused(say: Say, tmp_path: Path) -> None:
    dump_table(table(row(1, 10.0)), tmp_path / "a.json")
    result = CliRunner().invoke(app, ["table", "merge", f"{tmp_path}/a.json", "--out", f"{tmp_path}/a.json/below"])
    assert isinstance(result.exception, SpecError) and "--out" in str(result.exception)


@pytest.mark.parametrize(("name", "said"), [("bundle.json", "a bundle"), ("journal.jsonl", "a sweep's folder")])
def test_tables_are_merged_into_no_bundle_and_no_sweep(tmp_path: Path, name: str, said: str) -> None:
    """The manifest of a bundle and the log of a sweep were read as tables, and called damaged."""
    dump_table(table(row(1, 8.0)), tmp_path / "a.json")
    out = tmp_path / "out"
    out.mkdir()
    for file in (name, "mlflow-log.json"):
        (out / file).write_text("{}")
    with pytest.raises(TableError, match=f"into a folder of tables, but got {said}"):
        merge_tables([tmp_path / "a.json"], out)
    assert {path.name for path in out.iterdir()} == {name, "mlflow-log.json"}
