"""What a plain search finds of one process, in the formats that print a process a line or a field a line.

Nothing here is a parser of thpdiag: the columns are those that the heading names, the fields those of proc(5).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

TIME = re.compile(
    r" ?(?P<epoch>1[4-9]\d{8}(?:\.\d+)?)(?:\s|$)"
    r"|(?:\W{0,3}|top - |ATOP - .+ |\w{3} \w{3} +\d+ |### RECORD .*\(\w{3} \w{3} +\d+ )"
    r"(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\b"
)
STAT = re.compile(r"(?P<pid>\d+) \((?P<comm>.*)\) [A-Z] (?P<rest>[-\d ]+)")
FIELD = re.compile(r"(?:/proc/(?P<owner>\d+)/\w+:)?(?P<name>[A-Z]\w+):\s+(?P<value>\S+)(?P<unit> kB)?")
MAPPING = re.compile(r"[0-9a-f]{6,16}-[0-9a-f]{6,16} ")
SHOWN = re.compile(r".*\bcat /proc/(?P<pid>\d+)/")
ATOP = re.compile(
    r"PRM \S+ (?P<epoch>\d+) \S+ \S+ \d+ (?P<pid>\d+) \((?P<comm>.*)\) \S (?P<page>\d+) (?P<vsz>\d+) (?P<rss>\d+) "
)
KIB, HERTZ, PAGE = 1024, 100, 4096
FIELDS = {
    "VmRSS": "rss", "VmSize": "vsz", "Rss": "rss", "AnonHugePages": "huge", "LazyFree": "lazy",
    "Anonymous": "anon", "Pss_Anon": "pss_anon",
}  # fmt: skip
COLUMNS = {
    "RSS": "rss", "RES": "rss", "VSZ": "vsz", "VIRT": "vsz", "%CPU": "cpu", "MINFL": "faults", "MAJFL": "faults",
    "MINFLT": "faults", "MAJFLT": "faults",
}  # fmt: skip
LETTERS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Look(NamedTuple):
    """What stands of a process in one round of a listing, and the size of the last digit of what is rounded."""

    line: int
    seconds: float | None
    figures: dict[str, float]
    coarse: float = 0.0


def seconds_of(line: str) -> float | None:
    """The time that a line begins with."""
    found = TIME.match(line)
    if found is None:
        return None
    if found["epoch"]:
        return float(found["epoch"])
    hours, minutes, rest = found["clock"].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


def _size(word: str, unit: float) -> tuple[float, float]:
    """A size with or without a letter, in bytes, and what its last digit stands for."""
    if not re.fullmatch(r"\d+(?:[.,]\d+)?[kmgt]?", word.lower()):
        return float("nan"), 0.0
    letter, number = word[-1].lower(), word.replace(",", ".")
    if letter not in LETTERS:
        return float(number) * unit, 0.0
    digits = len(number[:-1].partition(".")[2])
    return float(number[:-1]) * LETTERS[letter], 10.0**-digits * LETTERS[letter]


@cache
def looks(lines: tuple[str, ...]) -> dict[tuple[str, str, str], list[Look]]:
    """All looks at all processes, by the format, the number (`?` without one) and the name of the process."""
    found: dict[tuple[str, str, str], list[Look]] = defaultdict(list)
    for kind, pid, comm, look in (*_rows(lines), *_fields(lines)):
        found[kind, pid, comm].append(look)
    return found


def of_process(lines: tuple[str, ...], pid: str, comm: str | None) -> Iterator[list[Look]]:
    """The looks at one process, a list for each format."""
    for (_, own, name), rows in looks(lines).items():
        if own == pid and (not comm or not name or name == comm or name.rpartition("/")[2] == comm):
            yield rows


def _rows(lines: tuple[str, ...]) -> Iterator[tuple[str, str, str, Look]]:
    """Lines of /proc/PID/stat, of atop -P, and rows below a heading that has PID."""
    now: float | None = None
    heading: list[str] = []
    for at, line in enumerate(lines, 1):
        now = now if (clock := seconds_of(line)) is None else clock
        if (stat := STAT.match(line)) and len(rest := stat["rest"].split()) > 20:
            own = [float(word) for word in rest]  # from ppid on, the fourth field of proc(5)
            figures = {
                "ticks": (own[10] + own[11]) / HERTZ, "faults": own[6] + own[8], "vsz": own[19], "rss": own[20] * PAGE,
            }  # fmt: skip
            yield "stat", stat["pid"], stat["comm"], Look(at, now, figures)
        elif prm := ATOP.match(line):
            figures = {"rss": float(prm["rss"]) * KIB, "vsz": float(prm["vsz"]) * KIB}
            yield "atop", prm["pid"], prm["comm"], Look(at, float(prm["epoch"]), figures)
        elif "PID" in (words := line.removeprefix("#").split()):
            heading = words
        elif heading and len(words) >= len(heading) and words[(place := heading.index("PID"))].isdigit():
            figures, coarse = {}, 0.0
            for name, word in zip(heading, words, strict=False):
                if (key := COLUMNS.get(name)) is None:
                    continue
                value, step = _size(word, {"cpu": 0.01, "faults": 1}.get(key, KIB))
                figures[key] = figures.get(key, 0.0) + value
                coarse = max(coarse, step)
            kind = " ".join(heading if seconds_of(line) is None else heading[1:])  # pidstat has the time in the heading
            yield kind, words[place], words[len(heading) - 1], Look(at, now, figures, coarse)


def _fields(lines: tuple[str, ...]) -> Iterator[tuple[str, str, str, Look]]:
    """Fields of /proc/PID/status, and sums over the mappings of /proc/PID/smaps."""
    now, shown, kind = None, "?", ""
    first, who, comm = 0, "?", ""
    sums: dict[str, float] = {}
    for at, line in enumerate((*lines, ""), 1):
        field, mapping = FIELD.match(line), MAPPING.match(line)
        clock, cat = seconds_of(line), SHOWN.match(line)
        key = FIELDS.get(field["name"]) if field else None
        again = (
            kind == "status"
            and field
            and (field["name"] == "Name" or (key in sums and field["name"] in ("VmRSS", "VmSize")))
        )
        new_list = (mapping and ("[rollup]" in line or kind != "smaps")) or (mapping and again)
        if sums and (clock is not None or cat or again or new_list or at > len(lines)):
            yield kind, who, comm, Look(first, now, sums)
            sums, first, who, comm, kind = {}, 0, shown, "", ""
        now, shown = (now if clock is None else clock), (cat["pid"] if cat else shown)
        if mapping:
            kind, first, who = "smaps", first if kind == "smaps" else at, shown
        elif field:
            if kind != "smaps":
                kind = "status"
                who = field["owner"] or (field["value"] if field["name"] == "Pid" else who)
                comm = field["value"] if field["name"] == "Name" else comm
            if key and field["unit"] and field["value"].isdigit():
                first = first or at
                sums[key] = sums.get(key, 0.0) + float(field["value"]) * KIB


def rates_of(rows: Sequence[Look], key: str) -> list[tuple[int, float]]:
    """How fast a figure moves from each look to the next one, with the line of that."""
    pairs = ((a, b) for a, b in pairwise(rows) if key in a.figures and key in b.figures)
    timed = ((a, b) for a, b in pairs if a.seconds is not None and b.seconds and b.seconds > a.seconds)
    return [(b.line, (b.figures[key] - a.figures[key]) / (b.seconds - a.seconds)) for a, b in timed]  # type: ignore[operator]


def within(rows: Iterable[Look], first: int, last: int) -> list[Look]:
    return [row for row in rows if first <= row.line <= last]
