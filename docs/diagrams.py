"""Writes docs/explanations/images/architecture.svg: the packages, what passes between them, and where files lie.

    python docs/diagrams.py

A test holds the file to what this makes. Nothing is fetched, and nothing but the standard library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

FILE = Path(__file__).parent / "explanations/images/architecture.svg"
WIDTH, HEIGHT = 960, 560
BOX_WIDTH, BOX_HEIGHT = 132, 54

# One palette for both schemes of the site: the drawing brings its background, so that it is read on either.
STYLE = """
  .page { fill: #ffffff } .band { fill: #f3f5f9 } .box { fill: #ffffff; stroke: #5b6b8c }
  .file { fill: #fff6e0; stroke: #b07c12 }
  text { font-family: system-ui, sans-serif; fill: #1c2333 } .title { font-size: 15px; font-weight: 600 }
  .name { font-size: 13px; font-weight: 600 } .note { font-size: 12px }
  .wire { stroke: #5b6b8c; fill: none; stroke-width: 1.5 }
  .tip { fill: #5b6b8c }
  @media (prefers-color-scheme: dark) {
    .page { fill: #14161c } .band { fill: #1e222c } .box { fill: #2a3040; stroke: #93a4c8 }
    .file { fill: #3a3220; stroke: #d9a94a } text { fill: #e8ebf2 } .wire { stroke: #93a4c8 } .tip { fill: #93a4c8 }
  }
"""


@dataclass(frozen=True)
class Box:
    """A rectangle with a name and a line below it; ``file``: it lies on disk."""

    key: str
    name: str
    note: str
    x: int
    y: int
    file: bool = False

    def svg(self) -> str:
        """The rectangle and its two lines of text."""
        shape = "file" if self.file else "box"
        middle = self.x + BOX_WIDTH // 2
        return (
            f'<rect class="{shape}" x="{self.x}" y="{self.y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
            f'<text class="name" x="{middle}" y="{self.y + 23}" text-anchor="middle">{escape(self.name)}</text>'
            f'<text class="note" x="{middle}" y="{self.y + 41}" text-anchor="middle">{escape(self.note)}</text>'
        )


COLUMNS = (24, 180, 336, 492, 648, 804)
BANDS = (
    ("Compiler: tileflow", 16, 130),
    ("Tuning: search, cluster, experiments", 162, 200),
    ("Production: tileflow.runtime", 378, 166),
)
BOXES = (
    Box("kernel", "your function", "@tileflow.kernel", COLUMNS[0], 62),
    Box("frontend", "frontend", "Python -> tile IR", COLUMNS[1], 62),
    Box("passes", "passes", "IR -> IR", COLUMNS[2], 62),
    Box("space", "space", "knobs, constraints", COLUMNS[3], 62),
    Box("emit", "emit", "IR + config -> Triton", COLUMNS[4], 62),
    Box("build", "build", "Triton -> binary", COLUMNS[5], 62),
    Box("spec", "spec", "kernels, problems", COLUMNS[0], 208, file=True),
    Box("driver", "driver", "the one writer", COLUMNS[1], 208),
    Box("strategy", "strategy", "which config next", COLUMNS[1], 292),
    Box("compile", "compile workers", "CPUs", COLUMNS[2], 208),
    Box("measure", "GPU workers", "check, time", COLUMNS[3], 208),
    Box("journal", "journal", "every attempt", COLUMNS[5], 208, file=True),
    Box("call", "a call", "softmax(x)", COLUMNS[0], 424),
    Box("key", "key", "shapes, dtypes ...", COLUMNS[1], 424),
    Box("lookup", "look-up", "row or default", COLUMNS[2], 424),
    Box("launch", "launch", "guards, driver", COLUMNS[3], 424),
    Box("bundle", "bundle", "tables + binaries", COLUMNS[4], 424, file=True),
    Box("table", "tables", "best rows, reviewed", COLUMNS[5], 424, file=True),
)
PLACES = {box.key: box for box in BOXES}
ALONG = (
    ("kernel", "frontend"), ("frontend", "passes"), ("passes", "space"), ("space", "emit"), ("emit", "build"),
    ("spec", "driver"), ("driver", "compile"), ("compile", "measure"), ("measure", "journal"),
    ("call", "key"), ("key", "lookup"), ("lookup", "launch"), ("table", "bundle"),
)  # fmt: skip
DOWN = (("driver", "strategy", "ask, tell"), ("journal", "table", "folded into"))


def _along(a: Box, b: Box) -> str:
    y = a.y + BOX_HEIGHT // 2
    start, end = (a.x + BOX_WIDTH, b.x) if a.x < b.x else (a.x, b.x + BOX_WIDTH)
    return _wire(f"M{start} {y} H{end}")


def _down(a: Box, b: Box, label: str) -> str:
    x = a.x + BOX_WIDTH // 2
    middle = (a.y + BOX_HEIGHT + b.y) // 2
    text = f'<text class="note" x="{x - 8}" y="{middle + 4}" text-anchor="end">{escape(label)}</text>'
    return _wire(f"M{x} {a.y + BOX_HEIGHT} V{b.y}") + text


def _wire(path: str) -> str:
    return f'<path class="wire" d="{path}" marker-end="url(#tip)"/>'


def _results() -> str:
    """What the way from the GPU workers to the journal means: the driver writes, and tells the strategy."""
    measure, journal = PLACES["measure"], PLACES["journal"]
    x, y = (measure.x + BOX_WIDTH + journal.x) // 2, measure.y + BOX_HEIGHT // 2
    return f'<text class="note" x="{x}" y="{y - 8}" text-anchor="middle">results, by the driver</text>'


def _workers() -> str:
    """Compile workers run the compiler: a line from its last box down to them."""
    build, compile_ = PLACES["build"], PLACES["compile"]
    y = build.y + BOX_HEIGHT + 38
    x, end = build.x + BOX_WIDTH // 2, compile_.x + BOX_WIDTH // 2
    text = f'<text class="note" x="{x - 10}" y="{y + 16}" text-anchor="end">runs in</text>'
    return _wire(f"M{x} {build.y + BOX_HEIGHT} V{y} H{end} V{compile_.y}") + text


def _serves() -> str:
    """From the bundle, below the launch, to the look-up that reads it."""
    bundle, lookup = PLACES["bundle"], PLACES["lookup"]
    y = bundle.y + BOX_HEIGHT + 26
    start, end = bundle.x + BOX_WIDTH // 2, lookup.x + BOX_WIDTH // 2
    text = f'<text class="note" x="{(start + end) // 2}" y="{y + 16}" text-anchor="middle">loaded once</text>'
    return _wire(f"M{start} {bundle.y + BOX_HEIGHT} V{y} H{end} V{lookup.y + BOX_HEIGHT}") + text


def diagram() -> str:
    """The whole drawing as SVG text."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Architecture">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
    ]
    for title, y, height in BANDS:
        lines.append(f'<rect class="band" x="8" y="{y}" width="{WIDTH - 16}" height="{height}" rx="8"/>')
        lines.append(f'<text class="title" x="24" y="{y + 28}">{escape(title)}</text>')
    lines += [_along(PLACES[a], PLACES[b]) for a, b in ALONG]
    lines += [_down(PLACES[a], PLACES[b], label) for a, b, label in DOWN]
    lines += [_workers(), _results(), _serves()]
    lines += [box.svg() for box in BOXES]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(diagram())
