"""What collectl writes above a recording and above plot files: host, kernel, zone, boot, how it was started.

    ################################################################################
    # Collectl:   V4.3.1-1  HiRes: 1  Options: -scmZ -i1:5
    # Host:       db1  DaemonOpts:
    # Booted:     1795153219.9 [20261120-05:40:19]
    # Date:       20261120-095107  Secs: 1795168267 TZ: +0530
    # SubSys:     cmZ Options:  Interval: 1:5 NumCPUs: 2  NumBud: 3 Flags: ix
    # HZ:         100  Arch: x86_64-linux-gnu-thread-multi PageSize: 4096
    # Kernel:     6.1.0-30-amd64  Memory: 24684092 kB  Swap: 0 kB

`Booted` exists since 3.6.4. A plot file made by `-p` begins with `### RECORDED ###` and the options of the recording,
then those of `-p`; date and zone are those of the recording, memory has no unit. HZ is that of /proc (100 where the
line is missing). Source: collectl, sub buildCommonHeader, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Clock, Fact, Moment
from thpdiag.model.fact import Value
from thpdiag.reader import Source
from thpdiag.readers.elements.daytime import utc_offset

PROVENANCE = "recorder"  # the distribution as collectl names it, which is not what the release file says
_KEY = re.compile(r"#\s?([A-Z]\w*):\s+(.*)$")
_COLLECTL = re.compile(r"V?(\S+)\s+(?:HiRes: \d+\s+)?(?:Options: ?(.*))?")
_HOST = re.compile(r"(\S+)(?:\s+DaemonOpts: ?(.*))?")
_BOOTED = re.compile(r"(\d{9,10}(?:\.\d+)?)\b")
_DATE = re.compile(r"(\d{8}-\d{6})\s+Secs: (\d{9,10})(?:\s+TZ: ([+-]\d{4}))?")
_SUBSYS = re.compile(r"(\S*)\s+Options: (\S*)\s+Interval: (\S*)(?:.*?NumCPUs: (\d{1,5}))?")
_HZ = re.compile(r"(\d{2,4})\s+Arch: \S+(?:\s+PageSize: (\d{4,6}))?")
_KERNEL = re.compile(r"(\S+)\s+Memory: (\d{1,15})(?: kB)?(?:\s|$)")
_NAMED = re.compile(r", (?=\S)")


@dataclass(slots=True)
class Header:
    """The values of one header. Unknown is None or empty; HZ has its usual value then."""

    host: str = ""
    kernel: str = ""
    distribution: str = ""
    version: str = ""
    options: str = ""  # of who recorded
    printed: str = ""  # of who printed: `-p` may differ
    letters: str = ""  # of -o: `n` means that rates are per interval, not per second
    zone: int | None = None  # seconds ahead of UTC
    booted: float | None = None
    started: float | None = None
    memory: int | None = None  # bytes
    cpus: int | None = None
    hz: int = 100
    page: int | None = None  # bytes
    played_back: bool = False
    places: dict[str, tuple[int, str]] = field(default_factory=dict)  # line number and text by key

    def line(self, number: int, text: str) -> None:
        """A line that begins with `#`."""
        if " RECORDED " in text and text.startswith("###"):
            self.played_back = True
        found = _KEY.match(text)
        if not found or (take := _TAKERS.get(found[1])) is None:
            return
        self.places.setdefault(found[1], (number, text))
        take(self, found[2].strip())

    def facts(self, source: Source) -> Iterator[Fact]:
        """What the header says of the host."""
        at = Moment(self.started, Clock.UTC) if self.started is not None else None
        options = (("recorder", "collectl"), ("version", self.version))
        told: tuple[tuple[str, str, Value | None, tuple[tuple[str, str], ...], str], ...] = (
            ("Host", "host.name", self.host, (), ""),
            ("Kernel", "kernel.release", self.kernel, (), ""),
            ("Distro", "os.name", self.distribution, (), PROVENANCE),
            ("SubSys", "cpu.count", self.cpus, (), ""),
            ("Date", "host.utc_offset", self.zone, (), ""),
            ("HZ", "kernel.page_size", self.page, (), ""),
            ("Collectl", "recorder.options", self.options, options, ""),
        )
        for key, name, value, labels, provenance in told:
            place = self.places.get(key) or self.places.get("Host")  # which has the daemon's options
            if value is not None and value != "" and place:
                yield Fact(name, value, source.cite(*place), labels, at, provenance)


def _collectl(header: Header, text: str) -> None:
    if found := _COLLECTL.match(text):
        header.version, header.printed = found[1], (found[2] or "").strip()
        if not header.options:
            header.options = header.printed.partition("  Subsys: ")[0]


def _host(header: Header, text: str) -> None:
    if found := _HOST.match(text):
        header.host = found[1]
        if daemon := (found[2] or "").strip():
            header.options = f"{header.options} {daemon}".strip()


def _distro(header: Header, text: str) -> None:
    name = text.partition("  Platform:")[0].strip()
    parts = _NAMED.split(name, maxsplit=1)  # "debian bullseye/sid, Ubuntu 20.04.1 LTS"
    header.distribution = parts[1] if len(parts) > 1 else re.sub(r"^debian\b", "Debian", name)


def _booted(header: Header, text: str) -> None:
    if found := _BOOTED.match(text):
        header.booted = float(found[1])


def _date(header: Header, text: str) -> None:
    if found := _DATE.match(text):
        header.started, header.zone = float(found[2]), utc_offset(found[3])


def _subsys(header: Header, text: str) -> None:
    if found := _SUBSYS.match(text):
        header.letters = found[2]
        header.cpus = int(found[4]) if found[4] and int(found[4]) else None


def _hz(header: Header, text: str) -> None:
    if found := _HZ.match(text):
        header.hz = int(found[1]) or header.hz
        header.page = int(found[2]) if found[2] else None


def _kernel(header: Header, text: str) -> None:
    if found := _KERNEL.match(text):
        header.kernel, header.memory = found[1], int(found[2]) * 1024 or None


_TAKERS = {
    "Collectl": _collectl,
    "Host": _host,
    "Distro": _distro,
    "Booted": _booted,
    "Date": _date,
    "SubSys": _subsys,
    "HZ": _hz,
    "Kernel": _kernel,
}
