"""A call written down as a script: it runs on its own, without tileflow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton.language as tl
from triton.experimental.gluon import language as gluon_language

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel, load_kernel
from tileflow.errors import ConfigError
from tileflow.target import target


@tileflow.kernel
def column_sums(x: torch.Tensor, scale: float, shift: int) -> torch.Tensor:
    """Two launches, the second of what the first has stored."""
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    partial = torch.zeros((m + block_m - 1) // block_m, n)
    for tile in tfl.tile(m, block_size=block_m):
        partial[tile.id, :] = x[tile, :].sum(0) * scale + shift
    out = torch.empty(n)
    for tile in tfl.tile(n):
        out[tile] = partial[:, tile].sum(0)
    return out


@tileflow.kernel
def halves(x: torch.Tensor, memory: torch.Tensor) -> None:
    """Tensors that share memory, and one whose name the script could have had."""
    bits = x.view(torch.int32)
    left, right = x[:, :8], x[:, 8:]
    for tile in tfl.tile(x.size(0)):
        right[tile, :] = left[tile, :] + memory[tile, None]
        memory[tile] = (bits[tile, 0] & 1).float()


@tileflow.kernel
def copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        out[tile_m, tile_n] = x[tile_m, tile_n]
    return out


@tileflow.kernel
def summed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, least = torch.ones((), device=x.device), torch.zeros(32, device=x.device)
    for tile_m, tile_n in tfl.tile(x.shape):
        tfl.atomic_add(out, [], x[tile_m, tile_n].sum())
        tfl.atomic_min(least, [(tile_m.index[:, None] + tile_n.index[None, :]) % 32], x[tile_m, tile_n].abs())
    return out, least


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


def run(text: str, folder: Path) -> dict[str, float]:
    """The means that the script prints, by tensor."""
    file = folder / "repro.py"
    file.write_text(text)
    hide = "import sys; sys.modules['tileflow'] = None; import runpy; runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", hide, str(file)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {line.split()[0]: float(line.split()[-1]) for line in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("subject", "args", "launches"),
    [(column_sums, (meta(70, 11), 1.5, 3), 2), (halves, (meta(40, 16), meta(40)), 1)],
)
def test_a_script_runs_on_its_own(subject: Kernel, args: tuple[Any, ...], launches: int, tmp_path: Path) -> None:
    text = subject.repro(*args)
    assert text.count("\n_launch(") == launches
    means = run(text, tmp_path)
    if subject is column_sums:
        blocks = -(-70 // subject.lower(args, target("nvidia-h200")).default["block:block_m"])
        assert abs(means["out"] - (means["x"] * 70 * 1.5 + 3 * blocks)) < 1e-4
    else:
        assert 0 <= means["memory"] <= 1
        assert text.count("_memory(") == 3  # the function, and two memories for four tensors


def test_a_config_of_its_own_with_descriptors(tmp_path: Path) -> None:
    args = (meta(64, 64),)
    lowered = copied.lower(args, target("nvidia-h200"))
    chosen = lowered.space.repair(lowered.default.with_({"load:x#0.access": "descriptor"}))
    text = copied.repro(*args, config=chosen)
    assert "TensorDescriptor.from_tensor(x, [" in text
    means = run(text, tmp_path)
    assert means["x"] == means["out"]


def test_copies_are_made_before_the_launch_and_combined_after_it(tmp_path: Path) -> None:
    args = (meta(64, 64),)
    lowered = summed.lower(args, target("nvidia-h200"))
    chosen = lowered.space.repair(lowered.default.with_({"atomic:out#0.copies": 16, "atomic:least#0.copies": 16}))
    text = summed.repro(*args, config=chosen)
    assert text.count(", 16, ") == 2
    assert run(text, tmp_path) == pytest.approx(run(summed.repro(*args, config=lowered.default), tmp_path), abs=1e-3)


def test_a_config_that_is_none(tmp_path: Path) -> None:
    lowered = copied.lower((meta(64, 64),), target("nvidia-h200"))
    with pytest.raises(ConfigError):
        copied.repro(meta(64, 64), config=lowered.default.with_({"block:tile_m": 3}))


@pytest.mark.parametrize("reference", ["examples.matmul:matmul", "examples.fp8_matmul:fp8_matmul"])
def test_boxes_of_gluon_name_its_own_types(reference: str) -> None:
    """Gluon spells the types of eight bits otherwise than torch."""
    subject = load_kernel(reference)
    args = subject.inputs(m=4096, n=4096, k=4096, device="meta")
    lowered = subject.lower(args, target("nvidia-h200"))
    chosen = lowered.space.repair(lowered.default.with_({"schedule": "warp_specialised"}))
    text = subject.repro(*args, config=chosen)
    named = re.findall(r'_box\(.*?\], "(\w+)"\)', text)
    assert named
    assert all(isinstance(getattr(gluon_language, name), tl.dtype) for name in named)


@tileflow.kernel
def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + by * 2
    return out


def test_an_int_that_is_1_stays_an_argument() -> None:
    """Triton puts a Python number for one, of which tiles' methods are asked."""
    lowered = shifted.lower((meta(64), 1), target("nvidia-h200"), "dynamic")
    (source, *_) = lowered.emit(lowered.default)
    number = next(arg.name for arg in source.args if arg.kind == "int")
    assert f"@triton.jit(do_not_specialize=['{number}'])\ndef {source.name}(" in shifted.repro(meta(64), 1)
    assert "do_not_specialize" not in shifted.repro(meta(64), 2)
