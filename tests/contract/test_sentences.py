"""Every sentence of evidence about a fixture follows from the lines of the file that it names, by plain search.

The answers are those that `test_analyze.py` holds to; nothing is analyzed here. The figures of each kind of sentence
are computed anew from the numbers in the cited lines, with no parser: by the names that the kernel gives its counters,
or from the columns that rows of one shape have in common. Kinds of sentences without such figures, and formats whose
figures only a parser finds, are named below. `tests/diagnosis/test_figures_by_search.py` counts the samples of stacks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, combinations, pairwise
from statistics import linear_regression
from typing import Any

import pytest

from contract.fixture_inputs import fixture_inputs
from contract.plain_processes import Look, of_process, rates_of, seconds_of, within
from contract.recorded_answers import recorded_documents
from contract.run_command import ROOT

INPUTS = fixture_inputs()
GROUPS = sorted({name.split("/")[0] for name in INPUTS})
FAR = 2000  # lines of the block that a text profile puts a function in, at most
ROUND = 450  # lines of one round of a loop over files of /proc, at most
WIDEST = 24  # columns of a table
UNREAD = (  # parts of the names of fixtures and files that a search does not read
    "atop_", "nmon", "prometheus", "pcp", "pm", "sadf", "/dstat", "collectl_", "oswatcher", "pt-stalk", "json", "ja-jp",
    "kernel_events", "function_graph", "snoop", "bpftrace", "below", "perf_stat",
)  # fmt: skip
UNITS = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "%": 0.01, "ms": 0.001, "min": 60, "h": 3600,
    "days": 86400, "million": 1e6, "billion": 1e9,
}  # fmt: skip
DAY = 86400  # seconds, after which a clock begins anew
LOCK_WAIT = re.compile(r"\s*\d+\s+([\d.]+) ([mu]?s)\s")
LOCK_UNITS = {"s": 1, "ms": 1e-3, "us": 1e-6}
SIZES = (1, 2**10, 2**12, 2**20)  # a size is written in bytes, kB, pages or MB
NUMBER = re.compile(r"(?<![\w.])-?(\d+(?:\.\d+)?)([kKmMgGtT])?(?!\w)")
COUNTER = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\b[A-Z]\w*Pages\b|\bSUnreclaim\b|\b(?:pg|pswp|zswp)[a-z]+\b")
OTHER_NAMES = {"direct reclaim entries over all zones": [r"allocstall\w*"], "processes started": ["processes"]}

AMOUNT = r"-?[\d,]+(?:\.\d+)?(?: (?:million|billion))?(?: (?:[KMGT]iB|B|%|ms|s|min|h|days|pages|blocks))?(?:/s)?"
LINES = r"\(lines (?P<first>\d+) to (?P<last>\d+)\)"
RANGE = rf"(?P<low>{AMOUNT})(?: to (?P<high>{AMOUNT}), mean (?P<mean>{AMOUNT}))?"
Moments = tuple[float, float, float]  # the least, the greatest and the mean
Bounds = tuple[float, float]  # between which a figure lies, as it is rounded


def bounds(words: str) -> Bounds:
    """Of an amount as it is printed, in base units."""
    number, *units = words.removesuffix("/s").split()
    size = 1.0
    for unit in units:
        size *= UNITS.get(unit, 1)
    digits = len(number.partition(".")[2])
    off = 0.5 * 10**-digits if digits or units or words.endswith("/s") else 0.0
    value = float(number.replace(",", ""))
    return (value - off) * size - 1e-9, (value + off) * size + 1e-9


def sizes(words: str) -> Sequence[float]:
    """What a number of the file may stand for, by the unit that the sentence has."""
    return (0.01, 1) if "%" in words else SIZES if "B" in words else (1, 0.001) if words.endswith(" s") else (1,)


@cache
def lines_of(name: str, member: str) -> list[str] | None:
    """The lines of a member; None of one that is packed or binary."""
    folder = ROOT / INPUTS[name]
    file = folder / member if folder.is_dir() else folder
    data = file.read_bytes() if file.is_file() else b"\0"
    return None if b"\0" in data[:4096] else data.decode("utf-8", "replace").splitlines()


def numbers(line: str) -> list[float]:
    """The numbers of a line; 2.4g is 2.4 GiB."""
    if re.search(r"\d,\d", line) and not re.search(r"\d\.\d", line):  # as some languages write it
        line = line.replace(",", ".")
    letters = {"k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
    return [float(m[1]) * letters.get((m[2] or "").lower(), 1.0) for m in NUMBER.finditer(line)]


def columns(lines: Sequence[str], first: int, last: int) -> dict[tuple[str, int], list[tuple[int, float]]]:
    """Line number and value of the numbers of lines that differ in numbers only, by the words and the place."""
    found: dict[tuple[str, int], list[tuple[int, float]]] = defaultdict(list)
    for at, line in enumerate(lines[first - 1 : last - 1 + ROUND], first):
        bare = re.sub(r"\d+:\d+:\d+(?:\.\d+)?(?: [AP]M)?|\(\d+\)", "", line).replace(",", ".")
        shape = " ".join(NUMBER.sub("#", bare).split())
        for place, value in enumerate(numbers(bare)):
            found[shape, place].append((at, value))
    return found


def readings(lines: Sequence[str], names: Sequence[str], first: int, last: int) -> list[tuple[float | None, float]]:
    """The time and the sum of some counters in each round: what begins with a time, or with the first of them."""
    times = {at: clock for at, line in enumerate(lines) if (clock := seconds_of(line)) is not None}
    starts, found = sorted(times), dict[int, float]()
    for at in range(max(0, first - ROUND), min(len(lines), last - 1 + ROUND)):
        if any(re.match(rf'\W*{name}\b[":=\s]+\d', lines[at]) for name in names):
            place = bisect_right(starts, at) - 1
            key = starts[place] if place >= 0 else -1
            found[key] = found.get(key, 0.0) + numbers(lines[at])[0]
    return [(times.get(key), value) for key, value in sorted(found.items())]


def counters(words: str) -> list[str]:
    """The counters that a sentence names."""
    return OTHER_NAMES.get(words) or COUNTER.findall(words)


# The kinds of sentences: True if the figures follow, False if not, None if the file does not show it to a search


Judge = Callable[[re.Match[str], list[str]], bool | None]


def change(found: re.Match[str], lines: list[str]) -> bool | None:
    """A rise or fall between two lines: of the named counters, or of a column that the samples there have."""
    first, last, most = int(found["first"]), int(found["last"]), "up to" in found["verb"]
    parts = [(found["name"], found["by"])]
    if found["other"] and counters(found["other"]):
        parts.append((found["other"], found["other_by"]))
    return all(_has_changed(lines, first, last, name, by, most=most) for name, by in parts)


def _has_changed(lines: list[str], first: int, last: int, name: str, by: str, *, most: bool) -> bool:
    low, high = bounds(by)
    ways = ([_by_name(lines, first, last, counters(name))], _by_place(lines, first, last), _by_sum(lines[first:last]))
    for known in chain.from_iterable(ways):
        for size in sizes(by):
            if low <= abs(known) * size <= high or (most and abs(known) * size <= high):
                return True
    return False


def _by_name(lines: list[str], first: int, last: int, names: Sequence[str]) -> float:
    def total(at: int) -> float:
        part = lines[at - 1 : at - 1 + ROUND]
        known: dict[str, float] = {}  # the first of each that a name, or a pattern of names, stands for
        for line in part if names else ():
            if found := re.search(rf'(?:^|[\s"])({"|".join(names)})\b[":=\s]+(\d+)', line):
                known.setdefault(found[1], float(found[2]))
        return sum(known.values()) if known else float("nan")

    return total(last) - total(first)


def _by_place(lines: list[str], first: int, last: int) -> Iterator[float]:
    """The differences of what stands at the same place in the round that begins at either line."""
    for length in (1, 60, ROUND):
        one, other = ({}, {})  # type: dict[tuple[str, int], float], dict[tuple[str, int], float]
        for known, at in ((one, first), (other, last)):
            for line in lines[at - 1 : at - 1 + length]:
                shape = " ".join(NUMBER.sub("#", line).split()) if length > 1 else ""
                for place, value in enumerate(numbers(line)):
                    known.setdefault((shape, place), value)
        yield from (other[key] - value for key, value in one.items() if key in other)


def _by_sum(lines: Sequence[str]) -> Iterable[float]:
    """What each line adds to a figure, of a log that tells what each pause took."""
    sums: dict[str, float] = {}
    for name, figure in re.findall(r"\b(user|sys|real)=(\d+\.\d\d)", "\n".join(lines), re.IGNORECASE):
        sums[name] = sums.get(name, 0.0) + float(figure)
    return sums.values()


def values(found: re.Match[str], lines: list[str]) -> bool | None:
    """The least, the greatest and the mean of so many samples in a stretch of lines."""
    first, last, count = int(found["first"]), int(found["last"]), int(found["count"].replace(",", ""))
    given = found.groupdict()
    wanted = [bounds(given[key]) if given.get(key) else None for key in ("low", "high", "mean")]
    unit = given.get("low") or given["mean"]
    if unit.endswith("B/s") and any(_some_fit(rates, count, wanted, SIZES) for rates in _growths(lines)):
        return True
    if named := counters(found["name"]):
        rates = _rates(readings(lines, named, first, last)) if unit.endswith("/s") else []
        return _some_fit(rates, count, wanted, (1,)) if rates else None
    entity = re.search(r" of cpu (\d+)$", found["name"])
    if entity:
        lines = [line if re.search(rf"\s{entity[1]}\s+\d+\.\d", line) else "" for line in lines]
    if any(_some_fit(jiffies, count, wanted, (1,)) for jiffies in _jiffies(lines)):
        return True
    known = _moments(tuple(lines), first, last, count)
    return any(_are_within(moments, wanted, size) for moments in known for size in sizes(unit))


@cache
def _moments(lines: tuple[str, ...], first: int, last: int, count: int) -> set[Moments]:
    """Of all figures that so many rows of one shape may mean."""
    by_shape: dict[str, list[list[float]]] = defaultdict(list)
    for (shape, _), column in columns(lines, first, last).items():
        if len(column) >= count:
            within = sum(at <= last for at, _ in column)
            by_shape[shape].append([value for _, value in column][: max(count, within)])
    tables = (rows for rows in by_shape.values() if len(rows) <= WIDEST)
    return {_moments_of(figure) for rows in tables for figure in _figures(rows) if len(figure) == count}


@cache
def _growth_columns(lines: tuple[str, ...]) -> list[list[float]]:
    times = {at: clock for at, line in enumerate(lines, 1) if (clock := seconds_of(line)) is not None}
    starts = sorted(times)
    found = []
    for column in columns(lines, 1, len(lines)).values():
        timed = [(bisect_right(starts, at) - 1, value) for at, value in column]
        found.append(_rates([(times[starts[place]], value) for place, value in timed if place >= 0]))
    return [rates for rates in found if rates]


def _growths(lines: list[str]) -> list[list[float]]:
    """How fast what stands at one place of lines of one shape grows, in loops that print the time."""
    return _growth_columns(tuple(lines))


def _rates(rounds: Sequence[tuple[float | None, float]]) -> list[float]:
    pairs = pairwise(rounds)
    return [(b - a) / (then - now) for (now, a), (then, b) in pairs if now is not None and then and then > now]


def _figures(rows: list[list[float]]) -> Iterator[list[float]]:
    """A column; of shares what they leave of 100, the sum of some, and the part that one is of another, of both
    together, or of what one or two leave of 100."""
    yield from rows
    shares = [row for row in rows if min(row) >= 0 and max(row) <= 100]
    yield from ([100 - value for value in row] for row in shares)
    sums = [[a + b for a, b in zip(*two, strict=True)] for two in combinations(shares, 2)]
    yield from sums
    yield from ([sum(values) for values in zip(*three, strict=True)] for three in combinations(shares, 3))
    for one in (*shares, *sums):
        yield from ([100 * a / (a + b) for a, b in zip(one, row, strict=True) if a + b > 0] for row in shares)
        yield from ([100 * a / (100 - b) for a, b in zip(one, row, strict=True) if b < 100] for row in (*shares, *sums))
    for one in shares:
        yield from ([100 * a / b for a, b in zip(one, row, strict=True) if b > 0] for row in shares)


@cache
def _all_jiffies(rows: tuple[str, ...]) -> list[list[float]]:
    times = [[int(word) for word in row.split()[1:9]] for row in rows]
    steps = [[b - a for a, b in zip(old, new, strict=True)] for old, new in pairwise(times)]
    steps = [step for step in steps if sum(step) > 0]
    kernel, wait = (2, 5, 6), (3, 4)
    parts = [*((n,) for n in range(8)), (0, 1), kernel, (*kernel, 7)]
    found = [[sum(step[n] for n in part) / sum(step) for step in steps] for part in parts]
    idle = [sum(step[n] for n in (*wait, 7)) for step in steps]
    busy = [(sum(step[n] for n in kernel), sum(step) - rest) for step, rest in zip(steps, idle, strict=True)]
    return [*found, [part / whole if whole else 0.0 for part, whole in busy]]


def _jiffies(lines: list[str]) -> list[list[float]]:
    """Shares of CPU time between the lines of /proc/stat."""
    return _all_jiffies(tuple(line for line in lines if re.match(r"cpu  \d+ \d+ \d+ \d+ \d+ \d+ \d+ \d+", line)))


def _some_fit(rates: list[float], count: int, wanted: Sequence[Bounds | None], scale: Sequence[float]) -> bool:
    parts = [_moments_of(rates[at : at + count]) for at in range(len(rates) - count + 1)]
    return any(_are_within(moments, wanted, size) for moments in parts for size in scale)


def _moments_of(figures: Sequence[float]) -> Moments:
    return min(figures), max(figures), sum(figures) / len(figures)


def _are_within(moments: Moments, wanted: Sequence[Bounds | None], size: float) -> bool:
    """Whether least, greatest and mean are as the sentence has them; a least alone is the greatest, too."""
    low, high, mean = wanted
    pairs = zip(moments, (low, high or low, mean), strict=True)
    return all(want is None or want[0] <= figure * size <= want[1] for figure, want in pairs)


def all_values(found: re.Match[str], lines: list[str]) -> bool | None:
    """The least, the greatest and the mean of so many samples of the whole file, in which the first one may be left
    out: what top and vmstat print first is of the time since boot."""
    count, named = int(found["count"].replace(",", "")), counters(found["name"])
    wanted = [bounds(words) if (words := found[key]) else None for key in ("low", "high", "mean")]
    if named:
        rates = _rates(readings(lines, named, 1, len(lines)))
        return _some_fit(rates, count, wanted, (1,)) if rates else None
    if any(_some_fit(jiffies, count, wanted, (1,)) for jiffies in _jiffies(lines)):
        return True
    by_shape: dict[str, list[list[float]]] = defaultdict(list)
    for (shape, _), column in columns(lines, 1, len(lines)).items():
        if len(column) in (count, count + 1):
            by_shape[shape].append([value for _, value in column][-count:])
    tables = [rows for rows in by_shape.values() if len(rows) <= WIDEST]
    fits = any(
        _are_within(_moments_of(one), wanted, 0.01) for rows in tables for one in _figures(rows) if len(one) == count
    )
    return fits or None


def uptime(found: re.Match[str], lines: list[str]) -> bool | None:
    """As uptime, top and /proc/uptime print it."""
    line = lines[int(found["line"]) - 1]
    if plain := re.fullmatch(r"(?:/proc/uptime:)?(\d+\.\d\d) \d+\.\d\d", line.strip()):
        return is_within(float(plain[1]), found["value"])
    up = re.search(r"\bup +(?:(\d+) days?,? *)?(?:(\d+):(\d\d)|(\d+) min|(?=,|$))", line)
    if up is None:
        return None
    days, hours, minutes, alone = (int(word or 0) for word in up.groups())
    return is_within(days * DAY + hours * 3600 + (minutes + alone) * 60, found["value"])


def times_as_much(found: re.Match[str], lines: list[str]) -> bool | None:
    """One side of a switch is so many times the other, and as far as both are rounded."""
    (one, most), (least, other) = bounds(found["worse"]), bounds(found["better"])
    return one / other - 0.06 <= float(found["times"]) <= most / max(least, 1e-9) + 0.06


def one_value(found: re.Match[str], lines: list[str]) -> bool | None:
    """A value that stands in the line, in the unit of the sentence or a smaller one; a share follows from several."""
    low, high = bounds(found["value"])
    line, size = int(found["line"]), sizes(found["value"])
    at_hand = numbers(lines[line - 1])
    if named := counters(found["name"]):
        rows = (row for row in lines[line - 1 : line - 1 + ROUND] if re.match(rf"\W*{named[0]}\b", row))
        at_hand += [number for row in rows for number in numbers(row)]
    if found["name"].startswith("time that tasks waited for locks"):  # of all rows below one another
        waits = filter(None, map(LOCK_WAIT.match, lines[line - 1 :]))
        at_hand.append(sum(float(wait[1]) * LOCK_UNITS[wait[2]] for wait in waits))
    if "%" not in found["value"]:
        return any(low <= value * scale <= high for value in at_hand for scale in size)
    return None


def mentioned(found: re.Match[str], lines: list[str]) -> bool | None:
    """The function that most of it is in is named from the cited line on."""
    part = "\n".join(lines[int(found["line"]) - 1 :][:FAR])
    return re.search(rf"(?<!\w){re.escape(found['leaf'])}(?!\w|_\[)|{re.escape(found['leaf'])}_\[k\]", part) is not None


def reported(found: re.Match[str], lines: list[str]) -> bool | None:
    """Fields of a kernel message that are numbers stand in it, or in the trace below it."""
    part = "\n".join(lines[int(found["line"]) - 1 : int(found["line"]) + 60])
    fields = re.findall(r"\b(?:pid|cpu|order|seconds|blocks_pid) (\d+)\b", found["fields"])
    return all(re.search(rf"(?<!\d){field}(?!\d)", part) for field in fields)


# Of one process, by the columns and fields that `plain_processes` finds

MEMORY = {
    "resident memory of": ("rss",), "virtual size of": ("vsz",), "anonymous memory of": ("huge",),
    "resident memory of a process that is in no huge pages of": ("rss", "huge"),
    "lazily freed memory of": ("lazy",),
    "lazily freed memory as a share of the resident memory of": ("lazy", "rss"),
    "anonymous memory shared with other processes of": ("anon", "pss_anon"),
    "minor and major faults together of": ("faults",),
}  # fmt: skip
PROCESS = r"(?:(?P<comm>\S[^()]*) \((?P<pid>\d+)\)|process (?P<number>\d+|\?))"
OF_PROCESS = rf"(?P<name>{'|'.join(sorted(MEMORY, key=len, reverse=True))}) {PROCESS}(?: in huge pages)?"


def _figure(name: str, look: Look) -> float | None:
    """The figure of a look that a sentence speaks of."""
    known = [look.figures.get(key) for key in MEMORY[name]]
    if None in known or any(value != value for value in known):
        return None
    one, *other = known
    if not other:
        return one
    return one - other[0] if MEMORY[name][0] in ("rss", "anon") else one / other[0] if other[0] else 0.0


def _looks(found: re.Match[str], lines: list[str], name: str = "resident memory of") -> list[list[Look]]:
    """The looks at the process of a sentence that show its figure, a list for each format."""
    return [
        [look._replace(figures={"": value}) for look in rows if (value := _figure(name, look)) is not None]
        for rows in of_process(tuple(lines), found["pid"] or found["number"], found["comm"])
    ]


def of_one_process(judge: Callable[[re.Match[str], list[Look]], bool]) -> Judge:
    """A judge that one of the formats must satisfy; None if the process is in none of them."""

    def judged(found: re.Match[str], lines: list[str]) -> bool | None:
        formats = [rows for rows in _looks(found, lines, found["name"]) if rows]
        return any(judge(found, rows) for rows in formats) if formats else None

    return judged


def _part(found: re.Match[str], rows: list[Look]) -> tuple[list[float], float | None]:
    """The figures of the cited lines and how long they took; none where not both lines are looks, or others lie
    between them than the sentence counts."""
    part, count = within(rows, int(found["first"]), int(found["last"])), found.groupdict().get("count")
    ends = part and (part[0].line, part[-1].line) == (int(found["first"]), int(found["last"]))
    if not ends or (count and len(part) != int(count.replace(",", ""))):
        return [], None
    first, last = part[0].seconds, part[-1].seconds
    return [look.figures[""] for look in part], last - first if first is not None and last is not None else None


def is_within(value: float, words: str) -> bool:
    low, high = bounds(words.removeprefix("less than "))
    return (low <= value or words.startswith("less than ")) and value <= high


def process_change(found: re.Match[str], rows: list[Look]) -> bool:
    part, seconds = _part(found, rows)
    of_command = "; time from `sleep" in found.string
    took = not found["over"] or of_command or (seconds is not None and is_within(seconds % DAY, found["over"]))
    by = part[-1] - part[0] if part else 0.0
    verb = by > 0 if found["verb"] == "rose by" else by < 0 if found["verb"] == "fell by" else not by
    return len(part) > 1 and took and verb and is_within(abs(by), found["by"])


def process_slope(found: re.Match[str], rows: list[Look]) -> bool:
    """By least squares."""
    part, seconds = _part(found, rows)
    if not part or seconds is None or not is_within(seconds, found["over"]):
        return False
    times = [look.seconds or 0.0 for look in within(rows, int(found["first"]), int(found["last"]))]
    by = linear_regression(times, part).slope
    return is_within(abs(by), found["by"]) and (by < 0) is (found["verb"] == "falls by")


def process_figure(found: re.Match[str], rows: list[Look]) -> bool:
    """The largest rise from one look to the next, how much a figure varies, and the last one."""
    part, _ = _part(found, rows)
    if not part:
        return False
    match found["verb"]:
        case "rises at once by at most":
            value = max([b - a for a, b in pairwise(part)] + [0.0])
        case "varies by":
            value = (max(part) - min(part)) / max(part)
        case _:
            value = part[-1]
    return is_within(value, found["by"])


def process_bend(found: re.Match[str], rows: list[Look]) -> bool:
    """From the first look to the bend, and from there to the greatest; the recording may be cut to a part before."""
    top = max(look.figures[""] for look in rows)
    end = next(at for at, look in enumerate(rows) if look.figures[""] == top)
    for start in range(end):
        bend = next((at for at in range(start + 1, end) if rows[at].line == int(found["line"])), None)
        if bend is None:
            continue
        both = [_speed(rows[start], rows[bend]), _speed(rows[bend], rows[end])]
        if all(
            by is not None and is_within(by, words) for by, words in zip(both, found.group("by", "then"), strict=True)
        ):
            return True
    return False


def _speed(a: Look, b: Look) -> float | None:
    if a.seconds is None or b.seconds is None or b.seconds <= a.seconds:
        return None
    return (b.figures[""] - a.figures[""]) / (b.seconds - a.seconds)


def process_samples(found: re.Match[str], rows: list[Look]) -> bool:
    """How large it is, or how fast it grows from look to look, and how often that is between two bounds."""
    first, last = int(found["first"]), int(found["last"])
    if found["low"].endswith("/s"):
        part = [by for line, by in rates_of(rows, "") if first <= line <= last]
    else:
        part = [look.figures[""] for look in within(rows, first, last)]
    low = bounds(found["above"])[1] if found["above"] else float("-inf")
    high = bounds(found["below"])[0] if found["below"] else float("inf")
    wanted = [bounds(words) if (words := found[key]) else None for key in ("low", "high", "mean")]
    fitting = sum(low < by < high for by in part)
    return (
        len(part) == int(found["count"]) and fitting == int(found["fit"]) and _are_within(_moments_of(part), wanted, 1)
    )


def cpu_of_thread(found: re.Match[str], lines: list[str]) -> bool | None:
    """What a tool prints for each round, or what the counters of proc(5) grew by; not listed is 0."""
    formats = list(of_process(tuple(lines), found["pid"], found["comm"]))
    if not found["first"]:
        last = [look.figures["cpu"] for rows in formats for look in rows if "cpu" in look.figures]
        return any(is_within(value, found["mean"]) for value in last) if last else None
    if not formats:
        return None
    first, last, count = int(found["first"]), int(found["last"]), int(found["count"])
    absent = [0.0] * int(found["absent"] or 0)
    for rows in formats:
        printed = [look.figures["cpu"] for look in within(rows, first, last) if "cpu" in look.figures]
        counted = [by for line, by in rates_of(rows, "ticks") if first <= line <= last]
        for part in (printed + absent, counted):
            if len(part) == count and _are_within(_moments_of(part), _cpu_words(found), 1):
                return True
    return False


def _cpu_words(found: re.Match[str]) -> list[Bounds | None]:
    mean = bounds(found["mean"])
    return [bounds(found["low"]) if found["low"] else mean, bounds(found["high"]) if found["high"] else mean, mean]


# Of the whole host


def memory_share(found: re.Match[str], lines: list[str]) -> bool | None:
    """MemAvailable of MemTotal, or what top and free print of both."""
    part = lines[max(0, int(found["line"]) - ROUND) :][: 2 * ROUND]
    near = int(found["line"]) - 1 - max(0, int(found["line"]) - ROUND)
    shares = []
    for total, free in ((r"MemTotal", r"MemAvailable"), (r"[MGKi]+B Mem ?:|Mem:", r"avail Mem")):
        for at in range(max(0, near - 8), min(len(part), near + 9)):
            if free in part[at]:
                above = [row for row in part[: at + 1] if re.search(total, row)]
                one = numbers(part[at].partition("used.")[2] or part[at])
                if above and one and (whole := numbers(above[-1])):
                    shares.append(one[0] / whole[0])
    return any(is_within(share, found["value"]) for share in shares) if shares else None


def unusable_share(found: re.Match[str], lines: list[str]) -> bool | None:
    """The part of the free pages of a zone that is in blocks of less than 2 MiB, of pages of 4 KiB."""
    row = re.match(rf".*\bNode {found['node']}, zone +{found['zone']} +([\d ]+)$", lines[int(found["line"]) - 1])
    if row is None:
        return None
    pages = [int(word) << order for order, word in enumerate(row[1].split())]
    return is_within(sum(pages[:9]) / sum(pages), found["value"])


def since_boot(found: re.Match[str], lines: list[str]) -> bool | None:
    """The total stands there, and is so much a second in the time that the sentence has."""
    total, (short, long) = bounds(found["total"]), bounds(found["up"])
    names = counters(found["name"])
    stands = [
        int(found["line"]) - 1 + at
        for at, line in enumerate(lines[int(found["line"]) - 1 :][:ROUND])
        if any(re.match(rf"\W*{name}\b", line) for name in names)
    ]
    known = sum(numbers(lines[at])[0] for at in stands[: 1 if len(names) == 1 and "*" not in names[0] else None])
    low, high = bounds(found["rate"])
    return total[0] <= known <= total[1] and low <= known / short and known / long <= high if stands else None


KINDS: dict[str, tuple[str, Judge]] = {
    "change of a process": (
        rf"{OF_PROCESS}:? (?P<verb>rose by|fell by|changed by) (?P<by>{AMOUNT})"
        rf"(?: (?:in|over) (?P<count>[\d,]+) samples)?(?: (?:in|over) (?P<over>{AMOUNT}))? {LINES}(?:;.*)?",
        of_one_process(process_change),
    ),
    "slope of a process": (
        rf"{OF_PROCESS}: (?P<verb>grows by|falls by) (?P<by>{AMOUNT}) in (?P<count>[\d,]+) samples"
        rf" over (?P<over>{AMOUNT}) {LINES}(?:;.*)?",
        of_one_process(process_slope),
    ),
    "figure of a process": (
        rf"{OF_PROCESS}: (?P<verb>rises at once by at most|varies by|last value) (?P<by>(?:less than )?{AMOUNT})"
        rf" in (?P<count>[\d,]+) samples(?: over {AMOUNT})? {LINES}(?:;.*)?",
        of_one_process(process_figure),
    ),
    "bend of a process": (
        rf"{OF_PROCESS}: grew by (?P<by>{AMOUNT}), from line (?P<line>\d+) on by (?P<then>{AMOUNT})(?:;.*)?",
        of_one_process(process_bend),
    ),
    "samples of a process": (
        rf"{OF_PROCESS}:(?: above (?P<above>{AMOUNT}))?(?: and)?(?: below (?P<below>{AMOUNT}))? in (?P<fit>[\d,]+) of "
        rf"(?P<count>[\d,]+) samples {LINES}(?:, less than [\d.]+ % of them)?; {RANGE}(?:;.*)?",
        of_one_process(process_samples),
    ),
    "CPU of a thread": (
        rf"(?P<comm>\S[^()]*) \((?P<pid>\d+)\) uses (?P<mean>{AMOUNT}) of a CPU(?: on average, (?:the same|"
        rf"(?P<low>{AMOUNT}) to (?P<high>{AMOUNT})) in (?P<count>[\d,]+) samples {LINES}"
        r"(?:; not listed in (?P<absent>\d+) of them)?)?(?:;.*)?",
        cpu_of_thread,
    ),
    "time since boot": (rf"time since boot: (?P<value>{AMOUNT}) @(?P<line>\d+)", uptime),
    "available memory": (rf"available memory: (?P<value>{AMOUNT}) @(?P<line>\d+)", memory_share),
    "unusable memory": (
        r"share of the free memory of a zone that cannot serve a huge page, node (?P<node>\d+) zone (?P<zone>\w+): "
        rf"(?P<value>{AMOUNT}) @(?P<line>\d+)",
        unusable_share,
    ),
    "since boot": (
        rf"(?P<name>[^:]+): (?P<total>{AMOUNT}) since boot (?P<up>{AMOUNT}) ago, (?:about )?"
        rf"(?P<rate>{AMOUNT}) on average(?:;.*)? @(?P<line>\d+)",
        since_boot,
    ),
    "change": (
        rf"(?P<name>.+?):? (?P<verb>rose by up to|rose by|fell by|changed by) (?P<by>{AMOUNT})"
        rf"(?: (?:in|over) [\d,]+ samples)?(?: (?:in|over) {AMOUNT})? {LINES}"
        rf"(?:; meanwhile, (?P<other>.+): (?P<other_by>{AMOUNT}))?(?:;.*)?",
        change,
    ),
    "samples above": (
        rf"(?P<name>.+?): above {AMOUNT}(?: and below {AMOUNT})? in [\d,]+ of (?P<count>[\d,]+) samples {LINES}"
        rf"(?:, less than [\d.]+ % of them)?; {RANGE}(?:;.*)?",
        values,
    ),
    "samples in a row": (
        rf"(?P<name>.+?): {RANGE} in (?P<count>[\d,]+) of [\d,]+ samples in a row "
        r"\((?:[^;()]+; )?lines (?P<first>\d+) to (?P<last>\d+)\)(?:;.*)?",
        values,
    ),
    "mean": (
        rf"(?P<name>.+?): mean (?P<mean>{AMOUNT}) in (?P<count>[\d,]+) samples(?: over {AMOUNT})? {LINES}(?:;.*)?",
        values,
    ),
    "all samples": (
        rf"(?P<name>[^:]+): {RANGE} in (?P<count>[\d,]+) samples(?:, (?:above|below) .+ at most)?(?:;.*)?",
        all_values,
    ),
    "switch": (
        rf".+: .+? (?P<worse>{AMOUNT}) \([\d,]+ samples?\); .+: (?P<better>{AMOUNT}) \([\d,]+ samples?\); "
        r"(?P<times>[\d.]+) times as much(?:;.*)?",
        times_as_much,
    ),
    "most in": (r".+ % of the .+, most in (?P<leaf>[^ <]+)(?: <.*| alone.*) @(?P<line>\d+)", mentioned),
    "message": (
        r"(?:a CPU|a task|the kernel could|the out-of-memory killer) .+ \((?P<fields>(?:comm|cpu|pid|flavour) .+)\)"
        r"(?:, and \d+ more)? @(?P<line>\d+)",
        reported,
    ),
    "value": (
        rf"(?!time since boot|size of a)(?P<name>[^:]+): (?P<value>{AMOUNT})(?: in one sample)? @(?P<line>\d+)",
        one_value,
    ),
}  # fmt: skip
NO_FIGURES = (  # or such as another test counts again
    r"the recording shows callers|no such process among those listed|not among the processes listed.*",
    r"the same holds for .+|\S+ sets \S+, the running kernel has \S+",
    r"a kernel of the family whose .*|thp\.\S+ (?:of \S+ \S+ )?is .*|sysctl\.\S+ is .*|.+ runs here",
    r"what .+ (?:advise|says|writes?) .*|an application's own warning .*|somebody (?:writes|wrote) .*|the write of .*",
    r"a kernel setting was written.*|a write to vm\.compact_memory.*|the caches were dropped.*|an operator did .*",
    r".* % of the .+",  # tests/diagnosis/test_figures_by_search.py counts the samples
    r".+: (?:0|[1-9]\d*) times in .+",  # test_counts_of_messages.py searches the messages
)
OF_A_RULE = re.compile(r"(?:not )?found: (?P<title>.+) \((?P<rule>[A-Z]+-\d+)\)")
OF_SEVERAL = (  # what only a parser keeps apart: the sizes of a share
    r"(?:free memory|memory of programs).* as a share of .+",
)
OF_A_CURVE = (  # figures of the whole of a curve, that no two lines show
    r".+: grew by .+, from line \d+ on by .+|.+: rises and falls, by .+ in all: no bend.*|.+: (?:grows|falls) by .+",
    r".+: rises at once by at most .+|.+: varies by .+|.+: last value .+|.+ uses .+ of a CPU.*",
    rf".+: {AMOUNT} since boot .+ ago, .+ on average.*|.+: .+ in [\d,]+ samples?(?:,.+|;.*)?|.+ in one sample.*",
    r".+ in \d+ of \d+ samples in a row.*|the kernel stack of a task .*|the size of .+|size of .+",
    r"[^:]+: [^\d].*|time since boot.*|.+ \(lines \d+ to \d+\).*",
)


AT_LEAST = {"captures": 1200, "acceptance": 160, "healthy": 70, "readers": 230, "stories": 80}  # that are recounted
EVIDENCE = re.compile(r"(?:cases\.\d+\.)?(?:findings|ruled_out)\.\d+\.(?:evidence|against)\.\d+\.text")


def judged(name: str, evidence: dict[str, Any]) -> tuple[str, bool | None]:
    """The kind of a sentence, and whether its figures follow from the file."""
    text, member, line = str(evidence["text"]), str(evidence.get("member", "")), evidence.get("line")
    lines = lines_of(name, member) if member else None
    if any(re.fullmatch(pattern, text) for pattern in OF_SEVERAL):
        return "several", None
    if found := OF_A_RULE.fullmatch(text):
        return "rule", None if titles_of_rules().get(found["rule"]) == found["title"] else False
    for kind, (pattern, judge) in KINDS.items():
        if found := re.fullmatch(pattern, f"{text} @{line}" if "@" in pattern else text):
            return kind, judge(found, lines) if lines else None
    for kind, patterns in (("no figures", NO_FIGURES), ("curve", OF_A_CURVE)):
        if any(re.fullmatch(pattern, text) for pattern in patterns):
            return kind, None
    return "unknown", False


@cache
def titles_of_rules() -> dict[str, str]:
    """The titles of all rules by their ids, as an answer lists them."""
    _, _, words = next(recorded_documents("analyze.stories"))
    places = ((re.fullmatch(r"rules\.(\S+)\.title", place), text) for place, text in words.items())
    return {found[1]: text for found, text in places if found}


def evidence_of(group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each piece of evidence of the fixtures of a group once: the fixture, and member, line and text."""
    seen = set[tuple[str, str]]()
    for name, values, words in recorded_documents(f"analyze.{group}"):
        for place, text in words.items():
            if EVIDENCE.fullmatch(place) and name in INPUTS and (name, text) not in seen:
                seen.add((name, text))
                yield name, {**at(values, place.rpartition(".")[0]), "text": text}


