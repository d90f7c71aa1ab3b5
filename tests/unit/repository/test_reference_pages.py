"""The reference made from docstrings: each public name is on a page, and says itself what it is."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest
import yaml
from tile_testing import ROOT

PACKAGES = (
    "tileflow",
    "tileflow.autograd",
    "tileflow.integrations.transformers",
    "tileflow.kernels",
    "tileflow.runtime",
)
DIRECTIVE = re.compile(r"^::: ([\w.]+)\n((?:    .*\n)*)", re.MULTILINE)


def shown() -> dict[str, list[str] | None]:
    """Module -> the members that a page shows of it; None: all that it defines."""
    texts = "\n".join(path.read_text() + "\n" for path in sorted((ROOT / "docs/reference").glob("*.md")))
    given = ((module, yaml.safe_load(options) or {}) for module, options in DIRECTIVE.findall(texts))
    return {module: options.get("options", {}).get("members") for module, options in given}


def public(package: str) -> list[tuple[str, Any]]:
    module = importlib.import_module(package)
    return [(name, getattr(module, name)) for name in module.__all__]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_on_a_page(package: str) -> None:
    pages, missing = shown(), []
    for name, found in public(package):
        members = pages.get(found.__module__, [])
        if members is not None and name not in members:
            missing.append(f"{found.__module__}.{name}")
    assert missing == [], "docs/reference"


def test_members_of_pages_exist() -> None:
    named = [(module, name) for module, members in shown().items() for name in members or ()]
    assert len(named) > 40
    assert [at for at in named if not hasattr(importlib.import_module(at[0]), at[1])] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_a_docstring_of_their_own(package: str) -> None:
    """Also the public methods of a class, but for those that a base class describes."""
    bare = []
    for name, found in public(package):
        methods = vars(found).items() if inspect.isclass(found) else ()
        described = [(name, found), *((f"{name}.{m}", f) for m, f in methods if inspect.isfunction(f) and m[0] != "_")]
        bare += [at for at, what in described if not inspect.getdoc(what)]
    assert bare == []


def test_every_directive_is_read_here() -> None:
    for path in (ROOT / "docs/reference").glob("*.md"):
        text = path.read_text()
        assert len(re.findall(r"^:::", text, re.MULTILINE)) == len(DIRECTIVE.findall(text + "\n"))
