"""Lines of a member: numbers as grep gives them, every encoding that arrives, nothing unbounded or lost in silence."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.bundle import Limits, Member, members
from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.model import ProblemKind


def member_of(data: bytes, limits: Limits | None = None) -> Member:
    one = next(members([Path("-")], lambda _: True, limits or Limits(), io.BytesIO(data)))
    assert isinstance(one, Member)
    return one


def lines_of(data: bytes) -> list[tuple[int, str]]:
    return list(member_of(data).lines())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [(1, "a")]),
        (b"a\n", [(1, "a")]),
        (b"a\n\nb\n", [(1, "a"), (2, ""), (3, "b")]),
        (b"a\r\nb\r\n", [(1, "a"), (2, "b")]),
        (b"a\r\r\nb\n", [(1, "a"), (2, "b")]),
        (b"10%\r20%\rdone\nb\n", [(1, "10%"), (1, "20%"), (1, "done"), (2, "b")]),
        (b"mac\rlines\r", [(1, "mac"), (2, "lines")]),
        (b"\xef\xbb\xbfmark\n", [(1, "mark")]),
        ("gr\u00fc\u00df\n".encode(), [(1, "gr\u00fc\u00df")]),
        ("gr\u00fc\u00df\n".encode("latin-1"), [(1, "gr\u00fc\u00df")]),
        (b"it\x92s \x93quoted\x94\n", [(1, "it\u2019s \u201cquoted\u201d")]),
        ("gr\u00fc\u00df\nb\n".encode("utf-16"), [(1, "gr\u00fc\u00df"), (2, "b")]),
        (codecs.BOM_UTF16_BE + "x\r\ny\r\n".encode("utf-16-be"), [(1, "x"), (2, "y")]),
        (b"a\0b\n", [(1, "a\\x00b")]),
        (b"bad \xc3\x28 \x81\n", [(1, "bad \\xc3( \\x81")]),
    ],
)
def test_lines_of_every_kind(data: bytes, expected: list[tuple[int, str]]) -> None:
    """Line ends, encodings, NULs and bad bytes."""
    assert lines_of(data) == expected


def test_undecodable_bytes_are_counted() -> None:
    """Bytes of no known encoding are visible in the line and one problem counts the lines."""
    one = member_of(b"good\nbad \x81\x82\nbad \xc3\x28 \x8f\n")
    list(one.lines())
    assert [(p.cite.line, p.count, p.kind) for p in one.problems] == [(2, 2, ProblemKind.ODD)]


def test_long_lines_are_cut_and_counted() -> None:
    """Lines over the limit keep their start; one problem counts them and names the limit; the numbers go on."""
    one = member_of(b"a\n" + b"x" * 300_000 + b"\nb\n" + b"y" * 65_537 + b"\n" + b"z" * 65_536 + b"\nend")
    found = list(one.lines())
    assert [(number, len(text)) for number, text in found] == [
        (1, 1),
        (2, 65_536),
        (3, 1),
        (4, 65_536),
        (5, 65_536),
        (6, 3),
    ]
    assert [(p.cite.line, p.count, p.kind) for p in one.problems] == [(2, 2, ProblemKind.LIMIT)]
    assert "limit line" in one.problems[0].text


def test_long_line_at_the_end_is_cut() -> None:
    """A file without any line end is one line, cut at the limit."""
    one = member_of(b"x" * 1_000_000)
    assert [len(text) for _, text in one.lines()] == [65_536]
    assert [p.count for p in one.problems] == [1]


def test_hash_is_of_the_whole_member_when_it_is_finished() -> None:
    """Whoever stops reading early gets the hash of everything after `finish`."""
    data = b"line\n" * 100_000
    whole, early = member_of(data), member_of(data)
    list(whole.lines())
    next(early.lines())
    early.finish()
    assert whole.sha256 == early.sha256


def test_head_does_not_consume() -> None:
    """A look at the start leaves the lines as they are."""
    one = member_of(b"a\nb\n")
    assert one.head(3) == b"a\nb"
    assert list(one.lines()) == [(1, "a"), (2, "b")]


@given(st.binary(max_size=400), st.integers(1, 40), st.integers(1, 60))
@settings(max_examples=300, deadline=None)
def test_any_bytes_in_any_pieces_give_the_same_bounded_lines(data: bytes, step: int, limit: int) -> None:
    """How the bytes arrive changes nothing, numbers rise, no line end is left, line feeds are counted."""

    def pieces(size: int) -> Iterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    one, other = LineDamage(), LineDamage()
    found = list(number_lines(data, pieces(step), limit, one))
    assert found == list(number_lines(data, pieces(len(data) or 1), limit, other))
    assert one == other
    assert all("\n" not in text and "\r" not in text for _, text in found)
    numbers = [number for number, _ in found]
    assert numbers == sorted(numbers)
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and (b"\r" not in data or b"\n" in data):
        expected = data.removeprefix(codecs.BOM_UTF8)
        assert (numbers[-1] if numbers else 0) == expected.count(b"\n") + (
            not expected.endswith(b"\n") and expected != b""
        )
