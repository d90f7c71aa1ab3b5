"""What is compared by the benchmark of rows over clusters, without a GPU."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("triton")

from tileflow_benchmarks.clusters import knob

from tileflow.api import load_kernel
from tileflow.target import target

H200 = target("nvidia-h200")
FASTER = {"softmax 4096x131072 float32", "softmax 4096x65536 bfloat16"}  # docs/data/cluster-rows-h200.json


def test_each_case_has_configs_with_and_without_clusters() -> None:
    defaults = {}
    for case in (knob.Case(*each) for each in knob.CASES):
        kernel = load_kernel(case.kernel)
        lowered = kernel.lower(case.args(kernel, "meta", case.m), H200)
        blocks = [config["ctas"] for _, config in knob.configs(lowered)]
        assert blocks == [1, *(blocks for blocks, _ in knob.CLUSTERS)]
        defaults[case.name] = knob.chosen(lowered)
    assert {defaults[name] for name in FASTER} == {"ctas 8 of 8 warps"}
    assert set(defaults.values()) == {"ctas 8 of 8 warps", knob.PLAIN}  # each default is one of those compared


def test_a_dry_run_compiles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["knob", "--dry-run", "--only", "softmax 4096x65536 bfloat16"])
    assert knob.main() == 0
    plain, starred, other = capsys.readouterr().out.splitlines()
    assert "ctas 1:" in plain and "ctas 8 of 8 warps*:" in starred and "ctas 4 of 16 warps:" in other
    assert "0 bytes spilled" in starred


def test_cases_that_the_time_does_not_suffice_for_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    us = {knob.PLAIN: 300.0, "ctas 8 of 8 warps": 200.0, "torch": 400.0, "torch.compile": 350.0}
    row = {"default": "ctas 8 of 8 warps", "wrong": {}, "us": us}
    monkeypatch.setattr(knob, "measured", lambda case, device: {"case": case.name, **row})
    monkeypatch.setattr(knob.torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(knob.torch.cuda, "get_device_name", lambda: "a card")
    clock = iter([0.0, 10.0, 80.0])
    monkeypatch.setattr(knob.time, "monotonic", lambda: next(clock))
    first, second = (knob.Case(*each) for each in knob.CASES[:2])
    result = knob.measure_all([first, second], H200, 75)
    assert [found["case"] for found in result["cases"]] == [first.name] and result["left"] == [second.name]
    text = capsys.readouterr().out
    assert "ctas 8 of 8 warps*: 200" in text and "1.50x  all right" in text and f"no time for: {second.name}" in text
