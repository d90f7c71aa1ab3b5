"""Builds the bundle that the other parts call from: the gallery's rows, and those of the timed and soaked kernels."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from tileflow_experiments.offline import tables
from tileflow_experiments.portable import BuiltRow, Failure, Order, build_rows

from tileflow.errors import BuildError
from tileflow.runtime.snapshots import write_bundle

from .gallery import GALLERY, Shown
from .warm_calls import ADD, ADD_SIZE
from .work import TWICE


def orders(device_class: str, gallery: Iterable[Shown] = GALLERY) -> list[Order]:
    """Return the orders of every row of the bundle."""
    return [
        *(order for shown in gallery for order in shown.orders(device_class)),
        Order(ADD, (("n", ADD_SIZE), ("dtype", "float32")), device_class, "static"),
        Order(TWICE, (("n", 1 << 16),), device_class),
    ]


def build(bundle: Path, device_class: str, processes: int = 0, gallery: Iterable[Shown] = GALLERY) -> bool:
    """Write the bundle with every row that can be built. Returns False where one cannot.

    ``build.json`` beside it lists both. Raises BuildError where no row can be built.
    """
    started = time.perf_counter()
    rows = build_rows(orders(device_class, gallery), processes=processes)
    built = [row for row in rows if isinstance(row, BuiltRow)]
    failed = {row.order.title: str(row.error) for row in rows if isinstance(row, Failure)}
    if not built:
        raise BuildError("a bundle must have rows", got=f"{len(failed)} that do not build", hint=str(failed)[:500])
    write_bundle(tables(built), [binary for row in built for binary in row.binaries], bundle)
    seconds = time.perf_counter() - started
    sizes = {row.order.title: [len(row.binaries), sum(len(b.code) for b in row.binaries)] for row in built}
    report = {"device_class": device_class, "seconds": seconds, "failed": failed, "binaries_and_bytes": sizes}
    bundle.with_name("build.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for title, error in failed.items():
        print(f"cannot be built: {title}: {error}", flush=True)
    print(f"{len(built)} of {len(rows)} rows in {seconds:.0f} s", flush=True)
    return not failed
