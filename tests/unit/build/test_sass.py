"""Machine code read without a disassembler, beside what one says of it."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from tile_testing.strangers import ALL

pytest.importorskip("triton")

from tileflow.build import compat
from tileflow.build.compile import build
from tileflow.build.resources import LOOPED_SPILLS
from tileflow.build.sass import _target, local_accesses_in_loops
from tileflow.config import Choice
from tileflow.runtime.abi import Binary
from tileflow.target import target


def _default(name: str, device: str, **changed: Choice) -> Binary:
    """The default's binary, with other choices for some knobs."""
    one = ALL[name]
    lowered = one.kernel.lower(one.arguments("large", "meta"), target(device))
    config = lowered.space.normalise(lowered.default.with_(changed))
    return build(next(iter(lowered.emit(config))), lowered.target)


@pytest.mark.parametrize("device", ["nvidia-h100-sxm", "nvidia-b200"])
def test_branches_go_where_the_disassembler_says(device: str, tmp_path: Path) -> None:
    binary = _default("viterbi", device)
    (tmp_path / "k.cubin").write_bytes(binary.code)
    command = [compat.tool("nvdisasm"), "-hex", "-c", str(tmp_path / "k.cubin")]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    labels, waiting, branches = dict[str, int](), list[str](), list[tuple[int, str, int]]()
    for line in listing.splitlines():
        if found := re.match(r"^(\.L_x_\d+):", line):
            waiting.append(found[1])
        elif found := re.search(r"/\*([0-9a-f]{4,})\*/\s+(.*?);?\s+/\* 0x([0-9a-f]{16}) \*/", line):
            labels.update(dict.fromkeys(waiting, int(found[1], 16) // 16))
            waiting.clear()
            if to := re.search(r"\bBRA `\((\.L_x_\d+)\)", found[2]):
                branches.append((int(found[1], 16) // 16, to[1], int(found[3], 16)))
    assert len(branches) >= 3
    assert [_target(at, word) for at, _, word in branches] == [labels[label] for _, label, _ in branches]


def test_what_is_spilled_in_loops() -> None:
    """One by multiply-adds that spills in the turns of its loops, and a default that does in its epilogue alone."""
    by_hand: dict[str, Choice] = {"block:tb": 64, "num_warps": 8, "maxnreg": 128, "product:dot#0.precision": "ieee"}
    looped = _default("belief_filter", "nvidia-h100-sxm", **by_hand).resources
    once = _default("turned_adam", "nvidia-h100-sxm").resources
    assert looped.spills > 1000 and dict(looped.instructions)[LOOPED_SPILLS] > 100
    assert once.spills > 300 and LOOPED_SPILLS not in dict(once.instructions)


def test_a_loop_is_what_comes_back() -> None:
    """Two instructions that spill, a branch ahead that leaves the loop, one behind it, and the end."""
    load, store, end, other = 0x7983, 0x7387, 0x794D, 0x7918
    back = 0x947 | (7 << 12) | ((-12) & 0xFF) << 16 | (((-12) >> 8) & ((1 << 30) - 1)) << 34  # three before the next
    words = [store, other, load, back, end]
    code = b"".join(struct.pack("<QQ", word, 0) for word in words)
    assert local_accesses_in_loops(code) == 1
    assert local_accesses_in_loops(code[:16] + code[64:]) == 0
