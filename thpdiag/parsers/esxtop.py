r"""esxtop -b: what the host of virtual machines, VMware ESXi, gives to each of them, as CSV.

    "(PDH-CSV 4.0) (UTC)(0)","\\esx1\Memory\Memory Overcommit (1 Minute Avg)","\\esx1\Group Cpu(4711:db1)\% Ready",...
    "11/20/2026 09:54:16","0.41","38.20",...

One column per counter of each guest, many thousands of them; a guest is a group of worlds, named by number and name.
Units: percent of one CPU, summed over the worlds of a group; MBytes. Ready is the time that a virtual CPU could run and
had no CPU. By world it is that of a virtual CPU (vmx-vcpu-0); of a group alone it is divided by its members, of which
not all are virtual CPUs: that is the least it can be. The balloon (memctl) is memory that a guest gave back, swapped is
what the host took without asking. The first row has averages since the host's boot and is left out.
Nothing is taken for the guest that is looked at: which of them that is the file does not say. No host name is taken.
Source: VMware, Interpreting esxtop statistics; column names of 5.5 to 8.0.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, member_parser, printable, with_errors
from thpdiag.parsers._units import parse_number

NAME = "esxtop"
MAX_GUESTS = 500
MAX_ROW_BYTES = 32 << 20
_HEAD = re.compile(r'"\(PDH-CSV 4\.0\) \([^"]{1,60}","\\\\[^"\\]{1,255}\\')
_OF_ESX = re.compile(r"\\(?:Group Cpu\(|Physical Cpu Load\\|Memory\\Memory Overcommit)")
_COUNTER = re.compile(
    r"\\\\[^\\]{1,255}\\(?:(?P<vcpu>Vcpu)\((?P<of>\d{1,10}:[^:]{1,255}):\d{1,10}:vmx-vcpu-\d{1,3}[^)]{0,255}\)\\% Ready"
    r"|Group Cpu\((?P<cpu>\d{1,10}:[^)]{1,255})\)\\(?P<group>% Ready|Members)"
    r"|Group Memory\((?P<memory>\d{1,10}:[^)]{1,255})\)\\(?P<size>Memctl(?: Current)?|Swapped) MBytes)$"
)
_ROW = re.compile(r'"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"(?:,|$)')


class _Column(NamedTuple):
    """Where a number of a guest stands, and what it is."""

    place: int
    guest: str
    what: str


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Facts guest.cpu_ready_ratio, guest.balloon_bytes and guest.swapped_bytes of each guest: means of all rows."""
    columns, width, first, skipped = list[_Column](), 0, (0, ""), (0, "")
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for number, text in lines:
        if _HEAD.match(text):
            titles = _cells(text)
            columns, width, skipped = _columns(titles), len(titles), (0, "")
        elif _ROW.match(text) and len(cells := _cells(text)) == width:
            if not skipped[0]:
                skipped = (number, text)
                continue
            first = first if first[0] else (number, text)
            for column in columns:
                value = parse_number(cells[column.place])
                if value is not None and value < 1e9:
                    total = sums[column.guest, column.what]
                    total[0], total[1] = total[0] + value, total[1] + 1
        elif text.strip():
            odd.note(number, text, "a row of esxtop with other columns than its head")
    means = {key: total / count for key, (total, count) in sums.items()}
    yield from _facts(source, means, first)


def _cells(text: str) -> list[str]:
    try:
        return next(csv.reader([text]), [])
    except csv.Error:
        return []


def _columns(titles: Sequence[str]) -> list[_Column]:
    """The columns that are used, of the first guests."""
    found: list[_Column] = []
    guests: set[str] = set()
    for place, title in enumerate(titles):
        match = _COUNTER.match(title)
        guest = (match["of"] or match["cpu"] or match["memory"]) if match else ""
        if not match or (guest not in guests and len(guests) >= MAX_GUESTS):
            continue
        guests.add(guest)
        found.append(_Column(place, guest, match["vcpu"] or match["group"] or match["size"].partition(" ")[0]))
    return found


def _facts(source: Source, means: dict[tuple[str, str], float], first: tuple[int, str]) -> Iterator[Fact]:
    cite = source.cite(*first)
    for guest in dict.fromkeys(guest for guest, what in means if what in ("Vcpu", "Memctl", "Swapped")):
        labels = (("guest", printable(guest.partition(":")[2])),)
        ready, members = means.get((guest, "% Ready")), means.get((guest, "Members"), 0.0)
        least = ready / members if ready is not None and members >= 1 else None
        percent = means.get((guest, "Vcpu"), least)
        if percent is not None and percent <= 100:
            yield Fact("guest.cpu_ready_ratio", round(percent / 100, 4), cite, labels)
        for what, name in (("Memctl", "guest.balloon_bytes"), ("Swapped", "guest.swapped_bytes")):
            if (guest, what) in means:
                yield Fact(name, round(means[guest, what] * 2**20), cite, labels)


PARSER = Parser(
    NAME, "esxtop in batch mode", read, opens=_HEAD, continues=_ROW.match,
    confirm=lambda ahead: _OF_ESX.search(ahead[0]),
)  # fmt: skip
BULK_PARSER = member_parser(
    PARSER, lambda _path, head, _size: _OF_ESX.search(head.decode("latin-1")), MAX_ROW_BYTES,
    re.compile(rb'(?:\xef\xbb\xbf)?"\(PDH-CSV 4\.0\) \('),
)  # fmt: skip
