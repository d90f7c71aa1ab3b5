"""The watch over a measuring child: hangs and crashes cost one config, a fault of a whole case that case."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tileflow_benchmarks.ratios.command import chosen
from tileflow_benchmarks.ratios.watched import Job, jobs_of, measure_apart

# Does what the names of its configs say, then what is named "all".
CHILD = """
import os, sys, time
from tileflow_benchmarks.ratios.watched import jobs_of, say_about, say_begins, say_found
jobs = jobs_of(sys.argv[-1])
say_begins("device")
print("words of a library")
for number in dict.fromkeys(n for n, _ in jobs):
    names = [name for n, name in jobs if n == number]
    for name in names:
        say_about((number, name))
        if name == "hangs":
            time.sleep(60)
        if name == "crashes":
            os._exit(3)
        say_found((number, name), {"checked": True, "pid": os.getpid()})
    say_about((number, "all"))
    if "ends its case" in names:
        os._exit(3)
    for name in names:
        say_found((number, name), {"us": 1.0})
"""


def watch(jobs: list[Job], code: str = CHILD, **changes: Any) -> dict[Job, dict[str, Any]]:
    found: dict[Job, dict[str, Any]] = {}

    def keep(job: Job, what: Mapping[str, Any]) -> None:
        found.setdefault(job, {}).update(what)

    settings: dict[str, Any] = {"seconds": 3.0, "of_all": frozenset({"all"})} | changes
    measure_apart([sys.executable, "-c", code], jobs, keep, **settings)
    return found


def test_a_hang_and_a_crash_are_named_and_the_others_of_the_case_are_timed_together() -> None:
    names = ("first", "hangs", "second", "crashes", "last")
    began = time.monotonic()
    found = watch([(0, name) for name in names])
    assert time.monotonic() - began < 30
    assert found[0, "hangs"] == {"status": "bench_timeout"} and found[0, "crashes"] == {"status": "crashed"}
    able = [found[0, name] for name in ("first", "second", "last")]
    assert all(each["us"] == 1.0 for each in able)
    assert len({each["pid"] for each in able}) == 1  # what is compared was checked and timed in one process


def test_what_was_measured_is_not_measured_again() -> None:
    found = watch([(0, "first"), (1, "crashes"), (1, "second"), (2, "third")])
    assert found[0, "first"]["us"] == 1.0
    assert found[0, "first"]["pid"] != found[1, "second"]["pid"] == found[2, "third"]["pid"]


def test_a_fault_of_all_configs_ends_their_case() -> None:
    found = watch([(0, "ends its case"), (0, "second"), (1, "third")])
    assert found[0, "all"] == {"status": "crashed"}
    assert "us" not in found[0, "second"] and found[1, "third"]["us"] == 1.0


def test_after_the_most_faults_the_rest_is_left_out() -> None:
    found = watch([(0, "crashes"), (1, "crashes"), (2, "fine")], most_faults=2)
    assert [found[n, "crashes"]["status"] for n in (0, 1)] == ["crashed"] * 2
    assert found[2, "fine"] == {"status": "left out", "reason": "after 2 faults"}


def test_an_end_before_the_first_config_is_no_configs_fault() -> None:
    with pytest.raises(RuntimeError, match="before its first config"):
        watch([(0, "fine")], "raise SystemExit(3)")


def test_jobs_come_out_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "jobs.json").write_text('[[2, "default"], [3, "wide"]]')
    assert jobs_of(str(tmp_path / "jobs.json")) == [(2, "default"), (3, "wide")]


def test_thousands_of_jobs_reach_the_child() -> None:
    """Linux takes 128 KiB for one argument, which 480 kernels by 14 configs do not fit into."""
    jobs = [(n, f"block:tx={n}, num_warps=8, and so on until the text is long") for n in range(4000)]
    assert len(watch(jobs)) == len(jobs)


def test_cases_are_chosen_by_words_of_their_names() -> None:
    from tileflow_benchmarks.ratios.products import CASES

    assert len(chosen(CASES, "")) == len(CASES)
    assert [CASES[n].name for n in chosen(CASES, "fp8 8192;3 as nn.Linear")] == [
        "4096^3 as nn.Linear", "1000^3 as nn.Linear", "fp8 8192^3",
    ]  # fmt: skip


@pytest.mark.parametrize("only", ["fp8 8192,nn.Linear", "nn.Linear;fp9"])
def test_words_that_no_name_holds_are_refused(only: str) -> None:
    """A command with commas between its words did nothing, and said nothing."""
    from tileflow_benchmarks.ratios.products import CASES

    with pytest.raises(SystemExit, match=r"separated by semicolons, but got (fp8 8192,nn.Linear|fp9)\n"):
        chosen(CASES, only)
