"""The clock of a host through the whole line: sources of several clocks aligned, states, windows, the law."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STDIN, STRICT, judged, rules, sure
from conftest import ROOT
from packed_bundles import files, tar
from profile_stacks import RECORDING
from reduced_inputs import variants
from test_clock import at
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import Change, ChangeCheck
from thpdiag.engine.state_view import state_views
from thpdiag.host.cases import host_cases
from thpdiag.host.options import UNPLACED, parse_window
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import Case, Clock, Moment, Sample, Series, Verdict3
from thpdiag.pipeline import analyze

BERLIN = (ROOT / "fixtures/readers/host_zone/copied/etc/localtime").read_bytes()
BOOT = int(at("2026-11-20 08:00"))
SCRIPT = (RECORDING / "script.txt").read_bytes()  # from 11419.5 s after boot on
STAT = f"cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 10 0 10 80 0 0 0 0 0 0\nctxt 5\nbtime {BOOT}\nprocesses 9\n".encode()
Content = Mapping[str, bytes]
EVERY_VARIANT = 1 if os.environ.get("THPDIAG_PROOF") == "1" else 23


def given(content: Content) -> ParsedInput:
    return read_input([STDIN], STRICT, stdin=io.BytesIO(tar(dict(content))))


def case(content: Content) -> Case:
    (found,) = host_cases(given(content), STRICT)
    return found


def document(content: Content, **options: Any) -> dict[str, Any]:
    chosen = replace(STRICT, window=parse_window(*(options.get(key) for key in ("since", "until", "at"))))
    return analyze([STDIN], rules(), chosen, stdin=io.BytesIO(tar(dict(content))))


def rows(found: Case, member: str) -> list[Sample]:
    parts = [s for state in found.states for s in state.samples if s.cite.member.endswith(member)]
    return [row for part in parts for row in (part if isinstance(part, Series) else (part,))]


def span(found: Case, member: str) -> tuple[Moment | None, Moment | None]:
    own = rows(found, member)
    return own[0].time, own[-1].time


def loop(name: str, values: list[int], start: float, step: int = 10, *, epoch: bool = False) -> bytes:
    """A loop that prints the time and a counter of /proc/vmstat."""
    lines = []
    for number, value in enumerate(values):
        seconds = start + number * step
        stamp = str(int(seconds)) if epoch else time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(seconds))
        lines += [stamp, "allocstall 7", f"{name} {value}", "pgfault 1000"]
    return ("\n".join(lines) + "\n").encode()


def vmstat(start: float, count: int, zone: str = "CET") -> bytes:
    """`vmstat -t 10`, in the zone of the host."""
    heads = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
        f" r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 {zone}\n"
    )
    text = heads
    for number in range(count):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(start + 10 * number))
        text += f" 3  0      0 200680{number % 10:02d}  13064 877308    0    0     0     0  554  207  4 50 46  0  0"
        text += f" {stamp}\n"
    return text.encode()


def collectl(start: float, count: int) -> bytes:
    """`collectl -oT`, whose file names the day."""
    text = "#         <----CPU[HYPER]----->\n#Time     cpu sys inter  ctxsw \n"
    for number in range(count):
        text += time.strftime("%H:%M:%S", time.gmtime(start + 10 * number)) + "   54  50   554    207 \n"
    return text.encode()


LOCAL = at("2026-11-20 12:10")  # 11:10 in UTC, 11400 s after the boot
SOURCES = {
    "vmstat.txt": vmstat(LOCAL, 12),
    "collectl-20261120.txt": collectl(LOCAL + 30, 12),
    "script.txt": SCRIPT,
    "proc/stat": STAT,
}


def test_perf_vmstat_and_collectl_of_one_host_are_aligned() -> None:
    """Seconds since boot, a date without zone, a time without date: one clock."""
    found = case({**SOURCES, "etc/localtime": BERLIN})
    assert span(found, "vmstat.txt") == (Moment(LOCAL - 3600, Clock.UTC), Moment(LOCAL - 3490, Clock.UTC))
    assert span(found, "collectl-20261120.txt")[0] == Moment(LOCAL - 3570, Clock.UTC)
    inside = document({**SOURCES, "etc/localtime": BERLIN}, since="2026-11-20 12:10:10", until="2026-11-20 12:11:00")
    assert inside["profiles"]
    assert not [p for p in inside["problems"] if p["text"] == UNPLACED]
    outside = document({**SOURCES, "etc/localtime": BERLIN}, since="2026-11-20 13:10", until="2026-11-20 13:15")
    assert outside["profiles"] == []


def test_without_the_zone_each_keeps_its_clock() -> None:
    """Unknown stays unknown: the wall clock is not taken for UTC."""
    found = case(SOURCES)
    assert span(found, "vmstat.txt")[0] == Moment(LOCAL, Clock.LOCAL)
    assert span(found, "collectl-20261120.txt")[0] == Moment(LOCAL + 30, Clock.LOCAL)
    assert not [note for note in found.notes if "zone" in note.text]


def test_where_the_analyst_sits_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same input, same answer, from Tokyo to Marquesas."""
    content = {**SOURCES, "etc/localtime": BERLIN}
    wanted = document(content, at="12:10")
    try:
        for zone in ("Asia/Tokyo", "Pacific/Marquesas", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert document(content, at="12:10") == wanted
    finally:
        monkeypatch.undo()
        time.tzset()


FAILS = ChangeCheck(change=Change(of="node_vmstat_compact_fail", per="node_vmstat_compact_stall", above=0.5))
LOOPS = {
    # 9,000 of these failures came before anybody counted stalls
    "fails.txt": loop("compact_fail", [0, 9000, 9000, *(9000 + 10 * n for n in range(12))], LOCAL),
    "stalls.txt": loop("compact_stall", [100 * n for n in range(20)], LOCAL - 3600 + 30, epoch=True),
}


def answer(content: Content) -> tuple[Verdict3, str]:
    (scene,) = state_views(case(content))
    found = judge(FAILS, scene)
    return found.value, found.text


def test_a_check_over_two_clocks_uses_what_overlaps() -> None:
    """With the zone known: 110 failures in the time of 1100 stalls; without it nobody can tell."""
    value, text = answer({**LOOPS, "etc/localtime": BERLIN})
    assert (value, "rose by 110" in text) == (Verdict3.NO, True)
    assert answer(LOOPS)[0] is Verdict3.UNKNOWN


def test_a_check_over_clocks_that_are_not_sure_cannot_tell() -> None:
    """The second pass of an hour, or the first: they may be an hour apart, and overlap for two minutes."""
    night = at("2026-10-25 02:10")
    content = {
        "fails.txt": loop("compact_fail", [10 * n for n in range(15)], night),
        "stalls.txt": loop("compact_stall", [100 * n for n in range(15)], night - 7200, epoch=True),
        "etc/localtime": BERLIN,
    }
    value, text = answer(content)
    assert value is Verdict3.UNKNOWN
    assert "may overlap, but their clocks may be 3600 s apart" in text


SAR = """Linux 2.6.32-431.el6.x86_64 (web1) \t11/20/2026 \t_x86_64_\t(8 CPU)

11:40:01 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle
11:50:01 PM     all      2.50      0.00     41.20      0.31      0.00     55.99
12:00:01 AM     all      2.50      0.00     41.20      0.31      0.00     55.99
12:10:01 AM     all      2.50      0.00     41.20      0.31      0.00     55.99
Average:        all      2.50      0.00     41.20      0.31      0.00     55.99
"""


def test_sar_is_read_across_midnight() -> None:
    """A clock of twelve hours, a date in the first line only, and a zone."""
    found = case({"sar.txt": SAR.encode(), "etc/localtime": BERLIN})
    assert [m.time for m in rows(found, "sar.txt")] == [
        Moment(at("2026-11-20 22:50:01") + 600 * n, Clock.UTC) for n in range(3)
    ]


def fixed(value: str) -> dict[str, bytes]:
    words = " ".join(f"[{word}]" if word == value else word for word in ("always", "madvise", "never"))
    return {"sys/kernel/mm/transparent_hugepage/enabled": f"{words}\n".encode()}


OVER_A_BOOT = {"vmstat.txt": vmstat(BOOT + 3600 - 60.0, 24), "proc/stat": STAT, "etc/localtime": BERLIN}


def test_what_forbids_huge_pages_may_have_come_with_the_reboot() -> None:
    """`never` is read after the boot: what was recorded before is another state, of unknown settings."""
    found = case({**OVER_A_BOOT, **fixed("never")})
    told = [
        (s.settings.get("thp.enabled"), s.order, len([r for r in s.samples if r.cite.member == "vmstat.txt"]))
        for s in found.states
    ]
    assert told == [(None, 0, 6), ("never", 1, 18)]


def test_what_allows_them_is_no_news() -> None:
    """`always` after the boot cuts nothing, and neither does a boot before all recordings."""
    assert len(case({**OVER_A_BOOT, **fixed("always")}).states) == 1
    later = {**OVER_A_BOOT, "vmstat.txt": vmstat(BOOT + 7200.0, 24)}
    assert len(case({**later, **fixed("never")}).states) == 1


def test_what_cannot_be_placed_in_the_time_asked_for_is_named() -> None:
    """A vmstat without -t takes part whole; a snapshot is not worth a word."""
    plain = b"\n".join(line[:83].rstrip() for line in SOURCES["vmstat.txt"].splitlines()) + b"\n"
    told = document({**SOURCES, "etc/localtime": BERLIN, "plain.txt": plain}, since="2026-11-20 12:00")
    assert [p["member"] for p in told["problems"] if p["text"] == UNPLACED] == ["plain.txt"]


@pytest.mark.parametrize(
    "typed", ["2026-11-20 12:11", "2026-11-20 11:11Z", "2026-11-20 11:11 UTC", "2026-11-20 16:41+05:30"]
)
def test_a_time_is_the_host_s_unless_it_names_a_zone(typed: str) -> None:
    """Half of vmstat's two minutes."""
    window = parse_window(typed, None, None)
    (found,) = host_cases(given({**SOURCES, "etc/localtime": BERLIN}), replace(STRICT, window=window))
    assert len(rows(found, "vmstat.txt")) == 6


def wave(member: str, ahead: float) -> dict[str, bytes]:
    """Free memory that goes up and down, by vmstat and by a loop of /proc/meminfo."""
    heads, *_ = vmstat(0, 0).split(b"\x00")
    free = [2_000_000 + (n * n * 7919) % 100_003 * 10 for n in range(80)]
    text = heads.decode()
    loops = []
    for n, value in enumerate(free):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(LOCAL + 10 * n))
        text += f" 3  0      0 {value}  13064 877308    0    0     0     0  554  207  4 50 46  0  0 {stamp}\n"
        loops += [
            str(int(LOCAL - 3600 + ahead + 10 * n)),
            "MemTotal: 9000000 kB",
            f"MemFree: {value + 3} kB",
            "Buffers: 10 kB",
        ]
    return {"vmstat.txt": text.encode(), member: ("\n".join(loops) + "\n").encode(), "etc/localtime": BERLIN}


