"""Figures that people write for both values of a setting: tables and lists with a row or column for each value.

    THP always: 1234 req/s           | THP    | req/s | p99 (ms) |      thp,run,seconds
    THP never: 3345 req/s            | always |  1234 |      120 |      always,1,61.2
                                     | never  |  3345 |       12 |      never,1,20.1

Lines are split into cells. The cell or column heading that names the setting determines the side. Columns whose heading
or cells have a unit of work or time are compared; all other columns (version, clients, test) must be equal on both
sides. The result is testimony. Words and units are in knowledge/testimony.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import NamedTuple

MAX_CONTRARY_RATIO = 1.1  # by which single figures may contradict the others
MIN_BENEFIT_RATIO = 1.2  # ratio with huge pages to without from which they are beneficial
MAX_ROWS, MAX_CELLS, MAX_CELL_CHARS = 200, 16, 120  # of a table; longer tables are data, longer cells are prose
_RULER = re.compile(r"[\s|+:=-]+")
_CELLS = re.compile(r"\s*[|\t│]\s*|\s{2,}|\s*(?:=>|->|→)\s*|(?<=[A-Za-z)\]])\s*[:=]\s+|(?<=[A-Za-z)])\s*:(?=\d)")
_EMPTY_CORNER = re.compile(r"^(?:\t(?=\S)|\|\s*\|)")  # of a table with headings for rows and columns
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
    """The setting and value that a cell names, and the rest of its text."""

    setting: str
    value: str
    rest: str


@dataclass(frozen=True, slots=True)
class Gain:
    """The improvement without huge pages as a ratio (below 1: it was better with them), over all figures."""

    setting: str
    min_ratio: float
    max_ratio: float
    line: int
    text: str


Words = Mapping[str, re.Pattern[str]]
Table = Sequence[tuple[int, str, list[str]]]  # number, line, cells


def gains(lines: Sequence[tuple[int, str]], words: Words, switched: str = "") -> Iterator[Gain]:
    """Yield the results of tables and lists in a text. `switched` is the setting that was switched off, by the text."""
    for filled, paragraph in groupby(lines, key=lambda line: bool(line[1].strip())):
        rows = list(paragraph) if filled else []
        if 2 <= len(rows) <= MAX_ROWS:
            head = next((text for number, text in reversed(lines) if number < rows[0][0] and text.strip()), "")
            yield from _gains_of_rows(rows, head, words, switched)


def gain_of_sentence(sentence: str, line: int, quoted: str, words: Words) -> Gain | None:
    """Return the result of a sentence with figures for each side: `61 minutes with THP on, 20 minutes with THP off`.

    If there are several figures for a side, as for repeated toggles, all of one side must exceed all of the other.
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
    """Whether the figures are of one quantity, and all of one side are above all of the other."""
    on, off = ([f.value for f in figures if f.side == side] for side in ("always", "never"))
    quantities = len({(figure.setting, figure.key, figure.rising) for figure in figures})
    return bool(on and off) and (len(figures) == 2 or (quantities == 1 and (min(on) > max(off) or min(off) > max(on))))


def _in_minutes(text: str) -> str:
    """Return the text with durations of two units (`3 h 20 min`, `3h20m`) as one number."""
    return _HOURS.sub(lambda time: f"{int(time['h']) * 60 + int(time['m'])} min", text)


