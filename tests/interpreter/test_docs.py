"""Every block of code in the pages on kernels, as plain Python and through Triton's interpreter."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tile_testing import ROOT
from tile_testing.runs.interpreted import load_module
from tileflow_experiments.spec import parse

import tileflow
import tileflow.language
from tileflow import runtime
from tileflow.errors import TableError
from tileflow.frontend.language_registry import DEVICE

PAGES = ROOT / "docs"
TEXT = (PAGES / "guides/kernels.md").read_text()


def blocks_of(text: str) -> list[tuple[str, str]]:
    """(heading, code) of every block."""
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(re.findall(r"^#+ (.*)$", text[: text.index(block)], re.MULTILINE)[-1], block) for block in blocks]


PROGRAMS = (
    "guides/kernels.md",
    "guides/gradients.md",
    "guides/helion.md",
    "guides/integrations.md",
    "guides/checking.md",
    "reference/logging.md",
    "../README.md",
)
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


def test_the_kernel_of_the_readme_is_right(tmp_path: Path) -> None:
    (block,) = blocks_of((ROOT / "README.md").read_text())
    file = tmp_path / "readme.py"
    file.write_text(block[1])
    x = torch.randn(37, 50)
    with tileflow.interpret():
        torch.testing.assert_close(load_module(str(file)).scaled_softmax(x, 0.5), torch.softmax(0.5 * x, -1))


def test_what_production_shows_runs(tmp_path: Path) -> None:
    """The calls of the guide on an empty bundle's place, and its page for a scraper on a port that is free."""
    loading, warming, serving = (code for _, code in blocks_of((PAGES / "guides/deployment.md").read_text()))
    assert "/models/kernels" in loading and "127.0.0.1" in serving
    with pytest.raises(TableError, match="kernels"):
        exec(loading.replace("/models/kernels", str(tmp_path / "kernels")), {})
    for name in re.findall(r"runtime\.(\w+)", loading + warming):
        assert name in runtime.__all__
    said: dict[str, Any] = {}
    exec(serving.replace("9464", "0"), said)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{said['server'].server_port}", timeout=30) as page:
            assert page.read().endswith(b"# EOF\n")
    finally:
        said["server"].shutdown()
        said["server"].server_close()


def test_the_tutorial_shows_a_spec_that_can_be_read() -> None:
    (spec,) = re.findall(r"^```yaml\n(.*?)^```$", (PAGES / "tutorial.md").read_text(), re.DOTALL | re.MULTILINE)
    assert parse(yaml.safe_load(spec)).kernels[0].kernel == "my_kernels:add_rms_norm"


def test_every_function_of_the_language_is_shown() -> None:
    used = set(re.findall(r"tfl\.(\w+)", "".join(code for _, code in blocks_of(TEXT))))
    inner = {"random_words"}  # what rand_at, rand4x and randint_at are made of; no name of the language
    assert used >= (DEVICE.keys() - inner) | {"register_block_size", "register_tunable"}
    assert not inner & {*tileflow.language.__all__}
    assert used <= set(tileflow.language.__all__)
