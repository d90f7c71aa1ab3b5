"""mkdocs' hook: what pages say of files of the repository, which the site does not hold, becomes their paths."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s:#]+)(?:#[^)\s]*)?\)")
_NOT_ON_THE_SITE = ("../", "data/")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """``[the plan](../../search/tileflow_search/default.py)`` as the text and the path; code stays as it is."""
    folder = posixpath.dirname(page.file.src_uri)
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(p if p.startswith("```") else _LINK.sub(lambda m: _as_path(m, folder), p) for p in parts)


def _as_path(link: re.Match[str], folder: str) -> str:
    target = posixpath.normpath(posixpath.join(folder, link["target"]))
    if not target.startswith(_NOT_ON_THE_SITE):
        return link[0]
    path = posixpath.normpath(posixpath.join("docs", target))
    text = link["text"]
    return text if text.strip("`") and text.strip("`") in (path, posixpath.basename(path)) else f"{text} (`{path}`)"
