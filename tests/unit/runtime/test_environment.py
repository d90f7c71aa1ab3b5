"""Variables of the environment that are on or off."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import LaunchError, SpecError
from tileflow.passes import VERIFY
from tileflow.runtime import build_native, native
from tileflow.runtime.environment import INTERPRET, NATIVE, OFF, ON, switch, triton_interprets
from tileflow.target import target

SWITCHES = (INTERPRET, NATIVE, VERIFY)
NEITHER = ("2", "maybe", " 1", "y")
_SAYS = "is a word for one of them, but got {!r}\n  at {}\n  on: 1, true, on, yes; off: 0, false, off, no"


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out


@pytest.fixture
def forgotten() -> Iterator[None]:
    native.forget()
    yield
    native.forget()


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_takes_the_same_words_everywhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for word in (*ON, *map(str.upper, ON)):
        monkeypatch.setenv(name, word)
        assert switch(name) is True
    for word in (*OFF, *map(str.title, OFF)):
        monkeypatch.setenv(name, word)
        assert switch(name) is False
    for word in NEITHER:
        monkeypatch.setenv(name, word)
        with pytest.raises(SpecError) as refused:
            switch(name)
        assert _SAYS.format(word, name) in str(refused.value)
    monkeypatch.setenv(name, "")
    assert switch(name) is None
    monkeypatch.delenv(name)
    assert switch(name) is None


def test_each_switch_is_read_by_its_words(monkeypatch: pytest.MonkeyPatch, forgotten: None) -> None:
    """``TILEFLOW_INTERPRET=false`` turned interpreting on, and ``TILEFLOW_VERIFY=true`` no verifier."""
    for word in OFF:
        monkeypatch.setenv(INTERPRET, word)
        assert not doubled.interprets
        monkeypatch.setenv(NATIVE, word)
        assert not native.is_used()
    for word in ON:
        monkeypatch.setenv(INTERPRET, word)
        assert doubled.interprets
    monkeypatch.setenv(INTERPRET, "maybe")
    with pytest.raises(SpecError, match=f"'maybe'\n  at {INTERPRET}"):
        doubled(torch.ones(4))
    monkeypatch.delenv(INTERPRET)
    verified: list[str] = []
    monkeypatch.setattr("tileflow.passes.verify", lambda ir, after: verified.append(after))
    for word, runs in (*((word, True) for word in ON), *((word, False) for word in OFF)):
        monkeypatch.setenv(VERIFY, word)
        verified.clear()
        doubled.lower((torch.ones(4, device="meta"),), target("nvidia-h200"))
        assert bool(verified) is runs, word
    monkeypatch.setitem(sys.modules, "tileflow.runtime._native", None)
    for word in ON:
        native.forget()
        monkeypatch.setenv(NATIVE, word)
        with pytest.raises(LaunchError, match="asks for the C extension"):
            native.is_used()


def test_a_build_of_the_extension_reads_its_switch_by_the_same_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It imports nothing of tileflow, whose package needs torch."""
    for word in ("", *ON, *OFF, *map(str.upper, ON)):
        monkeypatch.setenv(NATIVE, word)
        assert build_native.wanted() is switch(NATIVE)
    for word in NEITHER:
        monkeypatch.setenv(NATIVE, word)
        assert build_native.main() == 1
        assert f"but got {word!r}" in capsys.readouterr().err


def test_triton_s_variable_is_read_as_triton_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``TRITON_INTERPRET=false`` made every call on a CPU a LaunchError: tileflow took it as on, Triton as off."""
    knobs = pytest.importorskip("triton").knobs
    for word in (*ON, *OFF, *NEITHER, "", "Y", "N", "True", "ON", "enabled"):
        monkeypatch.setenv("TRITON_INTERPRET", word)
        assert triton_interprets() is bool(knobs.runtime.interpret), word
    monkeypatch.delenv("TRITON_INTERPRET")
    assert not triton_interprets()


@pytest.mark.parametrize("word", ["false", "2"])
def test_a_call_on_a_cpu_where_triton_does_not_interpret(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", word)
    torch.testing.assert_close(doubled(torch.ones(5)), torch.full((5,), 2.0))
