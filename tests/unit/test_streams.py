"""What is said to people ends nothing where they can no longer be told."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tileflow.build import compat
from tileflow.streams import is_terminal, say


def test_what_an_encoding_lacks_is_escaped() -> None:
    kept = io.BytesIO()
    stream = io.TextIOWrapper(kept, "latin-1")
    assert say("größe 核", stream) == ""
    assert kept.getvalue() == "größe \\u6838\n".encode("latin-1")


def test_a_stream_that_takes_nothing_is_told_and_ends_nothing() -> None:
    gone, ours = os.pipe()
    os.close(gone)
    closed = io.StringIO()
    closed.close()
    with open(ours, "w") as without_reader:
        assert "Broken pipe" in say("text", without_reader)
        os.dup2(os.open(os.devnull, os.O_WRONLY), ours)  # what is left in it goes nowhere
    assert "closed" in say("text", closed)
    assert "no such stream" in say("text", None)
    with open("/dev/full", "w") as full:
        assert "No space left" in say("text", full)
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


class Written:
    """What a program may put in the place of its stdout."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


def test_what_a_program_put_in_its_streams_place_need_not_be_one() -> None:
    stream = Written()
    assert say("text", stream) == "" and stream.text == "text\n"  # type: ignore[arg-type]
    closed = io.StringIO()
    closed.close()
    assert not any(map(is_terminal, (stream, None, closed)))


def test_compiling_needs_no_stdout() -> None:
    stream = compat._WithoutReproducers(None)
    assert stream.write("what a kernel prints") > 0
    stream.flush()


@pytest.mark.parametrize("where", ["out", "err", "both"])
def test_a_commands_exit_code_is_its_own_where_nobody_reads_it(where: str) -> None:
    """Python ended with 120 where its last flush failed."""
    program = (
        "import sys; from tileflow.streams import own_streams, say\n"
        "with own_streams():\n    say('核', sys.stdout); say('核', sys.stderr); sys.exit(3)"
    )
    gone, ours = os.pipe()
    os.close(gone)
    out, err = (ours if where in (name, "both") else subprocess.PIPE for name in ("out", "err"))
    with subprocess.Popen([sys.executable, "-c", program], stdout=out, stderr=err) as command:
        os.close(ours)
        read = [stream.read() for stream in (command.stdout, command.stderr) if stream is not None]
    assert command.returncode == 3 and all(text == "核\n".encode() for text in read)


def test_tables_are_shown_in_any_encoding(tmp_path: Path) -> None:
    """A kernel's name that stdout could not spell was a traceback."""
    shown = [sys.executable, "-m", "tileflow.runtime.show", str(tmp_path / "größe")]
    done = subprocess.run(shown, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "ascii:strict"})
    assert done.returncode == 2 and b"gr\\xf6\\xdfe" in done.stderr
