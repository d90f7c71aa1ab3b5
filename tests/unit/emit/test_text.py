"""Generated kernels as people read them: a heading, the author's lines and names, block sizes that may be edited."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Choice
from tileflow.emit.names import Names
from tileflow.emit.source import TritonSource
from tileflow.emit.writer import Writer
from tileflow.errors import ConfigError, Location
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def emitted(lowered: Lowered, changes: Mapping[str, Choice]) -> TritonSource:
    config = lowered.space.repair(lowered.default.with_(changes))
    assert all(config[name] == choice for name, choice in changes.items())
    return lowered.emit(config)[0]


def lines(source: TritonSource) -> list[str]:
    return [line.strip() for line in source.text.splitlines()]


@tileflow.kernel
def norms(x: torch.Tensor, scale: float) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty_like(x)
    for rows in tfl.tile(m):
        total = tfl.zeros([rows])
        for cols in tfl.tile(n):
            part = x[rows, cols].float()
            total = total + (part * part).sum(1)
        norm = torch.sqrt(total)
        for cols in tfl.tile(n):
            out[rows, cols] = x[rows, cols] / norm[:, None] * scale
    return out


@pytest.fixture(scope="module")
def source() -> TritonSource:
    return emitted(norms.lower((meta(64, 100), 2.0), H200), {"block:rows": 4, "block:cols": 32, "num_warps": 2})


def test_the_authors_line_stands_above_what_comes_from_it(source: TritonSource) -> None:
    text = lines(source)
    at = text.index("# part = x[rows, cols].float()")
    assert "tl.load(x_ptr" in text[at + 1]
    assert text.index("# for rows in tfl.tile(m):") < text.index("# total = tfl.zeros([rows])") < at
    assert text.count("# norm = torch.sqrt(total)") == 1 and text.count("# part = x[rows, cols].float()") == 1
    assert not any(a == b for a, b in itertools.pairwise(text) if a.startswith("#"))


def test_values_have_the_authors_names(source: TritonSource) -> None:
    """A loop's variable has its name; what it starts with and what a turn makes of it have it with a suffix, as have
    the lanes that it is summed by."""
    text = lines(source)
    assert "total_lanes_start = tl.full([BLOCK_ROWS, BLOCK_COLS], 0.0, tl.float32)" in text
    assert "total_lanes = total_lanes_start" in text and "total_lanes = total_lanes_next" in text
    assert "total = tl.full([BLOCK_ROWS], 0.0, tl.float32)" in text and "norm = tl.sqrt_rn(total_1)" in text
    assert any(line.startswith("part = tl.load(") for line in text)


def test_the_heading_says_whose_the_kernel_is_and_the_config(source: TritonSource) -> None:
    text = lines(source)
    at = text.index("@triton.jit")
    line = Path(__file__).read_text().splitlines().index("def norms(x: torch.Tensor, scale: float) -> torch.Tensor:")
    assert f"norms ({Path(__file__).name}:{line}), launch 0, static sizes" in text[at - 2], "from its decorator on"
    assert text[at - 1] == "#   block:cols=32, block:cols#1=128, block:rows=4, num_stages=3, num_warps=2"


def test_a_heading_has_the_knobs_of_its_own_launch() -> None:
    @tileflow.kernel
    def twice(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile] + 1
        for tile in tfl.tile(x.size(0)):
            out[tile] = out[tile] * 2
        return out

    lowered = twice.lower((meta(64),), H200)
    config = lowered.space.repair(lowered.default.with_({"block:tile": 16, "block:tile@1": 32, "num_warps@1": 8}))
    heads = ["\n".join(line for line in s.text.splitlines() if line.startswith("#   ")) for s in lowered.emit(config)]
    assert "block:tile=16" in heads[0] and "@1" not in heads[0]
    assert "block:tile@1=32" in heads[1] and "num_warps@1=8" in heads[1] and "block:tile=" not in heads[1]


def test_comments_are_no_part_of_what_is_compiled(source: TritonSource) -> None:
    written = source.text.splitlines()
    comments = {n for n, line in enumerate(written) if line.lstrip().startswith("#")}
    assert comments == set(source.comments) and len(comments) > 5
    assert source.code.splitlines() == [line for n, line in enumerate(written) if n not in comments]
    assert len(source.lines) == len(written) and len(source.code_lines) == len(source.code.splitlines())
    other = [("    # another" if n in comments else line) for n, line in enumerate(written)]
    assert replace(source, text="\n".join(other) + "\n").hash == source.hash
    assert replace(source, text=source.text.replace("tl.sqrt_rn", "tl.sqrt")).hash != source.hash


def test_a_line_of_code_knows_the_authors_line(source: TritonSource) -> None:
    at = next(n for n, line in enumerate(source.code.splitlines()) if "norm = tl.sqrt_rn" in line)
    where = source.code_lines[at]
    assert "norm = torch.sqrt(total)" in Path(__file__).read_text().splitlines()[where - 1]


TEXT = """\
import torch, tileflow
import tileflow.language as tfl
@tileflow.kernel
def halve(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] / 2
    return out
