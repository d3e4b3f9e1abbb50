"""Figures that people write for both sides of a switch: tables and lists with a row or a column for each setting.

    THP always: 1234 req/s           | THP    | req/s | p99 (ms) |      thp,run,seconds
    THP never: 3345 req/s            | always |  1234 |      120 |      always,1,61.2
                                     | never  |  3345 |       12 |      never,1,20.1

Lines are taken apart into cells. The cell, or the head of the column, that names the setting gives the side; a column
whose head or cells have a unit of work or time is compared; all else must be the same on both sides (version, clients,
test). It is testimony: of the writer's own host or of nobody's. Words and units stand in knowledge/testimony.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import NamedTuple

WORSE = 1.1  # times: a figure that got worse by more speaks against the others
HELPS = 1.2  # times better with huge pages, from which they are of use
MAX_ROWS, MAX_CELLS, MAX_CELL_CHARS = 200, 16, 120  # of a table; longer ones are data, long cells are prose
_RULER = re.compile(r"[\s|+:=-]+")
_CELLS = re.compile(r"\s*[|\t│]\s*|\s{2,}|\s*(?:=>|->|→)\s*|(?<=[A-Za-z)\]])\s*[:=]\s+|(?<=[A-Za-z)])\s*:(?=\d)")
_EMPTY_CORNER = re.compile(r"^(?:\t(?=\S)|\|\s*\|)")  # of a table with heads of rows and of columns
_OTHER_CELLS = re.compile(r"[|\t]|: ")
_NAMED = re.compile(r"\b(?!p\d\d\b)[a-z][\w-]{0,80}\d")  # a host, a version
_FIGURE = re.compile(r"(?<![\w.])~?(?P<n>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?P<k>[kKM](?![a-zA-Z])|)")
_HOURS = re.compile(
    r"(?<![\w.])(?P<h>\d{1,3}) ?h(?:ours?|rs?)?(?: and)? ?(?P<m>\d{1,2}) ?m(?:in(?:ute)?s?)?\b", re.IGNORECASE
)
_CLAUSES = re.compile(r",? \b(?:and|but|versus|vs\.?|while|whereas|compared (?:to|with)|against|instead of)\b|[,;]")
_WITH_VALUE = re.compile(
    r"\b(?:with|at|under|when|set to|on)\b(?= (?:the )?(?:transparent |huge ?|pages? |thp |defrag |set |to |is |was )*"
    r"(?:never|always|off|on|enabled|disabled)\b)"
)


class Side(NamedTuple):
    """What a cell says of the setting; `rest` is what else it says."""

    setting: str
    value: str
    rest: str


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times better it was without huge pages, in the worst and best of the figures, and in which line.

    Less than one where it was better with them.
    """

    setting: str
    least: float
    most: float
    line: int
    text: str


Words = Mapping[str, re.Pattern[str]]
Table = Sequence[tuple[int, str, list[str]]]  # number, line, cells


def gains(lines: Sequence[tuple[int, str]], words: Words, switched: str = "") -> Iterator[Gain]:
    """What the tables and lists in a text say. `switched` is the setting that the text says was switched off."""
    for filled, paragraph in groupby(lines, key=lambda line: bool(line[1].strip())):
        rows = list(paragraph) if filled else []
        if 2 <= len(rows) <= MAX_ROWS:
            head = next((text for number, text in reversed(lines) if number < rows[0][0] and text.strip()), "")
            yield from _gains_of_rows(rows, head, words, switched)


def gain_of_sentence(sentence: str, line: int, quoted: str, words: Words) -> Gain | None:
    """A sentence with figures for each side: `61 minutes with THP on, 20 minutes with THP off`.

    Of several for one side, as where it was switched back and forth, each must be worse than each of the other.
    """
    if words["subject"].search(sentence) is None:
        return None
    sentence = _in_minutes(sentence)
    if change := _ratio_of_change(sentence, words):
        return Gain("thp.defrag" if "defrag" in sentence else "thp.enabled", change, change, line, quoted)
    figures: list[_Figure] = []
    for clause in _CLAUSES.split(sentence):
        bare = _WITH_VALUE.sub(" ", clause)
        values = [value for value in ("never", "always") if words[value].search(bare)]
        numbers = list(_FIGURE.finditer(clause))
        if not values and not numbers:
            continue
        text = words["subject"].sub(" ", words["never"].sub(" ", words["always"].sub(" ", bare)))
        measured = _metric("", " ".join(text.split()), words)
        if len(values) != 1 or measured is None or _NAMED.search(text):
            return None
        rising, value, named = measured
        unit = words["rising"].search(named) or words["unit"].search(named)
        setting = "thp.defrag" if "defrag" in sentence else "thp.enabled"
        figures.append(_Figure(setting, values[0], unit[0] if unit else named, rising, value, line, quoted))
    ratios = list(_ratios(figures)) if _are_apart(figures) else []
    return Gain(figures[0].setting, ratios[0], ratios[0], line, quoted) if ratios else None


