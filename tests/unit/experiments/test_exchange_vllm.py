"""Tables as vLLM's tuned configs for fused experts: read by the rules of vLLM's own reader."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tileflow_experiments.exchange import vllm_moe

from tileflow.api import load_kernel
from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.runtime.table import Entry, KernelId, Table

KERNEL = "examples.serving_moe:fused_moe"
SMALL = {
    "block:block_m": 16, "block:tile_n": 64, "block:tile_k": 128, "block:tile_n@1": 128, "block:tile_k@1": 128,
    "group": 1, "group@1": 1, "order": "0,1", "order@1": "0,1", "num_warps": 4, "num_warps@1": 4, "num_stages": 5,
    "num_stages@1": 5, "persistent": 0, "load:up#0.access": "pointer",
}  # fmt: skip
LARGE = SMALL | {"block:block_m": 128, "block:tile_n": 128, "block:tile_k": 64, "group": 16, "persistent": 1}


def entry(config: dict[str, Any], m: int, device: str = "nvidia-h200", **changes: Any) -> Entry:
    sizes = {"m": m, "n": 768, "hidden": 2048, "experts": 128, "k": 8} | changes
    kernel = load_kernel(KERNEL)
    problem = kernel.describe(*kernel.inputs(device="meta", **sizes))
    return Entry(device, problem, Config.of(config), "modelled", 10.0)


def table(*entries: Entry) -> Table:
    return Table.of(KernelId.of(KERNEL, "c0ffee"), entries)


def read_as_vllm(folder: Path, experts: int, inner: int, device: str, dtype: str = "") -> dict[int, dict[str, int]]:
    """`get_moe_configs` of vLLM 0.11 to 0.18: the file by its name, one key that is no number, all others numbers."""
    device = device.replace(" ", "_")
    if "H200" in device.split("_"):
        device = "NVIDIA_H200"
    name = f"E={experts},N={inner},device_name={device}{f',dtype={dtype}' if dtype else ''}.json"
    with open(os.path.join(folder, name)) as file:
        tuned = json.load(file)
    tuned.pop("triton_version", None)
    return {int(tokens): config for tokens, config in tuned.items()}


def chosen_as_vllm(configs: dict[int, dict[str, int]], tokens: int) -> dict[str, int]:
    """`try_get_optimal_moe_config`: the nearest number of tokens."""
    return configs[min(configs, key=lambda known: abs(known - tokens))]


def test_vllm_finds_the_rows_by_its_own_rules(tmp_path: Path) -> None:
    rows = table(entry(SMALL, 1), entry(LARGE, 4096), entry(LARGE, 4096, "nvidia-h100-sxm"))
    written = vllm_moe.export([rows], tmp_path).files
    assert [file.name for file in written] == [
        "E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json",
        "E=128,N=768,device_name=NVIDIA_H200.json",
    ]
    for device in ("NVIDIA H200", "NVIDIA H200 NVL"):
        configs = read_as_vllm(tmp_path, 128, 768, device)
        assert configs.keys() == {1, 4096}
        assert (
            chosen_as_vllm(configs, 40)["BLOCK_SIZE_M"] == 16 and chosen_as_vllm(configs, 3000)["BLOCK_SIZE_M"] == 128
        )
    assert read_as_vllm(tmp_path, 128, 768, "NVIDIA H100 80GB HBM3") == {
        4096: {
            "BLOCK_SIZE_M": 128,
            "BLOCK_SIZE_N": 256,  # 128 gates and 128 values beside them
            "BLOCK_SIZE_K": 64,
            "GROUP_SIZE_M": 16,
            "num_warps": 4,
            "num_stages": 5,
        }
    }


def test_what_the_format_cannot_say_is_beside_it(tmp_path: Path) -> None:
    vllm_moe.export([table(entry(SMALL, 1), entry(LARGE, 4096))], tmp_path)
    notes = json.loads((tmp_path / vllm_moe.NOTES).read_text())["E=128,N=768,device_name=NVIDIA_H200.json"]
    assert notes["1"]["unsaid"] == [] and notes["1"]["origin"] == "modelled"
    assert notes["4096"]["unsaid"] == ["block:tile_k@1=128", "block:tile_n@1=128", "group@1=1", "persistent=1"]


def test_float32_has_a_name_of_its_own(tmp_path: Path) -> None:
    vllm_moe.export([table(entry(SMALL, 1, dtype="float32"))], tmp_path)
    assert read_as_vllm(tmp_path, 128, 768, "NVIDIA H200", "float32").keys() == {1}


def test_the_best_row_of_a_problem_is_taken(tmp_path: Path) -> None:
    slower = entry(LARGE, 1)
    vllm_moe.export([table(slower, Entry("nvidia-h200", slower.problem, Config.of(SMALL), "modelled", 5.0))], tmp_path)
    assert read_as_vllm(tmp_path, 128, 768, "NVIDIA H200")[1]["BLOCK_SIZE_M"] == 16


def test_two_rows_for_one_place_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """vLLM asks for neither the hidden size nor the number of experts a token."""
    with pytest.raises(TableError, match="one config for a number of tokens"):
        vllm_moe.export([table(entry(SMALL, 64), entry(LARGE, 64, hidden=4096))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def another_table() -> Table:
    kernel = load_kernel("examples.softmax:softmax")
    problem = kernel.describe(*kernel.inputs(device="meta", m=64, n=64))
    row = Entry("nvidia-h200", problem, Config.of(SMALL), "modelled", 1.0)
    return Table.of(KernelId.of(kernel.name, "c0ffee"), [row])


def test_rows_of_other_kernels_are_left_out_of_a_bundle_s(tmp_path: Path) -> None:
    """One of them refused the whole folder, and a bundle has no file to name instead."""
    exported = vllm_moe.export([another_table(), table(entry(SMALL, 1))], tmp_path)
    assert exported.left_out == {"examples.softmax:softmax": 1} and len(exported.files) == 1
    assert read_as_vllm(tmp_path, 128, 768, "NVIDIA H200").keys() == {1}


def test_other_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="rows of fused experts"):
        vllm_moe.export([another_table()], tmp_path / "out")
    with pytest.raises(TableError, match="must have its blocks"):
        vllm_moe.export([table(entry({"block:block_m": 16}, 1))], tmp_path / "out")
    with pytest.raises(SpecError, match="must have rows"):
        vllm_moe.export([table()], tmp_path / "out")
    assert not (tmp_path / "out").exists()
