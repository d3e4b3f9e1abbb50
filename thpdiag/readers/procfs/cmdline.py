"""/proc/cmdline: what the boot loader told the kernel.

    BOOT_IMAGE=/vmlinuz-3.10.0-229.14.1.el7.x86_64 root=/dev/mapper/sys-root ro quiet transparent_hugepage=never
    ro root=UUID=1b1c KEYBOARDTYPE=pc KEYTABLE=us rhgb quiet

One line. thp_anon= (6.12) sets sizes by themselves, transparent_hugepage_shmem= (6.12) shared memory: facts with the
text behind the sign. Of a parameter given twice the kernel keeps the last. The file is known by its path; in other
texts a line that begins with BOOT_IMAGE=, `ro root=` or `root=` is taken for it. A must-gather calls it proc_cmdline.
Source: kernel tree, Documentation/admin-guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_OPENS = re.compile(r"(?:BOOT_IMAGE=\S|(?:ro |rw )?root=(?:/dev/|UUID=|LABEL=)\S)")
_THP = re.compile(r'(?:^|[\s"])(transparent_hugepage(?:_shmem)?|thp_anon)=([\w+,;:-]{1,200})(?=["\s]|$)')


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """boot.cmdline, and what the line says of huge pages."""
    for number, line in lines:
        text = line.replace("\0", " ").strip()
        if not text:
            continue
        cite = source.cite(number, line)
        yield Fact("boot.cmdline", text, cite, time=source.time)
        for name, word in dict(_THP.findall(text)).items():  # the last of each counts
            yield Fact(f"boot.{name}", word, cite, time=source.time)


READER = Reader(
    name="cmdline",
    title="/proc/cmdline",
    read=read,
    opens=_OPENS,
    continues=_OPENS.match,
    paths=(re.compile(r"(?:^|/)proc[/_]cmdline$"),),
)
