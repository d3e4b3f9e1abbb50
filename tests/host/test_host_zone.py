"""The zone of a host: which source counts, what contradicts, what stays unknown."""

from __future__ import annotations

import io
import zoneinfo
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analyze_bytes import STDIN, STRICT, rules
from packed_bundles import tar
from thpdiag.detect import Detector
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.host.clock.timezone import ABBREVIATIONS, Timezone, host_timezone, timezone_of_boots, timezone_rules
from thpdiag.model import Citation, Clock, Fact, Moment, ProblemKind
from thpdiag.model.facts import ClockAnchor
from thpdiag.parsers import all_parsers
from thpdiag.pipeline import analyze

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
SUMMER = datetime(2026, 7, 20, 12, tzinfo=UTC).timestamp()


def told(value: str, how: str, rule: str = "") -> Fact:
    labels = (("how", how), *((("rule", rule),) if rule else ()))
    return Fact("host.zone", value, Citation(f"sos/{how}", 1), labels)


def ahead(offset: float, at: float | None = NOON, member: str = "collectl.raw") -> Fact:
    time = None if at is None else Moment(at, Clock.UTC)
    return Fact("host.utc_offset", offset, Citation(member, 4), time=time)


def date(text: str, member: str = "sosreport-a-1/sos_commands/date/date") -> Fact:
    moment = parse_timestamp(text)
    assert moment is not None
    labels = (("what", "date"), ("clock", moment.clock.value))
    return Fact("capture.time", moment.seconds, Citation(member, 1, text), labels, moment)


def offset(*facts: Fact, at: float = NOON) -> float | None:
    zone, problems = host_timezone(facts)
    assert problems == []
    return None if zone is None else zone.local(at) - at


def test_without_a_source_the_zone_is_unknown() -> None:
    """A local time alone, and an abbreviation that several zones have, tell nothing."""
    assert offset() is None
    assert offset(date("Fri Nov 20 17:30:00 IST 2026")) is None
    assert offset(date("Fri Nov 20 06:00:00 CST 2026")) is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([told("Asia/Kolkata", "timedatectl")], 5.5, id="named"),
        pytest.param([told("Europe/Berlin", "localtime"), told("Asia/Tokyo", "timezone")], 1, id="localtime first"),
        pytest.param([told("Asia/Tokyo", "timezone"), told("Europe/Berlin", "localtime")], 1, id="in any order"),
        pytest.param([told(BERLIN, "localtime", BERLIN)], 1, id="a copy without a name"),
        pytest.param([told("Nowhere/Known", "localtime", "<+0545>-5:45")], 5.75, id="a name that is not known here"),
        pytest.param([ahead(19800)], 5.5, id="collectl"),
        pytest.param([ahead(-34200)], -9.5, id="Marquesas"),
        pytest.param(
            [
                date("Fri Nov 20 17:45:00 2026"),
                date("Fri Nov 20 12:00:02 UTC 2026", "sosreport-a-1/sos_commands/date/date_--utc"),
            ],
            5.75,
            id="date and date --utc",
        ),
        pytest.param([date("Fri Nov 20 21:00:00 JST 2026")], 9, id="abbreviation"),
        pytest.param([date("Fri Nov 20 12:00:00 UTC 2026")], 0, id="a host in UTC"),
    ],
)
def test_the_zone_is_found(facts: list[Fact], expected: float) -> None:
    """Hours ahead of UTC in November."""
    assert offset(*facts) == expected * 3600


def test_the_time_in_utc_alone_is_no_zone() -> None:
    """`date --utc` prints UTC wherever the host is."""
    assert offset(date("Fri Nov 20 12:00:00 UTC 2026", "sosreport-a-1/sos_commands/date/date_--utc")) is None


