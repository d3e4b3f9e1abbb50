"""The bundles of a store, one after the other, as the formats of CI services want them.

Of a document only that is completed which these formats show: curves, call graphs and match trees, most of it, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from thpdiag.reports import verdict
from thpdiag.reports.located import Fingerprints, Located, located
from thpdiag.reports.presentation import Presentation
from thpdiag.triage.store.bundle import Stored

Document = Mapping[str, Any]
Marks = Callable[[Document], Document]
UNREAD: Final = ("timeline", "profiles", "notes", "ask")
LARGE: Final = {"rules": ("tree",), "ruled_out": ("evidence",), "inputs": ("problems", "first", "last", "sha256")}
OK, REFUSED = "ok", "refused"
DAMAGED: Final = "damaged result"
# What a document that has not the form of the schema can raise in those that read it.
ODD: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Bundle:
    """`path` is the bundle's as results name it, `tool` what made its result.

    `status` says how it ended and `reason` more of it. Without `hosts` nothing came of it; with hosts and another
    status than `ok` something that hides evidence was damaged or cut.
    """

    path: str
    tool: Mapping[str, str]
    status: str
    reason: str
    hosts: Sequence[Mapping[str, Any]] = ()
    found: Sequence[Located] = ()

    @property
    def whole(self) -> bool:
        return self.status == OK

    @property
    def why(self) -> str:
        """How it ended, for a message."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


def opened(stored: Stored, presentation: Presentation, marks: Marks, prints: Fingerprints) -> Bundle:
    """A bundle with its findings; one of ODD if its document has not the form of the schema.

    Of what was refused because nothing in it was recognised there is a document, which says no more than that.
    """
    closed, document = without_hosts(stored), stored.result.document
    if document is None or closed.status == REFUSED:
        return closed
    hosts = verdict.hosts(marks(_slim(document)))
    found = located(hosts, presentation, prints, closed.path)
    return Bundle(closed.path, closed.tool, closed.status, closed.reason, hosts, found)


def without_hosts(stored: Stored, status: str = "", reason: str = "") -> Bundle:
    """A bundle that nothing came of; `status` and `reason` if they are others than those in the store."""
    result, tool = stored.result, stored.analysis
    told = {"version": tool.tool_version, "rules_digest": tool.rules_digest}
    return Bundle(result.path or result.sha256, told, status or result.status, reason or result.reason)


def _slim(document: Document) -> Document:
    bare = {key: value for key, value in document.items() if key not in UNREAD}
    for key, large in LARGE.items():
        bare[key] = [{name: part for name, part in one.items() if name not in large} for one in bare.get(key, ())]
    bare["host"] = {"name": (bare.get("host") or {}).get("name")}
    return bare | ({"cases": [_slim(one) for one in bare["cases"]]} if bare.get("cases") else {})
