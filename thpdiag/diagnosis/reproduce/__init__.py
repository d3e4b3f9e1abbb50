"""Programs that make a mechanism happen on a test host: POSIX sh with a C program inside, one a mechanism.

`MECHANISM.sh` begins with a head that says what it does, takes and changes (`# key: value`, continued lines are
indented); the line `@frame.sh@` stands for what all of them share: options, checks, and settings that are put back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_ENTRY = re.compile(r"^# (\w+): (.+(?:\n#   .+)*)", re.MULTILINE)


def mechanisms() -> tuple[str, ...]:
    """The mechanisms that have a program, in alphabetical order."""
    return tuple(sorted(path.stem for path in HERE.glob("*.sh") if path.stem != "frame"))


@cache
def program(mechanism: str) -> str:
    """The whole script."""
    text = (HERE / f"{mechanism}.sh").read_text("utf-8")
    return text.replace("@frame.sh@\n", (HERE / "frame.sh").read_text("utf-8"))


def head(mechanism: str) -> Mapping[str, str]:
    """What the script says of itself: mechanism, memory, time, knobs, watch, expect, remedy; a line each."""
    comment, _, _ = program(mechanism).partition("\n#\n# usage:")
    return {key: re.sub(r"\n#\s+", " ", text) for key, text in _ENTRY.findall(comment)}
