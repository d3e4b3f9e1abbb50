"""Damaged archives: everything before the damage is read, nothing raises, and no loss is silent."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import random
import weakref
import zipfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hostile_archives import CODECS, END, header, member, pax, whole_archives
from thpdiag.bundle import Limits, Member, codecs, members
from thpdiag.bundle.codecs import Stream
from thpdiag.bundle.limits import StreamError
from thpdiag.model import Problem, ProblemKind

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
MUTATIONS = 1_000_000 if PROOF else 4_000
FILES = {b"proc/%d/status" % number: b"Name:\tjava%d\n" % number * (number * 7 % 60) for number in range(30)}
NAMES = {name.decode(): data for name, data in FILES.items()}


class Pipe(io.BytesIO):
    """A stream that cannot be sought in, so that nothing but the bytes counts."""

    def seekable(self) -> bool:
        return False


def everything(path: str) -> bool:
    return True


def read(
    data: bytes, limits: Limits | None = None, source: Callable[[bytes], io.BytesIO] = Pipe
) -> tuple[list[tuple[str, bytes]], list[Problem]]:
    """Members in order, and all problems."""
    found: list[tuple[str, bytes]] = []
    problems: list[Problem] = []
    for one in members([Path("-")], everything, limits or Limits(), source(data)):
        if isinstance(one, Member):
            found.append((one.path, b"".join(one.chunks())))
            problems += one.problems
        else:
            problems.append(one)
    return found, problems


def small_tar() -> bytes:
    return b"".join(member(name, data) for name, data in FILES.items()) + END


@pytest.mark.parametrize("codec", ["xz", "gz"])
def test_truncation_at_every_byte_keeps_every_whole_member(codec: str) -> None:
    """Wherever the upload stopped: all members before the cut, the cut one as far as it goes, and a problem."""
    whole = CODECS[codec](small_tar())
    clean, problems = read(whole)
    assert (dict(clean), problems) == (NAMES, [])
    best = 0
    for length in range(1, len(whole)):
        found, problems = read(whole[:length])
        assert problems or found == [("stdin", whole[:length])]  # too short to be recognised as compressed
        names = [name for name, _ in found if name != "stdin"]
        assert names == list(NAMES)[: len(names)]
        for name, data in found[:-1]:
            assert data == NAMES[name]
        if names:
            assert NAMES[names[-1]].startswith(found[-1][1])
            assert len(found) >= best  # one more byte never loses a member
            assert any(one.hides_data and one.cite.member == "stdin" for one in problems)
            best = len(found)
    assert best == len(NAMES)


def test_truncation_of_a_plain_tar_at_every_block() -> None:
    """A cut between two members is no clean end: the missing end mark is reported."""
    whole = small_tar()
    for length in range(512, len(whole) - 1024, 512):
        found, problems = read(whole[:length])
        assert [data for name, data in found[:-1]] == [NAMES[name] for name, _ in found[:-1]]
        assert any(one.hides_data and one.kind is ProblemKind.DAMAGED for one in problems), length


def test_partial_member_is_flagged_with_what_is_missing() -> None:
    """The member that the cut went through has its first bytes and a problem of its own."""
    found, problems = read(member(b"log", b"x" * 5000)[: 512 + 1000])
    assert found == [("log", b"x" * 1000)]
    assert [(one.cite.member, one.kind, one.hides_data) for one in problems] == [
        ("log", ProblemKind.DAMAGED, True),
        ("stdin", ProblemKind.DAMAGED, True),
    ]
    assert "4000 bytes are missing" in problems[0].text
    assert "offset 1512" in problems[1].text


def test_damaged_header_costs_its_own_member_alone() -> None:
    """Of 200 members with one damaged header 199 are read, and the gap is reported with its offset."""
    parts = [member(b"m/%d" % number, b"%d" % number) for number in range(200)]
    parts[100] = b"\xff" + parts[100][1:]
    found, problems = read(b"".join(parts) + END)
    assert [name for name, _ in found] == [f"m/{number}" for number in range(200) if number != 100]
    assert [one.hides_data for one in problems] == [True]
    assert f"offset {100 * 1024}" in problems[0].text


def test_damage_in_gzip_keeps_the_bytes_before_it() -> None:
    """A flipped bit in deflate data costs what is behind it, up to the byte."""
    text = b"".join(hashlib.sha256(b"%d" % number).hexdigest().encode() + b"\n" for number in range(3000))
    packed = bytearray(CODECS["gz"](text))
    packed[len(packed) // 2] ^= 0xFF
    found, problems = read(bytes(packed))
    data = found[0][1]
    good = next((at for at, (a, b) in enumerate(zip(data, text, strict=False)) if a != b), len(data))
    assert good > len(text) * 0.45
    assert problems[0].hides_data


def test_wrong_gzip_checksum_costs_no_data() -> None:
    """All bytes are given, then the problem."""
    packed = bytearray(CODECS["gz"](b"nr_free_pages 1\n"))
    packed[-6] ^= 1
    found, problems = read(bytes(packed))
    assert found == [("stdin", b"nr_free_pages 1\n")]
    assert ["checksum" in one.text for one in problems] == [True]


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_behind_compressed_data_is_reported(codec: str) -> None:
    """Bytes that are no further stream are not passed in silence."""
    found, problems = read(CODECS[codec](b"text\n") + b"garbage of some length")
    assert found == [("stdin", b"text\n")]
    assert [one.kind for one in problems] == [ProblemKind.DAMAGED]


def test_zip_without_its_list_is_reported() -> None:
    """A zip cut before its list of members gives what its local headers lead to, and a problem."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in NAMES.items():
            archive.writestr(name, data)
    whole = out.getvalue()
    assert dict(read(whole)[0]) == NAMES
    best = 0
    for length in range(90, len(whole) - 1, 97):
        found, problems = read(whole[:length], source=io.BytesIO)
        assert [name for name, _ in found] == list(NAMES)[: len(found)]
        assert all(NAMES[name] == data for name, data in found[:-1])
        assert NAMES[found[-1][0]].startswith(found[-1][1])
        assert len(found) >= best
        assert any(one.hides_data for one in problems), length
        best = len(found)
    assert best == len(NAMES)


