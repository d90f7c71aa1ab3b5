"""A first call does not fail because the default asks too much of the device."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.default import smaller_config
from tileflow.errors import OutOfResources
from tileflow.lowered import Lowered
from tileflow.serve import fitting_server
from tileflow.target import target


@tileflow.kernel
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tm, tn in tfl.tile(out.shape):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tm, tk], y[tk, tn])
        out[tm, tn] = acc
    return out


HALF = torch.empty(4096, 4096, dtype=torch.float16, device="meta")


def test_each_step_is_smaller_and_valid() -> None:
    lowered = product.lower((HALF, HALF), target("nvidia-h200"))
    config: Config | None = lowered.default
    sizes = []
    while config is not None:
        assert not lowered.space.violations(config)
        sizes.append(config["block:tm"] * config["block:tn"] * config["block:tk"])
        config = smaller_config(config, lowered.space)
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= 16**3 < sizes[0]


@pytest.mark.parametrize("fits", [3, None])
def test_what_does_not_fit_is_made_smaller(
    fits: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[Config] = []

    def compiled(kernel: Kernel, lowered: Lowered, config: Config, device: Any) -> Any:
        tried.append(config)
        if len(tried) != fits:
            raise OutOfResources("a kernel must use less", got="more")
        return {}

    monkeypatch.setattr(Kernel, "launchers", compiled)
    kernel = tileflow.kernel(product.__wrapped__)
    lowered = kernel.lower((HALF, HALF), target("nvidia-h200"))
    with caplog.at_level(logging.WARNING, logger="tileflow"):
        if fits is None:
            with pytest.raises(OutOfResources):
                fitting_server(kernel, lowered, torch.device("cuda"))
            return
        assert fitting_server(kernel, lowered, torch.device("cuda")).config == tried[-1]
    assert len(set(tried)) == fits and tried[0] == lowered.default
    assert caplog.text.count("a smaller config runs instead") == fits - 1
