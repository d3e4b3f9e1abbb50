"""Kernel releases, distributions and versions of applications named in running text.

    ... an HPC cluster running CentOS 7.0.1406 with kernel version 3.10.0-229.14.1.el7.x86_64.

    12:C 25 Jul 2024 10:00:00.000 # Redis version=6.2.6, bits=64, commit=00000000, modified=0, pid=12, just started

What an application logs or prints of its version is its own word (knowledge/applications.yaml, says). The other facts
carry the provenance `prose`: they count only where nothing was measured, and only for the host that the same speaker
measured. Not a format of its own: `thpdiag.recognise` calls it for lines that belong to no block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.knowledge.applications import version_said
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


_VERSION = re.compile(r"ersion|Starting|erver v=")  # most lines have none of these
_LONGEST = 2000  # characters of a line in which a version is looked for


def said(cite: Citation, text: str) -> Iterator[Fact]:
    """What a line of prose says about the host."""
    if _VERSION.search(text):
        for app, version in version_said(text[:_LONGEST]):
            yield Fact("app.version", version, cite, (("app", app.name),))
    if not _HINT.search(text):
        return
    if _KERNEL_WORD.search(text) and (found := _RELEASE.search(text)):
        yield Fact("kernel.release", found["release"].rstrip(".-"), cite, provenance="prose")
    if system := _OS.search(text):
        yield Fact("os.name", f"{system['name']} {system['version']}", cite, provenance="prose")
    if uptime := _UPTIME.search(text):
        yield Fact("uptime.seconds", int(uptime["days"] or uptime["days2"]) * 86400, cite, provenance="prose")
