"""Rows that need no search: built here without a GPU, by several processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import runtime_examples as examples
from tileflow_experiments import cli, offline, portable
from tileflow_experiments.portable import BuiltRow, Failure, Order, build_row, build_rows, homes
from tileflow_experiments.spec import KernelSpec, parse_kernels, read_kernels

from tileflow.errors import BuildError, InternalError, OutOfResources, SpecError, TableError
from tileflow.runtime import Fallback, Problem, TensorSpec, defaults_for, load_bundle, merge, write_bundle

ADD = "examples.vector_add:vector_add"
H200, MI300 = "nvidia-h200", "amd-mi300x"


def vectors(n: int, dtype: str = "float32", stride: int = 1, aligned: bool = True) -> Problem:
    spec = TensorSpec(dtype, (n,), (stride,), aligned)
    return Problem(ADD, (("x", spec), ("y", spec)))


def test_kinds_are_what_no_default_can_be_generic_over() -> None:
    assert vectors(64).kinds == "x=float32[1] y=float32[1]"
    assert vectors(64).kinds == vectors(1000, stride=3, aligned=False).kinds
    assert vectors(64).categories != vectors(64, stride=3).categories
    assert vectors(64).kinds != vectors(64, "bfloat16").kinds


def test_defaults_are_made_from_the_problem_in_the_middle() -> None:
    problems = [vectors(n) for n in (64, 4096, 1 << 30)] + [vectors(64, "bfloat16")]
    assert homes([(ADD, H200, p) for p in problems]) == [1, 3]
    assert homes([(ADD, d, problems[0]) for d in (H200, MI300)]) == [0, 1]


def test_a_portable_row_is_built_for_any_vendor() -> None:
    for device, format_ in ((H200, "cubin"), (MI300, "hsaco")):
        row = build_row(Order(ADD, (("n", 1000),), device))
        assert {b.format for b in row.binaries} == {format_} and {b.mode for b in row.binaries} == {"dynamic"}
        assert row.problem == vectors(1000) and row.modelled_us is None
        symbols = {s for r in row.requirements for s in r.check.symbols()}
        assert symbols == set()  # a sum asks nothing of its device, and guards decide about sizes
        assert row.fallback().launches[0].variants[0].sha256 == row.binaries[0].sha256


def test_a_static_row_has_the_models_time() -> None:
    row = build_row(Order(ADD, (("n", 1 << 20),), H200, "static"))
    assert [b.mode for b in row.binaries] == ["static"] and row.modelled_us is not None and 1 < row.modelled_us < 100


def test_a_config_that_the_device_has_too_little_for_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def short(kernel: Any, args: Any, device: Any, config: Any) -> Any:
        tried.append(config)
        if len(tried) < 3:
            raise OutOfResources("the device must have the shared memory")
        return kernel.lower(args, device, "dynamic").emit(config)

    monkeypatch.setattr(portable, "portable_sources", short)
    assert build_row(Order(ADD, (("n", 1 << 20),), H200)).config == tried[2] != tried[0]

    def never(kernel: Any, args: Any, device: Any, config: Any) -> Any:
        raise OutOfResources("the device must have the shared memory")

    monkeypatch.setattr(portable, "portable_sources", never)
    with pytest.raises(OutOfResources):
        build_row(Order(ADD, (("n", 1 << 20),), H200))


def test_rows_are_built_by_processes_that_tell_what_fails() -> None:
    orders = [Order("no.such:kernel", (), H200), Order(ADD, (("n", 64),), H200)]
    failed, built = build_rows(orders, processes=1)
    assert isinstance(failed, Failure) and failed.order == orders[0] and isinstance(failed.error, SpecError)
    assert isinstance(built, BuiltRow) and built.order == orders[1] and built.binaries


def test_a_count_of_processes_is_refused_and_nothing_is_published(tmp_path: Path) -> None:
    """A bundle without rows was published, as no process had built any."""
    orders = [Order(ADD, (("n", 64),), H200)]
    with pytest.raises(SpecError, match="built by processes, but got -1"):
        build_rows(orders, processes=-1)
    with pytest.raises(SpecError, match="built by processes"):
        offline.build_bundle(orders, tmp_path / "b", processes=-1)
    with pytest.raises(TableError, match="keep its current snapshot"):
        offline.build_bundle(orders, tmp_path / "b", keep=0)
    assert not (tmp_path / "b").exists()


def test_every_order_has_a_result_where_nothing_was_stopped() -> None:
    answers = iter([True])
    with pytest.raises(InternalError, match="every order must have a result, but got 0 of 1"):
        build_rows([Order(ADD, (("n", 64),), H200)], lambda: next(answers, False), processes=1)


def in_this_process(orders: Sequence[Order], processes: int) -> list[BuiltRow | Failure]:
    rows: list[BuiltRow | Failure] = []
    for order in orders:
        try:
            rows.append(build_row(order))
        except SpecError as error:
            rows.append(Failure(order, error))
    return rows


def test_the_command_builds_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(offline, "build_rows", in_this_process)
    problems = tmp_path / "problems.yaml"
    problems.write_text(f"kernels:\n  - kernel: {ADD}\n    problems: [{{n: 64}}, {{n: 1048576}}, {{n: 9999}}]\n")
    command = ["tileflow", "bundle", "build", str(tmp_path / "b"), "--problems", str(problems), "--devices", H200]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert ending.value.code in (0, None) and "1 tables, 3 rows, " in capsys.readouterr().out
    bundle = load_bundle(tmp_path / "b")
    (table,) = bundle.tables
    assert [(e.origin, e.best_us is not None) for e in table.entries] == [("modelled", True)] * 3
    (row,) = defaults_for(table, vectors(77, stride=5), "nvidia", "sm_90a")
    assert row.problem == vectors(9999) and all(v.mode == "dynamic" for v in row.launches[0].variants)
    broken = [Order(ADD, (("n", 64),), H200), Order("no.such:kernel", (("n", 64),), H200)]
    with pytest.raises(BuildError, match=r"1 of 2 that do not(.|\n)*portable no.such:kernel n=64 on nvidia-h200: "):
        offline.build_bundle(broken, tmp_path / "b")
    assert load_bundle(tmp_path / "b") == bundle


def test_what_is_stopped_is_left_out() -> None:
    assert build_rows([Order(ADD, (("n", 64),), H200)], lambda: True) == []


def test_a_kernel_needs_an_example() -> None:
    spec, cell = KernelSpec(ADD, ()), KernelSpec(ADD, ((("n", 64),), (("n", 128),)))
    assert offline.orders([spec], [cell], [H200]) == [Order(ADD, (("n", 64),), H200)]
    assert [o.kind for o in offline.orders([cell], [], [H200])] == ["portable", "static", "static"]
    with pytest.raises(SpecError, match="must have an example problem"):
        offline.orders([spec], [], [H200])
    with pytest.raises(SpecError, match="must accept the problem"):
        offline.orders([KernelSpec(ADD, ((("m", 64),),))], [], [H200])
    assert parse_kernels({"kernels": [{"kernel": ADD, "problems": [{"n": 64}]}], "budget": {}}) == (
        KernelSpec(ADD, ((("n", 64),),)),
    )


def test_a_file_of_a_bare_list_of_kernels_is_told_its_key(tmp_path: Path) -> None:
    """The page named a spec's ``kernels`` as its form, and the refusal asked for a mapping with text keys."""
    file = tmp_path / "problems.yaml"
    text = f"- kernel: {ADD}\n  problems:\n    - {{n: 64}}\n"
    file.write_text(text)
    with pytest.raises(
        SpecError, match=r"has the key kernels, but got a list\n.*problems\.yaml\n  write `kernels:` above"
    ):
        read_kernels(file)
    file.write_text(f"kernels:\n{text}")
    assert read_kernels(file) == (KernelSpec(ADD, ((("n", 64),),)),)


