"""Workers of the sandbox: one that is stopped ends its child and the programs that this has started, within seconds."""

from __future__ import annotations

import os
import select
from functools import partial
from pathlib import Path

import pytest

import misbehaving_calls as calls
from thpdiag.sandbox.outcome import Allowed, Limits
from thpdiag.sandbox.preload import STOP_TIMEOUT_S, Worker, WorkerDiedError, call_handler

LONG = 60.0  # seconds that nothing takes unless something is broken


def test_a_worker_that_is_stopped_leaves_nothing_behind(tmp_path: Path) -> None:
    """Whatever its child is at, also if that has started a program in a session of its own."""
    told = tmp_path / "pids"
    with Worker(call_handler, ["misbehaving_calls"]) as worker:
        worker.answer()
        worker.send((partial(calls.starts_a_program_and_waits, told), Limits(), Allowed(scratch=tmp_path)))
        while not (told.exists() and told.read_text().endswith("\n")):
            assert not worker.has_answer(0.05)
        handles = [os.pidfd_open(int(pid)) for pid in told.read_text().split()]
        worker.stop()
        assert worker._process.exitcode == 1, f"it did not leave by itself within {STOP_TIMEOUT_S} s"
    try:
        assert all(select.select([handle], [], [], LONG)[0] for handle in handles)
    finally:
        for handle in handles:
            os.close(handle)


def test_a_worker_that_dies_is_told_by_its_signal() -> None:
    """Whoever waits for its answer learns how it ended."""
    with Worker(call_handler, ["misbehaving_calls"]) as worker:
        worker.answer()
        assert worker._process.pid
        os.kill(worker._process.pid, 9)
        with pytest.raises(WorkerDiedError, match="by signal 9"):
            worker.answer()
