"""Small files of the kernel that hold one value, or a few by name: in sysfs and in the folders of control groups.

    /sys/kernel/mm/ksm/pages_sharing:4096
    /sys/fs/cgroup/a/memory.stat:anon_thp 2097152

The name of the file says what the value is. It comes from the member, from the command, or from what grep puts before
each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Entity, Sample
from thpdiag.reader import Lines, Source

_GREPPED = re.compile(r"\S*?(?P<path>(?:sys|cgroup)/[^\s:]{1,400}):(?P<text>.*)$")
_BANNER = re.compile(r"==> \S*?(?P<path>(?:sys|cgroup)/\S{1,400}) <==\s*$")


def of_files(source: Source, lines: Lines) -> Iterator[tuple[int, str, str, str]]:
    """Number, whole line, path of its file, and what stands in that file; empty lines and banners are left out."""
    path = source.path
    for number, line in lines:
        if banner := _BANNER.match(line):
            path = banner["path"]
        elif grepped := _GREPPED.match(line):
            yield number, line, grepped["path"], grepped["text"].strip()
        elif line.strip():
            yield number, line, path, line.strip()


@dataclass(slots=True)
class Rows:
    """Values gathered to samples, one per entity until a name comes again (a loop)."""

    source: Source
    reader: str
    kind: str
    _open: dict[Entity, tuple[dict[str, float], int, str]] = field(default_factory=dict)

    def add(self, entity: Entity, name: str, value: float, number: int, line: str) -> Iterator[Sample]:
        """Take a value; gives the sample that it ends."""
        if entity in self._open and name in self._open[entity][0]:
            yield self._sample(entity)
        self._open.setdefault(entity, ({}, number, line))[0][name] = value

    def instead(self, entity: Entity, name: str, value: float, number: int, line: str) -> None:
        """A value that takes the place of one that stands in the same file before it."""
        self._open.setdefault(entity, ({}, number, line))[0][name] = value

    def rest(self) -> Iterator[Sample]:
        """The samples that nothing ended."""
        for entity in list(self._open):
            yield self._sample(entity)

    def _sample(self, entity: Entity) -> Sample:
        values, number, line = self._open.pop(entity)
        return Sample(self.kind, values, self.source.cite(number, line), self.reader, entity)