def _ratio_of_change(sentence: str, words: Words) -> float | None:
    """Return the improvement without huge pages in a sentence that names one side, with the other as the earlier state.

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
    old, new = (_metric(head, f"{number} {cell_unit or unit}", words) for number, cell_unit in cells)
    if not old or not new or old[0] != new[0] or min(old[1], new[1]) <= 0:
        return None
    better = new[1] / old[1] if new[0] else old[1] / new[1]
    return better if after == "never" else 1 / better


def _is_of_hosts(text: str, words: Words) -> bool:
    """Whether the value is only an attribute of the hosts: `on hosts without THP`."""
    sides = [match[0] for value in ("never", "always") for match in words[f"{value}_said"].finditer(text)]
    return all(words["of_hosts"].match(side) for side in sides)


def _cell_of_figure(text: str) -> tuple[str, str]:
    """Return the only number in a text and the word after it; empty if there are several."""
    figures = list(_FIGURE.finditer(text))
    if len(figures) != 1:
        return "", ""
    unit = re.match(r" ?([^\s,;.()]{0,12})", text[figures[0].end() :])
    return figures[0][0], unit[1] if unit else ""


def _gains_of_rows(rows: Sequence[tuple[int, str]], above: str, words: Words, switched: str) -> Iterator[Gain]:
    is_csv = not any(_OTHER_CELLS.search(text) for _, text in rows)
    separators = (s for s in ",;" if is_csv and all(text.count(s) == rows[0][1].count(s) > 0 for _, text in rows))
    separator = next(separators, "")
    table: list[tuple[int, str, list[str]]] = []
    for number, text in rows:
        if _RULER.fullmatch(text):
            continue
        bare = _in_minutes(_EMPTY_CORNER.sub("-|", text.strip(" ")).strip(" |\t"))
        parts = _in_minutes(text).split(separator) if separator else _CELLS.split(bare)
        cells = [cell.strip(" *`_\"'") for cell in parts]
        if 2 <= len(cells) <= MAX_CELLS and max(map(len, cells)) <= MAX_CELL_CHARS:
            table.append((number, text, cells))
    if len(table) < 2:
        return
    about = words["subject"].search(above.lower()) is not None or bool(switched)
    figures = list(_figures_by_column(table, words, about=about))
    figures = figures or list(_figures_by_row(table, words, switched, about=about))
    for setting in dict.fromkeys(figure.setting for figure in figures):
        of_setting = [figure for figure in figures if figure.setting == setting]
        ratios = list(_ratios(of_setting))
        if ratios:
            cited = next(f for f in of_setting if f.side != "never")
            yield Gain(setting, min(ratios), max(ratios), cited.line, cited.text)


class _Figure(NamedTuple):
    """A number for one side of a setting."""

    setting: str
    side: str  # always or never
    key: str  # what was measured; figures with equal keys are compared
    rising: bool  # more is better
    value: float
    line: int
    text: str


def _ratios(figures: Sequence[_Figure]) -> Iterator[float]:
    """Yield the improvement without huge pages for each key that has figures on both sides."""
    by_key: dict[tuple[str, bool], dict[str, list[float]]] = {}
    for figure in figures:
        by_key.setdefault((figure.key, figure.rising), {}).setdefault(figure.side, []).append(figure.value)
    for (_, rising), sides in by_key.items():
        if "never" in sides and "always" in sides:
            on, off = median(sides["always"]), median(sides["never"])
            if on > 0 and off > 0:
                yield off / on if rising else on / off


def _figures_by_row(table: Table, words: Words, switched: str, *, about: bool) -> Iterator[_Figure]:
    """Yield the figures of a table with a row for each side; the first row may be a header.

    `about`: the text around the table is about huge pages, so that cells need not name them.
    """
    heads = table[0][2] if not any(_FIGURE.search(cell) for cell in table[0][2][1:]) else []
    about = about or any(words["subject"].search(head.lower()) for head in heads)
    for number, text, cells in table[1:] if heads else table:
        sides = [(i, side) for i, cell in enumerate(cells) if (side := _side(cell, words, switched, about=about))]
        if len(sides) != 1 or (heads and len(heads) != len(cells)):
            continue
        side_column, side = sides[0]
        names = heads or [""] * len(cells)
        measured = [
            (i, m) for i, cell in enumerate(cells) if i != side_column and (m := _metric(names[i], cell, words))
        ]
        excluded = {side_column, *(i for i, _ in measured)}
        others = [cell for i, cell in enumerate(cells) if i not in excluded and not _is_run_number(names[i])]
        for i, (rising, value, unit) in measured:
            key = f"{side.rest}\t{others}\t{names[i]}\t{unit}"
            yield _Figure(side.setting, side.value, key, rising, value, number, text)


def _figures_by_column(table: Table, words: Words, *, about: bool) -> Iterator[_Figure]:
    """Yield the figures of a table with a column for each side and a row for each quantity."""
    heads = table[0][2]
    about = about or any(words["subject"].search(head.lower()) for head in heads)
    sides = {i: side for i, head in enumerate(heads) if (side := _side(head, words, "", about=about))}
    if len(sides) < 2 or len({side.rest for side in sides.values()}) > 1 or any(map(_FIGURE.search, heads)):
        return
    for number, text, cells in table[1:]:
        if len(cells) != len(heads):
            continue
        label = " ".join(cell for i, cell in enumerate(cells) if i not in sides and i <= min(sides))
        for i, side in sides.items():
            if measured := _metric(label, cells[i], words):
                yield _Figure(side.setting, side.value, label, measured[0], measured[1], number, text)


def _is_run_number(head: str) -> bool:
    return head.lower() in ("run", "#", "no", "no.", "nr", "iteration", "round", "rep")


def _side(cell: str, words: Words, switched: str, *, about: bool) -> Side | None:
    """Return the side that a cell names, None if it is not about huge pages or has too many other words."""
    text = cell.lower()
    if len(text) > 60:
        return None
    named = words["subject"].search(text) is not None
    rest = words["subject"].sub(" ", text)
    for value in ("never", "always"):
        if match := words[value].search(rest if not named else text.replace("_", " ")):
            if not named and not about:
                return None
            other = words["never" if value == "always" else "always"]
            remaining = words["filler"].sub(" ", words["subject"].sub(" ", text.replace(match[0], " ", 1)))
            if other.search(remaining):
                return None
            setting = "thp.defrag" if "defrag" in text else "thp.enabled"
            remaining = " ".join(re.findall(r"[\w.]+", remaining))
            # with other words and without huge pages, it is the switch of something else
            return Side(setting, value, remaining) if named or not re.search("[a-z]", remaining) else None
    if switched and (match := words["before_after"].match(text)):
        value = "always" if match["before"] else "never"
        return Side(switched, value, " ".join(re.findall(r"[\w.]+", words["filler"].sub(" ", text))))
    return None


def _metric(head: str, cell: str, words: Words) -> tuple[bool, float, str] | None:
    """Return whether more is better, the number, and its unit or name; None if it is not a figure of work or time."""
    if words["no_figure"].search(f"{head} {cell}".lower()):
        return None
    values, units = list[float](), set[str]()
    for text in _LIST_SEPARATOR.split(cell) if _FIGURE.search(cell) else ():
        figures = list(_FIGURE.finditer(text))
        if len(figures) != 1:
            return None
        figure = figures[0]
        around = f"{text[: figure.start()]} {text[figure.end() :]}".strip().lower()
        values.append(float(figure["n"].replace(",", "")) * _THOUSANDS[figure["k"].lower()])
        if unit := words["unit"].search(around):
            values[-1] *= _FACTORS[unit[0]]
            around = words["unit"].sub("seconds", around)
        units |= {" ".join(around.split())} - ({""} if values[1:] else set())
    if len(units) != 1:
        return None
    name = f"{head.lower()} {' '.join(units)}"
    rising = words["rising"].search(name) is not None
    return (rising, median(values), units.pop()) if rising or words["falling"].search(name) else None


_LIST_SEPARATOR = re.compile(r"(?:(?<!\s)\s+)?(?:,\s|/\s?(?=\d)|;|\band\b)\s*")
_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6}
_FACTORS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
            "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0,
            "hours": 3600.0}  # fmt: skip
