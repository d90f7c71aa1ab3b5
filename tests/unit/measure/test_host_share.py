"""What one measuring process made serves the others of its host, while it lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tile_testing.kernels import shared_references

from tileflow.build.process import Child, Done
from tileflow.errors import ClusterError
from tileflow.measure import host_share
from tileflow.measure.check import make_reference
from tileflow.measure.host_share import digest, shared, withdraw
from tileflow.measure.inputs import tensors


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(host_share.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def refuse() -> Any:
    raise AssertionError("it was made already")


def test_another_process_takes_it_until_the_maker_ends(folder: Path) -> None:
    """Issue 15: every worker of a host made a reference of its own."""
    child = Child(warm=("torch",), environment={"TMPDIR": str(folder)})
    try:
        answer = child.call("tile_testing.kernels.shared_references:offer", ("a problem", 5), limit_s=60)
        assert isinstance(answer, Done), answer
        taken = shared("a problem", refuse)
        assert torch.equal(taken.result["out"], shared_references.made(5).result["out"])
        assert [t is None for t in taken.changed] == [True, False] and taken.is_wide
    finally:
        child.kill()
    assert torch.equal(taken.result["out"], shared_references.made(5).result["out"])  # what is mapped stays
    assert shared("a problem", lambda: "made anew") == "made anew"
    withdraw()


def test_it_is_made_once_and_again_when_withdrawn() -> None:
    assert shared("x", lambda: 1) == 1 == shared("x", refuse)
    assert shared("y", lambda: 2) == 2
    withdraw()
    assert shared("x", lambda: 3) == 3
    withdraw()


def test_what_cannot_be_made_leaves_it_to_the_next() -> None:
    with pytest.raises(AssertionError):
        shared("x", refuse)
    assert shared("x", lambda: 4) == 4
    withdraw()


def test_short_memory_keeps_it_with_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_share, "free_bytes", lambda: 100)
    shared("x", lambda: torch.zeros(100))
    assert shared("x", lambda: "again") == "again"
    withdraw()


def test_the_folder_is_the_users_own(folder: Path) -> None:
    shared("x", lambda: 1)
    (made,) = folder.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o755)
    with pytest.raises(ClusterError, match="must be the user's own"):
        shared("x", refuse)
    withdraw()


def test_equal_arguments_alone_share_a_reference() -> None:
    x = torch.arange(6.0).view(2, 3)
    assert digest((x, 2)) == digest((x.clone(), 2))
    others = [(x.t().contiguous().t(), 2), (x.view(3, 2), 2), (x.double(), 2), (x + 1, 2), (x, 3), (x, x)]
    assert len({digest((x, 2)), *map(digest, others)}) == 7


def test_a_reference_is_put_together_from_what_another_made() -> None:
    def reference(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x
        return x * 2

    args = torch.randn(5), torch.zeros(5)
    here = make_reference(reference, args)
    kept: list[Any] = []
    make_reference(reference, args, keep=lambda make: kept.append(make()) or kept[0])
    there = make_reference(lambda *args: refuse(), args, keep=lambda make: kept[0])
    assert torch.equal(here.result, there.result) and there.args[0] is args[0]
    assert all(map(torch.equal, tensors(here.args), tensors(there.args)))
    assert here.tolerance == there.tolerance and there.noise is not None
