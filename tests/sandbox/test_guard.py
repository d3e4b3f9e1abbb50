"""The guard: each way to end has its name, nothing is left, and a child touches what it was given only."""

from __future__ import annotations

import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import misbehaving_calls as calls
from command_line import SUPPORT
from thpdiag.sandbox import confine as landlock
from thpdiag.sandbox.confine import seccomp_filter
from thpdiag.sandbox.outcome import MIB, Allowed, Answer, Layer, Limits, Outcome, Status
from thpdiag.sandbox.preload import WorkerPool, call_handler, layers_in_force
from thpdiag.sandbox.supervise import run_in_child

Call = Callable[[], Answer]
LITTLE = Limits(cpu_seconds=1, wall_seconds=60, memory=64 * MIB, file_size=2 * calls.PIECE, files=64, answer=1 << 16)
HURRIED = Limits(wall_seconds=0.2)
HIDDEN = "nobody but the test may read this"


@pytest.fixture(scope="module")
def preloaded() -> Iterator[WorkerPool]:
    """A process with one thread; that of the tests may have several."""
    with WorkerPool(1, call_handler, ["misbehaving_calls"]) as pool:
        yield pool


@pytest.fixture
def ends(preloaded: WorkerPool) -> Callable[..., Outcome]:
    """How a call ends, and that a further one finds all as it was."""

    def _ends(call: Call, limits: Limits = LITTLE, cell: Allowed = Allowed()) -> Outcome:  # noqa: B008
        found: Outcome = preloaded.submit((call, limits, cell)).result(timeout=120)
        assert preloaded.submit((_left,)).result(timeout=120).content == b"", "a child was left"
        return found

    return _ends


def _left() -> Answer:
    """The children of the process that forks, but for the one that asks."""
    path = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children")
    others = {int(pid) for pid in path.read_text().split()} - {os.getpid()} if path.exists() else set()
    return Answer(" ".join(map(str, others)).encode())


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that no child was given."""
    path = tmp_path / "secret"
    path.write_text(HIDDEN)
    return path


@pytest.mark.parametrize(
    ("call", "name", "code"),
    [
        (calls.answers, "ok", 0),
        (calls.lost_something, "partial", 5),
        (calls.loops, "limit (CPU time)", 6),
        (calls.allocates, "out of memory", 6),
        (calls.aborts, "signal 6", 70),
        (calls.reads_address_zero, "signal 11", 70),
        (calls.kills_itself, "signal 9", 6),
        (calls.prints_without_end, "limit (output)", 6),
        (calls.answers_much, "limit (the answer's size)", 6),
        (partial(calls.spools, 1 << 30), "limit (file size)", 6),
        (calls.opens_files, "limit (open files)", 6),
        (calls.raises, "bug", 70),
        (calls.leaves, "bug", 70),
        (calls.leaves_at_once, "bug", 70),
        (calls.answers_nonsense, "bug", 70),
        (calls.refuses, "refused", 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_each_end_has_its_name(call: Call, name: str, code: int, ends: Callable[..., Outcome], tmp_path: Path) -> None:
    """What a child does to itself is told by a name and an exit code."""
    found = ends(call, cell=Allowed(scratch=tmp_path))
    assert (found.name, found.exit_code) == (name, code)
    assert found.sentence


@pytest.mark.parametrize("call", [calls.waits_without_end, calls.loops])
def test_time_is_limited(call: Call, ends: Callable[..., Outcome]) -> None:
    """A child that hangs is ended when its time is over."""
    assert ends(call, HURRIED).status is Status.TIMEOUT


def test_a_child_that_closes_all_it_has_is_ended(ends: Callable[..., Outcome]) -> None:
    """Nothing is heard of it any more, so nothing is waited for."""
    assert ends(calls.closes_everything).name == "signal 9"


def test_a_mistake_is_told_with_its_place(ends: Callable[..., Outcome]) -> None:
    """As a traceback, for the one who mends it."""
    found = ends(calls.raises)
    assert "a mistake of ours" in found.detail
    assert "misbehaving_calls.py" in found.detail


def test_the_answer_comes_whole(ends: Callable[..., Outcome]) -> None:
    """However long it is, up to the limit."""
    assert ends(calls.answers_much, Limits()).content == calls.answers_much().content


def test_programs_that_are_left_behind_end_with_the_child(ends: Callable[..., Outcome]) -> None:
    """With a child that ends well, and with one that is killed; the fixture looks for what is left."""
    left = int(ends(calls.leaves_a_program_behind).content)
    killed = ends(calls.leaves_a_program_behind_and_dies)
    assert killed.name == "signal 9"
    for pid in (left, int(killed.output)):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_nothing_else_of_the_parent_is_open(ends: Callable[..., Outcome]) -> None:
    """Standard input, output, error, the pipe of the answer, and the folder that is being listed."""
    found = ends(calls.what_is_open, cell=Allowed(read=(Path("/proc"),)))
    assert found.content.split()[:3] == [b"0", b"1", b"2"]
    assert len(found.content.split()) == 5


def test_a_process_with_threads_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that another thread holds would be held in the child for ever."""
    monkeypatch.setattr("threading.active_count", lambda: 2)
    with pytest.raises(RuntimeError, match="threads"):
        run_in_child(calls.answers)


