"""The configs of the cases of one construct each name what their kernels have, as tests/gpu takes them."""

from __future__ import annotations

import pytest
from tile_testing.runs.construct_cells import MODULES, ConstructJob, cases

from tileflow.errors import ConfigError
from tileflow.target import target


@pytest.mark.parametrize("module", MODULES)
def test_a_case_s_own_config_is_of_its_kernel_s_space(module: str) -> None:
    """In the interpreter a knob that a kernel lacks changes nothing; on a GPU it is an error."""
    unknown: dict[str, str] = {}
    for name in cases(module):
        job = ConstructJob(module, name, "static")
        try:
            job.configs(job.subject.lower(job.arguments("meta"), target("nvidia-h200")))
        except ConfigError as error:
            unknown[name] = str(error)
    assert not unknown
