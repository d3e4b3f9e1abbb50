"""sar's text: clocks, languages, restarts, dates that may be two days, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from parse_bytes import STRICT, readings
from sysstat_rows import by_lines, cells, in_bulk, problems, samples
from text_damage import cut, doubled, exchanged, flipped, mutant, reclocked, removed, renumbered, spliced, windows
from thpdiag.model import Clock, Event, Moment, ProblemKind, Series
from thpdiag.model.parser import Content, Foreign, Source
from thpdiag.parsers.sysstat import sar
from thpdiag.parsers.sysstat._tables import first_midnight, table_of
from thpdiag.parsers.sysstat.sar import BULK_PARSER, PARSER, read

FIXTURES = ROOT / "fixtures" / "readers" / "sar"
TEXTS = sorted(FIXTURES.glob("*/sar.txt"))
LOCALES = ("en-us", "en-in", "de-de", "fr-fr", "ja-jp")
BANNER = "Linux 5.14.0 (host) \t{date} \t_x86_64_\t(2 CPU)\n\n"
CPU = "     CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
ROW = "     all     10.00      0.00     20.00      0.00      0.00     70.00\n"
MAY = 1777939200.0 + 86400.0  # 2026-05-06
JUNE = 1780617600.0  # 2026-06-05
TAME = (cut, flipped, removed, doubled, exchanged, spliced, renumbered, reclocked, windows)
SOME = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def times(text: str, source: Source = Source("sar.txt")) -> list[Moment | None]:  # noqa: B008
    rows = samples(read(source, enumerate(text.split("\n"), 1)))
    return [row.time for row in rows]


@pytest.mark.parametrize("locale", LOCALES)
def test_every_locale_says_the_same(locale: str) -> None:
    """Decimal commas, 12-hour clocks, zones behind the time and Japanese clocks: the same rows at the same times."""
    plain = cells(by_lines(PARSER, (FIXTURES / "everything" / "sar.txt").read_bytes()))
    found = cells(by_lines(PARSER, (FIXTURES / locale / "sar.txt").read_bytes()))
    assert len(found) == 6
    for key, values in found.items():
        same = {name: value for name, value in values.items() if name in plain[key]}
        assert len(same) >= 19
        assert same == {name: pytest.approx(plain[key][name], abs=1e-4) for name in same}


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: file.parent.name)
def test_bulk_says_what_lines_say(file: Path) -> None:
    """Row for row: value, time, line, text, resolution; and the same facts, events and problems."""
    data = file.read_bytes()
    one, other = by_lines(PARSER, data), in_bulk(BULK_PARSER, data)
    assert samples(one) == samples(other)
    assert [r for r in one if not hasattr(r, "values")] == [r for r in other if not isinstance(r, Series | Foreign)]


@pytest.mark.parametrize("piece", [1, 13, 1 << 16])
def test_bulk_does_not_depend_on_how_the_text_comes(piece: int) -> None:
    """Cut anywhere, with line ends of Windows too."""
    data = (FIXTURES / "rhel6" / "sar.txt").read_bytes() * 2
    for text in (data, data.replace(b"\n", b"\r\n")):
        assert samples(in_bulk(BULK_PARSER, text, piece=piece)) == samples(by_lines(PARSER, data))


@SOME
@given(st.sampled_from(TEXTS), st.integers(0, 1 << 40))
def test_bulk_says_what_lines_say_of_damaged_text(file: Path, seed: int) -> None:
    """Whatever happened to the text: no row more, none less, no mistake."""
    data = mutant(file.read_bytes()[:9000], seed, TAME)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if text.isascii() and text.translate({10: None, 9: None}).isprintable():  # else lines are cleaned before
        one, other = (
            [(row.cite.line, row.kind, row.entity, dict(row.values), row.time) for row in samples(found)]
            for found in (by_lines(PARSER, data), in_bulk(BULK_PARSER, data))
        )
        assert one == other


def test_reports_of_a_file_begin_the_day_anew() -> None:
    """The second report is of the same day as the first, and each ends in the next day."""
    text = (FIXTURES / "rhel6" / "sar.txt").read_text()
    found = samples(by_lines(PARSER, text.encode()))
    assert {row.time.seconds % 86400 for row in found if row.time} == {601, 1201, 3001, 85801, 1}
    assert sum(row.time.seconds >= 1410566400 for row in found if row.time) == 2


def test_a_restart_is_told_once() -> None:
    """Every report tells it again, at the same time."""
    events = [r for r in by_lines(PARSER, (FIXTURES / "rhel6" / "sar.txt").read_bytes()) if isinstance(r, Event)]
    assert [(event.kind, event.time) for event in events] == [("restart", Moment(1410481907.0, Clock.LOCAL))]
    assert not any("cpus" in event.fields for event in events)


def test_a_restart_after_the_last_row_is_told_too() -> None:
    """There is no header after it; the number of CPUs since 10.3.1."""
    text = f"{BANNER.format(date='2026-05-06')}10:00:00{CPU}10:10:00{ROW}\n10:12:00  LINUX RESTART\t(4 CPU)\n"
    events = [r for r in by_lines(PARSER, text.encode()) if isinstance(r, Event)]
    assert [(event.time, event.fields) for event in events] == [(Moment(MAY + 36720, Clock.LOCAL), {"cpus": "4"})]


def test_averages_are_left_out_in_every_language() -> None:
    """Their values are means of rows that are there."""
    for name in LOCALES:
        text = (FIXTURES / name / "sar.txt").read_text()
        assert len(samples(by_lines(PARSER, text.encode()))) == 18
        assert problems(by_lines(PARSER, text.encode())) == []


@pytest.mark.parametrize(
    ("date", "path", "time", "day"),
    [
        ("05/06/26", "", None, None),
        ("05/06/26", "var/log/sa/sar06", None, MAY),
        ("05/06/26", "var/log/sa/sar05", None, JUNE),
        ("05/06/26", "var/log/sa/sar17", None, None),
        ("05/06/26", "var/log/sysstat/sar20260605", None, JUNE),
        ("05/06/26", "sos_commands/sar/sar_-A", None, MAY),
        ("05/06/26", "", Moment(MAY + 3600, Clock.UTC), MAY),
        ("05/06/26", "", Moment(JUNE + 3600, Clock.LOCAL), JUNE),
        ("05/06/26", "", Moment(0.0, Clock.BOOT), None),
        ("05.06.2026", "", None, JUNE),
        ("05/05/26", "", None, MAY - 86400),
        ("2026-05-06", "", None, MAY),
        ("2026年05月06日", "", None, MAY),
        ("13/06/26", "", None, JUNE + 8 * 86400),
        ("06/13/26", "", None, JUNE + 8 * 86400),
        ("99/99/26", "", None, None),
    ],
)
def test_the_day_of_a_date(date: str, path: str, time: Moment | None, day: float | None) -> None:
    """A number over 12, the file's name, a time above the block or the locale decide; else the day is unknown."""
    source = Source("mail.txt", time=time, path=path)
    assert first_midnight(date, "", source) == day
    expected = Moment(36600.0, Clock.DAY) if day is None else Moment(day + 36600.0, Clock.LOCAL)
    assert times(f"{BANNER.format(date=date)}10:00:00{CPU}10:10:00{ROW}", source) == [expected]


