"""Lines of a kernel log that tell two times at once: when the boot was on the clock of the syslog.

    Nov 20 03:35:43 host kernel: [ 1055.188049] INFO: task python3:7202 blocked for more than 120 seconds.

The bracket is more exact and gives the time of the event; the stamp joins it to the wall clock. Only lines that are
looked at anyway are noted. What was printed before the syslog daemon ran has the stamp of its start. Not a format of
its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from statistics import median

from thpdiag.model import Citation, Clock, Fact, Moment
from thpdiag.readers.kernel_log.lines import KernelLine, Times

_EARLY = 60.0  # seconds since boot: the daemon may not have run yet
_APART = 60.0  # seconds between differences of one boot, from delays and drift; beyond, the clock was set
_REBOOT = 1.0  # seconds: lines of several CPUs may stand a little out of order
_DAY = 86_400.0
_BOOT = re.compile(r"\[ *(\d{1,12}\.\d{1,9})")


class TwoClocks:
    """The lines of one log with a stamp and a bracket: of the last boot in it, if it is the log of one host."""

    def __init__(self) -> None:
        self._times = Times()
        self._hosts: set[str] = set()
        self._last = 0.0
        self._pairs: list[tuple[float, Moment, Citation]] = []

    def note(self, line: KernelLine, cite: Citation) -> None:
        """Take a line in, if it has both times."""
        boot = _BOOT.match(line.bracket) if line.stamp else None
        wall = self._times.wall(line) if boot else None
        if not boot or not wall:
            return
        seconds = float(boot[1])
        if seconds < self._last - _REBOOT:
            self._pairs.clear()
        self._last = seconds
        self._hosts.add(line.host)
        self._pairs.append((seconds, wall, cite))

    def facts(self) -> Iterator[Fact]:
        """`log.boot_time`: the stamp's time at second 0 of the bracket; `within` how far the lines lie apart."""
        pairs = [p for p in self._pairs if p[0] >= _EARLY] or self._pairs
        clocks = {wall.clock for _, wall, _ in pairs}
        if len(self._hosts) != 1 or len(clocks) != 1:
            return
        first = pairs[0][1].seconds - pairs[0][0]
        off = [wall.seconds - seconds - first for seconds, wall, _ in pairs]
        if Clock.DAY in clocks:
            off = [(o + _DAY / 2) % _DAY - _DAY / 2 for o in off]
        middle = median(off)
        spread = max(abs(o - middle) for o in off)
        if spread > _APART:
            return
        within = 1.0 + (spread if pairs[-1][0] >= _EARLY else _APART)
        labels = (("clock", pairs[0][1].clock.value), ("within", f"{within:g}"))
        yield Fact("log.boot_time", first + middle, pairs[0][2], labels, pairs[-1][1])
