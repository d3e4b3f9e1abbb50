"""thpdiag whose workers have a reader that misbehaves, whose limits are soon reached, and which tells of every result.

Run as a program: `python triage_mocked.py triage ...`. Its last line is `peak N`: kB of memory of the parent. Signals
act as they do for a program of a terminal, also where the tests run in the background of a shell.
"""

from __future__ import annotations

import atexit
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from thpdiag.bundle.limits import Limits as Reach
from thpdiag.case.options import Options
from thpdiag.cli import main, triage_progress, triage_run
from thpdiag.guard.limits import MIB, Limits
from thpdiag.triage.engines import fork_server
from thpdiag.triage.work import Asked

LITTLE = replace(Limits(), wall_seconds=4.0, memory=512 * MIB)
REACH = replace(Reach(), member_bytes=8 * MIB, ratio_after=32 * MIB)


def peak() -> str:
    """In kB; getrusage would tell that of the process which began this one, if it had more."""
    return re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[0]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with (
        patch.object(fork_server, "PRELOAD", ("mock_reader",)),
        patch.dict(triage_progress.EVERY, json=0.0),
        patch.object(triage_run, "Asked", partial(Asked, limits=LITTLE)),
        patch.object(triage_run, "Options", partial(Options, limits=REACH)),
    ):
        atexit.register(lambda: print("peak", peak(), file=sys.stderr))
        main()
