"""Why something is not in the input: sos gave up on it, was told to leave it out, or is too old to know it.

That is another thing than a host that has no such file, and it says how to get it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from thpdiag.knowledge.collectors import Copied, copied, older
from thpdiag.knowledge.paths import system_path
from thpdiag.model import Case, Fact


def reasons(case: Case) -> Callable[[Iterable[str]], list[str]]:
    """What gives a sentence for each thing that names of the vocabulary stand for and that sos did not bring."""
    said = [fact for fact in case.facts if fact.name.startswith("capture.")]
    there = {path for item in case.inputs if said and item.reader and (path := system_path(item.member))}

    def told(names: Iterable[str]) -> list[str]:
        wanted = dict.fromkeys(row for name in names if (row := copied(name))) if said else {}
        return [reason for row in wanted if (reason := _reason(row, said, there))]

    return told


def _reason(row: Copied, said: list[Fact], there: set[str]) -> str:
    if stopped := _of(said, "capture.timed_out", row):
        told, plugin = stopped[0], stopped[0].label("plugin")
        limit = f", after {seconds} s" if (seconds := told.label("seconds")) else ""
        if told.label("command"):
            return f"{row.what} is missing or incomplete because sos stopped the command (plugin {plugin}{limit})."
        if not _there(row, there):
            return f"{row.what} is missing because sos timed out collecting it (plugin {plugin}{limit})."
    if _there(row, there):
        return ""
    return next(_left_out(row, said), "")


def _of(said: list[Fact], name: str, row: Copied) -> list[Fact]:
    """What sos gave up on that would have held this: its plugin, or the command itself."""
    found = [f for f in said if f.name == name and f.label("plugin") in row.plugins]
    return [f for f in found if not (ran := f.label("command")) or (row.command and row.command.fullmatch(ran))]


def _there(row: Copied, there: set[str]) -> bool:
    return any(row.paths.fullmatch(path) for path in there)


def _left_out(row: Copied, said: list[Fact]) -> Iterator[str]:
    """Of several captures the last one tells."""
    versions = [str(f.value).removeprefix("sos ") for f in said if f.name == "capture.tool"]
    if row.since and versions and all(older(version, row.since) for version in versions):
        yield f"{row.what} is missing because sos {versions[-1]} does not copy it; sos {row.since} and later do."
    ran = [set(str(f.value).split()) for f in said if f.name == "capture.plugins"]
    if ran and not any(plugins & set(row.plugins) for plugins in ran):
        yield f"{row.what} is missing because sos did not run its plugin {row.plugins[0]}."
