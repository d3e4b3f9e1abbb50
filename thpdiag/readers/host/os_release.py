"""The distribution: os-release, lsb-release, redhat-release and its kin, SuSE-release, lsb_release -a, debian_version,
`cat /etc/*release`.

    CentOS release 6.2 (Final)
    PRETTY_NAME="Ubuntu 14.04.5 LTS"

One line on RHEL 6 and its rebuilds, shell assignments from RHEL 7 on, `VERSION = 11` and `PATCHLEVEL = 2` below the
name on SLES 11. A mix of several files gives one answer: the os-release name and id first, a rebuild's own file before
the redhat-release it carries too, and the most exact release number that does not contradict (7.1.1503 rather than 7).
Source: os-release(5), lsb_release(1), the distributions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_IDS = {  # as /etc/os-release calls it; tried in this order, so that a rebuild's own file wins over redhat-release
    "CentOS": "centos",
    "Oracle": "ol",
    "Rocky": "rocky",
    "AlmaLinux": "almalinux",
    "Scientific": "scientific",
    "Amazon": "amzn",
    "Fedora": "fedora",
    "SUSE Linux Enterprise": "sles",
    "openSUSE": "opensuse",
    "Ubuntu": "ubuntu",
    "Debian": "debian",
    "Red Hat": "rhel",
}
_ONE_LINE = re.compile(
    r"((?:CentOS|Red Hat|Oracle|Rocky|AlmaLinux|Scientific|Amazon|Fedora)[A-Za-z ]{0,50}? release (\d[\d.]{0,15})"
    r"(?: \([\w .-]{1,40}\))?)"
    r"(?: \([\w .-]{1,40}\)| Update \d+)*\s*$"
)
_SUSE = re.compile(r"((?:SUSE Linux Enterprise|openSUSE) [\w .]{0,50}?(\d+(?:\.\d+)?) \(\w{3,10}\))\s*$")
_SUSE_ROW = re.compile(r"(VERSION|PATCHLEVEL|CODENAME) = (\S.{0,40})\s*$")
_KEY = re.compile(r"([A-Z][A-Z_]{1,40})=(.*)$")
_OS_KEY = re.compile(
    r"(?:NAME|VERSION|ID|ID_LIKE|VERSION_ID|VERSION_CODENAME|PRETTY_NAME|ANSI_COLOR|CPE_NAME|LOGO|BUILD_ID|"
    r"VARIANT(?:_ID)?|PLATFORM_ID|"
    r"[A-Z_]{2,30}_URL|DISTRIB_\w+|LSB_VERSION|UBUNTU_CODENAME|DEBIAN_CODENAME|(?:REDHAT|CENTOS|ROCKY|ALMALINUX|ORACLE)_\w+|SUPPORT_END)=\S?"
)
_LSB = re.compile(r"(LSB Version|Distributor ID|Description|Release|Codename):\s*(\S.*)$")
_DEBIAN = re.compile(r"(\d{1,2}(?:\.\d{1,2})?|[a-z]+/sid)\s*$")
_OPENS = re.compile(
    rf"{_ONE_LINE.pattern}|{_SUSE.pattern}|(?:PRETTY_NAME|NAME|ID|VERSION_ID|VERSION|DISTRIB_(?:ID|RELEASE|DESCRIPTION))=\S|"
    r"(?:LSB Version|Distributor ID):\s*\S|Description:\s+(?:CentOS|Ubuntu|Debian|Red Hat|SUSE|openSUSE|Oracle|Fedora)"
)
_PLAIN = re.compile(r"(?:NAME|ID|VERSION_ID|VERSION)=")


def _confirm(lines: list[str]) -> object:
    """NAME= and the like also stand in other files: only beside their kin."""
    return not _PLAIN.match(lines[0]) or any(re.match(r"(?:VERSION_ID|ID|PRETTY_NAME|ID_LIKE)=", x) for x in lines[1:6])


def _continues(line: str) -> object:
    return (
        any(p.match(line) for p in (_OS_KEY, _ONE_LINE, _SUSE, _SUSE_ROW, _LSB))
        or line == "No LSB modules are available."
    )


class _Said:
    """What the files say, by kind of statement; of each kind the first."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Citation]] = {}
        self.lines: list[tuple[str, str, str, Citation]] = []  # id, name, release
        self.debian: tuple[str, Citation] | None = None

    def key(self, name: str, value: str, cite: Citation) -> None:
        if value.strip("\"' "):
            self.keys.setdefault(name, (value.strip("\"' "), cite))

    def line(self, name: str, release: str, cite: Citation) -> None:
        known = next((short for word, short in _IDS.items() if name.startswith(word)), "")
        self.lines.append((known, name, release, cite))

    def own(self) -> tuple[str, str, str, Citation] | None:
        """The one-line file of the distribution itself: rebuilds carry a redhat-release too."""
        return min(self.lines, key=lambda line: line[0] == "rhel", default=None)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """os.name, os.id and os.version, once for the block."""
    said, odd = _Said(), Oddities(source, READER.name)
    for number, line in lines:
        taken = _take(said, line.strip(), source.cite(number, line), source.path)
        if not taken and line.strip() and not _continues(line):
            odd.note(number, line, "not a line of a release file")
    for name, found in (("os.name", _name(said)), ("os.id", _id(said)), ("os.version", _version(said))):
        if found:
            yield Fact(name, found[0], found[1], time=source.time)
    yield from odd.problems()


