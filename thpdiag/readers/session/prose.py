"""Kernel releases and distributions named in running text.

    ... an HPC cluster running CentOS 7.0.1406 with kernel version 3.10.0-229.14.1.el7.x86_64.

Facts of this kind carry the provenance `prose`: they count only where nothing was measured, and only for the host
that the same speaker measured. Not a format of its own: `thpdiag.recognise` calls it for lines that belong to no block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Fact

_HINT = re.compile(r"(?i)kernel|linux|centos|rhel|red hat|ubuntu|debian|sles|suse|uptime")
_RELEASE = re.compile(r"(?<![\w.-])(?P<release>[2-7]\.\d{1,2}\.(?:\d{1,3}|x)(?:-[\w.+~-]{1,60})?)(?![\w-])")
_KERNEL_WORD = re.compile(r"(?i)kernel")
_OS = re.compile(
    r"\b(?P<name>CentOS(?: Linux| release)*|Red Hat Enterprise Linux(?: Server)?(?: release)?|RHEL|Oracle Linux|Ubuntu"
    r"|Debian(?: GNU/Linux)?|SLES|SUSE Linux Enterprise Server|Rocky Linux|AlmaLinux|Fedora)(?: \((?:RHEL)\))?\s+"
    r"(?P<version>\d{1,2}(?:\.\d{1,4}){0,2}(?:\s?SP\d)?)"
)
_UPTIME = re.compile(r"\b(?P<days>\d{1,4}) days?(?:'| of)? uptime|\buptime (?:of|is|was) (?P<days2>\d{1,4}) days?")


_MONGODB = re.compile(r"\s{0,8}db version v(?P<version>\d{1,2}\.\d{1,2}[\w.-]{0,20})\s*$")  # mongod --version


def said(cite: Citation, text: str) -> Iterator[Fact]:
    """What a line of prose says about the host."""
    if found := _MONGODB.match(text):
        yield Fact("app.version", found["version"], cite, (("app", "mongodb"),))
    if not _HINT.search(text):
        return
    if _KERNEL_WORD.search(text) and (found := _RELEASE.search(text)):
        yield Fact("kernel.release", found["release"].rstrip(".-"), cite, provenance="prose")
    if system := _OS.search(text):
        yield Fact("os.name", f"{system['name']} {system['version']}", cite, provenance="prose")
    if uptime := _UPTIME.search(text):
        yield Fact("uptime.seconds", int(uptime["days"] or uptime["days2"]) * 86400, cite, provenance="prose")
