"""Every block of code in the pages on kernels, as plain Python and through Triton's interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tile_testing import ROOT
from tile_testing.runs.interpreted import load_module
from tileflow_experiments.spec import parse

import tileflow
import tileflow.language
from tileflow.frontend.language_registry import DEVICE

PAGES = ROOT / "docs"
TEXT = (PAGES / "guides/kernels.md").read_text()


def blocks_of(text: str) -> list[tuple[str, str]]:
    """(heading, code) of every block."""
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(re.findall(r"^#+ (.*)$", text[: text.index(block)], re.MULTILINE)[-1], block) for block in blocks]


PROGRAMS = ("guides/kernels.md", "guides/gradients.md", "guides/helion.md", "guides/integrations.md")
BLOCKS = [b for page in PROGRAMS for b in blocks_of((PAGES / page).read_text())]


@pytest.fixture(params=range(len(BLOCKS)), ids=[f"{n}-{heading}" for n, (heading, _) in enumerate(BLOCKS)])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    file = tmp_path / "example.py"
    file.write_text(BLOCKS[request.param][1])
    return str(file)


def test_as_python(path: str) -> None:
    with tileflow.interpret():
        load_module(path)


def test_through_the_interpreter(interpreter: Callable[..., Any], path: str) -> None:
    assert interpreter("runs.interpreted:run_file", path) == ""


@pytest.fixture
def tutorial(tmp_path: Path) -> str:
    """The tutorial's blocks as the one program that they are."""
    file = tmp_path / "tutorial.py"
    file.write_text("\n\n".join(code for _, code in blocks_of((PAGES / "tutorial.md").read_text())))
    return str(file)


def test_the_tutorial_as_python(tutorial: str, capsys: pytest.CaptureFixture[str]) -> None:
    with tileflow.interpret():
        load_module(tutorial)
    told = capsys.readouterr().out
    assert "tutorial.py" in told and "^" in told and "torch.where" in told  # the error that it prints


def test_the_tutorial_through_the_interpreter(interpreter: Callable[..., Any], tutorial: str) -> None:
    assert interpreter("runs.interpreted:run_file", tutorial) == ""


def test_the_tutorial_shows_a_spec_that_can_be_read() -> None:
    (spec,) = re.findall(r"^```yaml\n(.*?)^```$", (PAGES / "tutorial.md").read_text(), re.DOTALL | re.MULTILINE)
    assert parse(yaml.safe_load(spec)).kernels[0].kernel == "my_kernels:add_rms_norm"


def test_every_function_of_the_language_is_shown() -> None:
    used = set(re.findall(r"tfl\.(\w+)", "".join(code for _, code in blocks_of(TEXT))))
    inner = {"random_words"}  # what rand_at, rand4x and randint_at are made of; no name of the language
    assert used >= (DEVICE.keys() - inner) | {"register_block_size", "register_tunable"}
    assert not inner & {*tileflow.language.__all__}
    assert used <= set(tileflow.language.__all__)