def test_dates_of_two_bundles_are_not_one_moment() -> None:
    """The clock must have been read twice at once."""
    local = date("Fri Nov 20 17:30:00 2026")
    assert offset(local, date("Fri Nov 20 12:00:00 UTC 2026", "sosreport-b-2/sos_commands/date/date_--utc")) is None


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([told("Europe/Berlin", "localtime"), ahead(19800)], id="name and offset"),
        pytest.param([told("Europe/Berlin", "localtime"), ahead(3600, SUMMER)], id="the offset of winter in summer"),
        pytest.param([ahead(3600), ahead(19800, NOON + 40 * 86400.0)], id="farther apart than summer time"),
        pytest.param([ahead(3600), ahead(7200, NOON + 600, "sa.txt")], id="two on one day"),
    ],
)
def test_contradicting_sources_are_a_problem(facts: list[Fact]) -> None:
    """Nobody knows which of them is right; none is used."""
    zone, problems = host_timezone(facts)
    assert zone is None
    assert [p.kind for p in problems] == [ProblemKind.DISAGREEMENT]


def test_an_offset_is_sure_near_its_reading() -> None:
    """For a day; between two readings that agree; not weeks away, where summer time may have begun."""
    zone, _ = host_timezone([ahead(3600)])
    assert zone is not None
    assert zone.uncertainty(NOON, NOON + 7200) == 0
    assert zone.uncertainty(NOON - 40 * 86400.0, NOON) == 3600
    both, _ = host_timezone([ahead(3600), ahead(3600, NOON - 30 * 86400.0)])
    assert both is not None
    assert both.uncertainty(NOON - 30 * 86400.0, NOON) == 0
    assert Timezone("x", Citation("m"), timezone_rules("Europe/Berlin")).uncertainty(0.0, NOON) == 0


def test_a_loop_over_the_end_of_summer_time_is_no_contradiction() -> None:
    """One source, an hour less from one round to the next; only far from the change it is sure."""
    zone, problems = host_timezone([ahead(7200), ahead(3600, NOON + 600)])
    assert problems == []
    assert zone is not None
    assert zone.uncertainty(NOON + 7200, NOON + 7800) == 3600


