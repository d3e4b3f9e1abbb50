"""The catalogue of known issues: the form of its entries, and how versions are compared."""

from __future__ import annotations

from typing import Any

import pytest

from thpdiag.authoring.knowledge import issue_complaints
from thpdiag.knowledge.known_issues import Catalogue, KnownIssue, Range, Workaround, catalogue, kernel_version, place_in

GOOD = KnownIssue(
    "a-good-entry", "A title", "stall", "A sentence.", "CVE-2026-1", "2026-01-02", "kernel",
    kernels=(Range("mainline", "6.1", "6.1.9"),),
)  # fmt: skip


def test_the_catalogue_has_nothing_to_complain_of() -> None:
    """Each of the entries, sixty at least, has its source and date."""
    known = catalogue()
    assert issue_complaints(known) == []
    assert len(known.issues) >= 60
    assert all(issue.source and issue.date for issue in known.issues)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "Bad ID"}, "an id has"),
        ({"title": "A title."}, "without a full stop"),
        ({"harm": "bad"}, "harm is one of"),
        ({"source": ""}, "has a source"),
        ({"date": "2026-13-01"}, "the date is"),
        ({"date": "last year"}, "the date is"),
        ({"date": "2027-01-01"}, "after the catalogue was checked"),
        ({"date": "2025"}, "reason for an inexact date"),
        ({"kernels": ()}, "true of every host"),
        ({"kernels": (Range("debian12", "6.1"),)}, "unknown line of kernels"),
        ({"kernels": (Range("mainline", "6.1"),)}, "needs a fix or a last version"),
        ({"kernels": (Range("mainline", "6.1.9", "6.1.2"),)}, "ends before it starts"),
        ({"kernels": (Range("el9_4", "", "5.14", "5.15"),)}, "has no last version"),
        ({"kernels": (Range("el9", "", "5.14.0-5"), Range("el9", "5.14.0-2", "5.14.0-9"))}, "two ranges overlap"),
        ({"kernels": (Range("el9", "", "newest"),)}, "must start with a number"),
        ({"app": "no-such"}, "no application is called"),
        ({"versions": (Range("", "1", "2"),)}, "are those of an app"),
        ({"needs": {"no.such": {"least": 1}}}, "the vocabulary has no"),
        ({"needs": {"cpu.count": {"at_least": 1}}}, "a condition is one of"),
        ({"needs": {"process.command": {"matches": "(?=a)"}}}, "not a valid RE2 pattern"),
        ({"workaround": Workaround(sets={"defrag": ["never"]})}, "needs `until`"),
        ({"workaround": Workaround(sets={"no_such": ["1"]}, until="then")}, "no setting no_such"),
        ({"workaround": Workaround(back={"defrag": "madvise"})}, "back has only"),
        ({"workaround": Workaround(remedy="pray")}, "no remedy is called"),
    ],
)
def test_a_mistake_in_an_entry_is_named(changes: dict[str, Any], says: str) -> None:
    """One mistake, one complaint, at least."""
    assert issue_complaints(Catalogue((GOOD,), "2026-11-28")) == []
    found = issue_complaints(Catalogue((GOOD._replace(**changes),), "2026-11-28"))
    assert any(says in one for one in found), found


def test_two_fixed_versions_of_one_defect_contradict() -> None:
    """The same defect by its number, the same line of kernels, another version; another line is no contradiction."""
    other = GOOD._replace(id="another-entry", kernels=(Range("mainline", "6.1", "6.1.10"),))
    assert "another fixed version for mainline" in issue_complaints(Catalogue((GOOD, other), "2026-11-28"))[0]
    further = other._replace(kernels=(Range("mainline", "6.12", "6.12.10"),))
    assert issue_complaints(Catalogue((GOOD, further), "2026-11-28")) == []
    assert "duplicate id" in "".join(issue_complaints(Catalogue((GOOD, GOOD), "2026-11-28")))


