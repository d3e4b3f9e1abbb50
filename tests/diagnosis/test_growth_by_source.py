"""Memory that khugepaged fills, from whichever tool the customer ran: what each can prove, and what denies it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from analyze_bytes import document, found
from expected_diagnosis import FIXTURES

BLOAT = "THP-030"


def session(name: str) -> str:
    """The recorded session of a row of the acceptance table."""
    return (FIXTURES / "acceptance" / name / "bundle" / "session.txt").read_text("utf-8")


def bloat(text: str) -> str | None:
    """How sure the finding is, None if there is none."""
    return found(document(text.encode())).get(BLOAT)


def faulting(per_second: int) -> Callable[[str], str]:
    """pidstat's rows with so many minor faults in each second."""
    return lambda text: text.replace("      0.00      0.00 1052968", f" {per_second:>8}.00      0.00 1052968")


def busy(text: str) -> str:
    """top, in which the program used a tenth of a second of CPU time in each second."""
    frames = iter(range(1000))
    return re.sub(r"0:00\.00 growth", lambda _: f"0:{next(frames) / 10:05.2f} growth", text)


def sharing(text: str) -> str:
    """top, in which all that the program grows by is shared."""
    return re.sub(r"(1052968\s+)(\d+)(\s+)\d+ S", r"\1\2\3\2 S", text)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("growth-in-pidstat", faulting(4088), id="small-pages-by-faults"),
        pytest.param("growth-in-pidstat", faulting(8), id="huge-pages-by-faults"),
        pytest.param("growth-in-top", busy, id="cpu-time-enough"),
        pytest.param("growth-in-top", sharing, id="files-or-shared-memory"),
        pytest.param("growth-in-status", lambda text: text.replace("S (sleeping)", "R (running)"), id="it-runs"),
        pytest.param("growth-in-status", lambda text: text.replace("Threads:\t1", "Threads:\t7"), id="other-threads"),
    ],
)
def test_what_the_process_can_have_touched_is_not_khugepaged(name: str, change: Callable[[str], str]) -> None:
    """The recording is found as it is, and not with what may have let the process grow by itself."""
    assert bloat(session(name)) == "likely"
    assert change(session(name)) != session(name)
    assert bloat(change(session(name))) is None


def switched_off(text: str) -> str:
    """Huge pages off."""
    return text.replace("[madvise]", "madvise").replace("never", "[never]")


def without_huge_pages(text: str) -> str:
    """smaps of a program that has no huge pages."""
    return re.sub(r"AnonHugePages: .*", "AnonHugePages: 0 kB", text)


def without_rests(text: str) -> str:
    """ps, in which the program grows by half a round in each sample."""
    sizes = iter(range(47084, 10**6, 7552))
    return re.sub(r"(16147 397608) \d+", lambda row: f"{row[1]} {next(sizes)}", text)


def with_small_pages(text: str) -> str:
    """smaps, in which as many small pages are added as huge pages replace."""
    huge = re.compile(r"Rss: +(\d+) kB\n(Anonymous: .*\n)AnonHugePages: +(\d+) kB")
    return huge.sub(lambda row: f"Rss: {int(row[3]) + 40000} kB\n{row[2]}AnonHugePages: {row[3]} kB", text)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("growth-in-ps-of-sizes", without_rests, id="no-rests"),
        pytest.param("growth-in-ps-of-sizes", switched_off, id="huge-pages-off"),
        pytest.param("growth-in-smaps", with_small_pages, id="small-pages-stay"),
        pytest.param("growth-in-smaps", without_huge_pages, id="no-huge-pages"),
    ],
)  # fmt: skip
def test_without_counts_of_page_faults_it_is_a_hypothesis(name: str, change: Callable[[str], str]) -> None:
    """Of the process that grows in rounds or in place of small pages, and of no other."""
    result = document(session(name).encode())
    (finding,) = (f for f in result["findings"] if f["mechanism"] == "khugepaged-bloat")
    assert (finding["rule"], finding["confidence"]) == ("THP-039", "possible")
    assert finding["entity"] in ("sparse (16147)", "process ?")
    assert change(session(name)) != session(name)
    assert found(document(change(session(name)).encode())).get("THP-039") is None


def test_rows_that_pidstat_leaves_out_are_of_rest() -> None:
    """pidstat lists who did something: what lies between its rows adds no faults, and growth there counts."""
    lines = session("growth-in-pidstat").splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines) if number < 8 or number % 3 == 0 or "Average" in line]
    assert bloat("".join(kept)) == "likely"


def test_less_of_it_is_no_surer() -> None:
    """A quarter of a minute is too little."""
    lines = session("growth-in-pidstat").splitlines(keepends=True)
    assert bloat("".join(lines[:18])) is None