"""


def loaded(path: Path, text: str) -> ModuleType:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("halves", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_checkout_elsewhere_gives_the_same_text(tmp_path: Path) -> None:
    """No folder of the author's is in it; and lines above the kernel change comments alone."""
    here, there, later = (
        loaded(tmp_path / name / "halves.py", text).halve.triton_source(meta(64))[0]
        for name, text in (("a", TEXT), ("b", TEXT), ("c", "#\n" + TEXT))
    )
    assert here.text == there.text and str(tmp_path) not in here.text
    assert here.text != later.text and here.hash == later.hash


@tileflow.kernel
def clashing(x: torch.Tensor) -> torch.Tensor:
    """Names that the text has other meanings for, and names that meet."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        tl = x[tile] + 1
        pid = tl * 2
        tile_idx = pid + 3
        float = tile_idx * tile_idx
        v0 = torch.where(float > 0, float, -torch.inf)
        x_ptr = v0 + 1
        x_ptr = x_ptr * 2
        _hidden = x_ptr - 1
        größe = _hidden * 3
        out[tile] = größe
    return out


def test_names_mean_one_thing() -> None:
    text = emitted(clashing.lower((meta(100),), H200), {"block:tile": 32}).code
    for name in ("tl_1 = ", "pid_3 = ", "tile_idx_1 = ", "float_1 = ", "x_ptr_1 = ", "x_ptr_2 = "):
        assert text.count(f"    {name}") == 1, name
    assert "größe" not in text and "_hidden" not in text
    compile(text, "clashing", "exec")
    assigned = [line.strip().partition(" = ")[0] for line in text.splitlines() if " = " in line]
    assert len(assigned) == len(set(assigned))


def test_fresh_names_leave_the_authors_alone() -> None:
    names = Names(clashing.lower((meta(100),), H200).regions[0])
    given = next(v for op in clashing.lower((meta(100),), H200).regions[0].walk() for v in op.outputs)
    assert names.fresh("tile_idx") == "tile_idx0" and names.fresh("v") == "v0" and names.fresh("v") == "v1"
    assert names.of(replace(given, id=-1), "v") == "v2"


def test_a_writer_says_a_line_once() -> None:
    writer, loc = Writer(), Location("f.py", 3, 0, "  y = f(x)")
    with writer.indented():
        for place, text in ((loc, "a"), (None, "b"), (loc, "c"), (Location("f.py", 4, 0, "z"), "d"), (loc, "e")):
            writer.at(place)
            writer.line(text)
    assert [line.strip() for line in writer.text.splitlines()] == [
        "# y = f(x)",
        "a",
        "b",
        "c",
        "# z",
        "d",
        "# y = f(x)",
        "e",
    ]
    assert writer.comments == (0, 4, 6) and writer.places == (3, 3, 0, 3, 4, 4, 3, 3)


def values(source: TritonSource, blocks: Mapping[str, int]) -> dict[str, int]:
    """The constants that the text makes of block sizes."""
    found = dict(blocks)
    for line in lines(source):
        name, marked, text = line.partition(": tl.constexpr = ")
        if marked:
            found[name] = eval(text, {}, found)
    return found


def test_counts_of_tiles_follow_from_block_sizes() -> None:
    @tileflow.kernel
    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for m, n in tfl.tile(x.shape):
            out[m, n] = x[m, n] * 2
        return out

    it = doubled.lower((meta(100, 70),), H200)
    source = emitted(it, {"block:m": 8, "block:n": 16, "persistent": 1, "group": 4})
    assert "tl.range(tl.program_id(0), m_count * n_count, tl.num_programs(0))" in source.text
    assert values(source, {"BLOCK_M": 8, "BLOCK_N": 16}) == {"BLOCK_M": 8, "BLOCK_N": 16, "m_count": 13, "n_count": 5}
    edited = emitted(it, {"block:m": 32, "block:n": 64, "persistent": 1, "group": 4})
    assert source.code == edited.code, "other block sizes are other constants of the same text"


def test_a_tile_without_a_mask_says_which_blocks_need_none() -> None:
    it = norms.lower((meta(64, 100), 2.0), H200)
    text = emitted(it, {"block:rows": 4, "block:cols": 32}).text
    assert 'tl.static_assert(64 % BLOCK_ROWS == 0, "whole blocks of rows")' in text and "blocks of cols" not in text
    assert "rows_begin = pid * BLOCK_ROWS" in emitted(it, {"block:rows": 1, "block:cols": 32}).text


def test_a_source_is_of_the_knobs_that_a_call_names() -> None:
    """The others are at their defaults. A dict of some knobs ended in a TypeError."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t] = x[t] * 2
        return out

    kernel, x = tileflow.kernel(doubled), torch.empty(1000, device="meta")
    (source,) = kernel.triton_source(x, config={"block:t": 64})
    assert dict(source.constexprs)["BLOCK_T"] == 64
    assert "block:t=64" in kernel.repro(x, config={"block:t": 64})
    with pytest.raises(ConfigError, match="block:u"):
        kernel.triton_source(x, config={"block:u": 64})