def _are_apart(figures: Sequence[_Figure]) -> bool:
    """Whether they are figures of one thing, and all of one side are above all of the other."""
    on, off = ([f.value for f in figures if f.side == side] for side in ("always", "never"))
    several = len({(figure.setting, figure.key, figure.rising) for figure in figures})
    return bool(on and off) and (len(figures) == 2 or (several == 1 and (min(on) > max(off) or min(off) > max(on))))


def _in_minutes(text: str) -> str:
    """The text with durations of two units as one number: `3 h 20 min`, `3h20m`."""
    return _HOURS.sub(lambda found: f"{int(found['h']) * 60 + int(found['m'])} min", text)


def _ratio_of_change(sentence: str, words: Words) -> float | None:
    """How many times better without huge pages, where one side is named and the other is what it was before.

    `dropped from 3.5 t/s without THP to 2.5 t/s`, `with THP off it went from 2.5 to 3.5 t/s`.
    """
    if (changed := words["from_to"].search(sentence)) is None:
        return None
    parts = (sentence[: changed.start()], changed["a"], changed["b"])
    named = [[value for value in ("never", "always") if words[f"{value}_said"].search(part)] for part in parts]
    around, first, last = (values[0] if len(values) == 1 else "" for values in named)
    if any(len(values) > 1 for values in named) or bool(around) is bool(first or last) or (first and first == last):
        return None
    if around and _is_of_hosts(parts[0], words):
        return None
    if not last and words["because"].search(parts[2]):
        return None
    after = last or around or ("always" if first == "never" else "never")
    head = words["never_said"].sub(" ", words["always_said"].sub(" ", parts[0]))
    cells = [_cell_of_figure(part) for part in parts[1:]]
    unit = next((unit for _, unit in reversed(cells) if unit), "")
    old, new = (_metric(head, f"{number} {own or unit}", words) for number, own in cells)
    if not old or not new or old[0] != new[0] or min(old[1], new[1]) <= 0:
        return None
    better = new[1] / old[1] if new[0] else old[1] / new[1]
    return better if after == "never" else 1 / better


def _is_of_hosts(text: str, words: Words) -> bool:
    """Whether it tells only where something was measured: `on hosts without THP`."""
    sides = [said[0] for value in ("never", "always") for said in words[f"{value}_said"].finditer(text)]
    return all(words["of_hosts"].match(side) for side in sides)


def _cell_of_figure(text: str) -> tuple[str, str]:
    """The only number in a text and the word behind it; empty if there are several."""
    found = list(_FIGURE.finditer(text))
    if len(found) != 1:
        return "", ""
    unit = re.match(r" ?([^\s,;.()]{0,12})", text[found[0].end() :])
    return found[0][0], unit[1] if unit else ""


def _gains_of_rows(rows: Sequence[tuple[int, str]], above: str, words: Words, switched: str) -> Iterator[Gain]:
    parted = not any(_OTHER_CELLS.search(text) for _, text in rows)
    signs = (s for s in ",;" if parted and all(text.count(s) == rows[0][1].count(s) > 0 for _, text in rows))
    sign = next(signs, "")
    table = [
        (
            number,
            text,
            [cell.strip(" *`_\"'") for cell in (_in_minutes(text).split(sign) if sign else _CELLS.split(bare))],
        )
        for number, text in rows
        if not _RULER.fullmatch(text)
        for bare in [_in_minutes(_EMPTY_CORNER.sub("-|", text.strip(" ")).strip(" |\t"))]
    ]
    table = [row for row in table if 2 <= len(row[2]) <= MAX_CELLS and max(map(len, row[2])) <= MAX_CELL_CHARS]
    if len(table) < 2:
        return
    about = words["subject"].search(above.lower()) is not None or bool(switched)
    figures = list(_by_column(table, words, about=about)) or list(_by_row(table, words, switched, about=about))
    for setting in dict.fromkeys(figure.setting for figure in figures):
        own = [figure for figure in figures if figure.setting == setting]
        ratios = list(_ratios(own))
        if ratios:
            worst = next(f for f in own if f.side != "never")
            yield Gain(setting, min(ratios), max(ratios), worst.line, worst.text)


class _Figure(NamedTuple):
    """One number: of which setting and side, of what (a name that must be the same), and whether more is better."""

    setting: str
    side: str
    key: str
    rising: bool
    value: float
    line: int
    text: str


def _ratios(figures: Sequence[_Figure]) -> Iterator[float]:
    """How many times better without huge pages, for each thing that has a figure on both sides."""
    by_key: dict[tuple[str, bool], dict[str, list[float]]] = {}
    for one in figures:
        by_key.setdefault((one.key, one.rising), {}).setdefault(one.side, []).append(one.value)
    for (_, rising), sides in by_key.items():
        if "never" in sides and "always" in sides:
            on, off = median(sides["always"]), median(sides["never"])
            if on > 0 and off > 0:
                yield off / on if rising else on / off


