"""What is written down of who did what: uploads, downloads, deletions, tokens, and what was refused.

The log of the server says that it runs; this says what became of a customer's data, and outlives the log. Wrong tokens
are noted until an address has used up its attempts, so that nobody can fill the disk with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from thpdiag.serve.access.principal import Principal

MOST: Final = 200  # characters of a text that came from outside


class Action(StrEnum):
    """What somebody did, or wanted to do."""

    SIGN_IN = "sign-in"
    SIGN_OUT = "sign-out"
    AUTHENTICATE = "authenticate"
    REQUEST = "request"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    DELETE = "delete"
    KEEP = "keep"
    RELEASE = "release"
    PRUNE = "prune"
    CREATE_TOKEN = "create-token"
    REVOKE_TOKEN = "revoke-token"


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit log; the time is seconds since 1970 in UTC."""

    at: float
    action: Action
    outcome: Outcome
    actor: str  # `way:name`, of a token with its prefix: never the token
    address: str
    subject: str  # id of a case, sha256 of a bundle, prefix of a token, method and route of a refused request


Record = Callable[[Event], None]  # may wait for a disk: called in a thread


def event(at: float, action: Action, outcome: Outcome, who: Principal, address: str, subject: str) -> Event:
    """An event with texts of a length and kind that every log can take."""
    return Event(at, action, outcome, actor(who), plain(address), plain(subject))


def actor(who: Principal) -> str:
    """Somebody in a line of a log: how they are known, what stays of them, their name."""
    return plain(":".join(part for part in (who.way, who.key, who.name) if part))


def plain(text: str) -> str:
    """A text from outside on one line: what cannot be printed is escaped, what is long is cut."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text[:MOST])
    return shown if len(text) <= MOST else f"{shown}..."
