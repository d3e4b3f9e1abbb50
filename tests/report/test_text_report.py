"""The report for a terminal: width, order, and nothing from the input that a terminal acts upon."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thpdiag.report.escaping import lines, prose, visible
from thpdiag.report.layout import columns, fold
from thpdiag.report.messages import SENTENCES
from thpdiag.report.presentation import Presentation
from thpdiag.report.quantity import duration, moment, quantity
from thpdiag.report.text import render

FULL = Presentation(verbosity=1)

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*.json"), key=str)
LEVELS = (0, 1, 2)
WIDTH = 80  # of the contract
STATUSES = ("found", "not_applicable", "nothing_found", "cannot_tell")
_PATH = re.compile(r"\S*/\S*")
_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_COMMANDS = {"now", "persist", "undo", "how", "ask_for", "commands"}


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _document(name: str) -> dict[str, Any]:
    return _read(Path(__file__).parents[1] / "results" / f"{name}.json")


def _commands(value: Any) -> Iterator[str]:
    """Every line of every command in the document."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _commands(child)
    for key in _COMMANDS & value.keys() if isinstance(value, dict) else ():
        said = value[key]
        yield from (line.strip() for part in ([said] if isinstance(said, str) else said) for line in part.split("\n"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", [path for path in RESULTS if path.stem != "hostile"], ids=lambda path: path.stem)
def test_no_line_is_wider_than_a_terminal(path: Path, level: int) -> None:
    """Lines end at column 80; only a command or a path alone on its line may be wider."""
    document = _read(path)
    commands = set(_commands(document))
    for line in render(document, Presentation(verbosity=level)).splitlines():
        assert columns(line) <= WIDTH or line.strip() in commands or _PATH.fullmatch(line.strip()), line


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_verdict_is_the_first_thing_said(path: Path) -> None:
    """The report opens with the sentence of the worst host."""
    sentence = _read(path)["verdict"]["sentence"]
    opening = " ".join(render(_read(path)).splitlines()[:3])
    assert opening.startswith(f"thpdiag: {sentence[:15]}")


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_has_a_sentence_of_its_own(status: str) -> None:
    """A document without a sentence still says what its status means."""
    document = {"schema": "thpdiag/result/1", "verdict": {"status": status}}
    assert " ".join(render(document).splitlines()).startswith(f"thpdiag: {SENTENCES[status]}")


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_reaches_the_terminal_as_a_control(level: int) -> None:
    """Of the hostile document no control, escape, bidirectional or zero-width character is printed."""
    report = render(_document("hostile"), Presentation(verbosity=level))
    assert not _HIDDEN.search(report)
    assert r"\x1b[31m" in report
    assert r"\u202e" in report


def test_the_order_is_the_order_of_reading() -> None:
    """The first block; evidence, denials, steps, other findings, what is open, problems, notes."""
    report = render(_document("found"), FULL)
    wanted = [
        "thpdiag: CPUs queue on",
        "confidence confirmed",
        "Host: chaos",
        "Proof: ticket-4711.txt:114",
        "ticket-4711.txt:28  93.8 %",
        "Do now:  ",
        "         echo never > /sys/kernel/mm/redhat_transparent_hugepage/defrag",
        "Undo:    echo always",
        "Verify:  collectl",
        "Why:",
        "Evidence against:",
        "Not the cause:",
        "Not garbage collection: SpinPause has 0.7 %",
        "Permanently:",
        "Verify: system time",
        "Cost: ",
        "THP-005  consequence",
        "2 rules could not be decided",
        "    sh thpdiag-capture.sh --seconds 60",
        "2 problems",
        "Note: ",
    ]
    places = [report.find(text) for text in wanted]
    assert -1 not in places
    assert places == sorted(places)


def test_nothing_is_printed_twice() -> None:
    """A figure that two checks looked at and a remedy that the verdict has told already are not told again."""
    document = _document("found")
    leader, *others = document["findings"]
    leader["evidence"].append({**leader["evidence"][0], "check": "again", "text": "the same figure in other words"})
    other = {**others[0], "role": "configuration", "severity": "high", "remedies": leader["remedies"]}
    document["findings"] = [leader, other, *others[1:]]
    report = render(document, FULL)
    assert "the same figure in other words" not in report
    for advice in leader["remedies"]:
        assert report.count(f"[{advice['id']}]") == 1
    assert f"Under What to do: {leader['remedies'][0]['id']}" in report


def test_the_first_screen_has_no_conditions_of_rules() -> None:
    """The kinds of evidence that are missing are said at once, conditions that raise the confidence with -v."""
    document = _document("found")
    document["verdict"]["confidence"] = document["findings"][0]["confidence"] = "likely"
    document["findings"][0]["raise_confidence"] = ["compact_stall rate above 2 /s"]
    assert "To be more certain" not in render(document)
    assert "To be more certain: compact_stall rate above 2 /s" in render(document, FULL)


def test_a_risk_is_no_consequence() -> None:
    """A setting that is a risk stays one beside the verdict; what was merely noted has no severity."""
    document = _document("found")
    leader, other, *_ = document["findings"]
    risk = {**other, "rule": "X-1", "role": "risk", "severity": "low"}
    context = {**other, "rule": "X-2", "role": "context", "severity": "info", "title": "Nothing moved"}
    document["findings"] = [{**leader, "consequences": [other["rule"], "X-1", "X-2"]}, other, risk, context]
    report = render(document, FULL)
    assert f"{other['rule']}  consequence, " in report
    assert "X-1  risk, low" in report
    assert "X-2  Nothing moved" in report


def test_commands_for_no_known_distribution_say_so() -> None:
    """Where the distribution is unknown the reader learns that the commands are not made for this host."""
    document = _document("found")
    assert "any Linux" not in render(document)
    document["host"]["platform"] = None
    assert "written for any Linux" in render(document)


def test_more_is_said_at_each_level() -> None:
    """Settings and problems come with level 1, match trees with level 2."""
    brief, full, trees = (render(_document("found"), Presentation(verbosity=level)) for level in LEVELS)
    assert "no reader knows this format" not in brief
    assert "no reader knows this format" in full
    assert "thp.enabled = always" in full
    assert "+ compacting: 2.2 % (needed: 0.5 %)" not in full
    assert "+ compacting: 2.2 % (needed: 0.5 %)" in trees


def test_other_hosts_follow_the_worst() -> None:
    """Of several hosts the worst is told in full and each healthy one in a line; level 1 tells them in full too."""
    document = _document("several_hosts")
    brief = render(document)
    assert brief.index("Severity critical") < brief.index("2 other hosts") < brief.index("db07: No huge-page problem")
    assert brief.index("db07:") < brief.index("uek01: This kernel")
    assert "Debian GNU/Linux 12" not in brief
    assert "Debian GNU/Linux 12" in render(document, FULL)


def test_long_lists_are_cut_short_with_a_count() -> None:
    """At level 0 the list of denials ends after a few, and says how many more there are."""
    document = _document("found")
    document["ruled_out"] = [{"rule": f"ALT-{number}", "because": f"number {number}"} for number in range(30)]
    brief = render(document)
    left = int(re.findall(r"and (\d+) more \(--full\)", brief.partition("Not the cause:")[2])[0])
    assert left + len(re.findall(r"number \d+", brief)) == 30
    assert "Not the case (ALT-29): number 29" in render(document, FULL)


def test_what_may_hide_evidence_is_listed_at_once() -> None:
    """Other problems are only counted until somebody asks; the count says that there are such."""
    document = _document("found")
    lost = {"member": "var.tar.gz", "kind": "damaged", "text": "is no archive", "hides": True}
    odd = {"member": "vmstat.txt", "kind": "odd", "text": "not a row of vmstat"}
    document["problems"] = [lost, odd]
    assert "Problems that may hide evidence" in render(document)
    assert "var.tar.gz  damaged: is no archive" in render(document)
    assert "no row" not in render(document)
    assert "2 problems (1 damaged, 1 irregular); --full lists them." in " ".join(render(document).split())
    assert "vmstat.txt  irregular: not a row of vmstat" in render(document, FULL)
    assert "1 problem (1 damaged).\n" in render({**document, "problems": [lost]})
    assert "Problems that may" not in render({**document, "problems": [odd]})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("bell\x07 del\x7f c1\x9b", r"bell\x07 del\x7f c1\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("lone\ud800", r"lone\ud800"),
        ("a\tb\nc", r"a b\x0ac"),
        ("Köln 東京", "Köln 東京"),
    ],
)
def test_hidden_characters_are_written_out(text: str, shown: str) -> None:
    """What a terminal would act upon or hide is written as an escape; other text stays as it is."""
    assert visible(text) == shown


def test_prose_and_commands_treat_line_ends_differently() -> None:
    """A sentence is one line whatever its line ends; a script keeps its lines."""
    assert prose(" a\n  b\tc ") == "a b c"
    assert lines("if true; then\n  x\nfi\n") == ["if true; then", "  x", "fi"]


def test_folding_breaks_long_words_but_no_path() -> None:
    """A word wider than the line is broken, a path is left whole; wide characters count two columns."""
    assert all(columns(line) <= WIDTH for line in fold("x" * 500 + " end", "  a  ", "      "))
    path = "/sys/" + "long/" * 30
    assert path in [line.strip() for line in fold(f"see {path} there")]
    assert all(columns(line) <= WIDTH for line in fold("東京" * 100))
    assert all(columns(line) <= WIDTH for line in fold("text", "label " * 30, "  "))


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.938, "ratio", "93.8 %"),
        (0.0004, "ratio", "0.04 %"),
        (0, "ratio", "0.0 %"),
        (25769803776, "bytes", "24.0 GiB"),
        (512, "bytes/s", "512 B/s"),
        (1204, "1", "1,204"),
        (0.1, "1/s", "0.1/s"),
        (93784, "seconds", "1 d 2 h"),
        (None, "ratio", "unknown"),
        (float("nan"), "bytes", "unknown"),
        (10**400, "1", "out of range"),
        ("always", "", "always"),
    ],
)
def test_quantities_read_as_people_write_them(value: object, unit: str, shown: str) -> None:
    """Base units become percent, binary multiples, and days and hours; absent is unknown, never zero."""
    assert quantity(value, unit) == shown


@pytest.mark.parametrize(
    ("seconds", "clock", "shown"),
    [
        (0, "utc", "1970-01-01 00:00:00 UTC"),
        (38_991, "day", "10:49:51"),
        (86_401, "day", "00:00:01 (+1 d)"),
        (12.34, "boot", "12.3 s after boot"),
        (7, None, "sample 7"),
        (1e300, "local", "1e+300 s"),
        (None, "utc", "unknown"),
    ],
)
def test_times_name_their_clock(seconds: float | None, clock: str | None, shown: str) -> None:
    """A time is written as its clock demands; a clock gone wild is no error."""
    assert moment(seconds, clock) == shown


def test_durations_keep_two_units() -> None:
    """Short times keep their digits, long ones their two largest units."""
    assert [duration(seconds) for seconds in (0.25, 90, 3600, 864000.0)] == ["0.25 s", "1 min 30 s", "1 h", "10 d"]
