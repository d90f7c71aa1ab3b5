"""Rows of a mixture of experts as vLLM's tuned configs: ``E=128,N=768,device_name=NVIDIA_H200.json``.

vLLM reads such a file from ``VLLM_TUNED_CONFIG_FOLDER`` for its own Triton kernel: it maps a number of tokens to block
sizes, and the nearest number serves a batch. Both of its products have one config; the first is of gates and values
beside each other, where a tile of ours has as many columns of each.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.runtime.files import require_folder, write_atomically
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.table import Entry, Table

NOTES = "tileflow.json"
MOST_GROUP = 64  # GROUP_SIZE_M of vLLM's own tuner
_ARGUMENTS = ("x", "up", "down", "weights")
_KNOBS = ("block:block_m", "block:tile_n", "block:tile_k", "num_warps", "num_stages")
_DTYPES = {"bfloat16": "", "float16": "", "float32": ",dtype=float32"}
_SAME_HERE = {"persistent": 0, "walk": "interleaved", "grid": "flat", "maxnreg": 0, "cutlass_name": False}


@dataclass(frozen=True, slots=True)
class MoeShape:
    """What vLLM finds a config by, and ``hidden`` and ``top_k``, which it does not ask for."""

    experts: int
    inner: int
    tokens: int
    dtype: str
    hidden: int
    top_k: int

    def file_name(self, display_name: str) -> str:
        """vLLM's for a device that its driver calls ``display_name``."""
        device = "_".join(display_name.replace("/", " ").split())
        if "H200" in device.split("_"):
            device = "NVIDIA_H200"  # all of the family share a file
        return f"E={self.experts},N={self.inner},device_name={device}{_DTYPES[self.dtype]}.json"


def shape_of(problem: Problem) -> MoeShape:
    """The sizes of a call like ``examples.serving_moe:fused_moe``. Raises TableError for any other."""
    args = dict(problem.args)
    specs = [args.get(name) for name in _ARGUMENTS]
    if all(isinstance(spec, TensorSpec) for spec in specs):
        x, up, down, weights = (spec for spec in specs if isinstance(spec, TensorSpec))
        ranks = [len(spec.shape) for spec in (x, up, down, weights)]
        if ranks == [2, 3, 3, 2] and x.dtype in _DTYPES:
            experts, hidden, inner = down.shape
            if up.shape == (experts, 2 * inner, hidden) and x.shape == (weights.shape[0], hidden):
                return MoeShape(experts, inner, x.shape[0], x.dtype, hidden, weights.shape[1])
    raise TableError(
        "vllm-moe is a format of rows of fused experts: x (tokens, hidden), up (E, 2 N, hidden), down (E, hidden, N), "
        "weights (tokens, k), without quantisation",
        got=problem.key,
        where=problem.kernel,
        hint="export the table of examples.serving_moe:fused_moe, or of a kernel with its arguments",
    )


def moe_config(config: Config) -> dict[str, int]:
    """A row's config in vLLM's words; that of the first product, which is two thirds of the work, where the second has
    another. Raises TableError where it has none of these knobs."""
    choices = config.to_dict()
    if absent := [name for name in _KNOBS if name not in choices]:
        raise TableError("a row of fused experts must have its blocks", got=f"no {', '.join(absent)}")
    block_m, block_n, block_k, warps, stages = (int(choices[name]) for name in _KNOBS)
    rows_first = choices.get("order", "0,1") == "1,0"
    return {
        "BLOCK_SIZE_M": block_m,
        "BLOCK_SIZE_N": 2 * block_n,
        "BLOCK_SIZE_K": block_k,
        "GROUP_SIZE_M": MOST_GROUP if rows_first else int(choices.get("group", 1)),
        "num_warps": warps,
        "num_stages": stages,
    }


def unsaid(config: Config) -> list[str]:
    """What a row chooses and vLLM's file has no word for, as ``knob=choice``."""
    choices = config.to_dict()
    said = {f"{name}={choices[name]}" for name, plain in _SAME_HERE.items() if choices.get(name, plain) != plain}
    said |= {f"{name}={choice}" for name, choice in choices.items() if name.endswith(".access") and choice != "pointer"}
    second = {"block:tile_n@1": 2 * int(choices["block:tile_n"]), "block:tile_k@1": choices["block:tile_k"]}
    second |= {f"{name}@1": choices[name] for name in ("num_warps", "num_stages", "group", "order") if name in choices}
    said |= {f"{name}={choices[name]}" for name, wanted in second.items() if choices.get(name, wanted) != wanted}
    if choices.get("order", "0,1") == "1,0":
        said.add(f"order=1,0 with group={choices.get('group', 1)}")
    return sorted(said)


@dataclass(frozen=True, slots=True)
class Exported:
    """vLLM's ``files``, and how many rows of each kernel were ``left_out``, since they are of no fused experts."""

    files: list[Path]
    left_out: dict[str, int]


def export(tables: Sequence[Table], folder: Path) -> Exported:
    """Write a file for each number of experts, inner size, device and dtype, and what each row of them is in
    ``tileflow.json`` beside. Rows of other kernels, which a bundle and a folder of tables have too, are left out.

    Raises TableError, before anything is written, where no row can be one, or where two rows are for one place.
    """
    files: dict[str, dict[int, Entry]] = {}
    others: list[TableError] = []
    left_out = Counter[str]()
    for table, entry in _rows(tables):
        try:
            shape = shape_of(entry.problem)
        except TableError as error:
            others.append(error)
            left_out[entry.problem.kernel] += 1
            continue
        for display in _display_names(table, entry.device):
            rows = files.setdefault(shape.file_name(display), {})
            known = rows.setdefault(shape.tokens, entry)
            if known is not entry:
                raise TableError(
                    "vLLM's file must have one config for a number of tokens",
                    got=f"{known.device} {known.problem.key}, and {entry.device} {entry.problem.key}",
                    where=shape.file_name(display),
                    hint="it knows neither the hidden size, nor how many experts a token has, nor cards of one family "
                    "apart: export tables of one model and one of the cards",
                )
    if others and not files:
        raise others[0]
    if not files:
        raise SpecError("tables to export must have rows", got=f"{len(tables)} tables without any", where=str(folder))
    texts = {name: _text({str(m): moe_config(rows[m].config) for m in sorted(rows)}) for name, rows in files.items()}
    notes = {name: {str(m): _note(rows[m]) for m in sorted(rows)} for name, rows in sorted(files.items())}
    require_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in [*sorted(texts.items()), (NOTES, _text(notes))]:
        write_atomically(folder / name, text.encode())
    return Exported([folder / name for name in sorted(texts)], dict(left_out))


def _rows(tables: Sequence[Table]) -> Iterator[tuple[Table, Entry]]:
    """The best row of each problem on each device: tables have their rows in the order of preference."""
    for table in tables:
        seen = set()
        for entry in table.entries:
            if (place := (entry.device, entry.problem.key)) not in seen:
                seen.add(place)
                yield table, entry


def _display_names(table: Table, device: str) -> tuple[str, ...]:
    known = table.devices[device]
    names = known.target(device).display_names or (known.display_name,)
    if not all(names):
        raise TableError(
            "a device must have the name that its driver gives it", got=device, hint="tune on a card of the catalogue"
        )
    return names


def _note(entry: Entry) -> dict[str, Any]:
    return {
        "device": entry.device,
        "origin": entry.origin,
        "best_us": entry.best_us,
        "problem": entry.problem.key,
        "unsaid": unsaid(entry.config),
    }


def _text(data: object) -> str:
    return json.dumps(data, indent=4) + "\n"
