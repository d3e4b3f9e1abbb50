"""Programs that provoke a mechanism on a test host: POSIX sh with an embedded C program, one per mechanism.

`MECHANISM.sh` begins with a header of `# key: value` lines (continuation lines are indented) that states what it does,
needs and changes. A line `@FILE@` includes a shared part: `frame.sh` has options, checks and the restoration of
settings, `riddle.c` fragments free memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r"^@([a-z]+\.(?:sh|c))@\n", re.MULTILINE)
_ENTRY = re.compile(r"^# (\w+): (.+(?:\n#   .+)*)", re.MULTILINE)


def mechanisms() -> tuple[str, ...]:
    """Return the mechanisms that have a program, sorted by name."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.sh") if path.stem != "frame"))


@cache
def program(mechanism: str) -> str:
    """Return the complete script."""
    text = (FOLDER / f"{mechanism}.sh").read_text("utf-8")
    return _INCLUDE.sub(lambda line: (FOLDER / line[1]).read_text("utf-8"), text)


def head(mechanism: str) -> Mapping[str, str]:
    """Return the header of the script: mechanism, memory, time, knobs, watch, expect, remedy; one line each."""
    comment, _, _ = program(mechanism).partition("\n#\n# usage:")
    return {key: re.sub(r"\n#\s+", " ", text) for key, text in _ENTRY.findall(comment)}
