"""What the result and the reports say of a recording: what it is, when it was made, what it lost, what began when."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from analyze_bytes import document
from thpdiag.model.result import schema
from thpdiag.report import html, text
from thpdiag.report.layout import columns
from thpdiag.report.presentation import Presentation

FULL = Presentation(verbosity=1)

FAST = ("brk_fast", "do_syscall_64")
SLOW = (
    "_raw_spin_lock_irqsave", "compact_zone", "try_to_compact_pages", "__alloc_pages_direct_compact",
    "__alloc_pages_slowpath", "do_huge_pmd_anonymous_page", "handle_mm_fault", "do_page_fault", "page_fault",
)  # fmt: skip
BOOTED = "[root@db1 ~]# cat /proc/stat\nctxt 5\nbtime 1795153220\nprocesses 7\n[root@db1 ~]# perf script\n"
REFERENCE = "# reference time: 2026-11-20 08:58:42.5 = 1795153225.000000 (TOD) = 5.000000000 (monotonic)\n"
SECONDS = 40
EACH = 20  # samples in a second
HEAD = """# ========
# captured on    : Fri Nov 20 09:00:00 2026
# hostname : db1
# os release : 2.6.32-431.el6.x86_64
# perf version : 2.6.32-431.el6.x86_64
# ========
#
"""


def samples(slow_from: float = 20.0, seconds: int = SECONDS) -> Iterator[str]:
    """perf script: EACH samples a second, fast ones, then such that compact memory."""
    for number in range(seconds * EACH):
        at = number / EACH
        frames = "".join(
            f"\tffffffff81000{i:03x} {f} ([kernel.kallsyms])\n" for i, f in enumerate(_frames(at, slow_from))
        )
        yield f"java  4711 [000] {1000 + at:.6f}: cycles: \n{frames}\n"


def _frames(at: float, slow_from: float) -> tuple[str, ...]:
    return SLOW if at >= slow_from else FAST


@cache
def judged(lost: int = 0, around: str = "", head: str = "", slow_from: float = 20.0) -> dict[str, Any]:
    """The result of the recording; `around` is other text of the same host."""
    record = f"java  4711 [000] 1000.5: PERF_RECORD_LOST lost {lost}\n\n" if lost else ""
    return document(f"{around}{head}{''.join(samples(slow_from))}{record}".encode())


def profile(result: dict[str, Any]) -> dict[str, Any]:
    (found,) = result["profiles"]
    told: dict[str, Any] = found
    return told


def stack_evidence(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [e for f in result["findings"] for e in f["evidence"] if e["kind"] == "stack"]


def plain(report: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", report).split())


def test_the_document_follows_the_schema() -> None:
    """With a course, a picture, an onset and losses."""
    result = judged(lost=300, head=HEAD)
    assert [e.message for e in Draft202012Validator(schema()).iter_errors(result)] == []


def test_a_finding_says_since_when() -> None:
    """Twenty seconds fast, then slow: the moment, and the shares before and after."""
    onsets = [e["onset"] for e in stack_evidence(judged()) if "onset" in e]
    assert onsets
    assert onsets[0]["t"] == pytest.approx(1020.0, abs=1.0)
    assert onsets[0]["clock"] == "boot"
    assert "0.0 % before, 100 % from then on" in onsets[0]["text"]


def test_what_was_bad_from_the_start_has_no_onset() -> None:
    """No good time, no first bad moment."""
    result = judged(slow_from=0.0)
    assert stack_evidence(result)
    assert not any("onset" in e for e in stack_evidence(result))


def test_checks_that_match_the_same_samples_are_one_signature() -> None:
    """One course for all of them, and each says since when."""
    result = judged()
    assert len(stack_evidence(result)) > 2
    assert len(profile(result)["signatures"]) == 1
    assert all("onset" in e for e in stack_evidence(result))
    assert {e["from"] for e in result["timeline"]["episodes"]} == {stack_evidence(result)[0]["onset"]["t"]}


def test_the_share_is_a_series_of_the_timeline() -> None:
    """Low, then high, on the recording's own clock, each share in the middle of what it is of."""
    (first, *_) = [s for s in judged()["timeline"]["series"] if s["metric"] == "profile"]
    shares = [mean for _, _, _, mean in first["points"]]
    assert (first["clock"], first["unit"]) == ("boot", "ratio")
    wide = first["points"][1][0] - first["points"][0][0]
    assert first["points"][0][0] == pytest.approx(1000.0 + wide / 2)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert len(shares) <= 300


def test_the_pictures_are_small_and_say_what_a_cell_is() -> None:
    """A column of 50 digits for each second; the signature's has nothing before it begins."""
    found = profile(judged())
    (signature, *_) = [s for s in found["signatures"] if "heat" in s]
    assert len(found["heat"]) == len(signature["heat"]) == SECONDS
    assert {len(column) for column in found["heat"]} == {50}
    assert found["heat_cell"] == {"begin": 1000, "seconds": 1, "samples": 1}
    assert set("".join(signature["heat"][:19])) == {"0"}
    assert "1" in signature["heat"][30]


def test_signatures_name_their_worst_second() -> None:
    """One of those after the onset."""
    worst = profile(judged())["signatures"][0]["worst"]
    assert 1019 <= worst["t"] < 1040
    assert worst["text"].startswith("worst second: 10")


