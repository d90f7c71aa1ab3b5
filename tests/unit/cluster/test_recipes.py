"""The recipes of configs/cluster: KubeRay's fields, the catalogue's labels, commands that are printed and not run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tile_testing import ROOT

from tileflow.target import target

jsonschema = pytest.importorskip("jsonschema")
labels_module = pytest.importorskip("tileflow_cluster.labels")

KUBERAY = ROOT / "configs/cluster/kuberay.yaml"
UNIT = ROOT / "configs/cluster/tileflow-ray.service"
SCRIPT = ROOT / "scripts/ray_node"

# ---- KubeRay ------------------------------------------------------------------------------------------------------

TEXT, WHOLE, TEXTS = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "object", "additionalProperties": {"type": "string"}},
)
QUANTITY = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|[KMGT]i?)?$"}


def fields(required: tuple[str, ...] = (), **known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, "required": list(required), "additionalProperties": False}


def several(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}
CONTAINER = fields(
    ("name", "image", "resources"),
    name=TEXT,
    image=TEXT,
    env=several(fields(("name", "value"), name=TEXT, value=TEXT)),
    ports=several(fields(("containerPort",), containerPort=WHOLE, name=TEXT)),
    resources=fields(limits=QUANTITIES, requests=QUANTITIES),
    volumeMounts=several(fields(("name", "mountPath"), name=TEXT, mountPath=TEXT)),
)
CLAIM = fields(("claimName",), claimName=TEXT)
POD = fields(
    ("containers",),
    containers=several(CONTAINER),
    nodeSelector=TEXTS,
    volumes=several(fields(("name", "persistentVolumeClaim"), name=TEXT, persistentVolumeClaim=CLAIM)),
)
# Of RayClusterSpec in KubeRay 1.5 those fields that a recipe may use, of Kubernetes' pods likewise.
GROUP = {"rayStartParams": TEXTS, "resources": TEXTS, "labels": TEXTS, "template": fields(("spec",), spec=POD)}
WORKERS = fields(
    ("groupName", "minReplicas", "maxReplicas", "template"),
    **GROUP,
    groupName=TEXT,
    replicas=WHOLE,
    minReplicas=WHOLE,
    maxReplicas=WHOLE,
    idleTimeoutSeconds=WHOLE,
    numOfHosts=WHOLE,
)
CLUSTER = fields(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayCluster"},
    metadata=fields(("name",), name=TEXT),
    spec=fields(
        ("headGroupSpec", "workerGroupSpecs"),
        rayVersion=TEXT,
        enableInTreeAutoscaling={"type": "boolean"},
        headGroupSpec=fields(("rayStartParams", "template"), **GROUP, serviceType=TEXT),
        workerGroupSpecs=several(WORKERS),
    ),
)


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(KUBERAY.read_text())
    return found


def test_the_cluster_has_kuberays_fields(cluster: dict[str, Any]) -> None:
    jsonschema.validate(cluster, CLUSTER)
    misspelt = cluster | {"spec": cluster["spec"] | {"workerGroupsSpecs": []}}
    with pytest.raises(jsonschema.ValidationError, match="workerGroupsSpecs"):
        jsonschema.validate(misspelt, CLUSTER)


def test_each_group_is_a_device_class_of_the_catalogue(cluster: dict[str, Any]) -> None:
    """Its labels are those that a node of that class gives itself, and its pods ask for as many GPUs as Ray counts."""
    vendors = set()
    for group in cluster["spec"]["workerGroupSpecs"]:
        (container,) = group["template"]["spec"]["containers"]
        gpus = group["rayStartParams"].get("num-gpus", "0")
        asked = {name: count for name, count in container["resources"]["limits"].items() if name.endswith("/gpu")}
        if "labels" not in group:
            assert gpus == "0" and not asked, "a node with GPUs and without labels would stay unused"
            continue
        known = target(group["labels"][labels_module.DEVICE_CLASS])
        gpu = labels_module.VisibleGpu("GPU-0", "", known.name)
        assert group["labels"] == labels_module.labels_for([gpu])
        assert asked == {f"{known.vendor}.com/gpu": gpus}
        vendors.add(known.vendor)
    assert vendors == {"nvidia", "amd"}


def test_the_head_works_on_nothing_and_one_group_compiles(cluster: dict[str, Any]) -> None:
    spec = cluster["spec"]
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
    assert any("labels" not in group and group["minReplicas"] >= 1 for group in spec["workerGroupSpecs"])
    mounts = spec["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    assert mounts, "what a job leaves must outlive its pod"


# ---- bare hosts ---------------------------------------------------------------------------------------------------


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that sees the GPUs that FAKE_LABELS and FAKE_GPUS tell of."""
    path = tmp_path / "python"
    path.write_text(
        '#!/bin/sh\n[ "$2" = tileflow_cluster.labels ] && exec echo "$FAKE_LABELS"\nexec echo "$FAKE_GPUS"\n'
    )
    path.chmod(0o755)
    return path


def dry(python: Path, *words: str, labels: str = "", gpus: str = "0") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TILEFLOW_PYTHON": str(python), "FAKE_LABELS": labels, "FAKE_GPUS": gpus}
    command = [str(SCRIPT), "--dry-run", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)


def options(said: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+)(?:=(\S+))?", said))


def test_the_head_of_bare_hosts_compiles_and_measures_nothing(python: Path) -> None:
    said = dry(python, "head", "--dashboard-host=10.0.0.1")
    assert said.returncode == 0 and said.stdout.startswith(f"{python} -m ray.scripts.scripts start --block")
    given = options(said.stdout)
    assert given["num-cpus"] == given["num-gpus"] == "0" and "head" in given and given["dashboard-host"] == "10.0.0.1"


def test_a_node_joins_with_its_labels_and_gpus(python: Path) -> None:
    labels = "tileflow.dev/device-class=nvidia-h200,tileflow.dev/arch=sm_90a,tileflow.dev/vendor=nvidia"
    said = dry(python, "join", "10.0.0.1:6379", "--num-cpus=4", labels=labels, gpus="8")
    given = options(said.stdout)
    assert (given["address"], given["labels"], given["num-gpus"]) == ("10.0.0.1:6379", labels, "8")
    assert said.stdout.rstrip().endswith("--num-cpus=4"), "the last one counts"


def test_a_node_without_gpus_has_no_labels(python: Path) -> None:
    given = options(dry(python, "join", "10.0.0.1:6379").stdout)
    assert "labels" not in given and given["num-gpus"] == "0" and int(given["num-cpus"]) >= 1


@pytest.mark.parametrize("words", [(), ("join",), ("leave",)])
def test_other_words_are_refused(words: tuple[str, ...], python: Path) -> None:
    said = dry(python, *words)
    assert said.returncode == 2 and "usage:" in said.stderr and not said.stdout


def test_gpus_that_cannot_be_listed_start_no_node(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 2\n")
    python.chmod(0o755)
    said = dry(python, "join", "10.0.0.1:6379")
    assert said.returncode == 2 and not said.stdout


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text()
    assert "/opt/tileflow/scripts/ray_node join" in text
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("/opt/tileflow", str(ROOT)))
    said = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60)
    complaints = [line for line in (said.stdout + said.stderr).splitlines() if UNIT.name in line]
    assert said.returncode == 0 and not complaints, complaints
