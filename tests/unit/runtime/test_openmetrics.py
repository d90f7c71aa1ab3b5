"""The exposition for a scraper, read back by a strict parser and, where it is installed, by Prometheus' own."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import pytest
from tile_testing.fakes.openmetrics_parser import Family, parse

from tileflow.errors import SpecError
from tileflow.runtime import metrics as openmetrics
from tileflow.runtime import observe
from tileflow.runtime.metrics import register_counter, register_gauge
from tileflow.runtime.observe import clear_counters, count

AWKWARD = 'a "quoted" \\n, a back\\slash,\na line, {braces="1"} and µs'


@pytest.fixture(autouse=True)
def nothing_counted_nor_registered_here_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(openmetrics, "_families", dict(openmetrics._families))
    monkeypatch.setattr(observe, "_counters", {})
    clear_counters()
    yield
    clear_counters()


def exposed() -> dict[str, Family]:
    """The exposition as both parsers read it."""
    text = openmetrics.openmetrics()
    families = parse(text)
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        return families
    theirs = {
        family.name: {(s.name, tuple(sorted(s.labels.items()))): float(s.value) for s in family.samples}
        for family in text_string_to_metric_families(text)
    }
    suffix = {"counter": "_total", "gauge": ""}
    ours = {
        name: {(name + suffix[f.kind], tuple(sorted(labels))): value for labels, value in f.samples.items()}
        for name, f in families.items()
    }
    assert repr(theirs) == repr(ours)  # nan is not nan
    return families


def test_calls_and_what_lookups_met_are_counters_of_their_own() -> None:
    for _ in range(3):
        count("k:f", "exact", "measured", "nvidia-h200")
    count("k:f", "compiled", AWKWARD, None)
    count("k:f", "miss", "no row", "nvidia-h200")
    count("k:f", "constraint", "too much shared memory", "nvidia-h200")
    families = exposed()
    calls = families["tileflow_calls"]
    assert calls.kind == "counter"
    assert calls.samples == {
        (("kernel", "k:f"), ("step", "exact"), ("device", "nvidia-h200"), ("reason", "measured")): 3,
        (("kernel", "k:f"), ("step", "compiled"), ("device", ""), ("reason", AWKWARD)): 1,
    }
    assert families["tileflow_misses"].samples == {
        (("kernel", "k:f"), ("device", "nvidia-h200"), ("reason", "no row")): 1
    }
    (labels,) = families["tileflow_rows_passed_over"].samples
    assert dict(labels)["event"] == "constraint"


def test_gauges_are_read_at_each_scrape() -> None:
    held = {"modules": 2}
    register_gauge("tileflow_probe_modules", "Modules\nloaded.", lambda: held["modules"])
    register_gauge(
        "tileflow_probe_bytes", "Of device memory.", lambda: [({"device": "0"}, 1.5e9), ({"device": "1"}, 0)]
    )
    register_counter("tileflow_probe_evictions", "Keys evicted.", lambda: 4)
    first = exposed()
    held["modules"] = 5
    assert (first["tileflow_probe_modules"].samples, exposed()["tileflow_probe_modules"].samples) == (
        {(): 2},
        {(): 5},
    )
    assert first["tileflow_probe_modules"].help == "Modules\nloaded."
    assert first["tileflow_probe_bytes"].unit == "bytes"
    assert first["tileflow_probe_bytes"].samples == {(("device", "0"),): 1.5e9, (("device", "1"),): 0}
    assert first["tileflow_probe_evictions"].samples == {(): 4}


@pytest.mark.parametrize("value", [0, True, -3, 2**60, 0.1, 1e-9, math.inf, -math.inf, math.nan])
def test_numbers_are_written_as_openmetrics_has_them(value: float) -> None:
    register_gauge("tileflow_probe", "A number.", lambda: value)
    (read,) = exposed()["tileflow_probe"].samples.values()
    assert read == value or (math.isnan(read) and math.isnan(value))


def test_a_reading_that_raises_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> float:
        raise RuntimeError("the cache is gone")

    register_gauge("tileflow_broken", "Raises.", broken)
    register_gauge("tileflow_ill_labelled", "No label's name.", lambda: [({"": "x"}, 1)])
    register_gauge("tileflow_sound", "Is read.", lambda: 1)
    with caplog.at_level(logging.WARNING, logger="tileflow.runtime"):
        for _ in range(3):
            families = exposed()
    assert "tileflow_broken" not in families and "tileflow_ill_labelled" not in families
    assert families["tileflow_sound"].samples == {(): 1}
    assert families["tileflow_unreadable_metrics"].samples == {(): 2}
    assert sum("the cache is gone" in r.getMessage() for r in caplog.records) == 1


def test_text_that_is_no_utf8_does_not_stop_the_scrape() -> None:
    count("k:f", "exact", "from /bundles/\udcff")
    assert any("from /bundles/?" in value for labels in exposed()["tileflow_calls"].samples for _, value in labels)


@pytest.mark.parametrize("name", ["", "1st", "tileflow keys", "größe", "tileflow_keys_total", "tileflow_keys_bucket"])
def test_a_name_that_openmetrics_does_not_have_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="name"):
        register_gauge(name, "A number.", lambda: 1)


@pytest.mark.parametrize("name", ["tileflow_calls", "tileflow_unreadable_metrics"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="once"):
        register_gauge(name, "A number.", lambda: 1)


@pytest.mark.parametrize(
    "text",
    [
        "# TYPE a gauge\na 1\n",
        "# TYPE a counter\na 1\n# EOF\n",
        '# TYPE a gauge\na{b="\\x"} 1\n# EOF\n',
        '# TYPE a gauge\na{b="1"} 1\na{b="1"} 2\n# EOF\n',
        "# TYPE a gauge\na 1\n# TYPE b gauge\na 2\n# EOF\n",
        "# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n",
    ],
)
def test_the_parser_of_these_tests_is_strict(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)
