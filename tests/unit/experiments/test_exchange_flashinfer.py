"""Sweeps' specs from the traces that FlashInfer dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tileflow_experiments.exchange.flashinfer import OPERATIONS, spec_of_traces

from tileflow.api import load_kernel
from tileflow.errors import SpecError
from tileflow.runtime.problem import TensorSpec

DEVICES = ["nvidia-h200"]


def trace(api: str, axes: dict[str, int | None], inputs: dict[str, str]) -> dict[str, Any]:
    """A definition as FlashInfer's ``fi_trace`` writes it: an axis of None varies."""
    return {
        "name": api.rpartition(".")[2],
        "op_type": "op",
        "tags": [f"fi_api:flashinfer.{api}", "status:verified"],
        "axes": {n: {"type": "var"} if size is None else {"type": "const", "value": size} for n, size in axes.items()},
        "inputs": {name: {"shape": [], "dtype": dtype} for name, dtype in inputs.items()},
        "outputs": {},
    }


NORM = {"batch_size": None, "hidden_size": 4096}
TRACES = {
    "norm.rmsnorm": trace("norm.rmsnorm", NORM, {"hidden_states": "bfloat16", "weight": "bfloat16"}),
    "norm.gemma_rmsnorm": trace("norm.gemma_rmsnorm", NORM, {"hidden_states": "float16"}),
    "norm.fused_add_rmsnorm": trace("norm.fused_add_rmsnorm", NORM, {"hidden_states": "bfloat16"}),
    "norm.gemma_fused_add_rmsnorm": trace("norm.gemma_fused_add_rmsnorm", NORM, {"hidden_states": "float16"}),
    "activation.silu_and_mul": trace(
        "activation.silu_and_mul", {"num_tokens": None, "hidden_size": 14336}, {"input": "bfloat16"}
    ),
    "activation.gelu_tanh_and_mul": trace(
        "activation.gelu_tanh_and_mul", {"num_tokens": None, "hidden_size": 14336}, {"input": "bfloat16"}
    ),
    "gemm.gemm_base.mm_bf16": trace(
        "gemm.gemm_base.mm_bf16", {"M": None, "N": 4096, "K": 1024}, {"A": "bfloat16", "B": "bfloat16"}
    ),
    "decode.BatchDecodeWithPagedKVCacheWrapper.run": trace(
        "decode.BatchDecodeWithPagedKVCacheWrapper.run",
        {
            "batch_size": None, "num_kv_indices": None, "num_pages": None, "num_qo_heads": 32, "num_kv_heads": 8,
            "head_dim": 128, "page_size": 16,
        },
        {"q": "bfloat16", "k_cache": "float8_e4m3fn", "kv_indptr": "unknown"},
    ),
    "sampling.top_k_top_p_sampling_from_probs": trace(
        "sampling.top_k_top_p_sampling_from_probs", {"batch_size": None, "vocab_size": 32000}, {"probs": "float32"}
    ),
}  # fmt: skip
SIZES = {"batch_size": [8], "num_tokens": [64], "M": [64], "num_kv_indices": [1024]}


def dump(folder: Path, *traces: dict[str, Any]) -> Path:
    for n, data in enumerate(traces):
        (folder / f"{n}-{data['name']}.json").write_text(json.dumps(data))
    return folder


@pytest.mark.parametrize("api", sorted(OPERATIONS))
def test_the_kernel_of_an_operation_takes_its_problem(api: str, tmp_path: Path) -> None:
    spec, left_out = spec_of_traces(dump(tmp_path, TRACES[api]), SIZES, DEVICES, 5)
    (entry,) = spec.kernels
    assert entry.kernel == OPERATIONS[api].kernel and not left_out and spec.budget.seconds == 5
    kernel = load_kernel(entry.kernel)
    problem = kernel.describe(*kernel.inputs(device="meta", **dict(entry.problems[0])))
    first = problem.args[0][1]
    assert isinstance(first, TensorSpec) and first.shape[0] in (8, 64)
    assert first.dtype == next(iter(TRACES[api]["inputs"].values()))["dtype"]


def test_layouts_are_those_of_the_calls(tmp_path: Path) -> None:
    spec, _ = spec_of_traces(
        dump(tmp_path, TRACES["gemm.gemm_base.mm_bf16"], TRACES["activation.silu_and_mul"]), SIZES, DEVICES, 5
    )
    found = {}
    for entry in spec.kernels:
        kernel = load_kernel(entry.kernel)
        found[kernel.__name__] = kernel.describe(*kernel.inputs(device="meta", **dict(entry.problems[0]))).key
    assert found["matmul"].startswith("x=bfloat16[64x1024] y=bfloat16[1024x4096]s1,1024")
    assert found["swiglu"] == "a=bfloat16[64x14336]s28672,1 b=bfloat16[64x14336]s28672,1"


def test_workloads_say_the_sizes_and_each_problem_comes_once(tmp_path: Path) -> None:
    dump(tmp_path, TRACES["norm.rmsnorm"], TRACES["norm.gemma_rmsnorm"])
    lines = [{"definition": "rmsnorm", "workload": {"axes": {"batch_size": n}, "inputs": {}}} for n in (1, 7, 7)]
    (tmp_path / "rmsnorm.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    spec, left_out = spec_of_traces(tmp_path, {}, DEVICES, 5)
    (entry,) = spec.kernels
    assert [dict(p)["m"] for p in entry.problems] == [1, 7]
    assert len(left_out) == 1 and left_out[0].startswith("gemma_rmsnorm: ") and "batch_size" in left_out[0]


def test_what_cannot_be_tuned_is_said(tmp_path: Path) -> None:
    paged = TRACES["decode.BatchDecodeWithPagedKVCacheWrapper.run"]
    wide = {**paged, "axes": paged["axes"] | {"page_size": {"type": "const", "value": 64}}}
    other = trace("gdn_decode.gated_delta_rule_decode", {}, {})
    _, left_out = spec_of_traces(dump(tmp_path, TRACES["norm.rmsnorm"], wide, other), SIZES, DEVICES, 5)
    assert len(left_out) == 2 and "16 tokens" in left_out[0] and "gated_delta_rule_decode" in left_out[1]


@pytest.mark.parametrize("text", ["[]", "{}", "no JSON", '{"name": "x", "axes": {"a": {}}, "inputs": {}}'])
def test_files_that_are_no_traces_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(SpecError, match="as FlashInfer writes it"):
        spec_of_traces(tmp_path, {}, DEVICES, 5)


def test_a_folder_with_nothing_to_tune_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"must have \.json files"):
        spec_of_traces(tmp_path, {}, DEVICES, 5)
    with pytest.raises(SpecError, match="must have an operation"):
        spec_of_traces(dump(tmp_path, TRACES["norm.rmsnorm"]), {}, DEVICES, 5)
