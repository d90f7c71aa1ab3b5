"""A sweep's spec from FlashInfer's traces: what ``FLASHINFER_TRACE_DUMP=1`` wrote while a model was served.

A file there is a *definition*: an operation, the sizes that a model fixes, and the names of those that vary. These come
from *workloads*, lines of flashinfer-bench's ``.jsonl`` files in the same folder, or from whoever asks. A definition is
tuned as the kernel that computes the same from arguments of the same layout; others are left out, with the reason.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.recorded import RECORDED, text_of

from ..spec import DTYPES, SweepSpec, parse

PAGE = 16  # tokens: of the pages that the kernel's inputs function makes

Sizes = Mapping[str, int]
ProblemData = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Definition:
    """A trace's operation. ``fixed``: sizes by axis; ``varying``: the axes that a workload gives sizes."""

    name: str
    api: str
    fixed: Mapping[str, int]
    varying: tuple[str, ...]
    dtypes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Operation:
    """The kernel for an API of FlashInfer. ``asks``: the varying axes that its problem depends on.

    ``problem``: keywords of the kernel's ``inputs`` by all sizes; raises SpecError for what the kernel cannot be given.
    """

    kernel: str
    asks: tuple[str, ...]
    problem: Callable[[Definition, Sizes], ProblemData]


def _rows(rows: str, tensor: str) -> Callable[[Definition, Sizes], ProblemData]:
    return lambda d, sizes: {"m": sizes[rows], "n": sizes["hidden_size"], "dtype": _dtype(d, tensor)}


def _halves(definition: Definition, sizes: Sizes) -> ProblemData:
    """Both halves of rows that hold them beside each other."""
    m, n = sizes["num_tokens"], sizes["hidden_size"]
    half = TensorSpec(_dtype(definition, "input"), (m, n), (2 * n, 1))
    return _recorded(a=half, b=half)


def _product(definition: Definition, sizes: Sizes) -> ProblemData:
    """The right operand's columns are contiguous, as nn.Linear's weight transposed."""
    m, n, k = (sizes[axis] for axis in ("M", "N", "K"))
    right = TensorSpec(_dtype(definition, "B"), (k, n), (1, k))
    return _recorded(x=TensorSpec(_dtype(definition, "A"), (m, k), (k, 1)), y=right)


