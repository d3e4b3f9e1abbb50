"""What runs on the host that reacts to huge pages, in which version, and what its makers say for this host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.derive.settings import first
from thpdiag.knowledge.applications import application, running, stance, version_in_command
from thpdiag.model import Fact


def apps(facts: Sequence[Fact]) -> Iterator[Fact]:
    """app and app.version. A package alone does not run: its version counts for a process that does."""
    processes = [fact for fact in facts if fact.name == "process.command"]
    known = {f.label("app") for f in facts if f.name == "app.version"}
    seen: set[str] = set()
    for fact in processes:
        for app in running(fact.label("comm") or "", str(fact.value)):
            if app.name not in seen:
                seen.add(app.name)
                yield Fact("app", app.name, fact.cite, (("pid", fact.label("pid") or ""),))
    for name, found in _versions(facts, processes):
        if name in seen and name not in known:
            known.add(name)
            yield found


def stances(facts: Sequence[Fact]) -> Iterator[Fact]:
    """app.stance of each application that runs here, or whose version the input tells; `none` if no process is one."""
    told = {
        key: str(found.value)
        for key, name in (
            ("platform", "platform"), ("os", "os.version"), ("arch", "kernel.arch"), ("kernel", "kernel.release"),
        )
        if (found := first(facts, name))
    }  # fmt: skip
    versions = {f.label("app") or "": f for f in facts if f.name == "app.version"}
    running_here = {str(f.value): f for f in reversed(facts) if f.name == "app"}
    known = {**versions, **running_here}
    for name, fact in known.items():
        if app := application(name):
            version = {"version": str(versions[name].value)} if name in versions else {}
            yield Fact("app.stance", stance(app, {**told, **version}).word, fact.cite, (("app", name),))
    whole = (f for f in facts if f.name == "process.command" and f.label("part") is None)
    listed = None if known else next(whole, None)
    if listed is not None:
        yield Fact("app.stance", "none", listed.cite)


def _versions(facts: Sequence[Fact], processes: Sequence[Fact]) -> Iterator[tuple[str, Fact]]:
    """What processes tell of themselves first, then what packages do."""
    for fact in processes:
        for app, version in version_in_command(str(fact.value)):
            yield app.name, Fact("app.version", version, fact.cite, (("app", app.name),))
    for fact in facts:
        if fact.name == "package.version":
            name = fact.label("app") or ""
            yield name, Fact("app.version", fact.value, fact.cite, (("app", name),))