def _by_row(table: Table, words: Words, switched: str, *, about: bool) -> Iterator[_Figure]:
    """A row for each setting; the first row may name the columns."""
    heads = table[0][2] if not any(_FIGURE.search(cell) for cell in table[0][2][1:]) else []
    about = about or any(words["subject"].search(head.lower()) for head in heads)
    for number, text, cells in table[1:] if heads else table:
        sides = [(at, side) for at, cell in enumerate(cells) if (side := _side(cell, words, switched, about=about))]
        if len(sides) != 1 or (heads and len(heads) != len(cells)):
            continue
        at, side = sides[0]
        named = [heads[n] if heads else "" for n in range(len(cells))]
        measured = [(n, m) for n, cell in enumerate(cells) if n != at and (m := _metric(named[n], cell, words))]
        apart = {at, *(n for n, _ in measured), *(n for n, name in enumerate(named) if _is_number_of_run(name))}
        others = [cell for n, cell in enumerate(cells) if n not in apart]
        for n, (rising, value, unit) in measured:
            key = f"{side.rest}\t{others}\t{named[n]}\t{unit}"
            yield _Figure(side.setting, side.value, key, rising, value, number, text)


def _by_column(table: Table, words: Words, *, about: bool) -> Iterator[_Figure]:
    """A column for each setting, a row for each thing that was measured."""
    number, text, heads = table[0]
    about = about or any(words["subject"].search(head.lower()) for head in heads)
    sides = {at: side for at, head in enumerate(heads) if (side := _side(head, words, "", about=about))}
    if len(sides) < 2 or len({side.rest for side in sides.values()}) > 1 or any(map(_FIGURE.search, heads)):
        return
    for number, text, cells in table[1:]:
        if len(cells) != len(heads):
            continue
        label = " ".join(cell for at, cell in enumerate(cells) if at not in sides and at <= min(sides))
        for at, side in sides.items():
            if measured := _metric(label, cells[at], words):
                yield _Figure(side.setting, side.value, label, measured[0], measured[1], number, text)


def _is_number_of_run(head: str) -> bool:
    return head.lower() in ("run", "#", "no", "no.", "nr", "iteration", "round", "rep")


def _side(cell: str, words: Words, switched: str, *, about: bool) -> Side | None:
    """The setting that a cell names, if it is of huge pages and says little else."""
    text = cell.lower()
    if len(text) > 60:
        return None
    named = words["subject"].search(text) is not None
    rest = words["subject"].sub(" ", text)
    for value in ("never", "always"):
        if found := words[value].search(rest if not named else text.replace("_", " ")):
            if not named and not about:
                return None
            other = words["never" if value == "always" else "always"]
            left = words["filler"].sub(" ", words["subject"].sub(" ", text.replace(found[0], " ", 1)))
            if other.search(left):
                return None
            setting = "thp.defrag" if "defrag" in text else "thp.enabled"
            left = " ".join(re.findall(r"[\w.]+", left))
            # the switch of something else, unless huge pages are named
            return Side(setting, value, left) if named or not re.search("[a-z]", left) else None
    if switched and (found := words["before_after"].match(text)):
        value = "always" if found["before"] else "never"
        return Side(switched, value, " ".join(re.findall(r"[\w.]+", words["filler"].sub(" ", text))))
    return None


def _metric(head: str, cell: str, words: Words) -> tuple[bool, float, str] | None:
    """Whether more is better, the number, and its unit or name; None if the cell is no figure of work or time."""
    if words["no_figure"].search(f"{head} {cell}".lower()):
        return None
    values, units = list[float](), set[str]()
    for text in _SEVERAL.split(cell) if _FIGURE.search(cell) else ():
        found = list(_FIGURE.finditer(text))
        if len(found) != 1:
            return None
        around = f"{text[: found[0].start()]} {text[found[0].end() :]}".strip().lower()
        values.append(float(found[0]["n"].replace(",", "")) * _THOUSANDS[found[0]["k"].lower()])
        if unit := words["unit"].search(around):
            values[-1] *= _FACTORS[unit[0]]
            around = words["unit"].sub("seconds", around)
        units |= {" ".join(around.split())} - ({""} if values[1:] else set())
    if len(units) != 1:
        return None
    named = f"{head.lower()} {' '.join(units)}"
    rising = words["rising"].search(named) is not None
    return (rising, median(values), units.pop()) if rising or words["falling"].search(named) else None


_SEVERAL = re.compile(r"(?:(?<!\s)\s+)?(?:,\s|/\s?(?=\d)|;|\band\b)\s*")
_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6}
_FACTORS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
            "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0,
            "hours": 3600.0}  # fmt: skip
