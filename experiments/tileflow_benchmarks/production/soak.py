"""A soak test: eight threads on four streams call kernels on every GPU while everything around them changes.

Meanwhile bundles are loaded, switched and unloaded, graphs are captured and replayed, autograd's threads launch and one
thread interprets. Nothing may fail and no result may be wrong. A graph lives under the lock that unloading takes:
unloading frees the machine code that its replay would run.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import statistics
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import tileflow
from tileflow import runtime
from tileflow.api import load_kernel
from tileflow.runtime import load_bundle, snapshots, write_bundle
from tileflow.runtime.binaries import MODULES
from tileflow.runtime.bundle import variants_of
from tileflow.runtime.observe import LOOKUP_EVENTS

from .hiding import hidden
from .memory import memory, resident_bytes
from .summary import Verdict, device_name, write
from .warm_calls import ADD, static_row
from .work import CheckedKernel, InputPool, checked_kernels, disagreement, gradient

THREADS, STREAMS, REPLAYS = 8, 4, 3
CAPTURES, GRADIENTS = 0.02, 0.08  # the shares of a thread's turns
FLUSH = 32  # comparisons before their thread waits for the results
PAUSE_S = (0.05, 0.2)  # between two changes of what is loaded
GRADIENT = "examples.softmax:softmax_bwd"
MOST_ERRORS = 200  # that end a soak


@dataclass(slots=True)
class Tally:
    """The counts of all threads. Each counter has one writer, or is an atomic count."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)
    rss: list[tuple[float, int]] = field(default_factory=list)
    memory: list[dict[str, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    def add(self, counts: Counter[str]) -> None:
        """Add one thread's counts."""
        with self.lock:
            self.counts += counts

    def failed(self, where: str, error: BaseException) -> None:
        """Count an exception by place and kind, keep the first traceback of each kind, and stop after many."""
        with self.lock:
            kind = f"{where}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
            self.errors[kind] += 1
            if self.errors[kind] == 1 and len(self.first) < 20:
                self.first.append("".join(traceback.format_exception(error))[-3000:])
            if self.errors.total() >= MOST_ERRORS:
                self.stopping.set()

    def was_wrong(self, what: str, problem: str) -> None:
        """Count a wrong result, and keep the problem of the first three of each kernel."""
        with self.lock:
            self.wrong[what] += 1
            if self.wrong[what] <= 3:
                self.first.append(f"wrong: {what} {problem}")


class Gpus:
    """Streams, captures and changes of the current device."""

    def __init__(self) -> None:
        self.devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]

    def streams(self) -> dict[str, list[Any]]:
        """Return the streams of each device that the threads share."""
        make: Any = torch.cuda.Stream
        return {d: [make(d) for _ in range(STREAMS)] for d in self.devices}

    def apart(self) -> dict[str, Any]:
        """Return a stream for each device that no thread captures on: torch hands out its 32 of a priority in turn."""
        make: Any = torch.cuda.Stream
        return {d: make(d, priority=-1) for d in self.devices}

    @contextlib.contextmanager
    def on(self, device: str, stream: Any) -> Iterator[None]:
        """Make the device and the stream current inside the block."""
        with torch.cuda.device(device), torch.cuda.stream(stream):
            yield

    def captured(self, call: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor, Callable[[], None]]:
        """Capture a call on the current stream. Returns (replay, the result's memory, release); other threads
        continue."""
        torch.cuda.current_stream().synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            out = call()
        finally:
            graph.capture_end()
        return graph.replay, out, graph.reset

    def synchronize(self) -> None:
        """Wait for every device."""
        for device in self.devices:
            torch.cuda.synchronize(device)


class NoGpus(Gpus):
    """The CPU, for a dry run: nothing is asynchronous, and a replay is a call."""

    def __init__(self) -> None:
        self.devices = ["cpu"]

    def streams(self) -> dict[str, list[Any]]:
        """Return no stream for each of a device's places."""
        return {"cpu": [None] * STREAMS}

    def apart(self) -> dict[str, Any]:
        """Return no stream for the CPU."""
        return {"cpu": None}

    @contextlib.contextmanager
    def on(self, device: str, stream: Any) -> Iterator[None]:
        """Do nothing: the CPU has no streams."""
        yield

    def captured(self, call: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor, Callable[[], None]]:
        """Call once, and return a replay that calls again and copies into the first result."""
        out = call()

        def replay() -> None:
            out.copy_(call())

        return replay, out, lambda: None

    def synchronize(self) -> None:
        """Do nothing: calls have ended when they return."""


class Checks:
    """Comparisons whose results are still being computed, by stream: one wait serves many of them."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._waiting: dict[Any, list[tuple[str, str, torch.Tensor]]] = {}

    def add(self, place: Any, what: str, problem: str, flag: torch.Tensor) -> None:
        """Add a comparison's result flag, and wait for the place's flags once there are :data:`FLUSH`."""
        waiting = self._waiting.setdefault(place, [])
        waiting.append((what, problem, flag))
        if len(waiting) >= FLUSH:
            self.flush(place)

    def flush(self, place: Any) -> None:
        """Wait for the current stream's comparisons; the stream must be that of ``place``."""
        waiting = self._waiting.pop(place, [])
        if not waiting:
            return
        for (what, problem, _), is_wrong in zip(waiting, torch.stack([f for *_, f in waiting]).tolist(), strict=True):
            if is_wrong:
                self._tally.was_wrong(what, problem)

    def places(self) -> Sequence[Any]:
        """Return the places with comparisons that nobody has waited for."""
        return [*self._waiting]


class Soak:
    """The state that the threads share."""

    def __init__(
        self, bundle: Path, gpus: Gpus, as_device: str | None, work: Sequence[CheckedKernel], elements: int
    ) -> None:
        self.gpus, self.tally, self.work = gpus, Tally(), work
        self.pools = {device: InputPool(device, elements) for device in gpus.devices}
        self.graphs = threading.Lock()  # one capture at a time, and no graph while machine code is freed
        self.main, self.second = bundle / "main", bundle / "second"
        self._as_device = as_device
        self.plans = itertools.count()
        for kernel in {load_kernel(name) for checked in work for name in checked.kernels}:
            kernel.plan = _counted(kernel.plan, self.plans)  # type: ignore[method-assign]

    def load(self, path: Path, rng: random.Random) -> None:
        """Load a bundle, checked at once or lazily at random."""
        runtime.load(path, as_device=self._as_device, on_miss="default", check=rng.choice(("all", "lazy")))

    # ---- threads ------------------------------------------------------------------------------------------------

    def call_kernels(self, seed: int) -> None:
        """Run a thread of calls, captures and gradients."""
        rng, counts, checks = random.Random(seed), Counter[str](), Checks(self.tally)
        streams = self.gpus.streams()
        while not self.tally.stopping.is_set():
            device, number = rng.choice(self.gpus.devices), rng.randrange(STREAMS)
            place, turn = (device, number), rng.random()
            with self.gpus.on(device, streams[device][number]), self._caught("call"):
                if turn < CAPTURES:
                    self._capture(device, rng, counts)
                elif turn < CAPTURES + GRADIENTS:
                    self._differentiate(device, place, rng, counts, checks)
                else:
                    self._call(device, place, rng, counts, checks)
            if sum(counts.values()) > 200:
                self.tally.add(counts)
                counts.clear()
        for device, number in checks.places():
            with self.gpus.on(device, streams[device][number]), self._caught("check"):
                checks.flush((device, number))
        self.tally.add(counts)

    def change_bundles(self, seed: int) -> None:
        """Reload, switch snapshots, load and unload a second bundle; what remains loaded serves the calls."""
        rng, counts = random.Random(seed), Counter[str]()
        digests = itertools.cycle([snapshot.digest for snapshot in snapshots.list_snapshots(self.main)])
        while not self.tally.stopping.wait(rng.uniform(*PAUSE_S)):
            with self._caught("reload"):
                match rng.choice(("reload", "switch", "second")):
                    case "reload":
                        self.load(self.main, rng)
                    case "switch":
                        snapshots.switch(self.main, next(digests))
                        self.load(self.main, rng)
                        counts["switches"] += 1
                    case _:
                        self.load(self.second, rng)
                        time.sleep(rng.uniform(*PAUSE_S))
                        with self.graphs:
                            runtime.unload(self.second)
                        counts["unloads"] += 1
                counts["reloads"] += 1
        self.tally.add(counts)

    def interpret(self, seed: int) -> None:
        """Run a thread that interprets a kernel as Python, which must not affect other threads."""
        rng, counts = random.Random(seed), Counter[str]()
        kernel = load_kernel("examples.softmax:softmax")
        streams = self.gpus.apart()
        while not self.tally.stopping.wait(0.05):
            device = rng.choice(self.gpus.devices)
            with self._caught("interpret"), self.gpus.on(device, streams[device]), tileflow.interpret():
                x = self.pools[device].cut(rng, (rng.randint(1, 40), rng.randint(1, 200)), torch.bfloat16)
                if bool(disagreement(kernel(x), torch.softmax(x, dim=1), 1.6e-2)):
                    self.tally.was_wrong("softmax, interpreted", str(tuple(x.shape)))
                counts["interpreted"] += 1
        self.tally.add(counts)

    # ---- turns --------------------------------------------------------------------------------------------------

    def _call(self, device: str, place: Any, rng: random.Random, counts: Counter[str], checks: Checks) -> None:
        checked = rng.choice(self.work)
        shape = checked.shape(rng)
        inputs = checked.inputs(self.pools[device], rng, shape)
        counts["calls"] += 1
        got = checked.call(*inputs)
        checks.add(
            place,
            checked.name,
            f"{shape} on {device}",
            disagreement(got, checked.reference(*inputs), checked.tolerance),
        )

    def _differentiate(self, device: str, place: Any, rng: random.Random, counts: Counter[str], checks: Checks) -> None:
        from examples import training

        shape = (rng.randint(1, 300), rng.randint(2, 1500))
        x, grad = (self.pools[device].cut(rng, shape, torch.bfloat16) for _ in range(2))
        counts["calls"] += 2
        counts["gradients"] += 1
        got = gradient(training.softmax, x, grad)
        if device == "cpu":  # the stand-in has not computed it
            return
        expected = gradient(lambda leaf: torch.softmax(leaf.float(), dim=1).bfloat16(), x, grad)
        checks.add(place, "gradient of softmax", f"{shape} on {device}", disagreement(got, expected, 3e-2))

    def _capture(self, device: str, rng: random.Random, counts: Counter[str]) -> None:
        """Capture a call, which may be the first of its shape, and replay it with other numbers."""
        checked = rng.choice(self.work)
        shape = checked.shape(rng)
        pool, checks = self.pools[device], Checks(self.tally)
        with self.graphs:
            buffers = [t.clone() for t in checked.inputs(pool, rng, shape)]
            counts["calls"] += 1
            replay, out, give_up = self.gpus.captured(lambda: checked.call(*buffers))
            counts["captures"] += 1
            for _ in range(REPLAYS):
                for buffer, fresh in zip(buffers, checked.inputs(pool, rng, shape), strict=True):
                    buffer.copy_(fresh)
                replay()
                counts["replays"] += 1
                flag = disagreement(out, checked.reference(*buffers), checked.tolerance)
                checks.add(None, f"{checked.name}, replayed", f"{shape} on {device}", flag)
            checks.flush(None)
            give_up()

    @contextlib.contextmanager
    def _caught(self, where: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a soak records every exception
            self.tally.failed(where, error)


def _counted(plan: Any, plans: Iterator[int]) -> Any:
    def counted(*args: Any) -> Any:
        next(plans)
        return plan(*args)

    return counted


# ---- a run --------------------------------------------------------------------------------------------------------


def soak(
    bundle: Path,
    out: Path,
    seconds: float,
    device_class: str = "",
    is_dry: bool = False,
    work: Sequence[CheckedKernel] | None = None,
) -> bool:
    """Run for ``seconds`` and write ``out``. Returns False where anything failed. ``bundle`` is copied, not changed."""
    logging.getLogger("tileflow").setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        stack.enter_context(hidden())  # a call without a row shows, instead of compiling for seconds
        if is_dry:
            from .stand_in import without_gpu

            stack.enter_context(without_gpu())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tileflow-soak-")))
        made = _dry(checked_kernels()) if is_dry and work is None else (work or checked_kernels())
        prepare(bundle, folder, {GRADIENT, *(name for checked in made for name in checked.kernels)})
        elements = 1 << (20 if is_dry else 24)
        running = Soak(folder, NoGpus() if is_dry else Gpus(), device_class or None, made, elements)
        running.load(running.main, random.Random(0))
        running.gpus.synchronize()
        elapsed = _run(running, seconds)
        found = _report(running, elapsed)
        return write(out, found, verdicts(found))


def prepare(bundle: Path, folder: Path, kernels: Collection[str]) -> None:
    """Make two bundles of these kernels in ``folder``.

    ``main`` has two snapshots, of which one lacks a tuned row. ``second`` has tables of its own, since loading the same
    table from elsewhere would replace the first.
    """
    whole = load_bundle(bundle)
    tables = [table for table in whole.tables if table.kernel.ref in kernels]
    binaries = [whole.binary(0, variant) for variant in variants_of(tables)]
    write_bundle(tables, binaries, folder / "main")
    snapshots.withdraw(folder / "main", ADD, problem=static_row(bundle)[0].problem.key)
    others = [replace(table, parent_table_id=table.table_id) for table in tables]
    write_bundle(others, binaries, folder / "second")


def _run(running: Soak, seconds: float) -> float:
    """Start the threads, watch them, and end them. Returns the seconds that they ran."""
    work = [running.call_kernels] * THREADS + [running.change_bundles, running.interpret]
    threads = [threading.Thread(target=run, args=(seed,), daemon=True) for seed, run in enumerate(work)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    tally, said = running.tally, 0.0
    while (elapsed := time.monotonic() - started) < seconds and not tally.stopping.wait(0.5):
        tally.rss.append((elapsed, resident_bytes()))
        if elapsed > said + 20:
            said = elapsed
            tally.memory.append({"s": elapsed, **memory(), **_caches()})
            print(
                f"{elapsed:.0f} s: {dict(tally.counts)}, {tally.errors.total()} errors, {tally.wrong.total()} wrong, "
                f"{tally.rss[-1][1] / 1e6:.0f} MB, {len(MODULES)} modules",
                flush=True,
            )
    tally.stopping.set()
    for thread in threads:
        thread.join(timeout=30)
        if thread.is_alive():
            tally.failed("end", TimeoutError("a thread hangs"))
    return time.monotonic() - started


def _report(running: Soak, elapsed: float) -> dict[str, Any]:
    tally = running.tally
    steps = {step: n for step, n in runtime.stats().items() if n}
    return {
        "device": device_name(),
        "devices": running.gpus.devices,
        "seconds": elapsed,
        "threads": THREADS,
        "streams": STREAMS,
        "counts": dict(tally.counts),
        "first_calls": next(running.plans),
        "errors": dict(tally.errors),
        "wrong": dict(tally.wrong),
        "first_messages": tally.first,
        "steps": steps,
        "counted": sum(n for step, n in steps.items() if step not in LOOKUP_EVENTS),
        "rss_mb_per_minute": growth_per_minute(tally.rss) / 1e6,
        "rss_mb": resident_bytes() / 1e6,
        "memory": tally.memory,
        "modules": len(MODULES),
        "module_loads": MODULES.loads,
        "misses": [str(miss) for miss in runtime.misses()[:20]],
    }


def growth_per_minute(rss: Sequence[tuple[float, int]]) -> float:
    """Return the slope of a line through the second half of the samples (seconds, bytes), in bytes per minute.

    It is 0 of too few samples.
    """
    late = rss[len(rss) // 2 :]
    if len(late) < 3:
        return 0.0
    return statistics.linear_regression([t for t, _ in late], [b for _, b in late]).slope * 60


def verdicts(found: dict[str, Any]) -> list[Verdict]:
    """Return the lines of the table: what a soak did, its errors and wrong results, and the memory it kept."""
    counts, errors, wrong = found["counts"], found["errors"], found["wrong"]
    done = [
        name for name in ("calls", "captures", "replays", "gradients", "reloads", "interpreted") if counts.get(name)
    ]
    lines = [
        Verdict(
            f"soak: {found['threads']} threads x {found['streams']} streams",
            f"{found['seconds']:.0f} s on {len(found['devices'])} devices: {found['device']}",
        ),
        Verdict(
            "all that a soak does took place",
            ", ".join(f"{counts[name]} {name}" for name in done),
            "all six",
            len(done) == 6,
        ),
        Verdict(
            "first calls, unloads, switches",
            f"{found['first_calls']}, {counts.get('unloads', 0)}, {counts.get('switches', 0)}",
        ),
        Verdict("errors", str(sum(errors.values())), "0", not errors),
        Verdict("wrong results", str(sum(wrong.values())), "0", not wrong),
        Verdict("calls made, counted by the runtime", f"{counts.get('calls', 0)}, {found['counted']}"),
        Verdict(
            "resident memory, MB a minute in the second half",
            f"{found['rss_mb_per_minute']:.1f} ({found['rss_mb']:.0f} MB)",
        ),
        Verdict("modules in use at the end, loads", f"{found['modules']}, {found['module_loads']}"),
        Verdict(
            "steps",
            ", ".join(f"{step} {n}" for step, n in found["steps"].items()),
            "rows",
            not {"reference", "compiled", "miss"} & found["steps"].keys(),
        ),
    ]
    return lines + [Verdict(kind, str(n), "", False) for kind, n in {**errors, **wrong}.items()]


def _dry(work: Sequence[CheckedKernel]) -> list[CheckedKernel]:
    """Return kernels that go through the runtime and give the reference's result, for a machine without a GPU."""

    def through(checked: CheckedKernel) -> Callable[..., torch.Tensor]:
        def call(*inputs: torch.Tensor) -> torch.Tensor:
            checked.call(*inputs)
            return checked.reference(*inputs)

        return call

    return [replace(checked, call=through(checked)) for checked in work]


def _caches() -> dict[str, float]:
    """Return the sizes of the runtime's caches, by their gauges."""
    lines = [line for line in runtime.openmetrics().splitlines() if not line.startswith("#") and "{" not in line]
    return {name: float(value) for name, value in (line.split() for line in lines)}
