"""Faults planted in generated kernels, and which of them the check of a sweep finds.

A fault is a change of a kernel's generated text, run by Triton's interpreter; of a call as a whole, for what a text run
one program after another cannot show; or, for sizes that an interpreter does not reach, a function that computes as the
faulty kernel would. ``docs/guides/checking.md`` holds the table:

    PYTHONPATH=tests python -m tile_testing.runs.planted_faults --write docs/guides/checking.md
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel, load_kernel
from tileflow.measure.check import check_call, make_reference, reference_of
from tileflow.target import target

Call = Callable[..., Any]
SEEDS, REPEATS = 2, 2  # of the check of what goes into a table; the search's is of one seed, once
BEGIN, END = "<!-- planted faults: begin -->", "<!-- planted faults: end -->"


def recurrence_inputs(m: int, n: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, n, device=device), torch.rand(m, device=device)


def recurrence_reference(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    state, states = torch.zeros_like(x[:, 0]), []
    for step in range(x.size(1)):
        state = state * decay + x[:, step]
        states.append(state)
    return torch.stack(states, 1)


@tileflow.kernel(inputs=recurrence_inputs, reference=recurrence_reference)
def recurrence(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        state = tfl.zeros([tile])
        for step in range(x.size(1)):
            state = state * decay[tile] + x[tile, step]
            out[tile, step] = state
    return out


@dataclass(frozen=True, slots=True)
class Change:
    """``old`` of the generated text replaced by ``new``, once, at its last place where ``last``."""

    old: str
    new: str
    last: bool = False

    def __call__(self, text: str) -> str:
        assert self.old in text, f"{self.old!r} is not in the generated text:\n{text}"
        if self.last:
            return self.new.join(text.rsplit(self.old, 1))
        return text.replace(self.old, self.new, 1)


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel under a config, its faults by what they are. ``around``: those of a call as a whole."""

    kind: str
    kernel: str
    problem: Mapping[str, Any]
    config: Mapping[str, Any]
    changes: Mapping[str, Callable[[str], str]]
    around: Mapping[str, Callable[[Call], Call]] = dataclasses.field(default_factory=dict)

    def load(self) -> Kernel:
        return recurrence if self.kernel == "recurrence" else load_kernel(self.kernel)


def _store_for_addition(text: str) -> str:
    return Change(", sem='relaxed')", ")")(Change("tl.atomic_add(", "tl.store(")(text))


def _stale_output(call: Call) -> Call:
    """Adds to what the last call left, as a kernel whose output nobody set to zero."""
    before: list[torch.Tensor] = []

    def stale(*args: Any) -> Any:
        out = call(*args)
        before.append(out.clone())
        return out if len(before) == 1 else out + before[-2]

    return stale


def _race(call: Call) -> Call:
    """In every second call one program's update of one tile is lost."""
    calls = iter(range(1 << 20))

    def racing(x: torch.Tensor, y: torch.Tensor) -> Any:
        out = call(x, y)
        if next(calls) % 2:
            out[:16, :16] -= x[:16, :128].float() @ y[:128, :16].float()
        return out

    return racing


def _input_scribbled(call: Call) -> Call:
    def scribbling(x: torch.Tensor, *rest: Any) -> Any:
        out = call(x, *rest)
        x[-1, -1] = 0
        return out

    return scribbling


