"""What the writers for CI services have in common: each takes bundles one after the other, then gives its text, once.

    writer = Sarif(presentation, MemorySpool)
    writer.add(Bundle(hosts, located(hosts, presentation), hosts[0].tool))
    text = "".join(writer.pieces())

A report of one bundle is that of a list with one in it. Text that has to wait until all bundles are known goes into
spools, so that whoever writes the report of a fleet can keep it on the disk.

What lists problems by file and line (SARIF, Code Quality, annotations) wants exactly one place of each, and drops a
second entry with the same fingerprint. Findings of role `context` describe the host; they are no problems to list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from thpdiag.model.result import Cited, Finding, Result, Tool
from thpdiag.report import messages
from thpdiag.report.presentation import PLAIN, Presentation, rank

T = TypeVar("T")
OK = "ok"
NOT_RECOGNISED = "nothing in it was recognized"
LEVELS = ("note", "warning", "error")
MAX_LINE = 2**31 - 1  # consumers read a line as 32 bits; a byte offset may be more


class Located(NamedTuple):
    """`line` counts from 1, and is 1 where the file has no lines; `path` is the customer's.

    `bundle` names the bundle among many, empty if there is one. `file` is the path for consumers: that of one bundle as
    it is, of many with the bundle before it (`nightly/web1.tar.xz/sar.txt`).
    """

    host: Result
    finding: Finding
    path: str
    line: int
    fingerprint: str
    bundle: str = ""

    @property
    def file(self) -> str:
        return file_of(self.bundle, self.path)


def file_of(bundle: str, member: str) -> str:
    """A file within a bundle of many; of a bundle that is the file itself its own path."""
    whole = bundle.replace("://", "/")
    inside = member.lstrip("/")
    return whole if whole and inside in ("", whole.rpartition("/")[2]) else "/".join(filter(None, [whole, inside]))


def locate_findings(
    hosts: Iterable[Result], presentation: Presentation = PLAIN, prints: Fingerprints | None = None, bundle: str = ""
) -> list[Located]:
    """The findings of these hosts; `prints` are those that were given to others before."""
    prints = prints or Fingerprints()
    found = [(h, f) for h in hosts for f in presentation.findings(h) if f.role != "context"]
    found.sort(key=lambda pair: -rank(pair[1].severity))
    listed = []
    for host, finding in found:
        own = finding.fingerprint or hash_name(finding.rule, messages.name(host), finding.entity or "")
        cited = (*messages.proof(finding), *finding.evidence, *finding.against)  # every consumer wants a file
        path, line = next(((one.member, line_number(one)) for one in cited if one.member), (any_file(host), 1))
        listed.append(Located(host, finding, path, line, prints(own), bundle))
    return listed


@dataclass(frozen=True, slots=True)
class Bundle:
    """`path` is the bundle's as results name it, empty if it is the only one; `tool` is what made its result.

    `status` says how it ended and `reason` more of it. Without `hosts` nothing came of it; with hosts and another
    status than `ok` something that hides evidence was damaged or cut.
    """

    hosts: Sequence[Result]
    found: Sequence[Located]
    tool: Tool
    path: str = ""
    status: str = OK
    reason: str = ""

    @property
    def whole(self) -> bool:
        return self.status == OK and bool(self.hosts)

    @property
    def stray(self) -> bool:
        """Whether it is no bundle at all, such as a README in the folder: nothing damaged, and nothing recognised."""
        return not self.hosts and self.reason == NOT_RECOGNISED

    @property
    def why(self) -> str:
        """How it ended, for a message."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


class Spool(Protocol):
    """Texts that come out by their weight, the greatest first; those of one weight in the order in which they came.

    They come out as often as need be. No text has a tab in it.
    """

    def add(self, weight: int, text: str, /) -> None: ...

    def texts(self) -> Iterable[str]: ...


class MemorySpool:
    """Texts of one bundle, in memory."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}

    def add(self, weight: int, text: str, /) -> None:
        self._texts.setdefault(weight, []).append(text)

    def texts(self) -> Iterator[str]:
        for weight in sorted(self._texts, reverse=True):
            yield from self._texts[weight]


class Writer(ABC):
    """A report of one bundle, or of `many`. `add` takes all of a bundle, or raises and takes nothing of it."""

    @abstractmethod
    def __init__(self, presentation: Presentation, new_spool: Callable[[], Spool], *, many: bool = False) -> None: ...

    @abstractmethod
    def add(self, bundle: Bundle) -> None: ...

    @abstractmethod
    def pieces(self) -> Iterator[str]: ...

    def warnings(self) -> Iterator[str]:
        """What a person should know, once the pieces are there: what the service will not take or show."""
        return iter(())


def write_one(writer: type[Writer], document: Result | Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    """The report of one bundle."""
    made, every = writer(presentation, MemorySpool), messages.hosts(document)
    made.add(Bundle(every, locate_findings(every, presentation), every[0].tool))
    return "".join(made.pieces())


class Gravest(Generic[T]):
    """Keeps the `most` of the greatest weight, of the same weight those that came first, and counts the others."""

    def __init__(self, most: int) -> None:
        self._most, self._seen = most, 0
        self._kept: list[tuple[int, int, T]] = []
        self.left_out = 0

    def put(self, weight: int, one: T) -> None:
        self._seen += 1
        insort(self._kept, (-weight, self._seen, one))
        self.left_out += len(self._kept) > self._most
        del self._kept[self._most :]

    def __iter__(self) -> Iterator[T]:
        return (one for _, _, one in self._kept)


class Distinct:
    """The first of a name keeps it, later ones get a number: `web`, then `web (2)`.

    `form` is how a number is put to a name. What it remembers is a number per name.
    """

    def __init__(self, taken: Iterable[str] = (), form: str = "{} ({})") -> None:
        self._form = form
        self._numbers = dict.fromkeys(taken, 1)

    def __call__(self, name: str) -> str:
        number = self._numbers.get(name, 0)
        given = name
        while given in self._numbers:
            number += 1
            given = self._form.format(name, number)
        self._numbers[name] = number or 1
        self._numbers.setdefault(given, 1)
        return given


class Fingerprints(Distinct):
    """Of a fingerprint that comes again (two processes of one name, two bundles of one host) the later are numbered."""

    def __init__(self) -> None:
        super().__init__(form="{}-{}")


def undecided_hosts(hosts: Iterable[Result]) -> list[tuple[Result, str]]:
    """The hosts of which nothing can be told, each with a file: their lists are empty, and that is no all-clear."""
    return [(host, any_file(host)) for host in hosts if host.verdict.status == "cannot_tell"]


def hash_name(*parts: str) -> str:
    """A name for what has no fingerprint of its own."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def line_number(cited: Cited) -> int:
    """The line of evidence as consumers want it."""
    return min(max(cited.line or 1, 1), MAX_LINE)


def any_file(host: Result) -> str:
    return next((row.member for row in host.inputs if row.reader and row.member), "") or host.case or "input"


def level(finding: Finding) -> str:
    """The severity in the three steps of editors and CI services."""
    severity = rank(finding.severity)
    return LEVELS[(severity >= rank("medium")) + (severity >= rank("high"))]
