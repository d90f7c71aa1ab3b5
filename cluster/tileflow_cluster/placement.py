"""Which nodes there are, and which workers to start on them. It asks Ray for facts and places nothing itself.

Ray waits for ever, in silence, for a node that satisfies an impossible selector or for a CPU that does not exist, so
everything is counted here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import ray

from tileflow.errors import ClusterError

from .fair_share import Share
from .labels import DEVICE_CLASS
from .protocol import DeviceClass


@dataclass(frozen=True, slots=True)
class Node:
    """One live Ray node: its labels, and how many CPUs and GPUs Ray counts on it."""

    node_id: str
    host: str
    labels: tuple[tuple[str, str], ...]
    cpus: int
    gpus: int

    def satisfies(self, selector: Mapping[str, str]) -> bool:
        """Whether the node has every label of ``selector`` with that value."""
        return selector.items() <= dict(self.labels).items()


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """How many workers to start of each kind."""

    compilers: int
    devices: tuple[DeviceClass, ...]


def live_nodes() -> tuple[Node, ...]:
    """Return the nodes that Ray believes alive now. A lost node shows for some seconds."""
    return tuple(
        Node(
            node["NodeID"],
            node["NodeManagerHostname"],
            tuple(sorted(node["Labels"].items())),
            int(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("GPU", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    )


def gpus_for(nodes: Sequence[Node], selector: Mapping[str, str]) -> int:
    """Return how many GPUs the nodes that satisfy ``selector`` have. Raises ClusterError where it is none."""
    gpus = _gpus(nodes, selector)
    if gpus == 0:
        wanted = ", ".join(f"{label}={value}" for label, value in selector.items())
        raise ClusterError(
            f"a live node with a GPU must carry the label {wanted}",
            got=_describe(nodes),
            hint='start GPU nodes with: ray start --labels "$(python -m tileflow_cluster.labels)" ...',
        )
    return gpus


def plan(
    nodes: Sequence[Node], device_classes: Sequence[str], *, compilers: int | None = None, must_measure: bool = False
) -> PlacementPlan:
    """Plan one worker per labelled GPU, a modelling worker for each class without, and compilers on the CPUs.

    ``compilers``: how many compile workers at most; all CPUs where None. ``must_measure``: a class without a GPU is an
    error. Raises ClusterError, also where there is no CPU at all.
    """
    cpus = sum(node.cpus for node in nodes)
    if cpus == 0 or compilers == 0:
        raise ClusterError("compiling needs at least one CPU", got=_describe(nodes), hint="ray start --num-cpus=N")
    return PlacementPlan(
        compilers=cpus if compilers is None else min(compilers, cpus),
        devices=tuple(_serve(nodes, name, must_measure) for name in device_classes),
    )


def replan(old: PlacementPlan, nodes: Sequence[Node], *, compilers: int | None) -> PlacementPlan:
    """Return ``old`` updated to the nodes there are now.

    A measured class without its nodes has 0 workers until they are back. A modelled class whose first node has come is
    measured from then on.
    """
    cpus = sum(node.cpus for node in nodes)
    devices = []
    for served in old.devices:
        gpus = _gpus(nodes, {DEVICE_CLASS: served.name})
        devices.append(DeviceClass(served.name, True, gpus) if served.measured or gpus else served)
    return PlacementPlan(cpus if compilers is None else min(compilers, cpus), tuple(devices))


def capped(whole: PlacementPlan, share: Share) -> PlacementPlan:
    """Return the plan reduced to a sweep's share of the cluster."""
    devices = tuple(
        replace(served, workers=min(served.workers, share.gpus.get(served.name, 0))) if served.measured else served
        for served in whole.devices
    )
    return replace(whole, compilers=min(whole.compilers, share.compilers), devices=devices)


def gpus_of(nodes: Sequence[Node]) -> dict[str, int]:
    """Return how many GPUs the nodes have, by the device class of their label."""
    found: dict[str, int] = {}
    for node in nodes:
        name = dict(node.labels).get(DEVICE_CLASS)
        if name is not None and node.gpus:
            found[name] = found.get(name, 0) + node.gpus
    return found


def _gpus(nodes: Sequence[Node], selector: Mapping[str, str]) -> int:
    return sum(node.gpus for node in nodes if node.satisfies(selector))


def _serve(nodes: Sequence[Node], name: str, must_measure: bool) -> DeviceClass:
    selector = {DEVICE_CLASS: name}
    if must_measure or any(node.satisfies(selector) for node in nodes):
        return DeviceClass(name, measured=True, workers=gpus_for(nodes, selector))
    return DeviceClass(name, measured=False, workers=1)


def unlabelled(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes whose GPUs nobody uses because they carry no device class."""
    return tuple(node for node in nodes if node.gpus and DEVICE_CLASS not in dict(node.labels))


def _describe(nodes: Sequence[Node]) -> str:
    """Describe the nodes for a message, without the labels that Ray itself gives to each."""
    texts = []
    for node in nodes:
        labels = ", ".join(f"{k}={v}" for k, v in node.labels if not k.startswith("ray.io/")) or "no labels"
        texts.append(f"{node.host} ({node.cpus} CPUs, {node.gpus} GPUs; {labels})")
    return "; ".join(texts) or "no live node"