def _paged(definition: Definition, sizes: Sizes) -> ProblemData:
    if sizes["page_size"] != PAGE:
        raise SpecError(f"a page must hold {PAGE} tokens", got=sizes["page_size"], where=definition.name)
    names = {"batch": "batch_size", "h": "num_qo_heads", "hk": "num_kv_heads", "d": "head_dim"}
    pages = -(-sizes["num_kv_indices"] // sizes["batch_size"])
    problem: ProblemData = {name: sizes[axis] for name, axis in names.items()}
    problem |= {"n": pages * PAGE, "dtype": _dtype(definition, "q"), "cache_dtype": _dtype(definition, "k_cache")}
    return problem


def _sampled(definition: Definition, sizes: Sizes) -> ProblemData:
    return {"m": sizes["batch_size"], "v": sizes["vocab_size"], "dtype": _dtype(definition, "probs")}


_RMS, _GATED = "tileflow.kernels.rms", "tileflow.kernels.gated"
OPERATIONS: Mapping[str, Operation] = {
    "norm.rmsnorm": Operation(f"{_RMS}:rms_norm_forward", ("batch_size",), _rows("batch_size", "hidden_states")),
    "norm.gemma_rmsnorm": Operation(f"{_RMS}:rms_norm_forward", ("batch_size",), _rows("batch_size", "hidden_states")),
    "norm.fused_add_rmsnorm": Operation(
        f"{_RMS}:add_rms_norm_forward", ("batch_size",), _rows("batch_size", "hidden_states")
    ),
    "norm.gemma_fused_add_rmsnorm": Operation(
        f"{_RMS}:add_rms_norm_forward", ("batch_size",), _rows("batch_size", "hidden_states")
    ),
    "activation.silu_and_mul": Operation(f"{_GATED}:swiglu", ("num_tokens",), _halves),
    "activation.gelu_tanh_and_mul": Operation(f"{_GATED}:geglu", ("num_tokens",), _halves),
    "gemm.gemm_base.mm_bf16": Operation("examples.matmul:matmul", ("M",), _product),
    "decode.BatchDecodeWithPagedKVCacheWrapper.run": Operation(
        "examples.serving_paged_attention:paged_attention", ("batch_size", "num_kv_indices"), _paged
    ),
    "sampling.top_k_top_p_sampling_from_probs": Operation(
        "examples.serving_sampling:sample_top_k_top_p", ("batch_size",), _sampled
    ),
}


def spec_of_traces(
    folder: Path, sizes: Mapping[str, Sequence[int]], device_classes: Iterable[str], seconds: float
) -> tuple[SweepSpec, list[str]]:
    """A sweep over the definitions in ``folder``, and a line for each that is left out.

    ``sizes``: for axes that vary, where no workload says. Raises SpecError for a file that is no trace's, and where
    nothing is left.
    """
    workloads = _workloads(folder)
    kernels: dict[str, dict[str, ProblemData]] = {}
    left_out = []
    for definition in _definitions(folder):
        try:
            operation = _operation(definition)
            for chosen in _chosen(definition, operation, workloads.get(definition.name, []), sizes):
                problem = operation.problem(definition, {**definition.fixed, **chosen})
                kernels.setdefault(operation.kernel, {})[json.dumps(problem, sort_keys=True)] = problem
        except SpecError as error:
            left_out.append(f"{definition.name}: {error}")
    if not kernels:
        raise SpecError(
            "traces must have an operation to tune",
            got="\n  ".join(left_out) or "no definition",
            where=str(folder),
            hint=f"known: {', '.join(OPERATIONS)}",
        )
    data = {
        "name": "flashinfer",
        "kernels": [{"kernel": name, "problems": list(problems.values())} for name, problems in kernels.items()],
        "device_classes": list(device_classes),
        "strategy": {"name": "default", "seed": 0},
        "budget": {"seconds": seconds},
    }
    return parse(data), left_out


def _operation(definition: Definition) -> Operation:
    found = OPERATIONS.get(definition.api)
    if found is None:
        raise SpecError("no kernel here computes it", got=definition.api or "no fi_api tag")
    return found


def _chosen(
    definition: Definition, operation: Operation, workloads: Sequence[Sizes], sizes: Mapping[str, Sequence[int]]
) -> Iterator[Sizes]:
    """The sizes of the axes that the operation asks for: those of each workload, else all combinations of ``sizes``."""
    asked = [axis for axis in operation.asks if axis in definition.varying]
    known = [{axis: w[axis] for axis in asked} for w in workloads if all(axis in w for axis in asked)]
    if known:
        yield from known
        return
    if unknown := [axis for axis in asked if not sizes.get(axis)]:
        raise SpecError("an axis that varies must have sizes", got=f"none for {', '.join(unknown)}", hint="--size")
    for choice in itertools.product(*(sizes[axis] for axis in asked)):
        yield dict(zip(asked, choice, strict=True))


def _definitions(folder: Path) -> Iterator[Definition]:
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise SpecError("a folder of traces must have .json files", got="none", where=str(folder))
    for file in files:
        try:
            data = json.loads(file.read_bytes())
            axes = {str(name): axis for name, axis in data["axes"].items()}
            yield Definition(
                str(data["name"]),
                next((_api(tag) for tag in data.get("tags", ()) if tag.startswith("fi_api:")), ""),
                {name: int(axis["value"]) for name, axis in axes.items() if axis["type"] == "const"},
                tuple(name for name, axis in axes.items() if axis["type"] == "var"),
                {str(name): str(spec["dtype"]) for name, spec in data["inputs"].items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_trace(file, error) from error


def _api(tag: str) -> str:
    """``norm.rmsnorm`` of ``fi_api:flashinfer.norm.rmsnorm``."""
    return tag.removeprefix("fi_api:").removeprefix("flashinfer.")


def _workloads(folder: Path) -> dict[str, list[Sizes]]:
    """The sizes in flashinfer-bench's lines, by definition, each once."""
    found: dict[str, dict[tuple[tuple[str, int], ...], Sizes]] = {}
    for file in sorted(folder.rglob("*.jsonl")):
        try:
            for line in file.read_text().splitlines():
                data = json.loads(line)
                axes = {str(name): int(size) for name, size in data["workload"]["axes"].items()}
                found.setdefault(str(data["definition"]), {})[tuple(sorted(axes.items()))] = axes
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no_trace(file, error) from error
    return {name: list(each.values()) for name, each in found.items()}


def _no_trace(file: Path, error: Exception) -> SpecError:
    return SpecError(
        "a trace must be as FlashInfer writes it: name, tags, axes with their types, inputs with their dtypes",
        got=f"{type(error).__name__}: {error}"[:200],
        where=str(file),
        hint="give the folder of FLASHINFER_TRACE_DUMP_DIR, or of a data set of flashinfer-bench",
    )


def _dtype(definition: Definition, tensor: str) -> str:
    dtype = definition.dtypes.get(tensor, "")
    if dtype not in DTYPES:
        raise SpecError("a tensor must have a dtype of torch's", got=f"{tensor}: {dtype or 'none'}")
    return dtype


def _recorded(**args: TensorSpec) -> ProblemData:
    """The problem of a call with these arguments, strides too."""
    problem = Problem("a:call", tuple(args.items()))
    return {**problem.sizes, RECORDED: text_of(problem, {})}