# ---- the table's side ---------------------------------------------------------------------------------------------


def row(n: int, dtype: str, arch: str = "sm_90a") -> Fallback:
    (config,) = {e.config for e in examples.table(examples.entry(64, 64)).entries}
    return Fallback(config, "nvidia", arch, Problem(examples.KERNEL, vectors(n, dtype).args), reason=f"{n}")


def test_a_devices_own_default_goes_before_another_ones_of_its_architecture() -> None:
    rows = [examples.entry(64, 64, d) for d in ("nvidia-h100-sxm", H200, "nvidia-a100")]
    table = examples.table(*rows, defaults={
        H200: (row(1, "float32"), row(2, "bfloat16")), "nvidia-h100-sxm": (row(3, "float32"),),
        "nvidia-a100": (row(4, "float32", "sm_80"),),
    })  # fmt: skip
    asked = vectors(77)
    assert [r.reason for r in defaults_for(table, asked, "nvidia", "sm_90a", H200)] == ["1", "3"]
    assert [r.reason for r in defaults_for(table, asked, "nvidia", "sm_90a", "nvidia-h20")] == ["3", "1"]
    assert [r.reason for r in defaults_for(table, asked, "nvidia", "sm_80", "nvidia-a100")] == ["4"]
    assert defaults_for(table, vectors(77, "int8"), "nvidia", "sm_90a", H200) == ()
    assert defaults_for(table, asked, "amd", "sm_90a", H200) == ()


def test_merging_keeps_our_defaults_and_adds_theirs(tmp_path: Path) -> None:
    ours = examples.table(examples.entry(64, 64), defaults={H200: (row(1, "float32"),)})
    theirs = examples.table(
        examples.entry(64, 64), examples.entry(64, 64, "nvidia-a100"),
        defaults={H200: (row(2, "float32"), row(3, "int8")), "nvidia-a100": (row(4, "float32", "sm_80"),)},
    )  # fmt: skip
    merged = merge(ours, theirs)
    assert {d: [r.reason for r in rows] for d, rows in merged.defaults.items()} == {
        H200: ["1", "3"], "nvidia-a100": ["4"]
    }  # fmt: skip
    assert write_bundle([merged], [], tmp_path).tables == (merged,)
