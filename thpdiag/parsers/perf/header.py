"""The comment header of perf report and perf script.

    # hostname : db12
    # os release : 3.10.0-229.14.1.el7.x86_64

perf report and perf script print it before their data with `--header`, and always before 3.15; perf.data has the same
in its features. Not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from thpdiag.model import Citation, Fact

_LINE = re.compile(r"#\s(?P<key>[a-z][\w ,/-]{1,40}?)\s*:(?:\s+(?P<value>.*))?$")
_NAMES = {
    "captured on": "captured_on",
    "hostname": "hostname",
    "os release": "release",
    "perf version": "perf_version",
    "arch": "arch",
    "nrcpus online": "cpus",
    "cpudesc": "cpu",
    "total memory": "memory",
    "cmdline": "cmdline",
    "time of first sample": "first_sample",
    "time of last sample": "last_sample",
    "clockid": "clockid",
    "reference time": "reference_time",  # both clocks read at once, with `perf record -k`
}
OPENS = r"#\s={8}"
COMMENT = re.compile(
    r"\s*#(?:\s*$|\s(?:={4,}|\.{3,}|[a-z][\w ,/-]{1,40}?\s*:(?:\s|$)"
    r"|To display|Total Lost|Samples|Events|Event count|Overhead|Children|Self\b"
    r"|\(Tip|\(Cannot|\(For|[A-Z0-9_]+ info available|Baseline|[a-z ]+ info available|Processed|group|branch)|\s{2,})"
)
_VALUE = 400  # characters of a value that are kept


def fact(text: str) -> tuple[str, str] | None:
    """Name and value of a header line that is worth keeping."""
    found = _LINE.match(text.strip())
    if not found or not (name := _NAMES.get(found["key"].strip())):
        return None
    value = (found["value"] or "").strip()[:_VALUE]
    return (name, value) if value else None


def of_host(header: Mapping[str, str], cite: Citation) -> Iterator[Fact]:
    """What a header, by the names that `fact` gives, tells of the host."""
    for name, key in (("host.name", "hostname"), ("kernel.release", "release"), ("kernel.arch", "arch")):
        if value := header.get(key):
            yield Fact(name, value, cite)
    if (cpus := header.get("cpus", "")).isdecimal() and int(cpus[:9]) > 0:
        yield Fact("cpu.count", int(cpus[:9]), cite)