def at(values: Any, place: str) -> Any:
    """What stands at a place of an answer."""
    for key in place.split("."):
        values = values[int(key) if isinstance(values, list) else key]
    return values


@pytest.mark.parametrize("group", GROUPS)
def test_the_figures_of_a_sentence_follow_from_the_lines_that_it_cites(group: str) -> None:
    """All sentences are of a known kind; none whose file a search can read says anything else than the file."""
    wrong, count = [], Counter[bool | None]()
    for name, evidence in evidence_of(group):
        kind, follows = judged(name, evidence)
        is_read = not any(part in f"{name}/{evidence.get('member')}" for part in UNREAD)
        count[follows if is_read else None] += 1
        if follows is False and (is_read or kind in ("unknown", "rule")):
            wrong.append((name, evidence.get("member"), kind, evidence["text"]))
    assert wrong == []
    assert count[True] >= AT_LEAST.get(group, 0)


FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?: (?:%|[KMGT]iB|min|h|s)(?:/s)?)?")
MESSAGE = re.compile(r"^The kernel reports a problem that the input does not explain: .+?\. ")
WATCHED = re.compile(r" The counters were watched for \d+ s(?: only; .+|, which .+)?$| Not watched over time, but .+$")


@pytest.mark.parametrize("group", GROUPS)
def test_the_headline_has_the_figures_of_the_evidence(group: str) -> None:
    """As does the reason why something is ruled out."""
    for name, _, words in recorded_documents(f"analyze.{group}"):
        for place, text in words.items():
            if place.endswith("verdict.sentence"):
                own = place.replace("verdict.sentence", "findings.")
                text = WATCHED.sub("", MESSAGE.sub("", text))
            elif re.search(r"ruled_out\.\d+\.because$", place):
                own = place.replace("because", "evidence.")
            else:
                continue
            beside = " ".join(other for key, other in words.items() if key.startswith(own))
            assert [figure for figure in FIGURE.findall(text) if figure not in beside] == [], (name, place, text)


