"""mkdocs' hooks: notebooks become pages, and links to files that the site does not hold become their paths."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s:#]+)(?:#[^)\s]*)?\)")
_NOT_ON_THE_SITE = ("../", "data/")
_NOTEBOOKS = Path(__file__).parents[1] / "examples" / "notebooks"


def on_files(files: Any, *, config: Any) -> Any:
    """Every notebook of the examples as ``notebooks/NAME.md``, with what its cells showed."""
    from mkdocs.structure.files import File

    for path in sorted(_NOTEBOOKS.glob("*.ipynb")):
        files.append(
            File.generated(config, f"notebooks/{path.stem}.md", content=_as_page(json.loads(path.read_text())))
        )
    return files


def _as_page(notebook: dict[str, Any]) -> str:
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        shown = (o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell["outputs"])
        parts += [f"```text\n{''.join(output).strip()}\n```" for output in shown if "".join(output).strip()]
    return "\n\n".join(parts) + "\n"


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
    bare = text.strip("`")
    if bare == posixpath.basename(path):
        return f"`{path}`"  # its name alone would not say where it is
    return text if bare == path else f"{text} (`{path}`)"
