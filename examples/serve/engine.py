"""Continuous batches: each step reads one token of every running sequence, of its prompt or the one just sampled.

Sequences join and leave between steps. A batch is filled up to a power of two, so that few CUDA graphs serve all sizes.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields

import torch

from .cache import PAGE, PagedCache
from .model import Batch, Decoder, Parts

_CLOSED = "the engine was closed before the request was done"


class EngineClosedError(RuntimeError):
    """The engine was closed before a request was done."""


@dataclass(eq=False)  # each is itself, whatever another asks for
class Request:
    """A prompt, and what is made of it. ``done``: the new tokens, once all are there; who no longer wants them cancels
    it."""

    prompt: Sequence[int]
    most_tokens: int
    k: int = 1
    p: float = 1.0
    seed: int = 0
    made: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    position: int = 0
    done: Future[list[int]] = field(default_factory=Future)
    random: torch.Generator = field(default_factory=torch.Generator)

    @property
    def token(self) -> int:
        """The token at the request's position."""
        told = len(self.prompt)
        return self.prompt[self.position] if self.position < told else self.made[self.position - told]


class Stepper:
    """A step of the model, on a GPU as a CUDA graph for each size of a batch."""

    def __init__(self, model: Decoder, cache: PagedCache, parts: Parts, is_graphed: bool) -> None:
        self._model, self._cache, self._parts = model, cache, parts
        self._is_graphed = is_graphed
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Batch, torch.Tensor]] = {}

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the batch's next tokens. The memory is reused by the next call with a batch of this size."""
        if not self._is_graphed:
            return self._step(batch)
        graph, inputs, result = self._graph(batch)
        for each in fields(Batch):
            getattr(inputs, each.name).copy_(getattr(batch, each.name))
        graph.replay()
        return result

    @property
    def graphs(self) -> int:
        """How many CUDA graphs were captured, one per batch size."""
        return len(self._graphs)

    def _step(self, batch: Batch) -> torch.Tensor:
        return self._model.step(batch, self._cache.keys, self._cache.values, self._parts)

    def _graph(self, batch: Batch) -> tuple[torch.cuda.CUDAGraph, Batch, torch.Tensor]:
        size = batch.tokens.size(0)
        if size not in self._graphs:
            inputs = Batch(*(getattr(batch, each.name).clone() for each in fields(Batch)))
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # a first call looks rows up and loads code, which a capture cannot
                self._step(inputs)
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = self._step(inputs)
            self._graphs[size] = graph, inputs, result
        return self._graphs[size]


