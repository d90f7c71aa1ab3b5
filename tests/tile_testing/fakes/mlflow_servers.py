"""Real servers for tests of MLflow: PostgreSQL, MLflow's own. The first is None where the machine has no such
program; all listen on this machine alone, and are stopped by their process."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

START_S = 180.0  # of a machine that does much else
# Without these it starts workers for jobs of its own, with gigabytes and a dozen seconds more.
QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def postgres_folder() -> Path | None:
    """Where ``initdb`` and ``postgres`` are; None where they are not, or no driver of theirs for Python."""
    if importlib.util.find_spec("psycopg") is None:
        return None
    named = shutil.which("initdb")
    folders = [Path(named).resolve().parent] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextlib.contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """The URI of an empty database of a server on a Unix socket. It refuses to be root, so it is somebody else."""
    account = _account()
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        user = account.pw_uid if account is not None else None
        made = [programs / "initdb", "-D", folder / "data", "-A", "trust", "-U", "tileflow", "--no-sync"]
        subprocess.run(made, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)
        options = ["-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        server = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *options], user=user, cwd=folder, stderr=subprocess.DEVNULL
        )
        try:
            yield _database(folder)
        finally:
            server.send_signal(signal.SIGINT)  # for SIGTERM it waits until every client has left
            server.wait(60)


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _database(folder: Path) -> str:
    import psycopg

    deadline = time.monotonic() + START_S
    while True:
        try:
            with psycopg.connect(host=str(folder), user="tileflow", dbname="postgres", autocommit=True) as connection:
                connection.execute("CREATE DATABASE mlflow")
            return f"postgresql+psycopg://tileflow@/mlflow?host={folder}"
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextlib.contextmanager
def mlflow_server(store: str, folder: Path) -> Iterator[str]:
    """The address of MLflow's server on loopback, over the store at that URI."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--backend-store-uri", store]
    arguments += ["--artifacts-destination", (folder / "served").as_uri()]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *arguments], env=os.environ | QUIET, cwd=folder,
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            _wait_for(f"{address}/health", server, folder / "server.log")
            yield address
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.3)
