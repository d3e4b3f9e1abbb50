"""The first bytes of sysstat's own files (saDD): which sysstat, which host, since when. The reader is `sadc`.

Magic 0xd596 in the host's byte order, the format, four bytes of version; then a header whose numbers moved with the
format, and in every format sysname, nodename, release and machine one after another, 65 bytes each. 0x2170 and 0x1170
(RHEL 6.5): 9.0 to 9.1.5; 0x2171: to 10.2; 0x2173: 10.3 to 11.6; 0x2175: from 11.7. RHEL 5 has no magic. Nothing behind
the header is looked at. Source: sysstat sa.h of these versions (file_magic, file_header).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MAGICS = {b"\x96\xd5": "<", b"\xd5\x96": ">"}
FIELD = 65  # bytes of each name
LOOK = 1024  # bytes in which all of it stands
_FAMILIES = frozenset((0x11, 0x21, 0x22))  # high byte of the format
_EPOCHS = range(946_684_800, 4_292_967_296)  # 2000 to 2106
_SYSNAME = b"Linux\0"
_EARLY, _MIDDLE, _LATE = frozenset((0x1170, 0x2170, 0x2171)), 0x2173, 0x2175
_HEADER = 76  # bytes of file_magic since 0x2173


@dataclass(frozen=True, slots=True)
class Head:
    """What the header says; empty or None what it does not, or what stands elsewhere in a format we do not know."""

    format: int | None = None
    version: str = ""
    host: str = ""
    release: str = ""
    machine: str = ""
    cpus: int | None = None
    since: int | None = None  # seconds since 1970, UTC
    zone: str = ""  # abbreviation of the host's zone then, from 12.1 on


def is_sysstat(head: bytes) -> bool:
    """Whether the bytes begin as a file with a magic does."""
    order = MAGICS.get(head[:2])
    return order is not None and len(head) >= 8 and head[3 if order == "<" else 2] in _FAMILIES


def without_magic(head: bytes) -> bool:
    """Whether the bytes may begin a file of RHEL 5: an epoch, and the names of a host soon after."""
    names = _names(head)
    epoch = int.from_bytes(head[:4], "little")
    return not is_sysstat(head) and epoch in _EPOCHS and names is not None and bool(names[1] and names[2])


def read_head(raw: bytes) -> Head:
    """The facts of the header."""
    names = _names(raw)
    host, release, machine = names[1:] if names else ("", "", "")
    if not is_sysstat(raw):
        return Head(None, "", host, release, machine)
    order = MAGICS[raw[:2]]
    form = _number(raw, order, 2, 2)
    version = ".".join(str(part) for part in (raw[4:7] if not raw[7] else raw[4:8]))
    where = raw.find(_SYSNAME, 8, LOOK)
    long = raw[where - 1] if where > 8 else 0  # sizeof(long) of the host stands before the names
    if form in _EARLY:
        return Head(form, version, host, release, machine, None, _epoch(raw, order, 8, long))
    if form == _MIDDLE:
        cpus, since = _cpus(raw, order, _HEADER + long), _epoch(raw, order, _HEADER, long)
        return Head(form, version, host, release, machine, cpus if long in (4, 8) else None, since)
    if form == _LATE:
        cpus, since = _cpus(raw, order, _HEADER + 16), _epoch(raw, order, _HEADER, 8)
        return Head(form, version, host, release, machine, cpus, since, _zone(raw[where + 4 * FIELD :]))
    return Head(form, version, host, release, machine)


def format_of(version: tuple[int, ...]) -> int | None:
    """The format that a version of sysstat reads and writes; None if it is not known."""
    for first, form in (((11, 7), _LATE), ((10, 3), _MIDDLE), ((9, 1, 6), 0x2171), ((9,), 0x2170)):
        if version >= first:
            return form
    return None


def _names(raw: bytes) -> tuple[str, str, str, str] | None:
    at = raw.find(_SYSNAME, 8, LOOK)
    if at < 0 or len(raw) < at + 4 * FIELD:
        return None
    found = [raw[at + i * FIELD : at + (i + 1) * FIELD].partition(b"\0")[0] for i in range(4)]
    words = [name.decode("ascii", "replace") if name.isascii() else "" for name in found]
    one, two, three, four = (word if word.isprintable() and " " not in word else "" for word in words)
    return one, two, three, four


def _zone(raw: bytes) -> str:
    word = raw[:8].partition(b"\0")[0]
    return word.decode() if word.isalpha() and word.isascii() and word.isupper() else ""


def _number(raw: bytes, order: str, at: int, size: int) -> int | None:
    code = {2: "H", 4: "I", 8: "Q"}.get(size)
    if code is None or len(raw) < at + size:
        return None
    return int(struct.unpack_from(order + code, raw, at)[0])


def _epoch(raw: bytes, order: str, at: int, size: int) -> int | None:
    found = _number(raw, order, at, size)
    return found if found is not None and found in _EPOCHS else None


def _cpus(raw: bytes, order: str, at: int) -> int | None:
    """One more than there are, for `all`; 1 on a kernel for one CPU."""
    found = _number(raw, order, at, 4)
    return max(found - 1, 1) if found and found <= 65_536 else None
