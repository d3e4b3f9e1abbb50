"""sysstat's own files: the header of every format, and rows through a sadf that may not be there or misbehave."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysstat_rows import in_bulk, problems, samples
from thpdiag.model import Clock, Fact, Moment, ProblemKind
from thpdiag.parsers.sysstat.sadc import BULK_PARSER, Head, format_of, read_head

SINCE = 1_410_480_001
ROWS = "# hostname;interval;timestamp;pswpin/s;pswpout/s\\nweb1;600;2014-09-12 00:10:01 UTC;1.00;2.00\\n"
OFTEN = settings(
    max_examples=200, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


def names(host: bytes = b"web1") -> bytes:
    return b"".join(name.ljust(65, b"\0") for name in (b"Linux", host, b"2.6.32-431.el6", b"x86_64"))


def magic(order: str, form: int, version: tuple[int, int, int, int]) -> bytes:
    return struct.pack(order + "HH4B", 0xD596, form, *version)


def file_of(form: int, order: str = "<", long: int = 8) -> bytes:
    """A header as sysstat lays it out."""
    number, day = {8: "Q", 4: "I"}[long], bytes([12, 8, 114, long])
    if form == 0x2175:
        head = magic(order, form, (12, 6, 1, 0)).ljust(76, b"\0")
        numbers = struct.pack(order + "QQIIi", SINCE, 100, 9, 36, 114) + bytes(32)
        return head + numbers + bytes([12, 8, long]) + names()
    if form == 0x2173:
        head = magic(order, form, (11, 5, 7, 0)).ljust(76, b"\0")
        return head + struct.pack(f"{order}{number}3I", SINCE, 9, 36, 2) + day + names()
    return magic(order, form, (9, 0, 4, 0)) + struct.pack(f"{order}{number}I", SINCE, 29) + day + names()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("long", [8, 4])
@pytest.mark.parametrize(
    ("form", "version", "cpus"),
    [(0x1170, "9.0.4", None), (0x2170, "9.0.4", None), (0x2171, "9.0.4", None), (0x2173, "11.5.7", 8),
     (0x2175, "12.6.1", 8)],
)  # fmt: skip
def test_the_header_of_every_format(form: int, version: str, cpus: int | None, order: str, long: int) -> None:
    """Both byte orders, hosts of 32 and 64 bits."""
    assert read_head(file_of(form, order, long)) == Head(form, version, "web1", "2.6.32-431.el6", "x86_64", cpus, SINCE)


def test_a_format_that_is_not_known_still_names_its_host() -> None:
    """Numbers stand nobody knows where; names follow each other in every format."""
    raw = file_of(0x2175).replace(b"\x75\x21", b"\x76\x21", 1)
    assert read_head(raw) == Head(0x2176, "12.6.1", "web1", "2.6.32-431.el6", "x86_64")
    assert BULK_PARSER.claims("x", raw, len(raw))


def test_a_host_on_utc_says_so() -> None:
    """The header names the zone since 12.1; other abbreviations are of several zones."""
    for word, known in ((b"UTC", [0.0]), (b"CST", []), (b"\0\1x", [])):
        found = in_bulk(BULK_PARSER, file_of(0x2175) + word.ljust(8, b"\0"))
        facts = [fact for fact in found if isinstance(fact, Fact) and fact.name == "host.utc_offset"]
        assert [fact.value for fact in facts] == known


def test_a_file_of_rhel_5_has_no_magic() -> None:
    """It is known by its name, an epoch and a host."""
    raw = struct.pack("<QII", SINCE, 1, 2) + names()
    assert BULK_PARSER.claims("var/log/sa/sa12", raw, len(raw))
    assert not BULK_PARSER.claims("var/log/sa/core", raw, len(raw))
    found = in_bulk(BULK_PARSER, raw, "var/log/sa/sa12")
    assert {f.name: f.value for f in found if isinstance(f, Fact)}["host.name"] == "web1"
    assert "a sysstat before 9.0 wrote it" in problems(found)[0].text


@pytest.mark.parametrize(
    ("version", "form"),
    [((12, 6, 1), 0x2175), ((11, 7, 0), 0x2175), ((11, 6, 9), 0x2173), ((10, 3, 1), 0x2173), ((10, 2, 1), 0x2171),
     ((9, 1, 6), 0x2171), ((9, 0, 4), 0x2170), ((8, 1, 2), None)],
)  # fmt: skip
def test_which_sadf_reads_which_format(version: tuple[int, ...], form: int | None) -> None:
    """A version reads what it writes."""
    assert format_of(version) == form


def test_without_a_sadf_the_customer_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command and the path on the host; what the header says is there."""
    monkeypatch.setenv("PATH", "/nowhere")
    found = in_bulk(BULK_PARSER, file_of(0x2175), "var/log/sa/sa12")
    facts = {fact.name: (fact.value, fact.time) for fact in found if isinstance(fact, Fact)}
    assert facts["sysstat.version"] == ("12.6.1", Moment(SINCE, Clock.UTC))
    assert facts["cpu.count"] == (8, None)
    assert [p.kind for p in problems(found)] == [ProblemKind.UNREADABLE]
    assert "`LC_ALL=C S_TIME_FORMAT=ISO sar -A -f /var/log/sa/sa12 > sar.txt`" in problems(found)[0].text


