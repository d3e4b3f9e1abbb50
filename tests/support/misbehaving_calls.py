"""Calls for a sandboxed child in tests: well-behaved ones, and a misbehaving one for each named end."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from time import process_time

from thpdiag.errors import InputError
from thpdiag.sandbox.outcome import Answer, Status

PIECE = 1 << 24


def answers() -> Answer:
    return Answer(b"an answer")


def answers_much() -> Answer:
    return Answer(b"x" * (1 << 20))


def takes_a_second() -> Answer:
    until = process_time() + 1
    while process_time() <= until:
        pass
    return answers()


def lost_something() -> Answer:
    return Answer(b"half of it", Status.PARTIAL)


def loops() -> Answer:
    while True:
        pass


def allocates() -> Answer:
    held = []
    while True:
        held.append(bytearray(PIECE))


def aborts() -> Answer:
    os.abort()


def reads_address_zero() -> Answer:
    return Answer(ctypes.string_at(0))


def kills_itself() -> Answer:
    os.kill(os.getpid(), signal.SIGKILL)
    return answers()


def kills_its_parent() -> Answer:
    os.kill(os.getppid(), signal.SIGKILL)
    return answers()


def prints_without_end() -> Answer:
    while True:
        os.write(1, b"x" * 9999)


def prints_escapes() -> Answer:
    """Print lines that are no progress steps, and one step with terminal escapes."""
    for line in (b"\x1b]0;owned\x07", b"[" * 9999, b'["read", "\x1b]0;owned\x07"]', b'["owned"]'):
        os.write(2, line + b"\n")
    os.write(2, rb'["judge", 1, 2, "\u001b]0;owned\u0007", 0, []]' + b"\n")
    return answers()


def waits_without_end() -> Answer:
    Event().wait()
    return answers()


def raises() -> Answer:
    raise ValueError("a mistake of ours")


def leaves() -> Answer:
    sys.exit(0)


def leaves_at_once() -> Answer:
    os._exit(3)


def closes_everything() -> Answer:
    os.closerange(0, 256)
    Event().wait()
    return answers()


def answers_nonsense() -> Answer:
    for pipe in range(3, 256):
        try:
            os.write(pipe, b'{"status": "ok"}\n{"a": 1}')
        except OSError:
            continue
    os._exit(0)


def refuses() -> Answer:
    raise InputError("there is nothing to read")


def reads(path: Path) -> Answer:
    return Answer(path.read_bytes())


def lists(path: Path) -> Answer:
    return Answer(" ".join(sorted(entry.name for entry in path.iterdir())).encode())


def writes(path: Path) -> Answer:
    path.write_bytes(b"written")
    return Answer(path.read_bytes())


def spools(size: int) -> Answer:
    with TemporaryFile() as file:
        for _ in range(0, size, PIECE):
            file.write(bytes(PIECE))
    return answers()


def opens_files() -> Answer:
    held = []
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))


def connects(port: int) -> Answer:
    with socket.create_connection(("127.0.0.1", port), 5):
        return answers()


def leaves_a_program_behind() -> Answer:
    code = "import os; print(os.getpid(), flush=True)\nwhile True: os.read(0, 1) or __import__('signal').pause()"
    left = subprocess.Popen([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert left.stdout
    left.stdout.readline()
    return Answer(str(left.pid).encode())


def leaves_a_program_behind_and_dies() -> Answer:
    os.write(2, leaves_a_program_behind().content)
    return kills_itself()


def starts_a_program_and_waits(told: Path) -> Answer:
    """Write the pids of this process and of the program to a file."""
    left = leaves_a_program_behind().content.decode()
    told.write_text(f"{os.getpid()} {left}\n")
    return waits_without_end()


def what_is_open() -> Answer:
    return Answer(" ".join(sorted(os.listdir("/proc/self/fd"), key=int)).encode())  # noqa: PTH208


def reads_stdin() -> Answer:
    return Answer(sys.stdin.buffer.read())


def sees_devices() -> Answer:
    return Answer(Path("/proc/self/net/dev").read_bytes())


def is_refused(*attempts: str) -> Answer:
    """Return the attempts that the kernel does not refuse."""
    libc, here = ctypes.CDLL(None, use_errno=True), Path(os.environ["TMPDIR"])
    (here / "file").touch()
    attempt: dict[str, Callable[[], object]] = {
        "a socket by path": lambda: socket.socket(socket.AF_UNIX),
        "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        "a mode": lambda: (here / "file").chmod(0o777),
        "an owner": lambda: os.chown(here / "file", os.getuid(), os.getgid()),
        "times": lambda: os.utime(here / "file", (0, 0)),
        "an attribute": lambda: os.setxattr(here / "file", "user.a", b"b"),
        "a fifo": lambda: os.mkfifo(here / "fifo"),
        "shared memory": lambda: _result(libc.shmget(0, 4096, 0o1600)),
        "a trace": lambda: _result(libc.ptrace(0, 0, None, None)),
        "another namespace": lambda: _result(libc.unshare(0x00020000)),
        "a key": lambda: _result(libc.syscall({"x86_64": 250, "aarch64": 219}[platform.machine()], 0, -3, 1)),
    }
    passed = []
    for name in attempts or attempt:
        with suppress(PermissionError):
            attempt[name]()
            passed.append(name)
    return Answer(", ".join(passed).encode())


def _result(value: int) -> None:
    if value < 0:
        raise OSError(ctypes.get_errno(), "refused")


def calls_as_x32() -> Answer:
    ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
    return answers()


def fills_scratch(size: int) -> Answer:
    for number in range(size // PIECE):
        Path(os.environ["TMPDIR"], str(number)).write_bytes(bytes(PIECE))
    return waits_without_end()


def forks_without_end() -> Answer:
    while True:
        if not os.fork():
            os.closerange(0, 64)
            Event().wait()
