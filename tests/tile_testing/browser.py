"""Pages as a reader sees them: Chromium draws them, in a profile of its own each time."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import pytest

LIMIT_S = 180.0  # of a machine that does much else
Theme = Literal["dark", "light"]


def chromium() -> str:
    """The browser's path. Skips the test on a machine that has none."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("needs Chromium")
    return program


def page_text(url: str, width: int = 1700, height: int = 1200, budget_ms: int = 30_000) -> str:
    """The page's markup once its scripts have run for ``budget_ms`` of the page's own time."""
    return _run(url, width, height, budget_ms, "--dump-dom")


def screenshot(url: str, file: Path, width: int, height: int, theme: Theme = "light", budget_ms: int = 8000) -> bool:
    """Draw the page for a reader of this theme into ``file``, in few colours. Returns whether its corner is dark."""
    image = pytest.importorskip("PIL.Image")
    file.parent.mkdir(parents=True, exist_ok=True)
    scheme = f"--blink-settings=preferredColorScheme={0 if theme == 'dark' else 1}"
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        raw = Path(folder) / "raw.png"
        _run(url, width, height, budget_ms, scheme, f"--screenshot={raw}")
        with image.open(raw) as picture:
            colours = picture.convert("RGB")
            corner = colours.getpixel((2, height - 2))
            colours.quantize(64).save(file, optimize=True)
    return sum(corner) < 3 * 96


def _run(url: str, width: int, height: int, budget_ms: int, *what: str) -> str:
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        command = [
            chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--hide-scrollbars", f"--user-data-dir={profile}", f"--window-size={width},{height}",
            f"--virtual-time-budget={budget_ms}", *what, url,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