def sadf(folder: Path, then: str, version: str = "12.6.1") -> str:
    """A program called sadf that says its version and then does something; the PATH to find it."""
    program = folder / "sadf"
    program.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo "sysstat version {version}" && exit 0\n{then}\n')
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("then", "rows", "kind", "words"),
    [
        (f"printf '{ROWS}'", 1, None, ""),
        (f"printf '{ROWS}'; kill -SEGV $$", 1, ProblemKind.DAMAGED, "sadf crashed"),
        ("echo 'Invalid system activity file' >&2; exit 1", 0, ProblemKind.DAMAGED, "(Invalid system activity file)"),
        (f"case \"$*\" in *-A) printf '{ROWS}';; *) exit 1;; esac", 1, None, ""),
        ("exec cat", 0, None, ""),
    ],
    ids=["well", "crash", "refuses", "old-options", "noise"],
)
def test_what_sadf_does_with_a_file(
    then: str, rows: int, kind: ProblemKind | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are taken; when it fails the customer is asked, with its own words."""
    monkeypatch.setenv("PATH", sadf(tmp_path, then))
    found = in_bulk(BULK_PARSER, file_of(0x2175))
    assert len(samples(found)) == rows
    asked = [p for p in problems(found) if p.kind is not ProblemKind.ODD]
    assert [p.kind for p in asked] == ([kind] if kind else [])
    assert all(words in p.text and "sar -A -f" in p.text for p in asked)


def test_a_sadf_of_another_format_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversion loses fields and crashed: an old file is asked for as text."""
    monkeypatch.setenv("PATH", sadf(tmp_path, f"touch {tmp_path}/run", "10.1.5"))
    assert [p.kind for p in problems(in_bulk(BULK_PARSER, file_of(0x2175)))] == [ProblemKind.UNREADABLE]
    assert not (tmp_path / "run").exists()


@OFTEN
@given(st.sampled_from([0x1170, 0x2171, 0x2173, 0x2175]), st.integers(0, 400), st.binary(max_size=12), st.booleans())
def test_any_header_is_survived(form: int, at: int, noise: bytes, cut: bool) -> None:
    """Damaged and cut headers give what is left of them, never a mistake."""
    raw = file_of(form)
    raw = raw[:at] + noise + (b"" if cut else raw[at + len(noise) :])
    head = read_head(raw)
    assert head.cpus is None or 1 <= head.cpus <= 65_536
    assert all(word.isprintable() for word in (head.host, head.release, head.machine, head.version))
