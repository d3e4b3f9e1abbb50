"""The script that a support engineer sends to a customer: POSIX sh, made of the sections that the rules need.

`sections.yaml` says what each section records and which names of the vocabulary that supplies; `sh/NAME.sh` is the
section itself: `NAME_start` runs once, `NAME_round` every interval, `NAME_finish` once at the end. `sh/head.sh` and
`sh/tail.sh` are the frame around them. What the script writes is a bundle: copies keep their own path, loops stand
below `loops/`.
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

HERE = Path(__file__).parent
PHASES = ("start", "round", "finish")
LONGEST = 999_999  # seconds
PIDS = re.compile(r"(?:[1-9]\d{0,6}(?:[ ,]+|$))*")


class Section(NamedTuple):
    """One subject of the script, with the line of the plan that the customer reads before it runs."""

    name: str
    runs: str
    supplies: tuple[str, ...]  # names, or globs over names
    leaves: tuple[str, ...]  # globs over files below the folder of the capture that show that it was recorded
    finest: tuple[str, ...] = ()  # those of them that others supply less finely
    what: str = ""  # the subject in a few words
    tells: str = ""  # what that is good to know for
    root: str = ""  # what is missing without root
    load: str = ""  # what it costs the host
    shows: str = ""  # what of the customer's own the result names
    beside: str = ""  # the section beside which it is always taken
    lasts: bool = False  # it is about what happens over time
    always: bool = False

    @property
    def fragment(self) -> str:
        return (HERE / "sh" / f"{self.name}.sh").read_text("utf-8")

    def gives(self, need: str) -> bool:
        """Whether `need`, a name or a pattern (a regular expression) of the vocabulary, is among what this supplies."""
        return _fits(need, self.supplies)

    def is_in(self, files: Iterable[str]) -> bool:
        """Whether a capture with these files, named from its own folder on, has it."""
        return any(fnmatchcase(file, pattern) for file in files for pattern in self.leaves)

    def best_for(self, need: str) -> int:
        """How well it supplies a need that it supplies: finest, over time, once."""
        return 2 if _fits(need, self.finest) else int(self.lasts)


def _fits(need: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(need.replace("\\.", "."), name) for name in names)


@cache
def sections() -> tuple[Section, ...]:
    """All sections, in the order in which they run."""
    lists = ("supplies", "leaves", "finest")
    return tuple(
        Section(**entry | {key: tuple(entry.get(key, ())) for key in lists}) for entry in _document()["sections"]
    )


def words() -> tuple[str, ...]:
    """What a need may be besides a name of the vocabulary: kinds of input that have no single name."""
    return tuple(_document()["words"])


@cache
def _document() -> Mapping[str, Any]:
    data: Mapping[str, Any] = load_own((HERE / "sections.yaml").read_text("utf-8"))[0]
    return data


def choose_sections(needs: Iterable[str] | None) -> tuple[list[Section], list[str]]:
    """The sections that supply the needs, and the needs that no section supplies; None stands for everything."""
    if needs is None:
        return list(sections()), []
    wanted = sorted(set(needs))
    picked = {section.name for section in sections() if section.always or any(map(section.gives, wanted))}
    return with_beside(picked), [need for need in wanted if not any(section.gives(need) for section in sections())]


def fewest(needs: Iterable[str]) -> list[Section]:
    """The shortest choice of sections that supplies what any section can supply: somebody reads it before running it.

    Of the sections that supply a need only the best will do. Empty if no section supplies any.
    """
    ways = [(need, [s for s in sections() if s.gives(need)]) for need in sorted(set(needs))]
    best_of = {need: max(section.best_for(need) for section in found) for need, found in ways if found}
    open_ = {need: [s for s in found if s.best_for(need) == best_of[need]] for need, found in ways if found}
    picked = {section.name for section in sections() if section.always and open_}
    while open_ := {need: found for need, found in open_.items() if not picked & {s.name for s in found}}:
        wins = Counter(section for found in open_.values() for section in found)
        best = max(wins, key=lambda section: (wins[section] / len(section.fragment), section.name))
        picked.add(best.name)
    return with_beside(picked)


def with_beside(picked: Container[str]) -> list[Section]:
    """The sections of these names and those that are taken beside them, in the order in which they run."""
    return [section for section in sections() if section.name in picked or section.beside in picked]


def script(needs: Iterable[str] | None = None, seconds: int = 120, interval: int = 10, pid: str = "") -> str:
    """The text of the script, with the defaults of its options; `pid` may be several, blanks or commas between them."""
    return script_of(*choose_sections(needs), seconds, interval, pid)


def script_of(picked: Sequence[Section], missing: Sequence[str], seconds: int, interval: int, pid: str = "") -> str:
    """The script of these sections, which says what it cannot record."""
    _check(seconds, interval, pid)
    fill = {
        "SECONDS": str(seconds),
        "INTERVAL": str(interval),
        "PID": " ".join(pid.replace(",", " ").split()),
        "SECTIONS": " ".join(section.name for section in picked),
        "MISSING": re.sub(r"[^\x20-\x7e]", "?", f"# It cannot record: {', '.join(missing)}") if missing else "#",
        "PLAN": "\n".join(_point(section.name, section.runs) for section in picked),
        "SHOWS": TextWrapper(79).fill(f"The archive contains: {shows(picked)}."),
        "ROOT": "\n".join(_point(section.name, section.root) for section in picked if section.root) or "  little",
    }
    parts = [
        _fill("head", fill),
        *(section.fragment for section in picked),
        *(_calls(phase, picked) for phase in PHASES),
        _fill("tail", fill),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def shows(picked: Iterable[Section]) -> str:
    """What of the customer's own the result names."""
    return "; ".join(dict.fromkeys(section.shows for section in picked if section.shows))


def _check(seconds: int, interval: int, pid: str) -> None:
    wrong = ""
    if not 1 <= seconds <= LONGEST or not 1 <= interval <= LONGEST:
        wrong = f"a capture of {seconds} s with a sample every {interval} s is not possible"
    elif not PIDS.fullmatch(pid):
        wrong = f"not a list of process numbers: {pid!r}"
    if wrong:
        raise UsageError(wrong)


def _fill(frame: str, fill: dict[str, str]) -> str:
    text = (HERE / "sh" / f"{frame}.sh").read_text("utf-8")
    return re.sub(r"@([A-Z]+)@", lambda found: fill[found[1]], text)


def _calls(phase: str, picked: Sequence[Section]) -> str:
    """The function that calls this phase of every section that has one."""
    names = [f"{section.name}_{phase}" for section in picked]
    have = [name for name, section in zip(names, picked, strict=True) if f"{name}()" in section.fragment]
    body = "\n".join(f"    {name}" for name in have or [":"])
    plural = f"{phase}es" if phase.endswith("sh") else f"{phase}s"
    return f"{plural}() {{\n{body}\n}}"


def _point(name: str, text: str) -> str:
    """One point of the plan, for a terminal of 80 columns."""
    first = f"  {name.replace('_', ' '):<11} "
    return TextWrapper(79, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False).fill(text)
