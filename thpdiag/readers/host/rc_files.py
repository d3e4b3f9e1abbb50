"""Start-up files that write THP settings: rc.local, init scripts, systemd units, sysfs.conf, tmpfiles.d, tuned
profiles, boot loaders.

    echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled
    kernel/mm/transparent_hugepage/enabled = never

One rc.thp_write per setting and value of a file, with the labels setting (`thp.enabled`) and path. Provenance: `boot
line` for boot loader entries, `tuned` for a profile (which counts only when it is active, label profile), else `rc
file`. The value is what the file would write, not what holds. Read only where the path says that the text is such a
file, or from `grep -r` output that names it: at a prompt the same command is an operator's action. Shell variables are
followed when the file assigns the directory to them; loops are not. Source: sysfsutils, systemd tmpfiles.d(5), tuned
0.2 and 2.x, grub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_DIRECTORY = r"(?:/?sys/)?kernel/mm/(?:redhat_|\*|\$\{?\w+\}?_)?transparent_hugepage"
_KNOB = r"((?:khugepaged/)?\w{1,40})"
_WORD = r"['\"]?([\w+]{1,40})['\"]?"
_ECHO = re.compile(
    rf"\becho\s+(?:-n\s+)?{_WORD}\s*(?:>>?|\|\s*(?:sudo\s+)?(?:/usr/bin/)?tee(?:\s+-a)?)\s*['\"]?({_DIRECTORY}|\$\{{?\w+\}}?)/{_KNOB}"
)
_SYSFS = re.compile(rf"\s*{_DIRECTORY}/{_KNOB}\s*=\s*{_WORD}\s*$")
_TMPFILES = re.compile(rf"\s*[wfF][+!-]*\s+{_DIRECTORY}/{_KNOB}(?:\s+-){{4}}\s+{_WORD}\s*$")
_TUNED = re.compile(rf"\s*(transparent_hugepages?(?:\.defrag)?)\s*=\s*{_WORD}\s*$")
_KTUNE = re.compile(r"\s*set_transparent_hugepages\s+(\w{1,20})\b")
_BOOT = re.compile(r"[\s\"'=]transparent_hugepage=(always|madvise|never)\b")
_ASSIGNED = re.compile(rf"\s*(?:export\s+|local\s+|Environment=)?(\w{{1,60}})=['\"]?{_DIRECTORY}/?['\"]?\s*(?:;.*)?$")
_GREP = re.compile(r"(/?(?:etc|boot|usr|lib|run)/[^\s:]{1,200}):(?:\d{1,7}:)?(.*)$")
_PROFILE = re.compile(r"(?:tuned|tune-profiles)/([\w.-]+)/[^/]+$")
_LOADER = re.compile(r"grub|menu\.lst|loader/entries|kernel/cmdline$")
_SETTING = re.compile(
    r"(?:enabled|defrag|shmem_enabled|use_zero_page|khugepaged/(?:defrag|pages_to_scan|\w+_sleep_millisecs|max_ptes_\w+))$"
)
_OPENS = re.compile(
    r"/?(?:etc|boot|usr|lib|run)/[^\s:]{1,200}:(?:\d{1,7}:)?.{0,400}(?:transparent_hugepages?\b|set_transparent_hugepages)"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """rc.thp_write, once for each setting and value of a file."""
    odd, seen, variables = Oddities(source, READER.name), set[tuple[str, str, str]](), set[str]()
    for number, line in lines:
        grep = _GREP.match(line)
        path, text = (grep[1].lstrip("/"), grep[2]) if grep else (source.path or source.member, line)
        if text.lstrip().startswith(("#", ";")):
            continue
        if assigned := _ASSIGNED.match(text):
            variables.add(assigned[1])
        for setting, value in _writes(text, path, variables):
            if not _SETTING.match(setting):
                odd.note(number, line, "writes a THP setting that this version does not know")
            elif (path, setting, value) not in seen:
                seen.add((path, setting, value))
                yield _fact(source, number, line, path, setting, value)
    yield from odd.problems()


def _fact(source: Source, number: int, line: str, path: str, setting: str, value: str) -> Fact:
    labels = [("setting", f"thp.{setting.replace('/', '.')}"), ("path", path)]
    provenance = "boot line" if _LOADER.search(path) else "rc file"
    if profile := _PROFILE.search(path):
        labels.append(("profile", profile[1]))
        provenance = "tuned"
    return Fact("rc.thp_write", value, source.cite(number, line), tuple(labels), source.time, provenance)


def _writes(text: str, path: str, variables: set[str]) -> Iterator[tuple[str, str]]:
    """The settings that a line writes, each with its value."""
    for value, target, knob in _ECHO.findall(text):
        if not target.startswith("$") or target.strip("${}") in variables:
            yield knob, value
    for pattern in (_SYSFS, _TMPFILES):
        if found := pattern.match(text):
            yield found[1], found[2]
    if _PROFILE.search(path):
        yield from _of_profile(text)
    if _LOADER.search(path) and (words := _BOOT.findall(f" {text}")):
        yield "enabled", words[-1]


def _of_profile(text: str) -> Iterator[tuple[str, str]]:
    """What a line of a tuned profile or of its script sets."""
    if tuned := _TUNED.match(text):
        yield "defrag" if tuned[1].endswith("defrag") else "enabled", tuned[2]
    elif ktune := _KTUNE.match(text):
        yield "enabled", ktune[1]


READER = Reader(
    name="rc_files",
    title="start-up files that write THP settings",
    read=read,
    opens=_OPENS,
    continues=_OPENS.match,
    paths=(
        re.compile(
            r"(?:^|/)etc/(?:rc\.d/)?(?:rc\.local|(?:init|rc\d)\.d/[^/]+)$|(?:^|/)etc/(?:local|cron|conf)\.d/[^/]+$"
        ),
        re.compile(r"(?:^|/)(?:etc|lib|run)/systemd/system/.+\.service$"),
        re.compile(r"(?:^|/)(?:etc|lib|run)/(?:sysfs\.conf|(?:sysfs|tmpfiles)\.d/[^/]+)$"),
        re.compile(r"(?:^|/)(?:etc|lib)/(?:tuned|tune-profiles)/.+/[^/]+$|(?:^|/)etc/(?:tuned|ktune)\.conf$"),
        re.compile(r"(?:^|/)etc/(?:default/grub(?:\.d/[^/]+)?|grub\.conf|grub2(?:-efi)?\.cfg|kernel/cmdline)$"),
        re.compile(r"(?:^|/)boot/.*(?:grub\.cfg|grub\.conf|menu\.lst|loader/entries/[^/]+)$"),
    ),
    priority=2,
)
