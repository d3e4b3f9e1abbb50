"""The links of one archive or directory, followed inside it alone and never by the file system.

In sos archives a link comes before its target (`free -> sos_commands/memory/free`), so when a member passes the
question is asked backwards: which other paths lead here, and does anybody want one of them?
"""

from __future__ import annotations

from collections.abc import Callable

from thpdiag.bundle.limits import Limits
from thpdiag.bundle.names import inside

_HOPS = 8
_LEVELS = 64
_ALIASES = 16  # of one member


class Links:
    """`wants` is asked for alias paths. Paths are canonical and inside the archive."""

    def __init__(self, wants: Callable[[str], object], limits: Limits) -> None:
        self._wants = wants
        self._limits = limits
        self._to: dict[str, list[str]] = {}  # target -> links to it
        self._from: dict[str, str] = {}
        self._bytes = 0
        self._parent: str | None = None  # of the member asked for last
        self._parents: list[str] = []  # the paths by which links lead to that parent

    def __bool__(self) -> bool:
        return bool(self._to)

    def add(self, alias: str, target: str) -> str:
        """Takes in a link; a word when it leads nowhere: `loop` or `full` (limit reached, link forgotten)."""
        self._bytes += len(alias) + len(target)
        if self._bytes > self._limits.link_bytes or len(self._from) >= self._limits.links:
            return "full"
        self._from[alias] = target
        self._parent = None
        if alias == target or self._returns(alias):
            return "loop"
        if not alias.startswith(
            f"{target}/"
        ):  # a link to a directory it lies in gives longer names for the same, for ever
            self._to.setdefault(target, []).append(alias)
        return ""

    def _returns(self, alias: str) -> bool:
        at = alias
        for _ in range(_HOPS):
            following = self._from.get(at)
            if following is None:
                return False
            at = following
        return True

    def wanted(self, path: str) -> tuple[str, ...]:
        """The paths by which links lead to `path` and that are wanted."""
        if not self._to:
            return ()
        parent, slash, name = path.rpartition("/")
        if parent != self._parent:
            self._parent, self._parents = parent, self._aliases(parent) if slash else []
        if not self._parents and path not in self._to:
            return ()
        aliases = [f"{above}/{name}" for above in self._parents]
        if path in self._to or any(alias in self._to for alias in aliases):
            aliases = self._aliases(path)
        return tuple(alias for alias in aliases if self._wants(alias))

    def _aliases(self, path: str) -> list[str]:
        found = {path: 0}
        for at in (queue := [path]):
            if found[at] >= _HOPS:
                continue
            for above in _upwards(at):
                for link in self._to.get(above, ())[:_ALIASES]:
                    alias = link + at[len(above) :]
                    if alias not in found and len(found) <= _ALIASES:
                        found[alias] = found[at] + 1
                        queue.append(alias)
        return list(found)[1:]


def targets(alias: str, target: str) -> list[str]:
    """The canonical paths that a symbolic link at `alias` may mean.

    An absolute target is meant from the root of the host, which in a bundle is its root or the one directory below it
    (`sosreport-host-2024/`).
    """
    if target.startswith("/"):
        root, slash, _ = alias.partition("/")
        return [inside(target)[0], *([inside(f"{root}/{target}")[0]] if slash else [])]
    return [inside(f"{alias.rpartition('/')[0]}/{target}")[0]]


def _upwards(path: str) -> list[str]:
    """The path and the directories above it; of a path deeper than any directory tree is, the path alone."""
    found = [path]
    if path.count("/") > _LEVELS:
        return found
    while (cut := path.rfind("/")) >= 0:
        path = path[:cut]
        found.append(path)
    return found
