"""Programs that make a mechanism happen on a test host: POSIX sh with a C program inside, one a mechanism.

`MECHANISM.sh` begins with a head that says what it does, takes and changes (`# key: value`, continued lines are
indented). A line `@FILE@` stands for what several of them share: `frame.sh` has options, checks, and settings that are
put back, `riddle.c` breaks up free memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_SHARED = re.compile(r"^@([a-z]+\.(?:sh|c))@\n", re.MULTILINE)
_ENTRY = re.compile(r"^# (\w+): (.+(?:\n#   .+)*)", re.MULTILINE)


def mechanisms() -> tuple[str, ...]:
    """The mechanisms that have a program, in alphabetical order."""
    return tuple(sorted(path.stem for path in HERE.glob("*.sh") if path.stem != "frame"))


@cache
def program(mechanism: str) -> str:
    """The whole script."""
    text = (HERE / f"{mechanism}.sh").read_text("utf-8")
    return _SHARED.sub(lambda line: (HERE / line[1]).read_text("utf-8"), text)


def head(mechanism: str) -> Mapping[str, str]:
    """What the script says of itself: mechanism, memory, time, knobs, watch, expect, remedy; a line each."""
    comment, _, _ = program(mechanism).partition("\n#\n# usage:")
    return {key: re.sub(r"\n#\s+", " ", text) for key, text in _ENTRY.findall(comment)}