SUBJECTS = (
    Subject(
        "memory-bound", "examples.softmax:softmax", {"m": 10, "n": 131, "dtype": "float32"}, {},
        {
            "load mask one column short": Change("< 131)[None, :], other", "< 130)[None, :], other"),
            "row mask one row short": Change("tile_m_mask = tile_m_idx < 10", "tile_m_mask = tile_m_idx < 9"),
            "output stride off by one": Change("* 131 +", "* 130 +", last=True),
            "exponential of another base": Change(" * 1.4426950408889634", ""),
            "no shift by the maximum (seen by large inputs alone)": Change("v3 = v0 - v2", "v3 = v0"),
        },
    ),
    Subject(
        "memory-bound", "examples.rms_norm:rms_norm", {"m": 10, "n": 131, "dtype": "float32"}, {"reduce:sum#0": 128},
        {
            "last block of a sum lost": Change("tl.range(0, 131", "tl.range(0, 128"),
            "sum of the last block alone": Change("v3 = c0 + v2", "v3 = v0 + v2"),
            "mean over the padded length": Change("/ 131.0", "/ 256.0"),
            "weight of the next column": Change(
                "weight_ptr + reduce_sum_0_1_idx,", "weight_ptr + (reduce_sum_0_1_idx + 1) % 131,"
            ),
            "last block not written": Change("tl.range(0, 131", "tl.range(0, 128", last=True),
            "epsilon left out (a millionth of the result)": Change("v7 = v6 + eps", "v7 = v6"),
        },
        {"an input written to": _input_scribbled},
    ),
    Subject(
        "product", "examples.matmul:matmul", {"m": 20, "n": 40, "k": 100, "dtype": "float16"},
        {"block:tile_m": 16, "block:tile_n": 16, "block:tile_k": 32},
        {
            "inner mask one short": Change("tile_k_mask = tile_k_idx < 100", "tile_k_mask = tile_k_idx < 99"),
            "last inner block lost": Change("tl.range(0, 100", "tl.range(0, 96"),
            "every second inner block read again": Change(
                "tile_k_idx = tile_k_begin +",
                "tile_k_idx = tile_k_begin // (2 * BLOCK_TILE_K) * (2 * BLOCK_TILE_K) +",
            ),
            "stale accumulator": Change("acc=acc)", "acc=acc_start)"),
            "accumulator not reset but doubled": Change("acc = acc_next", "acc = acc_next + acc"),
            "left operand's stride off by one": Change("tile_m_idx[:, None] * 100", "tile_m_idx[:, None] * 99"),
            "right operand transposed": Change(
                "tile_k_idx[:, None] * 40 + tile_n_idx[None, :]", "tile_k_idx[:, None] + tile_n_idx[None, :] * 40"
            ),
            "programs counted by another width": Change("(pid % tile_n_count)", "(pid % 2)"),
            "accumulator rounded to float16": Change("acc = acc_next", "acc = acc_next.to(tl.float16).to(tl.float32)"),
        },
    ),
    Subject(
        "atomics", "examples.split_k:split_k_matmul", {"m": 20, "n": 24, "k": 300, "dtype": "float16"},
        {"block:tile_m": 16, "block:tile_n": 16, "block:tile_k": 64, "tunable:split_k": 4},
        {
            "a store for an atomic addition": _store_for_addition,
            "overlapping parts": Change("v2 = part_begin + 1", "v2 = part_begin + 2"),
            "odd parts lost": Change("part_idx =", "part_begin = part_begin // 2 * 2\n    part_idx ="),
            "column mask one short": Change("tile_n_mask = tile_n_idx < 24", "tile_n_mask = tile_n_idx < 23"),
        },
        {"a race: an update lost in every second call": _race, "output not set to zero": _stale_output},
    ),
    Subject(
        "recurrence", "recurrence", {"m": 13, "n": 24}, {"block:tile": 8},
        {
            "state not carried": Change("state * v0", "state_start * v0"),
            "decay of a neighbour": Change("decay_ptr + tile_idx", "decay_ptr + tile_idx // 2 * 2"),
            "last step not written": Change("tl.range(0, 24", "tl.range(0, 23"),
            "the state before the step written": Change("v1, state_next, mask", "v1, state, mask"),
            "state rounded to bfloat16": Change(
                "state = state_next", "state = state_next.to(tl.bfloat16).to(tl.float32)"
            ),
        },
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    kind: str
    kernel: str
    fault: str
    searched: bool
    kept: bool


def planted(number: int) -> list[Row]:
    """The rows of a subject, and first that its right text passes; in a process that interprets."""
    from tileflow.build.interpret import interpreter_launcher

    subject = SUBJECTS[number]
    kernel, device = subject.load(), target("nvidia-h200")
    first = kernel.inputs(device="cpu", seed=0, **subject.problem)
    lowered = kernel.lower(first, device)
    config = lowered.space.repair(lowered.default.with_(dict(subject.config)))
    assert all(config[name] == choice for name, choice in subject.config.items()), config
    (source,) = lowered.emit(config)

    def call(change: Callable[[str], str] = str) -> Call:
        changed = dataclasses.replace(source, text=change(source.code), lines=source.code_lines, comments=())
        return kernel.bind(config, {0: [interpreter_launcher(changed, kernel.scope, device)]})

    inputs = [kernel.inputs(device="cpu", seed=seed, **subject.problem) for seed in range(SEEDS)]
    references = [reference_of(kernel, args) for args in inputs]
    for args, reference in zip(inputs, references, strict=True):
        verdict = check_call(call(), args, reference, repeats=REPEATS)
        assert verdict.ok, verdict.reason
    faulty = [(what, lambda change=change: call(change)) for what, change in subject.changes.items()]
    faulty += [(what, lambda around=around: around(call())) for what, around in subject.around.items()]
    name = subject.kernel.rpartition(":")[2]
    return [Row(subject.kind, name, what, *_found(make, inputs, references)) for what, make in faulty]


def _found(make: Callable[[], Call], inputs: Sequence[Any], references: Sequence[Any]) -> tuple[bool, bool]:
    """Whether the check of a search finds it, and that of what goes into a table."""
    searched = not check_call(make(), inputs[0], references[0]).ok
    call = make()
    pairs = zip(inputs, references, strict=True)
    return searched, any(not check_call(call, args, reference, repeats=REPEATS).ok for args, reference in pairs)


# ---- at sizes that no interpreter reaches ---------------------------------------------------------------------------

LONG = 4096
Pair = tuple[torch.Tensor, torch.Tensor]


def _product(dtype: torch.dtype, keep: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    return lambda x, y: (keep(x).float() @ y.float()).to(dtype)


def _without(begin: int, end: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: torch.cat([x[:, :begin], torch.zeros_like(x[:, begin:end]), x[:, end:]], 1)


def _tf32(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)


LARGE: dict[str, tuple[torch.dtype, Call]] = {
    f"one of {LONG} inner elements lost, bfloat16": (torch.bfloat16, _product(torch.bfloat16, _without(100, 101))),
    f"32 of {LONG} inner elements lost, bfloat16": (torch.bfloat16, _product(torch.bfloat16, _without(96, 128))),
    f"one of {LONG} inner elements lost, float32": (torch.float32, _product(torch.float32, _without(100, 101))),
    "TF32 for float32": (torch.float32, lambda x, y: _tf32(x) @ _tf32(y)),
}


def large() -> list[Row]:
    rows = []
    for what, (dtype, call) in LARGE.items():
        made = [torch.Generator().manual_seed(seed) for seed in range(SEEDS)]
        inputs = [tuple(torch.randn(*s, generator=g).to(dtype) for s in ((32, LONG), (LONG, 32))) for g in made]
        references = [make_reference(torch.matmul, args) for args in inputs]
        for args, reference in zip(inputs, references, strict=True):
            assert check_call(_product(dtype, lambda x: x), args, reference).ok
        rows.append(
            Row("product", f"of {LONG} inner elements", what, *_found(lambda call=call: call, inputs, references))
        )
    return rows


# ---- the table ------------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """As Markdown, with its sums before it."""
    kinds = sorted({row.kind for row in rows})
    searched, kept = (sum(getattr(row, name) for row in rows) for name in ("searched", "kept"))
    lines = [
        f"Of {len(rows)} planted faults a search's check (one seed, one run) finds {searched}, that of what goes into "
        f"a table ({SEEDS} seeds, {REPEATS} runs each) finds {kept}.",
        "",
        "| kernels | planted | found in the search | found before a table |",
        "|---|---:|---:|---:|",
        *(_share(kind, [row for row in rows if row.kind == kind]) for kind in kinds),
        "",
        "| kernel | fault | in the search | before a table |",
        "|---|---|---|---|",
        *(f"| {r.kernel} | {r.fault} | {_word(r.searched)} | {_word(r.kept)} |" for r in rows),
    ]
    return "\n".join(lines)


def _share(kind: str, rows: Sequence[Row]) -> str:
    return f"| {kind} | {len(rows)} | {sum(r.searched for r in rows)} | {sum(r.kept for r in rows)} |"


def _word(found: bool) -> str:
    return "found" if found else "**not found**"


def everything() -> Iterator[Row]:
    for number in range(len(SUBJECTS)):
        yield from planted(number)
    yield from large()


def main(path: Path) -> None:
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{table(list(everything()))}\n\n{END}{after}")


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") != "1":  # it must be there when Triton is imported
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tile_testing.runs.planted_faults", *sys.argv[1:]],
            os.environ | {"TRITON_INTERPRET": "1"},
        )
    main(Path(sys.argv[-1]))
