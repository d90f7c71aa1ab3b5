"""A kernel that is to be measured must be the driver's, on whichever host."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tileflow.errors import OtherFiles
from tileflow.measure.kernel import API_LOADER, load

SOFTMAX = "examples.softmax:softmax"


@pytest.mark.parametrize("reference", ["nowhere.at_all:kernel", "examples.softmax:other"])
def test_a_kernel_that_is_not_here_names_the_host(reference: str) -> None:
    """The error named the module, and not on which of a cluster's hosts it is missing."""
    with pytest.raises(OtherFiles, match=socket.gethostname()) as raised:
        load(API_LOADER, reference, ())
    assert "--working-dir" in raised.value.hint


def test_a_module_that_needs_a_package_of_other_hosts_names_both(tmp_path: Path) -> None:
    (tmp_path / "asks_for_more.py").write_text("import a_package_of_the_drivers_host\n")
    with pytest.raises(OtherFiles, match=r"a_package_of_the_drivers_host[\s\S]* on " + socket.gethostname()):
        load(API_LOADER, "asks_for_more:kernel", (str(tmp_path),))


def test_another_version_of_the_kernel_is_not_measured() -> None:
    """Compilers looked, devices did not: another version's inputs and reference judged the driver's configs."""
    kernel = load(API_LOADER, SOFTMAX, ())
    assert load(API_LOADER, SOFTMAX, (), kernel.semantic_hash) is kernel  # type: ignore[attr-defined]
    with pytest.raises(OtherFiles, match="same version of a kernel as the driver"):
        load(API_LOADER, SOFTMAX, (), "0" * 64)
