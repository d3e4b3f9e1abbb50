"""thpdiag on a simulated platform without Linux: no /proc, no fork, none of the modules and signals of Unix.

Its argument is a list of commands as JSON; it prints exit code, stdout and stderr of each.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import os
import re
import signal
import sys
from typing import Any

HIDDEN = ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog", "readline")
UNIX = ("fork", "forkpty", "wait4", "setsid", "getuid", "geteuid", "getppid", "killpg", "sched_getaffinity", "sysconf")
SIGNALS = (
    "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL", "SIGXCPU", "SIGXFSZ", "SIGBUS", "SIGSYS", "SIGTRAP", "pthread_sigmask",
)  # fmt: skip
LOADED_BEFORE = (
    "subprocess",
    "tempfile",
    "multiprocessing",
    "selectors",
    "shutil",
    "tarfile",
    "getpass",
    "pathlib",
    "zoneinfo",
    "numpy",
)


def refuse_proc(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise for paths below /proc."""
    if event in ("open", "os.listdir", "os.scandir") and re.match("/proc(/|$)", os.fsdecode(str(arguments[0]))):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


class NoLibrary(ctypes.CDLL):
    """A C library that cannot be loaded without a name, as on Windows."""

    def __init__(self, name: str | None, *arguments: Any, **settings: Any) -> None:
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *arguments, **settings)


if __name__ == "__main__":
    for name in LOADED_BEFORE:  # modules of the standard library that depend on the platform
        importlib.import_module(name)
    sys.modules.update(dict.fromkeys(HIDDEN))  # type: ignore[arg-type]  # None: the import fails
    for owner, names in ((os, UNIX), (signal, SIGNALS)):
        for name in names:
            delattr(owner, name)
    ctypes.CDLL = NoLibrary  # type: ignore[misc]
    sys.platform = "darwin"  # "win32" would need modules that exist on Windows only
    sys.addaudithook(refuse_proc)
    from thpdiag.cli import main

    outcomes = []
    for command in json.loads(sys.argv[1]):
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(command)
            except SystemExit as end:
                outcomes.append((end.code, out.buffer.getvalue().decode(), err.getvalue()))
    print(json.dumps(outcomes))
