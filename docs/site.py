"""mkdocs' hook: what pages say of files of the repository, which the site does not hold, becomes their paths."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[(?P<text>[^\]]*)\]\(\.\./(?P<path>(?!reference/)[^)#]*)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """``[the search](../search/tileflow_search/default.py)`` as the text and the path."""
    if page.file.src_uri.count("/"):
        return markdown
    return _OUTSIDE.sub(_as_path, markdown)


def _as_path(link: re.Match[str]) -> str:
    text, path = link["text"], link["path"]
    return text if path in text.strip("`") else f"{text} (`{path}`)"
