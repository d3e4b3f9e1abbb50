"""The capture script for customers: POSIX sh, composed of the sections that the rules need.

`sections.yaml` describes what each section records and which vocabulary names that supplies. `sh/NAME.sh` is the
section itself: `NAME_start` runs once, `NAME_round` every interval, `NAME_finish` once at the end. `sh/head.sh` and
`sh/tail.sh` are the frame. The output of the script is a bundle: copied files keep their path, repeated output is below
`loops/`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, NamedTuple

from thpdiag.errors import UsageError
from thpdiag.knowledge.yaml_nodes import load_own

FOLDER = Path(__file__).parent
PHASES = ("start", "round", "finish")
MAX_SECONDS = 999_999  # seconds
_PIDS = re.compile(r"(?:[1-9]\d{0,6}(?:[ ,]+|$))*")


class Section(NamedTuple):
    """A section of the script, with its line in the plan that the customer reads first."""

    name: str
    runs: str
    supplies: tuple[str, ...]  # names, or globs over names
    leaves: tuple[str, ...]  # globs over files of the capture which prove that it ran
    finest: tuple[str, ...] = ()  # supplied names that other sections supply in less detail
    what: str = ""  # the subject in a few words
    tells: str = ""  # what the data is used for
    root: str = ""  # what is missing without root
    load: str = ""  # cost for the host
    shows: str = ""  # private data of the customer in the output
    beside: str = ""  # the section that it always accompanies
    lasts: bool = False  # it records changes over time
    always: bool = False

    @property
    def fragment(self) -> str:
        return (FOLDER / "sh" / f"{self.name}.sh").read_text("utf-8")

    def gives(self, need: str) -> bool:
        """Return whether the section supplies `need`, a name or a pattern (regular expression) of the vocabulary."""
        return _matches_any(need, self.supplies)

    def is_in(self, files: Iterable[str]) -> bool:
        """Return whether a capture with these files, with paths relative to its folder, has the section."""
        return any(fnmatchcase(file, pattern) for file in files for pattern in self.leaves)

    def best_for(self, need: str) -> int:
        """Rank the section for a need that it supplies: in full detail, over time, once."""
        return 2 if _matches_any(need, self.finest) else int(self.lasts)


def _matches_any(need: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(need.replace("\\.", "."), name) for name in names)


@cache
def sections() -> tuple[Section, ...]:
    """Return all sections in the order in which they run."""
    lists = ("supplies", "leaves", "finest")
    return tuple(
        Section(**entry | {key: tuple(entry.get(key, ())) for key in lists}) for entry in _document()["sections"]
    )


def words() -> tuple[str, ...]:
    """Return the needs that are not vocabulary names: kinds of input without a single name."""
    return tuple(_document()["words"])


@cache
def _document() -> Mapping[str, Any]:
    data: Mapping[str, Any] = load_own((FOLDER / "sections.yaml").read_text("utf-8"))[0]
    return data


def choose_sections(needs: Iterable[str] | None) -> tuple[list[Section], list[str]]:
    """Return the sections that supply the needs, and the needs that no section supplies. None stands for all needs."""
    if needs is None:
        return list(sections()), []
    wanted = sorted(set(needs))
    names = {section.name for section in sections() if section.always or any(map(section.gives, wanted))}
    return with_companions(names), [need for need in wanted if not any(section.gives(need) for section in sections())]


def min_sections(needs: Iterable[str]) -> list[Section]:
    """Return the smallest set of sections that supplies what any section can supply; empty if none does. The
    customer reads the script before running it. Of the sections that supply a need only the best ones count."""
    suppliers = [(need, [s for s in sections() if s.gives(need)]) for need in sorted(set(needs))]
    best_of = {need: max(section.best_for(need) for section in able) for need, able in suppliers if able}
    unmet = {need: [s for s in able if s.best_for(need) == best_of[need]] for need, able in suppliers if able}
    names = {section.name for section in sections() if section.always and unmet}
    while unmet := {need: able for need, able in unmet.items() if not names & {s.name for s in able}}:
        counts = Counter(section for able in unmet.values() for section in able)
        best = max(counts, key=lambda section: (counts[section] / len(section.fragment), section.name))
        names.add(best.name)
    return with_companions(names)


def with_companions(names: Container[str]) -> list[Section]:
    """Return the named sections and those that accompany them, in the order in which they run."""
    return [section for section in sections() if section.name in names or section.beside in names]


def script(needs: Iterable[str] | None = None, seconds: int = 120, interval: int = 10, pid: str = "") -> str:
    """Return the text of the script with the defaults of its options; `pid` may be several, separated by blanks or
    commas."""
    return script_of(*choose_sections(needs), seconds, interval, pid)


def script_of(chosen: Sequence[Section], missing: Sequence[str], seconds: int, interval: int, pid: str = "") -> str:
    """Return the script of some sections, with a comment about what it cannot record."""
    _check_options(seconds, interval, pid)
    values = {
        "SECONDS": str(seconds),
        "INTERVAL": str(interval),
        "PID": " ".join(pid.replace(",", " ").split()),
        "SECTIONS": " ".join(section.name for section in chosen),
        "MISSING": re.sub(r"[^\x20-\x7e]", "?", f"# It cannot record: {', '.join(missing)}") if missing else "#",
        "PLAN": "\n".join(_plan_line(section.name, section.runs) for section in chosen),
        "SHOWS": TextWrapper(79).fill(f"The archive contains: {shows(chosen)}."),
        "ROOT": "\n".join(_plan_line(section.name, section.root) for section in chosen if section.root) or "  little",
    }
    parts = [
        _fill("head", values),
        *(section.fragment for section in chosen),
        *(_phase_function(phase, chosen) for phase in PHASES),
        _fill("tail", values),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def shows(chosen: Iterable[Section]) -> str:
    """Return the private data of the customer that the output has."""
    return "; ".join(dict.fromkeys(section.shows for section in chosen if section.shows))


def _check_options(seconds: int, interval: int, pid: str) -> None:
    error = ""
    if not 1 <= seconds <= MAX_SECONDS or not 1 <= interval <= MAX_SECONDS:
        error = f"a capture of {seconds} s with a sample every {interval} s is not possible"
    elif not _PIDS.fullmatch(pid):
        error = f"not a list of process numbers: {pid!r}"
    if error:
        raise UsageError(error)


def _fill(frame: str, values: dict[str, str]) -> str:
    text = (FOLDER / "sh" / f"{frame}.sh").read_text("utf-8")
    return re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], text)


def _phase_function(phase: str, chosen: Sequence[Section]) -> str:
    """The shell function that runs a phase of every section that has one."""
    names = [f"{section.name}_{phase}" for section in chosen]
    existing = [name for name, section in zip(names, chosen, strict=True) if f"{name}()" in section.fragment]
    body = "\n".join(f"    {name}" for name in existing or [":"])
    plural = f"{phase}es" if phase.endswith("sh") else f"{phase}s"
    return f"{plural}() {{\n{body}\n}}"


def _plan_line(name: str, text: str) -> str:
    """A line of the plan, wrapped for a terminal of 80 columns."""
    first = f"  {name.replace('_', ' '):<11} "
    return TextWrapper(79, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False).fill(text)
