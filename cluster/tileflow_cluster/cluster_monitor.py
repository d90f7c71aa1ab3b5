"""The cluster monitor: a thread that checks whether the cluster's head answers, and which nodes there are.

Ray does not report a head that is gone: its calls wait, and after a minute it ends the process. So the thread probes
the head's port, with the first bytes of the protocol that a head speaks, and asks for nodes only after an answer. The
driver reads the latest state that the thread saw, and never waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import ray

from tileflow.errors import ClusterError

from .placement import Node, live_nodes
from .ray_connection import probe_head, restarted_head

log = logging.getLogger("tileflow.cluster")

PROBE_LIMIT_S = 1.0


class ClusterMonitor:
    """A thread that looks at the connected cluster every ``period_s`` seconds, until closed.

    ``look``: asks which nodes there are. ``restarted``: asked before, says what is wrong with a head that answers.
    ``head``: the head's host and port; None for the connected cluster's.
    """

    def __init__(
        self,
        period_s: float,
        *,
        look: Callable[[], tuple[Node, ...]] = live_nodes,
        restarted: Callable[[], str] = restarted_head,
        head: str | None = None,
    ) -> None:
        self._period_s = period_s
        self._look = look
        self._restarted = restarted
        self._head = ray.get_runtime_context().gcs_address if head is None else head
        self._nodes = look()
        self._heard_at = time.monotonic()
        self._wrong = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tileflow-cluster-monitor", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that Ray believed alive at the last look. A lost node shows for some seconds."""
        return self._nodes

    @property
    def silent_s(self) -> float:
        """For how many seconds the head has not answered, 0 while it does."""
        silent = time.monotonic() - self._heard_at
        return silent if self._wrong or silent > 2 * self._period_s + PROBE_LIMIT_S else 0.0

    def require_answer(self, patience_s: float) -> None:
        """Raise ClusterError where the head has not answered for ``patience_s`` seconds."""
        silent = self.silent_s
        if silent > patience_s:
            wrong = self._wrong or "it does not say which nodes there are"
            raise ClusterError(
                "the Ray cluster's head must answer",
                got=f"{self._head}, silent for {silent:.0f} s: {wrong}",
                hint="what is known is exported; `tileflow sweep resume` goes on once the head is back",
            )

    def close(self) -> None:
        """Tell the thread to end, without waiting for a request that it may have in flight."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(self._period_s):
            wrong = probe_head(self._head, PROBE_LIMIT_S) or self._restarted()
            if wrong and not self._wrong:
                log.warning("the Ray cluster's head at %s does not answer: %s", self._head, wrong)
            self._wrong = wrong
            if wrong:
                continue
            try:
                self._nodes = self._look()
            except Exception as error:  # the head may be going down; the next probe shows it
                self._wrong = f"{type(error).__name__}: {error}"
                continue
            self._heard_at = time.monotonic()