class Engine:
    """Requests in the order that they came, as many at a time as the batch and the cache take."""

    def __init__(
        self, model: Decoder, parts: Parts, pages: int, most_running: int = 64, is_graphed: bool | None = None
    ) -> None:
        self.model, self.cache = model, PagedCache(model, pages)
        self._on_gpu = model.device.type == "cuda"
        self.stepper = Stepper(model, self.cache, parts, self._on_gpu if is_graphed is None else is_graphed)
        self._most_running = most_running
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._changed = threading.Condition()
        self._closed = False
        self.steps = self.tokens = 0

    def submit(self, request: Request) -> Future[list[int]]:
        """Raises ValueError for what could never run. Of a closed engine the result is an EngineClosedError."""
        total = len(request.prompt) + request.most_tokens
        s = self.model.sizes
        if not request.prompt or request.most_tokens < 1:
            given = f"{len(request.prompt)} and {request.most_tokens}"
            raise ValueError(f"a prompt must have a token or more, and most_tokens be 1 or more, got {given}")
        if total > s.positions:
            raise ValueError(f"a prompt and new tokens must be at most {s.positions} together, got {total}")
        if not all(0 <= token < s.vocabulary for token in request.prompt):
            raise ValueError(f"tokens must be 0 to {s.vocabulary - 1}")
        if not (1 <= request.k <= s.vocabulary and 0 < request.p <= 1):
            raise ValueError(f"k must be 1 to {s.vocabulary}, p above 0 up to 1, got {request.k} and {request.p}")
        if -(-total // PAGE) > self.cache.keys.size(1) - 1:
            raise ValueError(f"{total} tokens do not fit the cache")
        if not 0 <= request.seed < 1 << 63:
            raise ValueError(f"seed must be 0 to 2**63 - 1, got {request.seed}")
        request.random.manual_seed(request.seed)
        with self._changed:
            if self._closed:
                request.done.set_exception(EngineClosedError(_CLOSED))
            else:
                self._waiting.append(request)
                self._changed.notify()
        return request.done

    @property
    def running(self) -> int:
        """How many sequences are in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many requests wait for pages or a place in the batch."""
        return len(self._waiting)

    def step(self) -> bool:
        """Advance every running sequence by a token. Returns False where there is none."""
        self._drop_cancelled()
        self._admit()
        if not self._running:
            return False
        tokens = self.stepper(self._batch()).tolist()
        for request, token in zip(self._running, tokens, strict=False):
            request.position += 1
            if request.position >= len(request.prompt):
                request.made.append(token)
                self.tokens += 1
        self.steps += 1
        for request in [r for r in self._running if len(r.made) >= r.most_tokens]:
            self._running.remove(request)
            self.cache.give_back(request.pages)
            if request.done.set_running_or_notify_cancel():  # False: it was cancelled, and takes no result
                request.done.set_result(request.made)
        return True

    def run(self) -> None:
        """Step until closed; for a thread of its own. An exception of a step is set on all requests, and the end on
        those that are left, since somebody waits for each."""
        while not self._closed:
            try:
                if not self.step():
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed or self._waiting, timeout=1.0)
            except Exception as error:
                self._fail(error)
        self._fail(EngineClosedError(_CLOSED))

    def close(self) -> None:
        """Let :meth:`run` end after its step. Requests that are not done fail, and there are no further ones."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _drop_cancelled(self) -> None:
        """Nobody waits for what was cancelled: its pages and its place are for others."""
        with self._changed:
            for request in [r for r in self._waiting if r.done.cancelled()]:
                self._waiting.remove(request)
            for request in [r for r in self._running if r.done.cancelled()]:
                self._running.remove(request)
                self.cache.give_back(request.pages)

    def _admit(self) -> None:
        """Each sequence takes the pages of all its tokens at once, so that none has to stop midway."""
        with self._changed:
            while self._waiting and len(self._running) < self._most_running:
                total = len(self._waiting[0].prompt) + self._waiting[0].most_tokens
                if -(-total // PAGE) > self.cache.free:
                    return
                request = self._waiting.popleft()
                request.pages = self.cache.take(total)
                self._running.append(request)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            failed = [*self._running, *self._waiting]
            for request in self._running:
                self.cache.give_back(request.pages)
            self._running.clear()
            self._waiting.clear()
        for request in failed:
            if request.done.set_running_or_notify_cancel():
                request.done.set_exception(error)

    def _batch(self) -> Batch:
        running = self._running
        size = 1 << (len(running) - 1).bit_length()
        filler = size - len(running)
        width = self.cache.pages_of_a_sequence

        def tensor(values: Sequence[float], fill: float, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor([*values, *itertools.repeat(fill, filler)], dtype=dtype, device=self.model.device)

        table = [[*r.pages, *itertools.repeat(0, width - len(r.pages))] for r in running]
        table += [[0] * width for _ in range(filler)]
        return Batch(
            tokens=tensor([r.token for r in running], 0, torch.int64),
            positions=tensor([r.position for r in running], 0, torch.int64),
            table=torch.tensor(table, dtype=torch.int32, device=self.model.device),
            lengths=tensor([r.position + 1 for r in running], 1, torch.int32),
            slots=tensor([PagedCache.slot(r.pages, r.position) for r in running], -1, torch.int64),
            k=tensor([r.k for r in running], 1, torch.int32),
            p=tensor([r.p for r in running], 1.0, torch.float32),
            uniform=tensor([torch.rand((), generator=r.random).item() for r in running], 0.0, torch.float32),
        )
