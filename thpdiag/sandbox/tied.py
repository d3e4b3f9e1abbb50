"""Preload module of the fork server: importing it makes the process end with the thread that started it."""

from __future__ import annotations

import signal
from contextlib import suppress

from thpdiag.sandbox.confine import die_with_parent

with suppress(OSError):
    die_with_parent(signal.SIGKILL)
