"""Which finding is accepted by which entry, over one document or the many of a fleet, and what had no effect at all.

Entries of a baseline are found by their fingerprint: a fleet has as many of them as findings. What is kept of the
documents is which entries fitted, which of the hosts that entries name were there, and how grave the findings were
that entries of a baseline are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from thpdiag.accepted.acceptance import Acceptance, Document, Finding, host_names
from thpdiag.accepted.baseline import Accepted, weight, weight_of
from thpdiag.accepted.suppressions import Suppression, likely, names

MOST_NAMES: Final = 10_000  # of rules and mechanisms that mistakes in a suppression are compared with


class Judge:
    """`options` are told as such in the documents that it marks."""

    def __init__(self, entries: Sequence[Acceptance], today: date, options: Mapping[str, str]) -> None:
        self.entries, self.options = entries, options
        self._today = today
        self._live = [entry for entry in entries if not entry.expired(today)]
        self._accepted: dict[str, list[tuple[int, Acceptance]]] = {}
        self._others: list[tuple[int, Acceptance]] = []
        for number, entry in enumerate(self._live):
            if isinstance(entry, Accepted):
                self._accepted.setdefault(entry.fingerprint, []).append((number, entry))
            else:
                self._others.append((number, entry))
        self._wanted = {entry.host for entry in self._live if isinstance(entry, Accepted) and entry.host}
        self._used: set[int] = set()
        self._hosts: set[str] = set()
        self._weights: dict[str, dict[str, None]] = {}
        self._names: set[str] = set()

    def marked(self, document: Document) -> dict[str, Any]:
        """A copy of a document (of one host or several) with marks; those that it has already are judged anew."""
        copy = {**document, "tool": self._with_options(document.get("tool") or {})}
        if not document.get("cases"):
            self.see(document)
        if "findings" in document:
            copy["findings"] = [self._with_mark(finding, document) for finding in document["findings"]]
        if document.get("cases"):
            copy["cases"] = [self.marked(case) for case in document["cases"]]
        return copy

    def see(self, host: Document) -> None:
        """Take note of a host, whatever it has."""
        self._hosts |= host_names(host) & self._wanted
        if self._others and len(self._names) < MOST_NAMES:
            self._names.update(names(host))

    def entry(self, finding: Finding, host: Document) -> Acceptance | None:
        """The first entry that accepts a finding of a host."""
        print_ = finding.get("fingerprint")
        told = self._accepted.get(print_, []) if isinstance(print_, str) else []
        if told and isinstance(print_, str):
            self._weights.setdefault(print_, {})[weight_of(finding)] = None
        found = [(number, entry) for number, entry in (*told, *self._others) if entry.covers(finding, host)]
        self._used.update(number for number, _ in found)
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def warnings(self) -> Iterator[str]:
        """What everybody must know of the entries, once all documents were seen."""
        for entry in self.entries:
            if entry.expired(self._today):
                yield f"{_about(entry)}: expired on {entry.expires}, accepts nothing any more ({entry.reason})"
        yield from filter(None, map(self._without_effect, self._idle()))
        for number, entry in enumerate(self._live):
            if number in self._used and isinstance(entry, Accepted) and entry.nameless:
                yield f"{_about(entry)}: its host has no name in the input; it accepts this of every such host"

    def notes(self) -> Iterator[str]:
        """What is told on request."""
        yield from (f"{_about(entry)}: has no last day (expires)" for entry in self._live if entry.expires is None)
        for entry in self._idle():
            if isinstance(entry, Accepted) and entry.host in self._hosts and entry.fingerprint not in self._weights:
                yield f"{_about(entry)}: no longer found"

    def _idle(self) -> list[Acceptance]:
        return [entry for number, entry in enumerate(self._live) if number not in self._used]

    def _without_effect(self, entry: Acceptance) -> str:
        """A suppression that fits nothing is a mistake or can go; a baseline is made of a whole fleet."""
        if isinstance(entry, Suppression):
            why = likely(entry.rule, self._names)
            return f"{_about(entry)}: accepts no finding of this input{f'; {why}' if why else ''}"
        if not isinstance(entry, Accepted):
            return ""
        now = " and ".join(self._weights.get(entry.fingerprint, ()))
        return f"{_about(entry)}: accepted as {weight(entry)}, is {now} now, and counts as new" if now else ""

    def _with_options(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        told = {**(tool.get("options") or {}), **self.options}
        options = {name: value for name, value in told.items() if value or name not in self.options}
        return {**tool, "options": options}

    def _with_mark(self, finding: Finding, host: Document) -> dict[str, Any]:
        bare = {key: value for key, value in finding.items() if key != "suppressed"}
        entry = self.entry(finding, host)
        return {**bare, "suppressed": entry.mark()} if entry else bare


def _about(entry: Acceptance) -> str:
    return f"{entry.place}: {entry.label}"
