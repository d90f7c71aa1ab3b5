"""Tables, bundles and lookups of devices that the catalogue lacks (finding 11), and the whole call on one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes import runtime_examples as examples
from tileflow_experiments import warm_start
from tileflow_experiments.spec import parse

from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.runtime import (
    DeviceInfo,
    Fallback,
    clear,
    dump_table,
    launches_of,
    load,
    load_bundle,
    load_table,
    lookup,
    write_bundle,
)
from tileflow.runtime.merging import merge
from tileflow.runtime.table import validate
from tileflow.target import target

binary, entry, problem, table = examples.binary, examples.entry, examples.problem, examples.table
SLICE, PARTITION = "nvidia-sm_90a-60sm-40gb-cache25", "amd-gfx942-38cu-24gb"


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    clear()
    yield
    clear()


@pytest.mark.parametrize(
    ("device", "block"), [(SLICE, 1), ("nvidia-h20", 2), (PARTITION, 3), ("nvidia-sm_86-82sm-24gb-cache6", 4)]
)
def test_a_lookup_is_served_by_the_architecture(device: str, block: int, tmp_path: Path) -> None:
    """Rows of the nearest sibling, else the architecture's or the vendor's portfolio."""
    rows = (
        entry(64, 64, "nvidia-h200", block=9), entry(64, 64, "nvidia-h20", block=1 if device == SLICE else 2),
        entry(64, 64, "amd-mi300x", block=3),
    )  # fmt: skip
    full = table(*rows, portfolio=(Fallback(Config.of({"block:tile": 4}), "nvidia", "sm_90a"),))
    dump_table(full, tmp_path / "t.json")
    load(tmp_path / "t.json")
    hit = lookup(examples.KERNEL, examples.HASH, problem(64, 64), device)
    assert hit is not None and hit.config["block:tile"] == block
    assert hit.step == {4: "vendor_portfolio", 2: "exact"}.get(block, "sibling")


def test_a_table_of_a_described_device_keeps_its_figures(tmp_path: Path) -> None:
    own = table(entry(64, 64, SLICE))
    assert own.devices[SLICE] == DeviceInfo.of(target(SLICE)) and own.devices[SLICE].sm_or_cu_count == 60
    dump_table(own, tmp_path / "t.json")
    assert load_table(tmp_path / "t.json") == own
    assert set(merge(own, table(entry(64, 64))).devices) == {SLICE, "nvidia-h200"}
    wrong = replace(own, devices={SLICE: replace(own.devices[SLICE], sm_or_cu_count=132)})
    with pytest.raises(TableError, match=f"{SLICE} must be nvidia sm_90a with 60"):
        validate(wrong)


def test_a_class_of_a_newer_catalogue_is_what_its_table_says() -> None:
    newer = DeviceInfo("nvidia", "sm_90a", 100, 141, 227 << 10, "NVIDIA H250")
    made = newer.target("nvidia-h250")
    assert (made.name, made.arch, made.sm_count, made.mem_gb) == ("nvidia-h250", "sm_90a", 100, 141)
    assert newer.target("nvidia-h200") == target("nvidia-h200"), "what this version knows is not overruled"
    with pytest.raises(SpecError, match="architecture"):
        replace(newer, arch="hopper").target("nvidia-h250")


@pytest.mark.parametrize("device", [SLICE, PARTITION, "nvidia-l40s", "amd-mi325x"])
def test_a_bundle_holds_code_for_it(device: str, tmp_path: Path) -> None:
    code = binary(b"code", target=device)
    write_bundle([table(entry(64, 64, device, launches=launches_of([code])))], [code], tmp_path)
    suffix = "cubin" if device.startswith("nvidia") else "hsaco"
    assert [*tmp_path.glob(f"snapshots/*/binaries/{code.sha256}.{suffix}")]
    (read,) = load_bundle(tmp_path).tables
    variant = read.entries[0].launches[0].variants[0]
    assert load_bundle(tmp_path).binary(0, variant) == code


def test_code_for_no_vendor_is_refused(tmp_path: Path) -> None:
    code = binary(b"code", target="pocket-calculator")
    with pytest.raises(TableError, match="target must be a device class, but got 'pocket-calculator'"):
        write_bundle([table(entry(64, 64, launches=launches_of([code])))], [code], tmp_path)


def test_a_sweep_may_name_a_described_class() -> None:
    data = {
        "name": "s", "kernels": [{"kernel": "examples.vector_add:vector_add", "problems": [{"n": 64}]}],
        "device_classes": [SLICE, "nvidia-h20"], "strategy": {"name": "random", "seed": 1}, "budget": {"trials": 1},
    }  # fmt: skip
    assert parse(data).device_classes == (SLICE, "nvidia-h20")


@pytest.mark.parametrize(
    ("there", "steps"),
    [(SLICE, 0), ("nvidia-h200", 1), ("nvidia-sm_90a-66sm-40gb", 2), ("nvidia-a100", 3), (PARTITION, None)],
)
def test_earlier_results_count_by_how_near_their_device_is(there: str, steps: int | None) -> None:
    assert warm_start._device_steps(SLICE, there) == steps


@pytest.mark.parametrize("device", [SLICE, "nvidia-l40s", "nvidia-b300", PARTITION])
def test_a_kernel_s_default_is_built_for_it(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from examples.rms_norm import rms_norm
    from tileflow.build.compile import build

    monkeypatch.setenv("TILEFLOW_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sizes = {"m": 512, "n": 1024, "dtype": "bfloat16"}
    lowered = rms_norm.lower(rms_norm.inputs(device="meta", **sizes), target(device))
    (code,) = [build(source, target(device)) for source in lowered.emit(lowered.default)]
    assert code.target == device and code.code[:4] == b"\x7fELF"
