"""The menu of a boot loader: which kernel is started with which parameter transparent_hugepage=.

    kernel /vmlinuz-2.6.32-431.el6.x86_64 ro root=/dev/sda1 transparent_hugepage=never
    linux16 /vmlinuz-3.10.0-229.el7.x86_64 root=/dev/sda1 ro quiet
    options root=UUID=1b1c ro $kernelopts

One boot.entry per kernel line: the word, `none` without the parameter, or `kernelopts` where the line takes the
variable of grubenv (that file's own line is an entry with the kernel `kernelopts`). Labels: path, kernel (its release),
default (yes, no; absent where the menu does not tell). Entries for rescue are left out. What is in the menu holds at
the next boot, not now. Source: GRUB 0.97 and 2 manuals, Boot Loader Specification, grub2's blscfg.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_KERNEL = re.compile(r"\s*(?:kernel|linux(?:16|efi)?)\s+(\S{1,300})(.*)$")
_OPTIONS = re.compile(r"\s*options\s(.*)$")
_GRUBENV = re.compile(r"kernelopts=(.*)$")
_DEFAULT = re.compile(r"\s*default[\s=]\s*(\d{1,4})\s*$")
_THP = re.compile(r"(?:^|[\s\"'])transparent_hugepage=([\w+]{1,40})(?=[\s\"']|$)")
_IMAGE = re.compile(r"vmlinu[xz]-(\d[\w.+~-]{0,100})$")
_RESCUE = re.compile(r"rescue|\srecovery\b|\ssingle\b|systemd\.unit=(?:rescue|emergency)|memtest", re.IGNORECASE)
_ENTRY = re.compile(r"loader/entries/(?:[0-9a-f]{32}-)?([^/]{1,150})\.conf$")
MOST = 200  # entries of one menu


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """boot.entry for each kernel line."""
    default = ""
    found: list[tuple[int, str, str, str]] = []
    of_file = _ENTRY.search(source.path)
    for number, line in lines:
        if chosen := _DEFAULT.match(line):
            default = chosen[1]
        elif len(found) < MOST and (entry := _entry(line, of_file[1] if of_file else "")):
            found.append((number, line, *entry))
    for at, (number, line, kernel, options) in enumerate(found):
        if not _RESCUE.search(f"{kernel} {options}"):
            told = [("default", "yes" if str(at) == default else "no")] if default else []
            labels = (("path", source.path), ("kernel", kernel), *told)
            yield Fact("boot.entry", _word(options), source.cite(number, line), labels, source.time)


def _entry(line: str, of_file: str) -> tuple[str, str] | None:
    """Kernel and parameters of a line; `of_file` is the kernel that a file with one entry is named after."""
    if line.lstrip().startswith("#"):
        return None
    if variable := _GRUBENV.match(line):
        return "kernelopts", variable[1]
    if of_file:
        options = _OPTIONS.match(line)
        return (of_file, options[1]) if options else None
    kernel = _KERNEL.match(line)
    if kernel is None:
        return None
    image = _IMAGE.search(kernel[1])
    return image[1] if image else kernel[1].rpartition("/")[2], kernel[2]


def _word(options: str) -> str:
    """The last of a parameter given twice counts, as the kernel takes it."""
    words = _THP.findall(options)
    return words[-1] if words else "kernelopts" if "$kernelopts" in options else "none"


READER = Reader(
    name="boot_menu",
    title="boot loader's menu: grub.conf, grub.cfg, loader/entries",
    read=read,
    paths=(
        re.compile(r"(?:^|/)etc/(?:grub\.conf|grub2(?:-efi)?\.cfg)$"),
        re.compile(r"(?:^|/)boot/(?:.*/)?(?:grub\.cfg|grub\.conf|menu\.lst|grubenv|loader/entries/[^/]+)$"),
    ),
)