@pytest.mark.parametrize(
    ("around", "head", "expected"),
    [
        pytest.param("", "", "from 1000.0 s after boot on; the time of day is not known", id="unknown"),
        pytest.param(
            "", HEAD, "the time of day is not known (perf found its file written 2026-11-20 09:00:00, in the time zone",
            id="only the time of the file",
        ),
        pytest.param(
            BOOTED, "", "from 2026-11-20 05:57:00 UTC on (give or take 1 s, by btime of stdin:",
            id="boot time",
        ),
        pytest.param(
            "", HEAD.replace("# hostname", f"{REFERENCE}# hostname"),
            "from 2026-11-20 05:57:00 UTC on (exact, by its own clock data)",
            id="clock data",
        ),
    ],
)  # fmt: skip
def test_both_reports_say_when_it_was_recorded(around: str, head: str, expected: str) -> None:
    """The time of day, how sure it is and from where; or that it is not known."""
    result = judged(around=around, head=head)
    assert expected in profile(result)["when"]
    assert expected in plain(text.render(result, Presentation(verbosity=1)))
    assert expected in plain(html.render(result))


def test_relative_times_are_no_times() -> None:
    """--reltime counts from 0: no course, no onset, and the report says so."""
    moved = "".join(samples()).replace(" 100", " 0").replace(" 101", " 1").replace(" 102", " 2").replace(" 103", " 3")
    result = document(moved.encode())
    found = profile(result)
    assert found["when"].startswith("when it was recorded is not known, its times are relative to")
    assert not {"first", "heat", "signatures"} & found.keys()
    assert not [s for s in result["timeline"]["series"] if s["metric"] == "profile"]


def test_both_reports_show_the_losses() -> None:
    """What the recorder reports that it lost, with its share."""
    result = judged(lost=200)
    assert profile(result)["loss"]["lost_share"] == pytest.approx(0.2)
    for report in (text.render(result), plain(html.render(result))):
        assert "the recorder reports that it lost 200 samples, 20.0 % of all" in " ".join(report.split())
    assert "says it lost" not in text.render(judged())


@pytest.mark.parametrize(("lost", "weak"), [(20, False), (200, True)])
def test_many_lost_samples_lower_the_confidence_and_it_says_so(lost: int, weak: bool) -> None:
    """Above 5 % a stack alone is possible only: the evidence says why, and what would be better."""
    result = judged(lost=lost)
    (leading,) = [f for f in result["findings"] if f["rule"] == result["verdict"]["rule"]]
    told = " ".join(e["text"] for e in leading["evidence"])
    assert (leading["confidence"] == "possible") is weak
    assert ("the recording lost 20.0 % of its samples, which makes it weak evidence" in told) is weak
    surer = [s for s in leading["raise_confidence"] if "a recording that loses at most 5.0 % of its samples" in s]
    assert bool(surer) is weak
    assert ("its evidence is only possible" in plain(html.render(result))) is weak


def test_lost_samples_of_perf_report_reach_the_ledger() -> None:
    """`# Total Lost Samples`, as perf report prints it."""
    report = (
        "# To display the perf.data header info, please use --header/--header-only options.\n#\n"
        "# Total Lost Samples: 250\n#\n# Samples: 750  of event 'cycles'\n# Event count (approx.): 750\n#\n"
        "# Overhead  Command  Shared Object      Symbol\n# ........  .......  .................  ......\n#\n"
        "    93.80%  java     [kernel.kallsyms]  [k] _spin_lock_irq\n"
        "     6.20%  java     [kernel.kallsyms]  [k] clear_page_c\n"
    )
    result = document(report.encode())
    assert profile(result)["loss"]["lost"] == 250
    assert "the recorder reports that it lost 250 samples" in text.render(result)


def test_small_branches_are_counted_to_their_callers() -> None:
    """A thousand different leaves of one sample each: one line, and how much was folded."""
    head = "java 1 [000] 5{i:05d}.000000: cycles: \n"
    body = "\tffffffff81000001 leaf_{i} ([kernel.kallsyms])\n\tffffffff81000002 caller ([kernel.kallsyms])\n\n"
    found = profile(document("".join((head + body).format(i=i) for i in range(3000)).encode()))
    assert found["folded"] == [["java;caller", 1.0]]
    assert (found["folded_least"], found["folded_into_callers"]) == (0.0005, 1.0)


def test_functions_of_programs_without_names_are_shown_by_their_object() -> None:
    """`[libc.so.6]`, once for several of it that call each other."""
    text_of_perf = (
        "java 1 [000] 5.000000: cycles: \n\tffffffff81000001 clear_page_c ([kernel.kallsyms])\n"
        "\t            7f01 [unknown] (/usr/lib64/libc.so.6)\n\t            7f02 [unknown] (/usr/lib64/libc.so.6)\n"
        "\t            7f03 main (/opt/app)\n\n"
    )
    found = profile(document((text_of_perf * 60).encode()))
    assert found["folded"] == [["java;main;[libc.so.6];clear_page_c", 1.0]]


def test_no_line_of_the_text_report_is_wider_than_a_terminal() -> None:
    """With everything that can be said of a recording."""
    report = text.render(judged(lost=300, head=HEAD, around=BOOTED), FULL)
    section = report.split("Recordings of call stacks")[1].split("\nSettings")[0].splitlines()
    assert len(section) > 5
    assert [line for line in section if columns(line) > 80] == []


def test_the_same_recording_gives_the_same_bytes() -> None:
    """Pictures and courses too."""
    again = document("".join(samples()).encode())
    assert json.dumps(again, sort_keys=True) == json.dumps(judged(), sort_keys=True)