def test_a_broken_answer_is_never_believed(ends: Callable[..., Outcome]) -> None:
    """What came of an answer that is not whole is thrown away."""
    assert ends(calls.answers_nonsense).content == b""


@pytest.mark.skipif(not landlock.landlock_version(), reason="this kernel has no Landlock")
class TestFiles:
    """What Landlock keeps from a child."""

    def test_only_what_is_given_can_be_read(self, ends: Callable[..., Outcome], secret: Path) -> None:
        """A file beside the one that was given is out of reach."""
        other = secret.with_name("given")
        other.write_text("given")
        assert ends(partial(calls.reads, other), cell=Allowed(read=(other,))).content == b"given"
        found = ends(partial(calls.reads, secret), cell=Allowed(read=(other,)))
        assert found.status is Status.BUG
        assert "PermissionError" in found.detail

    def test_names_can_be_given_without_what_they_hold(self, ends: Callable[..., Outcome], secret: Path) -> None:
        """A folder that may be listed only."""
        cell = Allowed(names=(secret.parent,))
        assert ends(partial(calls.lists, secret.parent), cell=cell).content == b"secret"
        assert ends(partial(calls.reads, secret), cell=cell).status is Status.BUG

    def test_nothing_can_be_written_but_into_the_one_folder(self, ends: Callable[..., Outcome], tmp_path: Path) -> None:
        """Not even into what may be read."""
        folder = tmp_path / "scratch"
        folder.mkdir()
        cell = Allowed(read=(tmp_path,), scratch=folder)
        assert ends(partial(calls.writes, folder / "here"), cell=cell).content == b"written"
        assert ends(partial(calls.writes, tmp_path / "there"), cell=cell).status is Status.BUG
        assert not (tmp_path / "there").exists()

    def test_nobody_outside_can_be_signalled(self, ends: Callable[..., Outcome]) -> None:
        """A child that would kill its parent cannot, from version 6 on."""
        if landlock.landlock_version() < 6:
            pytest.skip("this kernel's Landlock knows no signals")
        assert "PermissionError" in ends(calls.kills_its_parent).detail

    def test_no_connection(self, ends: Callable[..., Outcome]) -> None:
        """Not even to this machine."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = ends(partial(calls.connects, server.getsockname()[1]))
        assert found.status is Status.BUG


def test_the_network_is_empty(ends: Callable[..., Outcome]) -> None:
    """One of its own, with nothing but a loopback that is down."""
    found = ends(calls.sees_devices, cell=Allowed(read=(Path("/proc"),)))
    if Layer.NETWORK in found.missing:
        pytest.skip("this machine gives no network namespace")
    assert [line.split(b":")[0].strip() for line in found.content.splitlines()[2:]] == [b"lo"]


@pytest.mark.skipif(not seccomp_filter(), reason="the numbers of system calls are not known for this machine")
class TestSystemCalls:
    """What seccomp keeps from a child."""

    def test_what_landlock_leaves_is_refused(self, ends: Callable[..., Outcome], tmp_path: Path) -> None:
        """Sockets, memory that outlives the process, modes and owners and times, other processes, namespaces, keys."""
        assert ends(calls.is_refused, cell=Allowed(scratch=tmp_path)).content == b""
        assert (tmp_path / "file").exists()

    @pytest.mark.skipif(platform.machine() != "x86_64", reason="x32 is of x86_64")
    def test_a_call_of_another_architecture_ends_the_child(self, ends: Callable[..., Outcome]) -> None:
        """Its numbers mean other calls."""
        assert ends(calls.calls_as_x32).name == f"signal {int(signal.SIGSYS)}"


def test_all_scratch_files_together_have_a_limit(ends: Callable[..., Outcome], tmp_path: Path) -> None:
    """Many files, none of them too large."""
    limits = Limits(file_size=2 * calls.PIECE, scratch=2 * calls.PIECE, memory=64 * MIB)
    found = ends(partial(calls.fills_scratch, 3 * calls.PIECE), limits, Allowed(scratch=tmp_path))
    assert found.name == "limit (scratch space)"


@pytest.mark.skipif(os.geteuid() == 0, reason="no limit binds root")
def test_processes_have_a_limit_that_counts_those_of_the_child_only(ends: Callable[..., Outcome]) -> None:
    """Where Linux counts by user namespace."""
    assert "BlockingIOError" in ends(calls.forks_without_end, Limits(memory=64 * MIB)).detail


def test_variables_that_are_not_needed_are_overwritten() -> None:
    """Keys of a store neither stand in the child's environment nor where the kernel put them."""
    program = [sys.executable, str(SUPPORT / "environment_of_child.py")]
    ended = subprocess.run(program, env={**os.environ, "SECRET_KEY": HIDDEN}, capture_output=True, check=True)
    before, after = ended.stdout.split(b"--\n")
    assert HIDDEN.encode() in before
    assert HIDDEN.encode() not in after
    assert b"PATH=" in after


def test_the_layers_are_told() -> None:
    """Of each whether it is here."""
    assert set(layers_in_force()) == set(Layer)


def test_every_fault_is_a_mistake_and_a_kill_is_none() -> None:
    """Exit 70 asks for a report; who was killed from outside has nothing to report."""
    codes = {number: Outcome(Status.SIGNAL, str(int(number))).exit_code for number in (signal.SIGBUS, signal.SIGTERM)}
    assert codes == {signal.SIGBUS: 70, signal.SIGTERM: 6}
