"""The sweep registry: which sweeps work on a shared cluster, so that each takes no more than its share.

The registry is one small actor of the cluster, which the first sweep creates. It only remembers entries: every sweep
computes its own share of CPUs and GPUs (:mod:`.fair_share`). It forgets a sweep that has sent no heartbeat for a while,
and ends with the last one. :func:`list_sweeps` and :func:`send_order` ask it from any machine.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ray

from tileflow.errors import ClusterError, SpecError

from .fair_share import Share, SweepEntry, fair_shares

if TYPE_CHECKING:  # what the actor imports stays small
    from .protocol import Ordered

log = logging.getLogger("tileflow.cluster")

NAME = "tileflow-sweep-registry-1"  # ends in the version of its protocol
NAMESPACE = "tileflow"
FORGOTTEN_S = 20.0
ANSWER_S = 30.0


class SweepRegistry:
    """The actor. Everything it is told is small, and it answers at once."""

    def __init__(self) -> None:
        self._entries: dict[str, SweepEntry] = {}
        self._heard: dict[str, float] = {}
        self._orders: dict[str, Ordered] = {}
        self._count = 0

    def enter(self, entry: SweepEntry) -> list[SweepEntry]:
        """Record that a sweep works, first or again. Returns all that do."""
        known = self._entries.get(entry.sweep_id)
        if known is None:
            self._count += 1
        since = self._count if known is None else known.since
        order = self._orders.get(entry.sweep_id, "")
        self._entries[entry.sweep_id] = replace(entry, since=since, order=order)
        self._heard[entry.sweep_id] = time.monotonic()
        return self.entries()

    def entries(self) -> list[SweepEntry]:
        """Return all sweeps with a recent heartbeat, the earliest first."""
        before = time.monotonic() - FORGOTTEN_S
        for sweep_id in [s for s, heard in self._heard.items() if heard < before]:
            self._forget(sweep_id)
        return sorted(self._entries.values(), key=lambda entry: entry.since)

    def order(self, sweep_id: str, order: Ordered) -> list[str]:
        """Give an order to the sweeps whose id begins with ``sweep_id``. Returns their ids."""
        told = [entry.sweep_id for entry in self.entries() if entry.sweep_id.startswith(sweep_id)]
        for name in told:
            self._orders[name] = order
            self._entries[name] = replace(self._entries[name], order=order)
        return told

    def leave(self, sweep_id: str) -> None:
        """Forget a sweep that has ended."""
        self._forget(sweep_id)
        if not self.entries():
            ray.actor.exit_actor()

    def _forget(self, sweep_id: str) -> None:
        for known in (self._entries, self._heard, self._orders):
            known.pop(sweep_id, None)


class RegistryClient:
    """One sweep's side of the registry. It never waits: it reads the last answer, and works alone without one.

    Only the cluster's head knows where the registry is, and a head that has gone never answers. So a thread asks it.
    """

    def __init__(self, entry: SweepEntry, period_s: float) -> None:
        self._entry = entry
        self._period_s = period_s
        self._registry: Any = None
        self._looking = threading.Thread()
        self._answer: Any = None
        self._asked_at = -math.inf
        self.entries: tuple[SweepEntry, ...] = (entry,)

    @property
    def order(self) -> Ordered:
        """The order that this sweep was given."""
        mine = (entry.order for entry in self.entries if entry.sweep_id == self._entry.sweep_id)
        return next(mine, "")

    def share(self, cpus: int, gpus: Mapping[str, int]) -> Share:
        """Return this sweep's share of the cluster's CPUs and GPUs."""
        return fair_shares(self.entries, cpus, gpus)[self._entry.sweep_id]

    def add_device_class(self, device_class: str) -> None:
        """Register that this sweep can use the GPUs of one more class."""
        if device_class not in self._entry.classes:
            self._entry = replace(self._entry, classes=(*self._entry.classes, device_class))
            mine = self._entry.sweep_id
            self.entries = tuple(
                replace(e, classes=self._entry.classes) if e.sweep_id == mine else e for e in self.entries
            )

    def heartbeat(self, status: Mapping[str, Any]) -> bool:
        """Tell the registry once a period that this sweep is alive. Returns whether sweeps or orders have changed."""
        changed = self._read_answer()
        if self._registry is None:
            if not self._looking.is_alive():
                self._looking = threading.Thread(target=self._look, name="tileflow-sweep-registry", daemon=True)
                self._looking.start()
        elif self._answer is None and time.monotonic() - self._asked_at >= self._period_s:
            self._asked_at = time.monotonic()
            self._answer = self._registry.enter.remote(replace(self._entry, status=dict(status)))
        return changed

    def _look(self) -> None:
        try:
            self._registry = get_or_create_registry()
        except Exception as error:  # whatever Ray raises while its cluster goes; the next heartbeat looks again
            log.warning("the cluster's sweep registry cannot be reached: %s: %s", type(error).__name__, error)
            time.sleep(self._period_s)

    def _read_answer(self) -> bool:
        if self._answer is None or not ray.wait([self._answer], timeout=0)[0]:
            return False
        try:
            heard = tuple(ray.get(self._answer))
        except ray.exceptions.RayError:  # it ended with the previous sweep or with its node: create another
            self._registry = self._answer = None
            return False
        self._answer = None
        if all(entry.sweep_id != self._entry.sweep_id for entry in heard):
            return False
        changed = _share_inputs(heard) != _share_inputs(self.entries)
        self.entries = heard
        return changed

    def leave(self) -> None:
        """Tell the registry, without waiting, that this sweep has ended."""
        if self._registry is not None:
            self._registry.leave.remote(self._entry.sweep_id)
            self._registry = None


def _share_inputs(entries: Sequence[SweepEntry]) -> list[SweepEntry]:
    """Return the parts of the entries that shares depend on."""
    return [replace(entry, status={}, since=0) for entry in entries]


def get_or_create_registry() -> Any:
    """Return the cluster's registry, created where there is none. After the loss of its node every sweep registers
    again."""
    actor = ray.remote(SweepRegistry)
    return actor.options(
        name=NAME, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, num_cpus=0, max_restarts=-1
    ).remote()


def find_registry() -> Any | None:
    """Return the cluster's registry; None where no sweep works."""
    try:
        return ray.get_actor(NAME, namespace=NAMESPACE)
    except ValueError:
        return None


