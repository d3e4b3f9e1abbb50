"""What each route needs. A request that no rule names is refused before the application sees it.

    Rule("GET", "/api/v1/cases/{id}", Scope.READ)
    Rule("PUT", "/api/v1/bundles/{name}", Scope.UPLOAD, streams=True)

The table stands in one place, so that it can be read as a whole, and a route that somebody adds is closed until it says
whom it is for. `{...}` is one segment of a path; HEAD is like GET.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from thpdiag.serve.access.scopes import Scope

ID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}", re.ASCII)  # of a case or an upload; the digest of a bundle


@dataclass(frozen=True, slots=True)
class Rule:
    """Whom a route is for."""

    method: str
    path: str
    needs: Scope | None  # None: anybody, without a login
    streams: bool = False  # an upload: limits its body itself; a POST may stand for a PATCH of the same scope
    also: Scope | None = None  # another scope that is enough

    @property
    def enough(self) -> tuple[Scope, ...]:
        """The scopes of which one is needed; none: anybody may."""
        return tuple(scope for scope in (self.needs, self.also) if scope is not None)

    def pattern(self) -> re.Pattern[str]:
        fixed = re.split(r"\{\w+\}", self.path)
        return re.compile("[^/]+".join(map(re.escape, fixed)))

    def told(self, path: str) -> str:
        """A path for the audit log: with ids, without names that a customer chose."""
        pairs = zip(self.path.split("/"), path.split("/"), strict=True)
        return "/".join(came if ID.fullmatch(came) else stands for stands, came in pairs)


class Routes:
    """The table; the first rule that fits counts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple((rule, rule.pattern()) for rule in rules)

    def find(self, method: str, path: str) -> Rule | None:
        asked = "GET" if method == "HEAD" and not self._exact("HEAD", path) else method
        return self._exact(asked, path)

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods that a path has, for the answer 405; none if there is no such path."""
        return tuple(sorted({rule.method for rule, pattern in self._rules if pattern.fullmatch(path)}))

    def _exact(self, method: str, path: str) -> Rule | None:
        return next((r for r, pattern in self._rules if r.method == method and pattern.fullmatch(path)), None)