def test_an_american_clock_makes_an_american_date() -> None:
    """AM and PM beside a year of four digits."""
    text = f"{BANNER.format(date='05/06/2026')}10:00:00 PM{CPU}10:10:00 PM{ROW}12:10:00 AM{ROW}"
    assert times(text) == [Moment(MAY + 79800.0, Clock.LOCAL), Moment(MAY + 87000.0, Clock.LOCAL)]


def test_a_date_that_may_be_two_days_is_said() -> None:
    """Times without a date are still in order, and the reader says why."""
    found = by_lines(PARSER, f"{BANNER.format(date='05/06/26')}10:00:00{CPU}10:10:00{ROW}".encode())
    assert [p.text for p in problems(found)] == ["the date 05/06/26 may be two days: the times are without a date"]


def test_huge_pages_of_hugetlbfs_are_no_transparent_ones() -> None:
    """-H is the pool of hugetlbfs, and kbmemused means another thing since 11.6.4: neither is used."""
    assert table_of(("kbhugfree", "kbhugused", "%hugused")) is None
    memory = table_of(("kbmemfree", "kbmemused", "%memused"))
    assert memory is not None
    assert [m.name for metrics in memory.metrics.values() for m in metrics] == ["node_memory_MemFree_bytes"]


def test_swap_in_bytes_needs_the_size_of_a_page() -> None:
    """pswpin/s is in pages; machines with several page sizes do not tell which."""
    for machine, names in (("x86_64", 2), ("aarch64", 1), ("", 1)):
        known = table_of(("pswpin/s", "pswpout/s"), machine)
        assert known is not None
        assert len(known.metrics[0]) == names


