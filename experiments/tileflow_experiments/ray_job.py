"""A command that `ray job submit` started: it works in a copy of the folder that it was submitted with."""

from __future__ import annotations

import os

_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray sets it in each job
COPY = "the job's own folder is a throwaway copy"


def in_a_job() -> bool:
    """Whether this process is a Ray job's."""
    return _VARIABLE in os.environ


def with_files(hint: str) -> str:
    """Return the hint of a file or module that is missing; in a job also where its files come from."""
    if not in_a_job():
        return hint
    return (
        f"{hint}; this job has the files of its --working-dir alone (here {os.getcwd()}), without those that "
        ".gitignore or `excludes` names: submit from the folder that has all, or name an absolute path on shared disk"
    )
