"""What somebody may do: `upload` bundles, `read` what was found in them, `admin`: delete, keep, make and end tokens.

`upload` alone reads nothing, so that a token for CI or for a customer's shell shows no other customer's case; the
answer to one's own upload is part of uploading. `admin` includes the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from thpdiag.errors import UsageError


class Scope(StrEnum):
    """One thing that a token, a session or a user behind a proxy may do."""

    UPLOAD = "upload"
    READ = "read"
    ADMIN = "admin"


def allows(held: frozenset[Scope], needed: Scope) -> bool:
    """Whether somebody with these scopes may do what needs that one."""
    return needed in held or Scope.ADMIN in held


def scopes(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes by their names; one that does not exist is a mistake of the caller, never left out."""
    given = [name.strip() for name in names]
    if unknown := sorted(set(given) - set(Scope)):
        raise UsageError(f"no such scope: {', '.join(unknown) or 'none'}; there are {', '.join(Scope)}")
    return frozenset(map(Scope, given))


def known(names: Iterable[str]) -> frozenset[Scope]:
    """Scopes as they were kept; one that this version does not know permits nothing."""
    return frozenset(Scope(name) for name in names if name in set(Scope))