def _take(said: _Said, text: str, cite: Citation, path: str) -> bool:
    if one := _ONE_LINE.match(text) or _SUSE.match(text):
        said.line(one[1], one[2], cite)
    elif row := _SUSE_ROW.match(text):
        said.key(f"SUSE {row[1]}", row[2], cite)
    elif pair := _KEY.match(text):
        said.key(pair[1], pair[2], cite)
    elif lsb := _LSB.match(text):
        said.key(lsb[1], lsb[2], cite)
    elif path.endswith("debian_version") and _DEBIAN.match(text):
        said.debian = (text, cite)
    else:
        return False
    return True


def _first(said: _Said, *names: str) -> tuple[str, Citation] | None:
    return next((said.keys[name] for name in names if name in said.keys), None)


def _name(said: _Said) -> tuple[str, Citation] | None:
    own = said.own()
    if pretty := _first(said, "PRETTY_NAME"):
        return pretty
    if own:
        return own[1], own[3]
    described = _first(said, "Description", "DISTRIB_DESCRIPTION")
    if described or not said.debian:
        return described or _first(said, "NAME")
    return f"Debian GNU/Linux {said.debian[0]}", said.debian[1]


def _id(said: _Said) -> tuple[str, Citation] | None:
    own, named = said.own(), _first(said, "ID")
    if named:
        return named
    if own and own[0]:
        return own[0], own[3]
    if lsb := _first(said, "Distributor ID", "DISTRIB_ID"):
        joined = lsb[0].lower()  # RedHatEnterpriseServer
        short = next((short for word, short in _IDS.items() if joined.startswith(word.lower().replace(" ", ""))), "")
        return short or joined, lsb[1]
    return ("debian", said.debian[1]) if said.debian else None


def _version(said: _Said) -> tuple[str, Citation] | None:
    """The most exact of the release numbers that agree with the first one."""
    found = [said.keys[k] for k in ("VERSION_ID", "Release", "DISTRIB_RELEASE") if k in said.keys]
    if own := said.own():
        found.append((_suse(said, own[2]), own[3]))
    if said.debian:
        found.append(said.debian)
    agreeing = [f for f in found if f[0] == found[0][0] or f[0].startswith(f"{found[0][0]}.")]
    return max(agreeing, key=lambda f: len(f[0]), default=None)


def _suse(said: _Said, release: str) -> str:
    patch = said.keys.get("SUSE PATCHLEVEL")
    return f"{release}.{patch[0]}" if patch and patch[0].isdigit() and patch[0] != "0" else release


READER = Reader(
    name="os_release",
    title="release files of distributions",
    read=read,
    opens=_OPENS,
    confirm=_confirm,
    continues=_continues,
    paths=(re.compile(r"(?:^|/)etc/debian_version$"),),
)
