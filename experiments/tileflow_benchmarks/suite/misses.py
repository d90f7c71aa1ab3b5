"""The cells of a run whose default misses its target, as the table of a page: docs/measurements/performance.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .ratios import share
from .results import DEFAULT, OURS, CellResult, SuiteRun

OF_THE_BANDWIDTH = 0.9


def misses(run: SuiteRun) -> Iterator[CellResult]:
    """Yield the cells whose default has no time, leaves a tenth of the memory's bandwidth, or is slower than a peer by
    more than the two times' intervals."""
    for result in run.results:
        part = share(result, DEFAULT) if result.cell.bound == "memory" else None
        is_short = part is not None and part < OF_THE_BANDWIDTH
        if result.us(DEFAULT) is None or is_short or _is_behind(result, fastest(result)):
            yield result


def fastest(result: CellResult) -> str | None:
    """Return the name of the contender that is not ours with the least time; None where none has one."""
    peers = {name: us for name in result.timings if name not in (OURS, DEFAULT) and (us := result.us(name))}
    return min(peers, key=lambda name: peers[name], default=None)


def _is_behind(result: CellResult, peer: str | None) -> bool:
    ours, theirs = result.us(DEFAULT), result.us(peer) if peer else None
    if ours is None or peer is None or theirs is None:
        return False
    noise = sum(result.timings[name].ci95_us or 0.0 for name in (DEFAULT, peer))
    return ours - theirs > noise


def to_markdown(run: SuiteRun) -> str:
    """Return where the figures are from, and the table."""
    header, devices = run.header, sorted({r.device for r in run.results if r.device})
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    found = list(misses(run))
    lines = [
        f"{len(found)} of {len(run.results)} cells, {', '.join(devices)}, {header['date']}, {versions}: "
        f"`{header['command']}`",
        "",
        "| cell | default, us | of the roofline | the fastest other | its us | of its speed |",
        "|---|---:|---:|---|---:|---:|",
        *(_row(result) for result in found),
    ]
    return "\n".join(lines) + "\n"


def _row(result: CellResult) -> str:
    peer, ours, part = fastest(result), result.us(DEFAULT), share(result, DEFAULT)
    theirs = result.us(peer) if peer else None
    cells: Sequence[str] = (
        result.cell.title,
        f"{ours:.1f}" if ours else "failed",
        f"{part:.0%}" if part else "",
        peer or "",
        f"{theirs:.1f}" if theirs else "",
        f"{theirs / ours:.2f}x" if theirs and ours else "",
    )
    return f"| {' | '.join(cells)} |"
