"""thpdiag whose workers have a misbehaving parser and low limits, and which prints every result.

Run as a program: `python triage_misbehaving.py triage ...`. Its last line is `peak N`: kB of memory of the parent.
Signals act as they do for a program of a terminal, also if the tests run in the background of a shell.
"""

from __future__ import annotations

import atexit
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from thpdiag import fleet
from thpdiag.bundle.limits import Limits as Reach
from thpdiag.cli import main
from thpdiag.host.options import Options
from thpdiag.sandbox.outcome import MIB, Limits

command_module = import_module("thpdiag.cli.triage")  # the package has the group of this name
LITTLE = partial(Limits, wall_seconds=12.0, memory=512 * MIB)
REACH = replace(Reach(), member_bytes=8 * MIB, ratio_after=32 * MIB)


def peak() -> str:
    """Return the peak in kB; getrusage would include that of the parent process."""
    return re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[0]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with (
        patch.object(fleet, "preloaded_modules", (*fleet.preloaded_modules, "misbehaving_parser")),
        patch.dict(command_module.LINE_INTERVAL_S, json=0.0),
        patch.object(command_module, "Limits", LITTLE),
        patch.object(command_module, "Options", partial(Options, limits=REACH)),
    ):
        atexit.register(lambda: print("peak", peak(), file=sys.stderr))
        main()