def test_rows_that_do_not_add_up_are_said() -> None:
    """CPU shares over 100 %, a number that is none; a CPU that is offline is neither odd nor busy."""
    found = by_lines(PARSER, (FIXTURES / "two-days" / "sar.txt").read_bytes())
    assert [p.count for p in problems(found)] == [1, 2]
    assert len(samples(found)) == 3


def test_rows_below_a_damaged_header_are_named() -> None:
    """A column is no number: that table is none of those that are left out, and its rows are missing."""
    header = f"10:00:01{CPU}".replace("%steal", "9999-99-99T99:99:99Z")
    text = BANNER.format(date="2026-05-06") + header + "".join(f"10:00:0{second}{ROW}" for second in range(2, 6))
    for found in (by_lines(PARSER, text.encode()), list(in_bulk(BULK_PARSER, text.encode()))):
        assert not samples(found)
        assert [(p.text, p.count) for p in problems(found)] == [("a row without its header", 4)]
    whole = text.replace("9999-99-99T99:99:99Z", "%steal")
    assert len(samples(by_lines(PARSER, whole.encode()))) == 4


def test_whole_files_are_read_in_bulk() -> None:
    """A long file that begins as sar's; not a mail, a short one, or a session that goes on with other things."""
    long = (FIXTURES / "everything" / "sar.txt").read_bytes() * 3
    assert BULK_PARSER.claims("sar.txt", long[: 1 << 16], len(long))
    assert not BULK_PARSER.claims("sar.txt", long[:9000], 9000)
    assert not BULK_PARSER.claims("sar.txt", b"Hello,\n" + long[: 1 << 16], len(long))
    other = (ROOT / "fixtures" / "readers" / "mpstat" / "all-cpus" / "mpstat.txt").read_bytes() * 80
    assert not BULK_PARSER.claims("sar.txt", other[: 1 << 16], len(other))


def test_other_formats_in_a_long_file_go_to_their_readers() -> None:
    """What follows sar's reports in the same file is not lost."""
    data = (FIXTURES / "live" / "sar.txt").read_bytes() + b"\nprocs ---memory---\n r  b   swpd\n 1  0  0\n"
    foreign = [r for r in in_bulk(BULK_PARSER, data) if isinstance(r, Foreign)]
    assert [text for _, text in foreign[0].lines] == ["procs ---memory---", " r  b   swpd", " 1  0  0", ""][:3]
    first = data.decode().split("\n").index("procs ---memory---") + 1
    assert foreign[0].lines[0][0] == first


OTHERS = {
    "iostat": ROOT / "fixtures" / "readers" / "iostat" / "interval" / "iostat.txt",
    "mpstat": ROOT / "fixtures" / "readers" / "mpstat" / "all-cpus" / "mpstat.txt",
    "pidstat": ROOT / "fixtures" / "readers" / "pidstat" / "tables" / "pidstat.txt",
    "vmstat": ROOT / "fixtures" / "readers" / "vmstat" / "interval" / "vmstat.txt",
}


@pytest.mark.parametrize("gap", [b"", b"\n"], ids=["at once", "behind an empty line"])
@pytest.mark.parametrize("tool", OTHERS)
def test_reports_of_other_tools_between_long_ones_are_read(tool: str, gap: bytes) -> None:
    """Rows of pidstat and mpstat look like sar's: their headers say whose they are, line by line and in bulk."""
    day, other = (FIXTURES / "everything" / "sar.txt").read_bytes(), OTHERS[tool].read_bytes().rstrip(b"\n") + b"\n"
    data = day + gap + other + gap + day
    content = Content(iter([data[:5000], data[5000:]]), len(data))
    for given_ in (readings(data, "report.txt"), STRICT.bulk(BULK_PARSER, "report.txt", content)):
        found = [reading.record for reading in given_]
        assert not [record.text for record in problems(found)]
        theirs = [row for row in samples(found) if row.reader == tool]
        first = data[: data.index(other)].count(b"\n")
        alone = [reading.record for reading in readings(other, "report.txt")]
        assert [(row.time, row.values) for row in theirs] == [(row.time, row.values) for row in samples(alone)]
        assert [row.cite.line for row in theirs] == [(row.cite.line or 0) + first for row in samples(alone)]


def test_more_of_other_formats_than_is_handed_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line that was not read, and how many were not."""
    monkeypatch.setattr(sar, "MAX_FOREIGN_LINES", 2)
    data = (FIXTURES / "live" / "sar.txt").read_bytes() + b"\none\ntwo\n\nthree\nfour\n"
    (problem,) = problems(in_bulk(BULK_PARSER, data))
    assert (problem.cite.line, problem.count, problem.kind) == (data.count(b"\n") - 1, 2, ProblemKind.LIMIT)
