"""Deliberate damage to text, as done by mail programs, terminals, full disks and attackers.

Every function is pure: bytes in, bytes out, all choices given, so that a seed or hypothesis decides them.
"""

from __future__ import annotations

import random
from collections.abc import Callable

LONG = 64 * 1024
NUMBERS = (b"0", b"-1", b"-0", b"18446744073709551615", b"9" * 40, b"1e999", b"-9223372036854775809", b"4294967295",
b"nan", b"inf",
           b"1.5.2", b"0x7fffffff", b"9" * 400, b"1" * 5000)  # fmt: skip
CLOCKS = (b"1970-01-01 00:00:00", b"2106-02-07 06:28:16", b"Thu Jan  1 00:00:00 UTC 1970",
b"Sun Feb  7 06:28:16 UTC 2106", b"4294967295",
          b"zzz ***Thu Jan 1 00:00:01 UTC 1970", b"99:99:99", b"00:00:00", b"9999-99-99T99:99:99Z", b"23:59:60",
          b"TS 4294967295.999999999 2106-02-07 06:28:15")  # fmt: skip
INSERTED = (b"\0", b"\0" * 64, b"\xff\xfe", b"\xc3\x28", b"\x1b[31m", b"\x1b]0;title\x07", b"\x1b", b"\r", b"\t",
b"</script>", b"\xe2\x80\xae",
            b"%s%n", b"{{7*7}}", b"$(id)", b"; rm -rf /", b"\x85", b"\xe2\x80\xa8", b"\x0c", b">>> ",
            b"[root@h ~]# ")  # fmt: skip


def cut(data: bytes, at: int) -> bytes:
    """Return the first `at` bytes."""
    return data[: at % (len(data) + 1)]


def beheaded(data: bytes, at: int) -> bytes:
    """Return the bytes without the first `at`."""
    return data[at % (len(data) + 1) :]


def flipped(data: bytes, at: int) -> bytes:
    """Flip one bit."""
    if not data:
        return data
    byte, bit = at // 8 % len(data), at % 8
    return data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1 :]


def inserted(data: bytes, at: int) -> bytes:
    """Insert foreign bytes."""
    piece, place = INSERTED[at % len(INSERTED)], at // len(INSERTED) % (len(data) + 1)
    return data[:place] + piece + data[place:]


def removed(data: bytes, at: int) -> bytes:
    """Remove one line."""
    lines = data.split(b"\n")
    del lines[at % len(lines)]
    return b"\n".join(lines)


def doubled(data: bytes, at: int) -> bytes:
    """Duplicate one line."""
    lines = data.split(b"\n")
    place = at % len(lines)
    return b"\n".join([*lines[: place + 1], *lines[place:]])


def exchanged(data: bytes, at: int) -> bytes:
    """Swap two lines."""
    lines = data.split(b"\n")
    one, two = at % len(lines), at // 7 % len(lines)
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def spliced(data: bytes, at: int) -> bytes:
    """Join two lines, as a terminal does that lost a line end."""
    lines = data.split(b"\n")
    place = at % len(lines)
    return b"\n".join([*lines[:place], b"".join(lines[place : place + 2]), *lines[place + 2 :]])


def renumbered(data: bytes, at: int) -> bytes:
    """Replace one word with a digit by an impossible number."""
    return _word(data, at, NUMBERS[at % len(NUMBERS)], lambda word: any(48 <= c <= 57 for c in word))


def reclocked(data: bytes, at: int) -> bytes:
    """Replace one word by a clock of 1970, of 2106, or without a valid year."""
    return _word(data, at, CLOCKS[at % len(CLOCKS)], bool)


def lengthened(data: bytes, at: int) -> bytes:
    """Repeat one line without line ends to 64 KiB."""
    lines = data.split(b"\n")
    place = at % len(lines)
    lines[place] = (lines[place] * (LONG // (len(lines[place]) or 1) + 1))[:LONG]
    return b"\n".join(lines)


def stretched(data: bytes, at: int) -> bytes:
    """Repeat one character to 64 KiB in its place."""
    place = at % (len(data) or 1)
    return data[:place] + data[place : place + 1] * LONG + data[place:]


def windows(data: bytes, _: int) -> bytes:
    """Use line ends of Windows."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def old_mac(data: bytes, _: int) -> bytes:
    """Use carriage returns only."""
    return data.replace(b"\n", b"\r")


def utf16(data: bytes, _: int) -> bytes:
    """Encode as Notepad and PowerShell do."""
    return data.decode("latin-1").encode("utf-16")


def quoted(data: bytes, at: int) -> bytes:
    """Quote as a mail reply does."""
    mark = (b"> ", b">> ", b"| ", b"\t", b"    ", b">")[at % 6]
    return b"\n".join(mark + line for line in data.split(b"\n"))


def _word(data: bytes, at: int, new: bytes, fits: Callable[[bytes], bool]) -> bytes:
    """Replace one of the matching words."""
    lines = data.split(b"\n")
    for step in range(len(lines)):
        place = (at + step) % len(lines)
        words = lines[place].split(b" ")
        fitting = [i for i, word in enumerate(words) if fits(word)]
        if fitting:
            words[fitting[at // 13 % len(fitting)]] = new
            lines[place] = b" ".join(words)
            break
    return b"\n".join(lines)


MUTATIONS: tuple[Callable[[bytes, int], bytes], ...] = (
    cut, beheaded, flipped, inserted, removed, doubled, exchanged, spliced, renumbered, reclocked, quoted, windows,
    old_mac, utf16,
)  # fmt: skip
SLOW: tuple[Callable[[bytes, int], bytes], ...] = (lengthened, stretched)


def mutant(data: bytes, seed: int, mutations: tuple[Callable[[bytes, int], bytes], ...] = MUTATIONS) -> bytes:
    """Apply one to three mutations, chosen by the seed."""
    choice = random.Random(seed)
    for _ in range(choice.randint(1, 3)):
        data = choice.choice(mutations)(data, choice.randrange(1 << 30))
    return data