OTHER_FIGURES = {
    "change": (rf"((?:rose|fell|changed) by(?: up to)?) {AMOUNT}", r"\1 7,654,321"),
    "change of a process": (rf"((?:rose|fell|changed) by(?: up to)?) {AMOUNT}", r"\1 765.4 MiB"),
    "figure of a process": (rf"(rises at once by at most|varies by|last value) (?:less than )?{AMOUNT}", r"\1 77.7 %"),
    "slope of a process": (rf"((?:grows|falls) by) {AMOUNT}", r"\1 7.7 MiB/s"),
    "CPU of a thread": (rf"(uses) {AMOUNT}", r"\1 7.7 %"),
    "available memory": (rf": {AMOUNT}$", ": 7.7 %"),
}


@pytest.mark.parametrize("kind", OTHER_FIGURES)
def test_a_wrong_figure_would_be_seen(kind: str) -> None:
    """Of a hundred sentences that follow nearly none does with another amount in it."""
    pattern, other = OTHER_FIGURES[kind]
    own = [(name, e) for name, e in evidence_of("captures") if judged(name, e) == (kind, True)][:100]
    seen = [judged(name, e | {"text": re.sub(pattern, other, str(e["text"]), count=1)})[1] for name, e in own]
    assert len(seen) >= 12
    assert seen.count(True) <= len(seen) / 10
