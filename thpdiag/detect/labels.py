"""Huge-page settings in headings and in names of files and folders, with which people label runs of a job.

    === THP never ===        ## defrag=defer, run 2        wrk-thp-never.txt      run_always.log      nothp/vmstat

A file name counts only if another one differs from it just in the value: `run-always.txt` alone may mean anything. A
label is a hypothesis; what the kernel prints below the heading or in the file is more reliable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

MAX_HEADING_CHARS = 80
_TOKEN = re.compile(r"[a-z]+(?:\+[a-z]+)?|\d+")
_HEADING = re.compile(
    r"\s*(?:[=*#~-]{2,}|#|\d\d?[.)])\s*(?P<a>[^\s=*#~-].*?)\s*[=*#~-]*\s*|\s*(?P<b>[\w./]+ ?= ?[\w+]+(?:, .*)?):?\s*"
)
_OTHER_SIGNS = re.compile(r"[^\w\s=:/+,.()\[\]\"'#-]")
_ENDING = re.compile(r"(?:\.(?:txt|log|out|csv|json|dat|data|gz|xz|bz2|zst|tar|tgz|zip|md|html|report|result))+$")
_VALUES = frozenset(("always", "madvise", "never", "defer", "defer+madvise"))
_SWITCHED = {"on": "always", "enabled": "always", "off": "never", "disabled": "never"}
_SUBJECTS = frozenset(("thp", "thps", "transparent", "huge", "hugepage", "hugepages", "page", "pages", "defrag"))
_FILLER = frozenset(
    ("run", "runs", "round", "test", "case", "result", "results", "with", "setting", "set", "mode", "to", "is", "value",
     "using", "after", "before", "the", "sys", "kernel", "mm", "enabled", "switched", "turned", "now", "job")
)  # fmt: skip


class Label(NamedTuple):
    """Settings with values, whether huge pages are named, and the remaining words (`*` in place of each value)."""

    settings: Mapping[str, str]
    named: bool
    rest: Sequence[str]


def _label(text: str) -> Label | None:
    """Parse a heading or name; None if it has two values for one setting."""
    words = _TOKEN.findall(re.sub(r"\bno(?=thp|huge)", "no ", text.lower().replace("_", " ")))
    settings: dict[str, str] = {}
    rest: list[str] = []
    named = any(word in _SUBJECTS for word in words)
    setting, value = "thp.enabled", ""
    for word, following in zip(words, [*words, ""][1:], strict=True):
        if word in _SUBJECTS:
            setting = "thp.defrag" if word == "defrag" else "thp.enabled"
            continue
        if word in ("no", "without") and following in _SUBJECTS:
            value = "never"
        elif word in _VALUES or (named and word in _SWITCHED and following not in _VALUES):
            value = _SWITCHED.get(word, word)
        else:
            rest.append(word)
            continue
        if setting in settings:
            return None
        settings[setting] = value
        rest.append("*")
    return Label(settings, named, rest)


def heading_settings(text: str) -> Mapping[str, str]:
    """Return the settings that a heading names, if it has no other content."""
    if len(text) > MAX_HEADING_CHARS or _OTHER_SIGNS.search(text.strip(" =*#~-")):
        return {}
    heading = _HEADING.fullmatch(text)
    label = _label(heading["a"] or heading["b"]) if heading else None
    if label is None or not label.named or not all(w in _FILLER or w == "*" or w.isdecimal() for w in label.rest):
        return {}
    return label.settings


def path_settings(members: Iterable[str]) -> dict[str, tuple[str, Mapping[str, str]]]:
    """Return settings of members whose name, or folder, is a label, with a key that is equal for equal labels."""
    labels: dict[str, tuple[str, Label]] = {}
    for member in members:
        parts = member.split("/")
        for depth, part in enumerate(parts):
            label = _label(_ENDING.sub("", part.lower()))
            if label is None or not (label.settings or label.named):
                continue
            if not label.settings:  # next to a name such as `nothp`
                label = label._replace(settings={"thp.enabled": "always"}, rest=[*label.rest, "*"])
            words = [word for word in label.rest if not word.isdecimal()]
            if label.named or (words[-1] == "*" and set(label.settings.values()) <= {"always", "madvise", "never"}):
                labels[member] = ("/".join((*parts[:depth], " ".join(words))), label)
    values: dict[str, set[str]] = {}
    for key, label in labels.values():
        values.setdefault(key, set()).add(str(sorted(label.settings.items())))
    return {
        member: (f"{key} {' '.join(label.settings.values())}", label.settings)
        for member, (key, label) in labels.items()
        if len(values[key]) > 1
    }