@pytest.mark.parametrize(
    ("ahead", "said"), [(0.0, ""), (15.0, ""), (200.0, "200 s"), (-300.0, "300 s"), (1800.0, "1800 s")]
)
def test_two_sources_of_one_curve_tell_how_far_their_clocks_are_apart(ahead: float, said: str) -> None:
    """Beyond two intervals it is a problem."""
    told = [p["text"] for p in document(wave("meminfo.txt", ahead))["problems"] if "the same curve" in p["text"]]
    assert [text.rpartition("clocks are ")[2] for text in told] == ([f"{said} apart"] if said else [])


BUNDLES: dict[str, Content] = {
    "aligned": {**SOURCES, **LOOPS, **fixed("always"), "etc/localtime": BERLIN},
    "rebooted": {**OVER_A_BOOT, **LOOPS, "script.txt": SCRIPT, **fixed("never")},
    "step": {**SOURCES, "more.txt": vmstat(LOCAL, 9) + vmstat(LOCAL + 20, 9).split(b"CET\n")[1]},
}


def in_local_time(data: bytes) -> bytes:
    """The epochs of a capture as its wall clock in Berlin would have shown them."""

    def shown(found: re.Match[bytes]) -> bytes:
        return time.strftime("%a %b %d %H:%M:%S %Y", time.gmtime(int(found[0]) + 3600)).encode()

    return re.sub(rb"(?m)^17\d{8}$", shown, data)


