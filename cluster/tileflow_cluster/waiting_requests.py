"""The requests that wait for one kind of worker, in order, and by search where a policy selects among them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .protocol import AnyRequest, TrialRequest


@dataclass(slots=True)
class WaitingRequests:
    """``order``: all of them, oldest first. ``first``: those that go before all others. ``selectable``: those that the
    policy selects among, by search. Adding and removing take constant time.
    """

    order: dict[str, None] = field(default_factory=dict)
    first: dict[str, None] = field(default_factory=dict)
    selectable: dict[object, dict[str, TrialRequest]] = field(default_factory=dict)

    def add(self, request: AnyRequest, whose: object, *, selectable: bool) -> None:
        """Let ``request`` of the search ``whose`` wait behind all others."""
        self.order[request.request_id] = None
        if selectable and isinstance(request, TrialRequest):
            self.selectable.setdefault(whose, {})[request.request_id] = request
        else:
            self.first[request.request_id] = None

    def remove(self, request_id: str, whose: object) -> None:
        """Forget a request, where it waits."""
        if request_id not in self.order:
            return
        del self.order[request_id]
        if request_id in self.first:
            del self.first[request_id]
            return
        group = self.selectable[whose]
        del group[request_id]
        if not group:
            del self.selectable[whose]