def test_member_of_a_zip_with_a_wrong_checksum_is_flagged() -> None:
    """Changed bytes of a stored member are given, with a problem at the member."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("proc/vmstat", "nr_free_pages 1\n")
    found, problems = read(out.getvalue().replace(b"pages 1", b"pages 2"))
    assert found == [("proc/vmstat", b"nr_free_pages 2\n")]
    assert [(one.cite.member, one.kind) for one in problems] == [("proc/vmstat", ProblemKind.DAMAGED)]


def _seeds() -> list[bytes]:
    tar = small_tar()[:8192] + pax((b"path", b"long/name"), (b"mtime", b"1.5")) + member(b"x", b"text") + END
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "text" * 100)
        archive.writestr("b", "more" * 100)
    nested = member(b"n.tar.xz", CODECS["xz"](tar[:4096] + END)) + header(b"l", 0, b"2", b"n") + END
    return [tar, nested, out.getvalue(), *[pack(tar[:4096] + END) for pack in CODECS.values()]]


def _mutated(chance: random.Random, data: bytes) -> bytes:
    """Bits flipped, bytes set to extremes, pieces cut, doubled or moved; headers often get a true checksum again."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(changed))
        match chance.randrange(6):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at] = chance.choice((0, 0x20, 0x2D, 0x30, 0x37, 0x80, 0xFF))
            case 2:
                changed[at : at + chance.randrange(1, 600)] = b""
            case 3:
                changed[at:at] = changed[at : at + chance.randrange(1, 600)]
            case 4:
                changed[at : at + 12] = chance.choice(
                    (b"\xff" * 12, b"7" * 12, b"-1234567890\0", bytes(12), b"\x80" + b"\xff" * 11)
                )
            case _:
                changed = changed[: max(at, 1)]
        if not changed:
            return b"\0"
    if chance.random() < 0.5:
        _mend(changed)
    return bytes(changed)


def _mend(data: bytearray) -> None:
    """Gives every block that has the magic of a header its true checksum."""
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            total = sum(data[at : at + 148]) + sum(data[at + 156 : at + 512]) + 256
            data[at + 148 : at + 156] = b"%06o\0 " % total


def test_mutated_archives_never_raise_and_never_lose_in_silence() -> None:
    """Whatever is changed: no exception, and members that are gone or cut come with a problem."""
    chance = random.Random(20_240_514)
    seeds = _seeds()
    clean = [read(seed)[0] for seed in seeds]
    limits = Limits(member_bytes=1 << 20, held_bytes=1 << 20, hole_bytes=1 << 20, total_bytes=1 << 24)
    for number in range(MUTATIONS):
        which = number % len(seeds)
        data = _mutated(chance, seeds[which])
        found, problems = read(data, limits)
        whole = dict(clean[which])
        if not problems and which not in {
            0,
            1,
        }:  # a plain tar has no checksum over content and can be cut by an end mark
            assert {name: whole.get(name) for name, _ in found} == dict(found) or found[0][0] == "stdin"
        if len(found) < len(whole) and found[:1] != [("stdin", data)] and which > 2:
            assert any(one.hides_data for one in problems), number


def test_mutated_hostile_archives_never_raise() -> None:
    """The hostile archives with further damage on them."""
    chance = random.Random(7)
    seeds = [data for _, data in whole_archives() if len(data) < 100_000]
    limits = Limits(member_bytes=1 << 20, held_bytes=1 << 20, hole_bytes=1 << 20, total_bytes=1 << 24)
    for number in range(MUTATIONS // 8):
        read(_mutated(chance, seeds[number % len(seeds)]), limits)


def test_fast_and_strict_walk_agree() -> None:
    """Members that nobody wants are passed by a quick loop: it must find the same next member as the strict parser."""
    chance = random.Random(11)
    seed = _seeds()[0]
    for _ in range(MUTATIONS // 4):
        data = _mutated(chance, seed)
        every = [name for name, _ in read(data)[0]]
        for last in every[-1:]:
            one = [
                found.path
                for found in members([Path("-")], lambda path, last=last: path == last, Limits(), Pipe(data))
                if isinstance(found, Member)
            ]
            assert one == [name for name in every if name == last]


def test_a_damaged_stream_does_not_keep_its_decoder() -> None:
    """A decoder holds megabytes: thousands of damaged files would fill the memory before the garbage is collected."""

    class Decoder:
        """One that takes no bytes."""

        eof, needs_input, unused_data = False, True, b""

        def decompress(self, _data: bytes, _most: int = -1, /) -> bytes:
            raise OSError("Invalid data stream")

    decoder = Decoder()
    kept = weakref.ref(decoder)
    stream = Stream(codecs._one_stream(Stream(iter([b"BZh9"])), decoder, "bzip2", 1 << 20))
    del decoder
    gc.disable()
    try:
        with suppress(StreamError):
            deque(stream.chunks(), 0)
        assert kept() is None
    finally:
        gc.enable()
