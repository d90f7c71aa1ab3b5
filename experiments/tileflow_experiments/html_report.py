"""OUT/report.html: what a sweep found, as one page that needs no network and reads on a phone.

Everything comes from the journal. Charts are plotly's, whose script is in the file; one is drawn when its section is
opened.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from . import charts
from .journal import Folded
from .records import TrialRecord
from .report import PHASES
from .study import leaders
from .tables import Winner, Winners
from .tuning_task import TuningTask

_SIDE_BY_SIDE = 5  # configs
_MESSAGE = 300  # characters of a failure

_STYLE = """
:root { color-scheme: light dark; --muted: #777; --line: #8884; --good: #2ca25f; --bad: #c0504d; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
.muted { color: var(--muted); } .wide { overflow-x: auto; } .chart { width: 100%; }
table { border-collapse: collapse; } th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th { text-align: left; font-weight: 600; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
td.differs { font-weight: 600; } summary { cursor: pointer; padding: .4rem 0; font-weight: 600; }
code { font-size: .9em; overflow-wrap: anywhere; } .good { color: var(--good); } .bad { color: var(--bad); }
"""

# A chart has no width before its section is open.
_SCRIPT = """
const draw = where => where.querySelectorAll('.chart:not([data-drawn])').forEach(chart => {
  chart.dataset.drawn = 'yes';
  const figure = JSON.parse(chart.querySelector('script').textContent);
  Plotly.newPlot(chart, figure.data, figure.layout, {responsive: true, displayModeBar: false});
});
document.querySelectorAll('details').forEach(part => {
  if (part.open) draw(part);
  part.addEventListener('toggle', () => part.open && draw(part));
});
document.querySelectorAll('section').forEach(draw);
"""


def render(folded: Folded, tasks: Sequence[TuningTask], won: Winners) -> str:
    """Return the page. ``won``: each study's winner. Modelled times are marked as such, and text of the journal is
    escaped."""
    from plotly.offline import get_plotlyjs

    name = escape(str(folded.header["spec"]["name"]))
    begun = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(folded.header["created_at"]))
    body = [
        f"<h1>Sweep {name}</h1>",
        f"<p class=muted>{escape(str(folded.header['sweep_id']))}, begun {begun}, "
        f"tileflow {escape(str(folded.header['tileflow']))}. Times are microseconds of a whole call.</p>",
        "<h2>Default against best</h2>",
        _summary(folded, tasks, won),
        "<h2>Searches</h2>",
        *(_study(folded, task, won[task.key], n == 0) for n, task in enumerate(tasks)),
        "<h2>Where the time went</h2>",
        f"<section>{_chart(charts.phases(_seconds(folded)))}</section>",
        "<h2>Machines</h2>",
        _machines(folded),
    ]
    return (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>{name}</title>"
        f'<meta name=viewport content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join(body)
        + f"\n<script>{get_plotlyjs()}</script>\n<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def _summary(folded: Folded, tasks: Sequence[TuningTask], won: Winners) -> str:
    rows = []
    for task in tasks:
        best, key = won[task.key], task.key
        trials = sum(r.completed for r in folded.trials.get(key, ()))
        cells = [escape(key.kernel), escape(" ".join(f"{n}={v}" for n, v in key.problem)), escape(key.device_class)]
        numbers = [str(trials), *_gain(best)]
        rows.append([*cells, *numbers])
    head = ("kernel", "problem", "device", "trials", "default", "best", "speed-up", "of the roofline", "how")
    return _table(head, rows, numeric=range(3, 8))


def _gain(best: Winner | None) -> list[str]:
    if best is None:
        return ["", "", "", "", "<span class=bad>no config works</span>"]
    default, gain = "", ""
    if best.default_us is not None:
        ratio = best.default_us / best.time_us
        default, gain = f"{best.default_us:.2f}", f"<span class={'good' if ratio > 1 else 'muted'}>{ratio:.2f}x</span>"
    build = best.record.result.build
    roof = f"{build.roofline_us / best.time_us:.0%}" if build is not None and build.roofline_us else ""
    return [default, f"{best.time_us:.2f}", gain, roof, "measured" if best.record.measured else "modelled"]


def _study(folded: Folded, task: TuningTask, best: Winner | None, is_open: bool) -> str:
    records = folded.trials.get(task.key, [])
    default = next((r for r in records if r.config == task.default and r.completed), None)
    parts = [
        "<h3>Convergence</h3>",
        _chart(charts.convergence(records, default) if records else None),
        "<h3>Roofline</h3>",
        _chart(charts.roofline(records, best, default)),
        "<h3>How much each knob matters</h3>",
        _chart(charts.importance(records)),
        "<h3>The best configs</h3>",
        _side_by_side(records, task),
        "<h3>Failures</h3>",
        _failures(records),
    ]
    title = escape(task.key.title)
    return f"<details{' open' if is_open else ''}><summary>{title}</summary>{''.join(parts)}</details>"


def _side_by_side(records: Sequence[TrialRecord], task: TuningTask) -> str:
    """Show the fastest configs and the default, a column each; what differs from the first is highlighted."""
    best = leaders(r for r in records if r.completed)[:_SIDE_BY_SIDE]
    if not best:
        return _none("no config works")
    configs = [r.config.to_dict() for r in best] + [task.default.to_dict()]
    times = [f"{r.time_us:.2f}{'' if r.measured else ' (modelled)'}" for r in best]
    head = ("knob", *times, "default")
    rows = []
    for name in sorted({name for config in configs for name in config}):
        cells = [escape(str(config.get(name, ""))) for config in configs]
        rows.append([f"<code>{escape(name)}</code>", *(c if c == cells[0] else f"<b>{c}</b>" for c in cells)])
    return _table(head, rows, numeric=range(1, len(head)))


def _failures(records: Sequence[TrialRecord]) -> str:
    causes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], TrialRecord] = {}
    for record in records:
        if record.time_us is None:
            cause = (record.status.value, record.result.outcome.error_class)
            causes[cause] += 1
            first.setdefault(cause, record)
    if not causes:
        return _none("none")
    rows = [
        [
            escape(status),
            escape(kind),
            str(count),
            f"{escape(first[status, kind].result.outcome.error_digest[:_MESSAGE])}<br>"
            f"<code class=muted>{escape(str(first[status, kind].config))}</code>",
        ]
        for (status, kind), count in causes.most_common()
    ]
    return _table(("how it ended", "error", "trials", "the first one's message and config"), rows, numeric=(2,))


def _seconds(folded: Folded) -> dict[str, dict[str, float]]:
    found = {}
    for key, records in folded.attempts.items():
        seconds = [r.seconds for r in records]
        found[key.title] = {name: sum(each[field] for each in seconds) for name, field in PHASES.items()}
    return found


def _machines(folded: Folded) -> str:
    """List the workers that trials ran on: host, card, versions, how many, and the clocks and temperatures seen."""
    groups: dict[tuple[str, str, str, str], list[TrialRecord]] = {}
    for records in folded.trials.values():
        for r in records:
            if (on := r.result.device) is not None:
                versions = ", ".join(f"{name} {version}" for name, version in on.launched_by)
                key = (on.host, r.result.gpu_uuid or "modelled", r.study.device_class, versions)
                groups.setdefault(key, []).append(r)
    if not groups:
        return _none("no trial reached a device")
    rows = []
    for key, records in sorted(groups.items()):
        facts = [r.result.outcome.device for r in records]
        ranges = [_range([f.sm_clock_mhz for f in facts], "MHz"), _range([f.temp_c for f in facts], "°C")]
        again = sum(bool(f.noise_retries) for f in facts)
        rows.append([*map(escape, key), str(len(records)), *ranges, str(again)])
    columns = ("host", "GPU", "class", "versions", "trials", "clock", "temperature", "measured again")
    return _table(columns, rows, numeric=(4, 7))


def _range(numbers: Sequence[float | None], unit: str) -> str:
    known = [n for n in numbers if n is not None]
    return f"{min(known):g} to {max(known):g} {unit}" if known else ""


def _chart(figure: charts.Figure | None) -> str:
    if figure is None:
        return _none("too little was measured")
    text = json.dumps(figure).replace("<", "\\u003c")
    return f'<div class=chart><script type="application/json">{text}</script></div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    return (
        f"<div class=wide><table><tr>{''.join(f'<th>{cell}' for cell in head)}</tr>{''.join(_rows(rows, numeric))}"
        "</table></div>"
    )


def _rows(rows: Sequence[Sequence[str]], numeric: Sequence[int]) -> Iterator[str]:
    for row in rows:
        cells = (f"<td class=n>{cell}" if n in numeric else f"<td>{cell}" for n, cell in enumerate(row))
        yield f"<tr>{''.join(cells)}</tr>"


def _none(text: str) -> str:
    return f"<p class=muted>{text}</p>"
