"""What Triton can say of rows over clusters: the ways that the docs tell of, by compiling."""

from __future__ import annotations

import pytest


def test_a_row_over_four_blocks_needs_no_second_read() -> None:
    """Its parts are in registers, and numbers are exchanged by PTX."""
    pytest.importorskip("triton")
    from tileflow_benchmarks.clusters import rows

    said = rows.compiled("PTX", 4)
    assert " 0 bytes spilled" in said and "2 mapa" in said and "16 ld.global" in said


def test_an_exchange_combines_what_all_blocks_wrote() -> None:
    pytest.importorskip("triton")
    from tileflow_benchmarks.clusters import rows

    text = rows.exchange(4, "max.f32")
    assert text.count("ld.shared.f32") == 4 and text.count("max.f32 $0, $0, other") == 3
    assert text.index("st.shared::cluster") < text.index("barrier.cluster.arrive.release") < text.index("ld.shared")
