"""Any mix of index items reads and writes what torch would, in the eager meaning."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_testing.kernels.indexing_mixes import HEAD, arguments, mix, wanted


def load(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 20), writes=st.booleans(), block=st.sampled_from((1, 4, 8)))
def test_a_mix_is_what_torch_gives(tmp_path: Path, seed: int, writes: bool, block: int) -> None:
    made = mix(random.Random(seed), distinct=writes)
    text = made.kernel("kernel", writes)
    args = arguments(made, seed, writes)
    kernel = load(tmp_path / f"mix_{seed}_{writes}.py", HEAD + text).kernel
    got = kernel.run_eagerly(*args, config={"block:b": block})
    assert torch.equal(got, wanted(made, args, writes)), text
