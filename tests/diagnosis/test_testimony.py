"""What people write of their own host counts, as what it is; advice, quotes, questions and what did not help do not.

`accounts/` holds texts made for this, by somebody who had not seen the patterns: what an expert would conclude from
each stands in its first line, or why nothing can be.

Tables and lists of figures (from 41, and from 101), and short ones (from 62, and from 146), came with the patterns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import document

TEXTS = Path(__file__).parent / "accounts"
# Accounts that say it in ways that are not understood yet: a table, a profile, answers to what somebody else asked.
MISSED = {"21", "27", "28", "29", "30"}


def texts(name: str) -> dict[str, tuple[list[str], bytes]]:
    """By number: the words of its first line, and the text."""
    parts = re.split(r"(?m)^=== (\d+) (.*)\n", (TEXTS / name).read_text("utf-8"))
    return {
        number: (words.split(), text.encode())
        for number, words, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    }


ACCOUNTS, DECOYS = texts("accounts.txt"), texts("decoys.txt")


def causes(result: dict[str, Any]) -> dict[str, str]:
    """Mechanisms and their confidence."""
    found = (f for f in result["findings"] if f["role"] in ("root_cause", "contributing", "alternative"))
    return {finding["mechanism"]: finding["confidence"] for finding in found}


@pytest.mark.parametrize("number", DECOYS)
def test_a_text_without_an_account_gives_no_finding(number: str) -> None:
    """A hundred in prose, and tables of what others measured, of other things, or in which more than THP differs."""
    assert causes(document(DECOYS[number][1])) == {}


@pytest.mark.parametrize("number", ACCOUNTS)
def test_an_account_gives_its_mechanism(number: str) -> None:
    """Or the proof that huge pages are the cause; never another mechanism."""
    mechanisms, text = ACCOUNTS[number]
    found = causes(document(text))
    assert set(found) <= set(mechanisms)
    assert bool(found) is (number not in MISSED)
    assert set(found.values()) <= {"possible", "likely"}


CURE = "We had stalls every hour. We disabled THP on Monday and they have not come back since.\n"
OURS = "We tested it on our hosts.\n\n"
GROWTH = "RSS of our server grows while it is idle. The page fault count does not change.\n"
IN_FIGURES = "The import took 61 minutes. Then I set enabled to never for THP, and the same import took 58 seconds.\n"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (CURE, ("huge-pages-proven", "possible")),
        (IN_FIGURES, ("huge-pages-proven", "likely")),
        (CURE + "We enabled it again on Friday and the stalls came back.\n", ("huge-pages-proven", "likely")),
        (GROWTH, ("khugepaged-bloat", "likely")),
        (CURE.replace("THP", "THP defrag"), ("fault-compaction", "possible")),
        ("On our build host kcompactd0 is spinning on a core all day.\n", ("background-compaction", "possible")),
        (
            "Our memory stays used for hours. On hosts without THP it works as expected.\n",
            ("huge-pages-proven", "possible"),
        ),
        ("Our memory stays used for hours. On hosts without THP it should work as expected.\n", (None, None)),
        ("Does kcompactd0 use 100 % of a CPU on your hosts, too?\n", (None, None)),
        ("On our host kcompactd0 was blocked for more than 120 seconds.\n", (None, None)),
        (CURE.replace("they have not come back since", "the stalls are still there"), (None, None)),
        (CURE.replace("We", "They said that they"), (None, None)),
        ("\n".join(f"> {line}" for line in CURE.splitlines()) + "\n\nIt did not help me.\n", (None, None)),
        ("Did anybody see the stalls go away? Were they gone after you had disabled THP?\n", (None, None)),
        ("You should disable THP: " + CURE.lower().replace("we ", "you "), (None, None)),
        (GROWTH.replace("grows", "does not grow"), (None, None)),
        ("RSS of our server grows while it is idle.\n", (None, None)),
        ("Our host has THP on. We set vm.swappiness to 0 and the stalls went away.\n", (None, None)),
        ("We have THP enabled. We turned off the cron job and the spikes have not come back since.\n", (None, None)),
        ("THP was suspected. We disabled KSM and the stalls were gone.\n", (None, None)),
        ("THP always: 1234 req/s\nTHP never: 3345 req/s\n", ("huge-pages-proven", "possible")),
        (OURS + "THP always: 1234 req/s\nTHP never: 3345 req/s\n", ("huge-pages-proven", "likely")),
        (OURS + "THP always: 1234 req/s\nTHP never: 2045 req/s\n", ("huge-pages-proven", "possible")),
        (OURS + "THP always: 1234 req/s\nTHP never: 1345 req/s\n", (None, None)),
        (OURS + "THP always: 3345 req/s\nTHP never: 1234 req/s\n", (None, None)),
        ("The vendor measured:\n\nTHP always: 1234 req/s\nTHP never: 3345 req/s\n", (None, None)),
        ("“" + IN_FIGURES.strip() + "” says a mail that I got.\n", (None, None)),
    ],
)
def test_what_counts_as_a_statement(text: str, verdict: tuple[str | None, str | None]) -> None:
    """One makes a hypothesis, two or a figure make it likely; what is no observation of the writer's makes nothing."""
    told = document(text.encode())["verdict"]
    assert (told.get("mechanism"), told.get("confidence")) == verdict


def test_the_line_is_cited_and_the_class_named() -> None:
    """With what is written there."""
    result = document(b"Hello,\n\n" + CURE.encode())
    [finding] = result["findings"]
    assert result["verdict"]["state"] == "unknown"  # of when it speaks nobody knows
    assert {(line["line"], line["kind"]) for line in finding["evidence"]} == {(3, "testimony")}
    assert finding["evidence"][0]["excerpt"] == [CURE.strip()]


def test_nobody_is_asked_for_testimony() -> None:
    """That nobody writes of the host is no lack of data."""
    result = document(b"[root@db1 ~]# uname -r\n5.14.0-427.el9.x86_64\n")
    outcomes = {rule["id"]: rule["outcome"] for rule in result["rules"]}
    assert {outcomes[f"THP-{number}"] for number in ("090", "091", "092", "093", "094")} == {"silent"}
    assert not any(name.startswith("testimony.") for one in result["unknown"] for name in one["missing"])


def test_testimony_is_no_second_kind_beside_a_measurement() -> None:
    """A rising counter that somebody saw does not confirm what call stacks show."""
    storm = "_spin_lock_irq;compact_zone;try_to_compact_pages;do_huge_pmd_anonymous_page;handle_mm_fault;page_fault"
    folded = f"java;{';'.join(reversed(storm.split(';')))} 900\njava;main 100\n"
    alone = causes(document(folded.encode()))
    beside = causes(document(f"{folded}\nWe saw the compact_fail counter rising.\n\n{CURE}".encode()))
    assert alone.items() <= beside.items()
    assert "confirmed" not in beside.values()


def test_hostile_prose_ends() -> None:
    """Long sentences, thousands of lines, unclosed quotes."""
    for text in ("disabled thp and " * 20_000, '"' * 50_000 + " thp", "we turned off thp. " * 20_000, "thp\n" * 9_000):
        assert set(causes(document(text.encode())).values()) <= {"possible", "likely"}
