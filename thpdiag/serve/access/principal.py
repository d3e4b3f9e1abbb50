"""Who sent a request, how that is known, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from thpdiag.serve.access.scopes import Scope, allows


class Way(StrEnum):
    """How it is known who sent a request."""

    NOBODY = "nobody"  # it is not known
    LOCAL = "local"  # no login: whoever reaches the loopback address
    TOKEN = "token"  # a bearer token with the request
    SESSION = "session"  # a cookie of the browser, begun with a token
    PROXY = "proxy"  # a header of a proxy that is trusted by its address


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody, with what they may do."""

    name: str  # for people: the token's name, the proxy's user
    way: Way
    scopes: frozenset[Scope]
    key: str = ""  # what stays when the name changes: the token's prefix
    binding: str = field(default="", repr=False)  # what a CSRF token of theirs is bound to

    @property
    def ambient(self) -> bool:
        """Whether a browser says who they are by itself, on a request that another site made it send too."""
        return self.way is not Way.TOKEN

    @property
    def owner(self) -> str:
        """What an upload is marked with; a token and the session begun with it are one owner."""
        if self.way in (Way.TOKEN, Way.SESSION):
            return f"token:{self.key}"
        return f"{self.way}:{self.name}"

    def may(self, needed: Scope) -> bool:
        return allows(self.scopes, needed)

    def may_touch(self, owner: str) -> bool:
        """Whether an unfinished upload of that owner is theirs; to others it does not exist."""
        return self.owner == owner or self.may(Scope.ADMIN)


NOBODY = Principal(name="", way=Way.NOBODY, scopes=frozenset())
LOCAL = Principal(name="local", way=Way.LOCAL, scopes=frozenset(Scope))
