"""What the writers for CI services share: each takes bundles one after the other, then returns its text, once.

    writer = Sarif(presentation, MemorySpool)
    writer.add(Bundle(hosts, locate_findings(hosts, presentation), hosts[0].tool))
    text = "".join(writer.pieces())

A report of one bundle equals that of a list with one bundle. Text that must wait until all bundles are known goes into
spools, so that the report of a fleet can be kept on disk.

Formats that list problems by file and line (SARIF, Code Quality, annotations) require exactly one place of each, and
drop a second entry with the same fingerprint. Findings of role `context` describe the host and are not listed.
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
MAX_LINE = 2**31 - 1  # consumers read a line as 32 bits; a byte offset may be larger


class Located(NamedTuple):
    """A finding with one place. `line` counts from 1, and is 1 in files without lines; `path` is the member's.

    `bundle` names the bundle among several, and is empty if there is one. `file` is the path for consumers: of one
    bundle as it is, of several with the bundle before it (`nightly/web1.tar.xz/sar.txt`).
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
    """Return the path of a member with its bundle before it; once if the bundle is a single file."""
    base, inside = bundle.replace("://", "/"), member.lstrip("/")
    return base if base and inside in ("", base.rpartition("/")[2]) else "/".join(filter(None, [base, inside]))


def locate_findings(
    hosts: Iterable[Result], presentation: Presentation = PLAIN, prints: Fingerprints | None = None, bundle: str = ""
) -> list[Located]:
    """Return the findings of these hosts; `prints` are the fingerprints already in use."""
    prints = prints or Fingerprints()
    findings = [(h, f) for h in hosts for f in presentation.findings(h) if f.role != "context"]
    findings.sort(key=lambda pair: -rank(pair[1].severity))
    listed = []
    for host, finding in findings:
        fingerprint = finding.fingerprint or hash_name(finding.rule, messages.name(host), finding.entity or "")
        cited = (*messages.proof(finding), *finding.evidence, *finding.against)  # every consumer requires a file
        path, line = next(((item.member, line_number(item)) for item in cited if item.member), (any_file(host), 1))
        listed.append(Located(host, finding, path, line, prints(fingerprint), bundle))
    return listed


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle for a report. `path` is empty if it is the only one; `tool` is the version that made its result.

    `status` and `reason` describe how the analysis ended. Without `hosts` there is no result; with hosts and another
    status than `ok`, something that may hide evidence was damaged or cut.
    """

    hosts: Sequence[Result]
    findings: Sequence[Located]
    tool: Tool
    path: str = ""
    status: str = OK
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return self.status == OK and bool(self.hosts)

    @property
    def is_stray(self) -> bool:
        """Whether it is no bundle at all, such as a README in the folder: not damaged, and nothing recognised."""
        return not self.hosts and self.reason == NOT_RECOGNISED

    @property
    def outcome(self) -> str:
        """How the analysis ended, for a message."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


class Spool(Protocol):
    """Texts in order of descending weight; those of one weight in the order in which they were added.

    They can be read repeatedly. No text contains a tab.
    """

    def add(self, weight: int, text: str, /) -> None: ...

    def texts(self) -> Iterable[str]: ...


class MemorySpool:
    """A spool in memory, for one bundle."""

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
        """Yield, after `pieces`, what the service will reject or not show."""
        return iter(())


def write_one(writer: type[Writer], document: Result | Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    """The report of one bundle."""
    report, hosts = writer(presentation, MemorySpool), messages.hosts(document)
    report.add(Bundle(hosts, locate_findings(hosts, presentation), hosts[0].tool))
    return "".join(report.pieces())


class HighestWeights(Generic[T]):
    """Keeps the items of greatest weight, the first of equal ones, and counts the others."""

    def __init__(self, max_items: int) -> None:
        self._max_items, self._seen = max_items, 0
        self._kept: list[tuple[int, int, T]] = []
        self.left_out = 0

    def put(self, weight: int, item: T) -> None:
        self._seen += 1
        insort(self._kept, (-weight, self._seen, item))
        self.left_out += len(self._kept) > self._max_items
        del self._kept[self._max_items :]

    def __iter__(self) -> Iterator[T]:
        return (item for _, _, item in self._kept)


class UniqueNames:
    """Adds a number to a name that was given before: `web`, then `web (2)`.

    `form` is the format of name and number. It remembers one number per name.
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


class Fingerprints(UniqueNames):
    """Unique fingerprints: two processes of one name, or two bundles of one host, have equal ones."""

    def __init__(self) -> None:
        super().__init__(form="{}-{}")


def undecided_hosts(hosts: Iterable[Result]) -> list[tuple[Result, str]]:
    """Return the hosts without a verdict, each with a file: without an entry they would look like an all-clear."""
    return [(host, any_file(host)) for host in hosts if host.verdict.status == "cannot_tell"]


def hash_name(*parts: str) -> str:
    """Return an identifier for what has no fingerprint."""
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def line_number(cited: Cited) -> int:
    """Return the line of evidence in the range that consumers accept."""
    return min(max(cited.line or 1, 1), MAX_LINE)


def any_file(host: Result) -> str:
    return next((row.member for row in host.inputs if row.reader and row.member), "") or host.case or "input"


def level(finding: Finding) -> str:
    """Return the severity in the three levels of editors and CI services."""
    severity = rank(finding.severity)
    return LEVELS[(severity >= rank("medium")) + (severity >= rank("high"))]