def test_a_capture_in_local_time_is_as_sure_with_its_zone() -> None:
    """The counters on the wall clock, the rest on others: what was found is found, and less of it is not surer."""
    whole = files(ROOT / "fixtures/captures/alloc-churn/bundle")
    content = {**whole, "loops/counters.txt": in_local_time(whole["loops/counters.txt"]), "etc/localtime": BERLIN}
    full = sure(judged(given(content)))
    assert full == sure(judged(given(whole)))
    assert full
    gone = ("member etc/localtime", "member loops/counters.txt", "member perf-script.txt", "all fact uptime.seconds")
    for words, less in variants(given(content)):
        if words in gone:
            rest = sure(judged(less))
            assert {r for r, level in rest.items() if level > full.get(r, 0)} == set(), words


def smaller() -> Iterator[tuple[str, str, ParsedInput]]:
    for name, content in BUNDLES.items():
        yield from ((name, words, less) for words, less in list(variants(given(content)))[::EVERY_VARIANT])


def test_less_of_a_clock_makes_nothing_surer() -> None:
    """The law of DESIGN 4: without the zone, the boot or a source no likely finding appears."""
    full = {name: sure(judged(given(content))) for name, content in BUNDLES.items()}
    for name, words, less in smaller():
        rest = sure(judged(less))
        assert {r for r, level in rest.items() if level > full[name].get(r, 0)} == set(), f"{name} without {words}"


def test_a_bundle_says_the_same_from_a_folder(tmp_path: Path) -> None:
    """Members in another order, and from the disk."""
    content = {**SOURCES, **LOOPS, "etc/localtime": BERLIN}
    for path, data in content.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    backwards = analyze([STDIN], rules(), STRICT, stdin=io.BytesIO(tar(dict(reversed(content.items())))))
    assert analyze([tmp_path], rules(), STRICT)["timeline"] == backwards["timeline"]
