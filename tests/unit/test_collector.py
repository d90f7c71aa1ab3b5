"""The collector pauses while tables are read, and is left as it was found."""

from __future__ import annotations

import gc
import threading

import pytest

from tileflow.collector import paused
from tileflow.errors import TableError
from tileflow.runtime import load_tables


def test_nothing_is_collected_inside_and_the_collector_goes_on_after() -> None:
    assert gc.isenabled()
    with paused(), paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with paused():
            pass
        assert not gc.isenabled()  # somebody else's choice
    finally:
        gc.enable()


def test_the_last_of_several_threads_lets_it_go_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with paused():
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=other)
    with paused():
        thread.start()
        assert inside.wait(5)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_a_table_that_cannot_be_read_leaves_the_collector_running(tmp_path: object) -> None:
    with pytest.raises(TableError):
        load_tables(f"{tmp_path}/none.json")
    assert gc.isenabled()