def test_two_times_of_one_boot_tell_the_zone() -> None:
    """btime is in UTC, the date minus the uptime on the wall clock, both of one bundle."""
    uptime = Citation("sosreport-a-1/uptime", 1)
    local = ClockAnchor(Moment(NOON + 19_820, Clock.LOCAL), 60.0, "by an uptime", uptime)
    utc = ClockAnchor(Moment(NOON, Clock.UTC), 1.0, "by btime", Citation("sosreport-a-1/proc/stat", 9))
    zone = timezone_of_boots([local, utc])
    assert zone is not None
    assert zone.offsets(NOON) == (19800, 19800)
    assert timezone_of_boots([local, replace(utc, cite=Citation("sosreport-b-2/proc/stat", 9))]) is None
    assert timezone_of_boots([local, replace(utc, zero=utc.zero.plus(-450))]) is None


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a zone database."""

    def absent(_: str) -> zoneinfo.ZoneInfo:
        raise zoneinfo.ZoneInfoNotFoundError

    absent.from_file = zoneinfo.ZoneInfo.from_file  # type: ignore[attr-defined]
    monkeypatch.setattr("thpdiag.host.clock.timezone.ZoneInfo", absent)
    timezone_rules.cache_clear()
    yield
    timezone_rules.cache_clear()


@pytest.mark.usefixtures("no_database")
def test_without_a_zone_database_the_rule_of_the_host_does() -> None:
    """/etc/localtime ends with it, summer time and all; with a name alone an offset is still something."""
    facts = (told("Europe/Berlin", "localtime", BERLIN),)
    assert offset(*facts) == 3600
    assert offset(*facts, at=SUMMER) == 7200
    assert offset(told("Europe/Berlin", "timedatectl"), ahead(3600)) == 3600
    assert offset(told("Europe/Berlin", "timedatectl")) is None


@pytest.mark.parametrize("text", ["../../etc/passwd", "", "A" * 500, "XXX-5:ab", "C\x00T", "/etc/localtime", "CET-999"])
def test_no_odd_name_is_a_zone(text: str) -> None:
    """Names come from the bundle."""
    assert timezone_rules(text, text) is None


def test_abbreviations_are_those_of_one_zone_only() -> None:
    """Each names one offset in the zone database of today, wherever it is used."""
    found: dict[str, set[float]] = {}
    for name in sorted(zoneinfo.available_timezones()):
        for at in (NOON, SUMMER):
            moment = datetime.fromtimestamp(at, zoneinfo.ZoneInfo(name))
            shift = moment.utcoffset()
            assert shift is not None
            found.setdefault(moment.tzname() or "", set()).add(shift.total_seconds() / 3600)
    wrong = {k: found.get(k) for k, hours in ABBREVIATIONS.items() if k in found and found[k] != {hours}}
    assert wrong == {}
    assert not {"CST", "IST", "BST", "PST"} & ABBREVIATIONS.keys()


@pytest.mark.parametrize("target", ["../usr/share/zoneinfo/Asia/Kolkata", "/usr/share/zoneinfo/Asia/Kolkata"])
def test_the_link_names_the_zone(target: str, tmp_path: Path) -> None:
    """/etc/localtime of a capture leads to a file of the zone database beside it."""
    database = (Path(__file__).parents[2] / "fixtures/readers/host_zone/copied/etc/localtime").read_bytes()
    root = tmp_path / "sosreport-web1-2026-11-20-abcdefg"
    for path, data in {"usr/share/zoneinfo/Asia/Kolkata": database, "proc/uptime": b"1000.25 900.00\n"}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "etc").mkdir()
    (root / "etc/localtime").symlink_to(target)
    (root / "date").write_text("Fri Nov 20 17:30:00 IST 2026\n")
    document = analyze([tmp_path], rules(), STRICT)
    readers = {item["member"].partition("abcdefg/")[2]: item["reader"] for item in document["inputs"]}
    assert readers["usr/share/zoneinfo/Asia/Kolkata"] == "host_zone"


def test_a_file_of_the_zone_database_elsewhere_is_not_the_host_s() -> None:
    """Only /etc/localtime tells the zone."""
    database = (Path(__file__).parents[2] / "fixtures/readers/host_zone/copied/etc/localtime").read_bytes()
    content = {"sosreport-a-1/usr/share/zoneinfo/Asia/Kolkata": database, "sosreport-a-1/proc/uptime": b"10.25 9.00\n"}
    document = analyze([STDIN], rules(), STRICT, stdin=io.BytesIO(tar(content)))
    assert {item["reader"] for item in document["inputs"]} == {"uptime"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("# date\nFri Nov 20 06:31:56 UTC 2026\n", [0], id="date of a host in UTC"),
        pytest.param("# date -u\nFri Nov 20 06:31:56 UTC 2026\n", [], id="date -u"),
        pytest.param("# date\nFri Nov 20 12:01:56 IST 2026\n# date +%s\n1795156316\n", [19800], id="date and date +%s"),
        pytest.param("1795156316\nFri Nov 20 07:31:57 2026\n", [3600], id="an epoch first"),
        pytest.param("Fri Nov 20 07:31:57 2026\n1795156416\n", [], id="not at once"),
        pytest.param("Fri Nov 20 07:31:56 2026\n\n\n\n1795156316\n", [], id="farther apart in the text"),
        pytest.param("Fri Nov 20 07:31:56 2026\n1795156316\n" * 3, [3600], id="every round of a loop"),
    ],
)
def test_a_text_with_both_clocks_tells_the_zone(text: str, expected: list[int]) -> None:
    """What capture scripts and people print: `date`, then `date +%s`."""
    found = Detector(all_parsers(), strict=True).read("host.txt", list(enumerate(text.splitlines(), 1)))
    facts = [r.record for r in found if isinstance(r.record, Fact) and r.record.name == "host.utc_offset"]
    assert [fact.value for fact in facts] == expected
    assert all(fact.time and fact.time.clock is Clock.UTC for fact in facts)
