"""collectl -P: the plot format, on a terminal or in files (.tab .cpu .prc .numa .bud .slb, also .gz).

    #Date Time [CPU]User% [CPU]Nice% [CPU]Sys% ... [MEM]Tot [MEM]Used [MEM]Free ...
    20261120 09:54:03 74 23 3 0 0 0 0 0 100 0 0 633 10086 7 143 11 7.82 ...

Columns go by the header, which changed with versions (AnonH since 4.0.3, RunTot since 3.6.0). The separator is a blank
or any other character (--sep). Times are the host's wall clock, dated; in files a header tells the zone; `#UTC` has
seconds since 1970. Percentages are whole ones. Units and what is not read:
`bulk/plot_columns.py`, `bulk/plot_tasks.py`. Source: collectl formatit.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import BulkReader, Content, Foreign, Lines, Reader, Source

_NAMES = re.compile(r"#(?:Date.Time|UTC).(?:\[[A-Z]+[:\]]|PID.User|SlabName.)")
_RECORDED = r"#{30,40} RECORDED #{30,40}\s*$|#{80}\s*$"
_COMMENT = re.compile(r"#{80}\s*$|#{30,40} RECORDED|# ?[A-Z]\w*: |# >>> NEW LOG <<<|#[\w-]+ .*$|#SLUB DATA")
_ROW = re.compile(r"(?:\d{8}\D\d\d:\d\d:\d\d(?:\.\d{1,6})?|\d{9,10}(?:\.\d{1,6})?)\D\S")
_ROW_OR_COMMENT = re.compile(r"#|(?:\d{8}\D\d\d:\d\d:\d\d|\d{9,10}(?:\.\d{1,6})?\D)|\s*$")
LONGEST_HEADER = 40


def belongs(text: str) -> bool:
    return bool(_ROW.match(text) or _NAMES.match(text) or _COMMENT.match(text))


def confirm(lines: list[str]) -> bool:
    """The names follow, below nothing but comments; with them a row, unless they are the last line."""
    for place, text in enumerate(lines):
        if _NAMES.match(text):
            following = lines[place + 1 : place + 2]
            return not following or not following[0].strip() or bool(_ROW.match(following[0]) or following[0][0] == "#")
        if not text.startswith("#"):
            return False
    return False


def claims(path: str, head: bytes, size: int | None) -> bool:
    """The names come first, below comments, and then there is nothing but rows."""
    whole = size is not None and size <= len(head)
    lines = head.decode("utf-8", "replace").split("\n")
    lines = [line.rstrip("\r") for line in (lines if whole else lines[:-1])]
    first = next((place for place, text in enumerate(lines) if not text.startswith("#")), len(lines))
    return any(_NAMES.match(text) for text in lines[:first]) and all(map(_ROW_OR_COMMENT.match, lines[first:]))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Facts of the header, a Series of the host and of each CPU, zone, node and process, commands, problems."""
    from thpdiag.readers.collectl.bulk.plot import records  # numpy: only where there is a table

    return records(source, lines)


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    from thpdiag.readers.collectl.bulk.lines import WholeLines
    from thpdiag.readers.collectl.bulk.plot import decoded, records

    lines = WholeLines(content.chunks)
    yield from records(source, decoded(lines))
    yield from lines.problems(source, BULK.name)


READER = Reader(
    "collectl_plot",
    "collectl -P, plot format",
    read,
    opens=re.compile(f"{_NAMES.pattern}|{_RECORDED}"),
    continues=belongs,
    confirm=confirm,
    lookahead=LONGEST_HEADER,
)
BULK = BulkReader(READER.name, READER.title, claims, read_bulk)
