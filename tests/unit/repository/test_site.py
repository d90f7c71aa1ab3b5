"""The site of docs/: pages have their places, links and mentions lead somewhere, it builds without a warning."""

from __future__ import annotations

import os
import posixpath
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tile_testing import ROOT
from tile_testing.browser import Theme, screenshot

TREE = ROOT
PAGES = sorted(path.relative_to(TREE).as_posix() for path in (TREE / "docs").rglob("*.md"))
MENTION = re.compile(r"\bdocs/[\w/-]+\.md\b(?:#[a-z][\w-]*)?")
TEXT = (".py", ".md", ".yaml", ".ipynb")
FOLDERS = ("tileflow", "search", "cluster", "experiments", "examples", "tests", "scripts", "configs", "docs")


def test_every_page_is_in_the_navigation() -> None:
    navigation = (TREE / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    made = {f"docs/notebooks/{path.stem}.md" for path in (TREE / "examples/notebooks").glob("*.ipynb")}
    assert {f"docs/{page}" for page in re.findall(r"[\w/-]+\.md", navigation)} == {*PAGES} | made


def links_of(page: str) -> list[str]:
    """What a page links to in the repository, as paths from its root; code is not read."""
    text = re.sub(r"^```.*?^```$", "", (TREE / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s:#]+)(?:#[^)\s]*)?\)", text)
    return [posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets]


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as Python-Markdown makes them."""
    text = re.sub(r"^```.*?^```$", "", (TREE / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = (
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    )
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_anchors_lead_to_headings(page: str) -> None:
    """Also of pages that the site does not hold, whose build would see them."""
    text = re.sub(r"^```.*?^```$", "", (TREE / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    lost = []
    for target, anchor in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) if target else page
        if path.endswith(".md") and anchor not in anchors_of(path):
            lost.append(f"{path}#{anchor}")
    assert lost == []


@pytest.mark.parametrize("page", [*PAGES, "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_lead_to_files(page: str) -> None:
    links = links_of(page)
    assert [link for link in links if not (TREE / link).exists()] == []
    assert links or page not in ("README.md", "docs/index.md"), "links are found at all"


def test_mentions_of_pages_are_of_pages_that_there_are() -> None:
    """``docs/...md`` in messages, comments and pages: a page that moves takes its mentions along."""
    mentions = {}
    for folder in FOLDERS:
        for path in (TREE / folder).rglob("*"):
            if path.suffix in TEXT or (path.parent.name == "scripts" and path.is_file()):
                mentions |= dict.fromkeys(MENTION.findall(path.read_text()), path)
    mentions |= dict.fromkeys(MENTION.findall((TREE / "CHANGELOG.md").read_text()), TREE / "CHANGELOG.md")
    assert len(mentions) > 5
    split = {mention: mention.partition("#") for mention in mentions}
    assert {mention: mentions[mention] for mention, (page, _, _) in split.items() if page not in PAGES} == {}
    lost = [mention for mention, (page, _, anchor) in split.items() if anchor and anchor not in anchors_of(page)]
    assert lost == []


def test_the_diagram_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(TREE / "docs" / "diagrams.py"))
    assert script["FILE"].read_text() == script["diagram"](), "python docs/diagrams.py"
    names = [box.name for box in script["BOXES"]]
    assert len({(box.x, box.y) for box in script["BOXES"]}) == len(names) == len({*names}), "no box covers another"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, which was built without a warning."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0 and "WARNING" not in run.stderr, run.stderr[-4000:]
    return folder


@pytest.mark.slow
def test_it_builds_without_a_warning(site: Path) -> None:
    api = (site / "reference" / "api.html").read_text()
    assert "tileflow.api.Kernel" in api and "triton_source" in api, "docstrings are on the page"
    notebook = (site / "notebooks" / "write_and_tune.html").read_text()
    assert "speed-up" in notebook, "what its cells showed is on the page"
    search = (site / "explanations" / "search.html").read_text()
    assert "search/tileflow_search" in search
    assert 'href="../../search' not in search, "the site holds no sources to link to"


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_screenshots_of_it(site: Path, request: pytest.FixtureRequest, theme: Theme) -> None:
    """Pages for a desktop and a phone, light and dark, into build/site."""
    shown = request.config.rootpath / "build" / "site"
    for page, width in (("guides/tuning", 1100), ("index", 500)):
        file = shown / f"{page.replace('/', '-')}-{theme}.png"
        is_dark = screenshot((site / f"{page}.html").as_uri(), file, width, 900, theme)
        assert is_dark is (theme == "dark"), "the page follows the reader's scheme"
        assert 4_000 < file.stat().st_size < 200_000