# ---- from any machine ------------------------------------------------------------------------------------------------


def list_sweeps(address: str) -> list[SweepEntry]:
    """Return the sweeps that work on the cluster at ``address``. Raises ClusterError where there is no cluster."""
    with _connected(address):
        registry = find_registry()
        return list(_answered(registry.entries.remote(), ())) if registry is not None else []


def send_order(address: str, sweep: str, order: Ordered) -> list[str]:
    """Give an order to the sweep at ``address`` that :func:`named` finds. Returns the ids of its schedulers, none where
    there is no such sweep. Raises ClusterError, and SpecError where several are meant."""
    with _connected(address):
        registry = find_registry()
        if registry is None:
            return []
        meant = named(_answered(registry.entries.remote(), ()), sweep)
        return [told for one in meant for told in _answered(registry.order.remote(one, order), ())]


def named(entries: Sequence[SweepEntry], sweep: str) -> list[str]:
    """Return the ids of the sweep that ``sweep`` names: by its id, its name, or how its id begins. One with several
    schedulers has an id for each. Raises SpecError where that is said of several sweeps: others may share the cluster.
    """
    found = [e for e in entries if e.sweep_id == sweep] or [e for e in entries if sweep in (_name(e), _whole_name(e))]
    found = found or [entry for entry in entries if entry.sweep_id.startswith(sweep)]
    names = [_name(entry) for entry in found]
    if (found and not sweep) or len({_whole_name(entry) for entry in found}) > 1 or len(set(names)) < len(names):
        raise SpecError(
            "an order is for one sweep of the cluster",
            got=f"{sweep!r}, which {len(found)} are called or begin with",
            hint=f"name one in full: {', '.join(entry.sweep_id for entry in found)}",
        )
    return [entry.sweep_id for entry in found]


def _name(entry: SweepEntry) -> str:
    """Return the name that the sweep, or one of its schedulers, was opened with: all but the random end of its id."""
    return entry.sweep_id.rpartition("-")[0]


def _whole_name(entry: SweepEntry) -> str:
    """Return the sweep's own name: of one of several schedulers the part before its number."""
    name = _name(entry)
    return name if entry.part == 1.0 else name.rpartition("-")[0]


def _answered(answer: Any, ended: Any) -> Any:
    """Return the registry's answer; ``ended`` where it ended meanwhile, with the last sweep.

    Raises ClusterError where it takes too long: it starts with the first sweep.
    """
    try:
        return ray.get(answer, timeout=ANSWER_S)
    except ray.exceptions.ActorDiedError:
        return ended
    except ray.exceptions.GetTimeoutError:
        raise ClusterError(
            f"the cluster's sweep registry must answer within {ANSWER_S:g} s",
            hint="ask again; is the cluster overloaded?",
        ) from None


@contextmanager
def _connected(address: str) -> Iterator[None]:
    from .ray_connection import require_reachable
    from .ray_errors import ray_must_start

    with ray_must_start(address):
        if ray.is_initialized():
            yield
            return
        require_reachable(address)
        ray.init(address=address, log_to_driver=False, configure_logging=False)
        try:
            yield
        finally:
            ray.shutdown()
