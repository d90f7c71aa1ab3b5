"""What scripts/release asks of two wheels: their metadata and contents, and that they work in a fresh environment.

python scripts/release_checks.py metadata DEST [--rehearse]
python scripts/release_checks.py smoke DEST --bundle BUNDLE     (by the fresh environment's Python)
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
RUNTIME, COMPILER = "tileflow-runtime", "tileflow"
NEVER_IN_A_WHEEL = ("tests/", "tileflow_benchmarks/", "examples/", "docs/", "scripts/")

KERNEL = """
import torch, tileflow
import tileflow.language as tfl


@tileflow.kernel
def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2
    return out


x = torch.randn(33, 64)
with tileflow.interpret():
    torch.testing.assert_close(scaled(x), x * 2)
(source,) = scaled.triton_source(x, target_name="nvidia-h200")
assert "tl.store" in source.text
assert "at the memory roof" in scaled.explain(x, target_name="nvidia-h200")
print(tileflow.__file__)
"""


def metadata_of(wheel: Path) -> Message:
    """The wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def faults(wheels: dict[str, Path], changes: str, rehearse: bool = False) -> Iterator[str]:
    """What keeps the wheels from being released. ``changes``: CHANGELOG.md; its newest section is the release's."""
    if wheels.keys() != {RUNTIME, COMPILER}:
        yield f"there must be a wheel of {RUNTIME} and one of {COMPILER}: {', '.join(sorted(wheels)) or 'none'}"
        return
    told = {name: metadata_of(path) for name, path in wheels.items()}
    versions = {name: str(data["Version"]) for name, data in told.items()}
    if len({*versions.values()}) != 1:
        yield f"both wheels must have one version: {versions}"
    version = versions[COMPILER]
    needs = told[COMPILER].get_all("Requires-Dist") or []
    if f"{RUNTIME}=={version}" not in needs:
        yield f"{COMPILER} must need {RUNTIME}=={version}: {needs}"
    for name, data in told.items():
        for field in ("Summary", "License-Expression", "Requires-Python"):
            if not data[field]:
                yield f"{name} has no {field}"
    if "tile" not in str(told[COMPILER].get_payload()):
        yield f"{COMPILER} must have the README as its description"
    for name, path in wheels.items():
        with zipfile.ZipFile(path) as archive:
            inside = [n for n in archive.namelist() if n.startswith(NEVER_IN_A_WHEEL)]
        if inside:
            yield f"{name} holds what belongs in the repository only: {', '.join(inside[:5])}"
    yield from _of_the_changes(version, changes, rehearse)


def _of_the_changes(version: str, changes: str, rehearse: bool) -> Iterator[str]:
    newest = re.search(r"^## (?P<version>\S+?),? +(?P<when>.*)$", changes, re.MULTILINE)
    if newest is None or newest["version"] != version:
        yield f"CHANGELOG.md must begin with a section of {version}: {newest[0] if newest else 'no section'}"
    elif not rehearse and not re.fullmatch(r"\d{4}-\d\d-\d\d", newest["when"]):
        yield f"the section of {version} must have the day of the release: {newest['when']!r}"


def find_wheels(dest: Path) -> dict[str, Path]:
    """Wheels by the name of their distribution."""
    return {str(metadata_of(path)["Name"]): path for path in sorted(dest.glob("*.whl"))}


def smoke(dest: Path, bundle: Path) -> None:
    """What is installed works without the repository. Raises CalledProcessError, AssertionError."""
    version = str(metadata_of(find_wheels(dest)[COMPILER])["Version"])
    scripts = Path(sys.executable).parent
    assert version in _out(str(scripts / "tileflow"), "--version")
    assert "nvidia-h200" in _out(sys.executable, "-P", "-m", "tileflow.runtime.show", str(bundle))
    assert version in _out(str(scripts / "tileflow"), "doctor")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "kernel.py"
        script.write_text(KERNEL)
        place = Path(_out(sys.executable, "-P", str(script)).splitlines()[-1])
    assert TREE not in place.parents, f"the wheel's code must run, not the repository's: {place}"


def _out(*command: str) -> str:
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, f"{' '.join(command)}\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    return run.stdout


def main() -> int:
    """1 where something keeps the wheels from being released."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("metadata", "smoke"))
    parser.add_argument("dest", type=Path)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--bundle", type=Path)
    options = parser.parse_args()
    if options.what == "smoke":
        smoke(options.dest, options.bundle)
        return 0
    found = list(faults(find_wheels(options.dest), (TREE / "CHANGELOG.md").read_text(), options.rehearse))
    for fault in found:
        print(f"scripts/release: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
