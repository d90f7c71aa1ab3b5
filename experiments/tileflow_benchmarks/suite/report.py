"""The report of a benchmark run as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .ratios import geomean, groups, mean, over, share
from .results import DEFAULT, EAGER, OURS, Ceilings, CellResult, SuiteRun, Timing, Tuned

ORDER = (OURS, DEFAULT, EAGER, "torch.compile", "helion", "liger", "quack", "triton")
PEERS = ORDER[2:]
BEGIN, END = "<!-- begin: written by scripts/bench -->", "<!-- end: written by scripts/bench -->"


def to_markdown(
    run: SuiteRun, plots: Sequence[str] = (), searches: Mapping[str, Mapping[str, Tuned]] | None = None
) -> str:
    """Return the report.

    ``plots``: paths of pictures, relative to the page. ``searches``: peer -> cell's title -> its own search.
    """
    parts = [
        _facts(run),
        _means(run.results),
        [f"![{path}]({path})" for path in plots],
        _times(run.results),
        _over(run.results),
        _failures(run),
        _notes(run.results),
        _dispatch(run),
        _searches(searches or {}),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def into(page: str, figures: str) -> str:
    """Return ``page`` with the text between its two marks replaced."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the page must hold {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{figures}\n{END}{after}"


def _facts(run: SuiteRun) -> list[str]:
    header = run.header
    devices = sorted({r.device for r in run.results if r.device}) or ["no device"]
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    lines = [f"`{header['command']}`, {header['date']}, {', '.join(devices)}, driver {header['driver']}, {versions}."]
    if header["absent"]:
        lines.append(f"Not importable there, so not timed: {', '.join(header['absent'])}.")
    if header["is_dry"]:
        lines = ["**A dry run on the CPU: no figure on this page means anything.**", "", *lines]
    limits = sorted({(r.ceilings.copy_gbps, r.ceilings.matmul_tflops) for r in run.results if r.ceilings})
    if limits:
        told = "; ".join(_ceilings(Ceilings(*limit)) for limit in limits)
        lines += ["", f"Ceilings in the same run, of each process: {told}."]
    return lines


def _ceilings(limits: Ceilings) -> str:
    return f"copy {limits.copy_gbps:.0f} GB/s and bf16 product {limits.matmul_tflops:.0f} TFLOP/s"


def _means(results: Sequence[CellResult]) -> list[str]:
    """Return each peer's row: the mean, over how many kernels, and the kernel where ours does worst."""
    subsets = groups(results)
    lines = ["| geometric mean of tileflow over | " + " | ".join(subsets) + " |", "|---|" + "---|" * len(subsets)]
    for peer in PEERS:
        means = [mean(subset, peer) for subset in subsets.values()]
        if any(means):
            cells = [f"{m.ratio:.2f}x ({m.kernels}; least {m.least_name} {m.least:.2f}x)" if m else "-" for m in means]
            lines.append(f"| {peer} | {' | '.join(cells)} |")
    kept = [_kept(subset) for subset in subsets.values()]
    lines.append(f"| the default's share of the tuned speed | {' | '.join(kept)} |")
    return lines


def _kept(results: Sequence[CellResult]) -> str:
    kernels: dict[str, list[float]] = {}
    for result in results:
        tuned, default = result.us(OURS), result.us(DEFAULT)
        if tuned and default:
            kernels.setdefault(result.cell.name, []).append(tuned / default)
    return f"{geomean([geomean(v) for v in kernels.values()]):.2f} ({len(kernels)})" if kernels else "-"


def _times(results: Sequence[CellResult]) -> list[str]:
    names = _present(results)
    lines = ["Microseconds of device time with a cold L2: the median and half of its 95 % interval.", ""]
    lines += ["| cell | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    return lines + [f"| {r.cell.title} | {' | '.join(_time(r.timings.get(n)) for n in names)} |" for r in results]


def _time(timing: Timing | None) -> str:
    if timing is None:
        return ""
    if timing.error or timing.median_us is None or timing.ci95_us is None:
        return "failed"
    return f"{timing.median_us:.1f} ± {timing.ci95_us:.1f}"


def _over(results: Sequence[CellResult]) -> list[str]:
    names = [name for name in PEERS if name in _present(results)]
    lines = ["What ours reaches, and how many times as fast as each it is.", ""]
    lines += [
        "| cell | rate | of the roofline | " + " | ".join(names) + " | default's share of the tuned speed |",
        "|---|" + "---:|" * (len(names) + 3),
    ]
    for r in results:
        tuned, default, part = r.us(OURS), r.us(DEFAULT), share(r, OURS)
        ratios = [f"{ratio:.2f}x" if ratio else "" for ratio in (over(r, name) for name in names)]
        kept = f"{tuned / default:.2f}" if tuned and default else ""
        lines.append(
            f"| {r.cell.title} | {_rate(r)} | {f'{part:.0%}' if part else ''} | {' | '.join(ratios)} | {kept} |"
        )
    return lines


def _rate(result: CellResult) -> str:
    us = result.us(OURS)
    if not us:
        return ""
    if result.cell.bound == "matrix":
        return f"{result.flops / us / 1e6:.1f} TFLOP/s"
    return f"{result.bytes / us / 1e3:.0f} GB/s"


def _failures(run: SuiteRun) -> list[str]:
    failed = [f"- {r.cell.title}, {n}: {t.error}" for r in run.results for n, t in r.timings.items() if t.error]
    failed += [f"- {cell.title}: not measured, the time was over" for cell in run.unmeasured]
    if not failed:
        return ["Every contender of every cell was right."]
    return [
        "Failed, wrong or not measured (ours enters the means as 1.0x of eager; a peer's cell is left out):",
        "",
        *failed,
    ]


def _notes(results: Sequence[CellResult]) -> list[str]:
    """Return each note once, with the cells that it is about."""
    about: dict[tuple[str, str], list[str]] = {}
    for r in results:
        for name, timing in r.timings.items():
            if timing.note:
                about.setdefault((name, timing.note), []).append(r.cell.title)
    lines = [f"- {name}: {note} ({', '.join(cells)})" for (name, note), cells in about.items()]
    compiling = [t.setup_s for r in results if (t := r.timings.get("torch.compile")) is not None and t.setup_s]
    if compiling:
        lines.append(
            f"- torch.compile took {sum(compiling):.0f} s to compile {len(compiling)} cells, not counted above"
        )
    return ["Notes:", "", *lines] if lines else []


def _dispatch(run: SuiteRun) -> list[str]:
    if not run.dispatch:
        return []
    names = list(dict.fromkeys(name for row in run.dispatch.values() for name in row))
    lines = ["Host time of a warm call of a two-input kernel, us (torch.compile and Helion with dynamic shapes):", ""]
    lines += ["| shapes in turn | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for shapes, row in run.dispatch.items():
        told = [f"{v:.1f}" if isinstance(v, float) else str(v) for v in (row.get(name, "") for name in names)]
        lines.append(f"| {shapes} | {' | '.join(told)} |")
    return lines


def _searches(searches: Mapping[str, Mapping[str, Tuned]]) -> list[str]:
    lines: list[str] = []
    for peer, cells in searches.items():
        lines += [
            f"{peer}'s own search, before this run:",
            "",
            "| cell | effort | seconds | configs tried | found |",
            "|---|---|---:|---:|---|",
        ]
        lines += [
            f"| {title} | {t.effort} | {t.seconds:.0f} | {t.tried} | {t.error or 'yes'} |" for title, t in cells.items()
        ]
    return lines


def _present(results: Sequence[CellResult]) -> list[str]:
    return [name for name in ORDER if any(name in r.timings for r in results)]