@pytest.mark.parametrize(
    ("changes", "opposite"),
    [
        ({}, True),
        ({"kernels": (Range("el9_4"),)}, True),
        ({"versions": (Range("", "8", "", "9"),)}, True),
        ({"workaround": Workaround(sets={"enabled": ["madvise", "never"]}, until="then")}, False),
        ({"app": "mongodb"}, False),
        ({"kernels": (Range("el8"),)}, False),
        ({"versions": (Range("", "", "7.4"),)}, False),
        ({"versions": (Range("", "", "", "6"),)}, False),
        ({"needs": {"thp.enabled": {"one_of": ["madvise"]}}}, False),
    ],
)
def test_opposite_advice_for_one_program_contradicts(changes: dict[str, Any], opposite: bool) -> None:
    """Where both entries can be true of one host, one setting has one value."""
    never = GOOD._replace(
        kernels=(Range("el9"),),
        app="redis", versions=(Range("", "7.4", "", "8"),),
        needs={"thp.enabled": {"one_of": ["always"]}}, workaround=Workaround(sets={"enabled": ["never"]}, until="then"),
    )  # fmt: skip
    other = never._replace(id="another-entry", workaround=Workaround(sets={"enabled": ["madvise"]}, until="then"))
    found = issue_complaints(Catalogue((never, other._replace(**changes)), "2026-11-28"))
    assert any("another-entry sets enabled otherwise" in one for one in found) is opposite


@pytest.mark.parametrize(
    ("release", "build", "lines", "numbers"),
    [
        ("5.14.0-427.13.1.el9_4.x86_64", "", ("el9_4", "el9"), (5, 14, 0, 427, 13, 1)),
        ("2.6.32-220.7.1.el6.x86_64", "", ("el6",), (2, 6, 32, 220, 7, 1)),
        ("5.15.0-206.153.7.el9uek.x86_64", "", ("uek5.15",), (5, 15, 0, 206, 153, 7)),
        ("6.4.0-150600.23.87-default", "", ("sles15.6",), (6, 4, 0, 150600, 23, 87)),
        ("6.12.0-160000.5-default", "", ("sles16.0",), (6, 12, 0, 160000, 5)),
        ("4.12.14-122.37-default", "", ("sles12.5",), (4, 12, 14, 122, 37)),
        ("3.0.101-63-default", "", ("sles11",), (3, 0, 101, 63)),
        ("6.8.0-45-generic", "", ("ubuntu6.8",), (6, 8, 0, 45)),
        ("6.8.0-1019-aws", "", (), ()),
        ("6.1.0-21-amd64", "#1 SMP Debian 6.1.90-1 (2024-05-03)", ("mainline",), (6, 1, 90)),
        ("6.1.0-21-amd64", "", (), ()),
        ("6.12.38+deb13-amd64", "", ("mainline",), (6, 12, 38)),
        ("6.8.9-300.fc40.x86_64", "", ("mainline",), (6, 8, 9, 300)),
        ("6.1.90-99.173.amzn2023.x86_64", "", ("mainline",), (6, 1, 90, 99, 173)),
        ("6.18.44", "", ("mainline",), (6, 18, 44)),
        ("6.8.12-4-pve", "", (), ()),
        ("5.15.0", "", (), ()),
    ],
)
def test_a_kernel_is_of_a_line(release: str, build: str, lines: tuple[str, ...], numbers: tuple[int, ...]) -> None:
    """Distributions keep old numbers with new changes, so that each is a line of its own."""
    assert kernel_version(release, build) == (lines, numbers)


@pytest.mark.parametrize(
    ("version", "where"),
    [
        ((6, 0, 9), "outside"),
        ((6, 1), "affected"),
        ((6, 1, 8), "affected"),
        ((6, 1, 9), "fixed"),
        ((6, 2, 1), "outside"),
        ((6, 6, 3), "affected"),
        ((6, 8, 12), "affected"),
        ((6, 9), "outside"),
    ],
)
def test_a_version_lies_in_a_range(version: tuple[int, ...], where: str) -> None:
    """`from` is in it, the fixed version is not; `last: 6.8` has all of 6.8; of a later branch nothing is known."""
    ranges = (Range("mainline", "6.1", "6.1.9"), Range("mainline", "6.6", "", "6.8"))
    assert place_in(ranges, version)[0] == where
