"""What mail programs, tickets, chats and terminals do to text: changes of all of its lines."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

from parse_bytes import readings
from thpdiag.model import Fact, Profile, Sample

Change = Callable[[str], str]
ALL = os.environ.get("THPDIAG_VARIANTS") == "all"
_T = TypeVar("_T")


def sampled(items: Sequence[_T], form: str, count: int) -> Sequence[_T]:
    """Return some items, different ones for each form; all with THPDIAG_VARIANTS=all."""
    if ALL:
        return items
    return sorted(items, key=lambda item: sha256(f"{form} {item}".encode()).digest())[:count]


def each_line(change: Callable[[int, str], str]) -> Change:
    return lambda text: "".join(change(n, line) + "\n" for n, line in enumerate(text.rstrip("\n").split("\n"), 1))


def before(mark: str) -> Change:
    """Put a prefix before each line that is not empty."""
    return each_line(lambda _, line: mark + line if line else line)


def double_spaced(text: str) -> str:
    return text.rstrip("\n").replace("\n", "\n\n") + "\n\n"


def typographic(text: str) -> str:
    """Use the quotes and dashes of a word processor."""
    text = re.sub(r"""(?m)(?<=[\s([=])(["'])|^(["'])""", lambda m: "\u201c" if m[0] == '"' else "\u2018", text)
    text = text.replace('"', "\u201d").replace("'", "\u2019")
    return re.sub(r"(?<=\s)-(?=\s)", "\u2013", text).replace("--", "\u2014")


def with_tabs(text: str) -> str:
    """Replace runs of blanks by a tab, as a spreadsheet does."""
    return re.sub(" {2,}", "\t", text)


def in_markdown(text: str) -> str:
    """Return a row of a table for each line, with a line of dashes below each header."""
    lines = text.rstrip("\n").split("\n")
    rows = []
    for above, line in zip(["", *lines], lines, strict=False):
        rows.append("| " + " | ".join(line.split()) + " |" if line.strip() else "")
        if line.strip() and not above.strip():
            rows.append("|" + "---|" * len(line.split()))
    return "\n".join(rows) + "\n"


def cut(width: int, mark: str) -> Change:
    """Drop what exceeds the width; a mark may replace it."""

    def short(_: int, line: str) -> str:
        return line if len(line) <= width else line[: width - len(mark)] + mark

    return lambda text: each_line(short)(text.expandtabs())


def hard(width: int) -> Change:
    """Break each line at the width, as a terminal does."""

    def broken(_: int, line: str) -> str:
        return "\n".join(line[at : at + width] for at in range(0, max(len(line), 1), width))

    return each_line(broken)


def soft(width: int) -> Change:
    """Break each line at the last blank that fits, which is dropped, as a mail program does."""

    def broken(_: int, line: str) -> str:
        parts = []
        while len(line) > width:
            at = line.rfind(" ", 0, width + 1)
            at = line.find(" ", width) if at < 0 or not line[:at].strip() else at
            if at < 0:
                break
            parts.append(line[:at].rstrip())
            line = line[at:].lstrip()
        return "\n".join([*parts, line])

    return each_line(broken)


WHOLE: dict[str, Change] = {  # without loss
    "four blanks": before("    "),
    "a tab": before("\t"),
    "> ": before("> "),
    "| ": before("| "),
    "- ": before("- "),
    "  * ": before("  * "),
    "\u2022 ": before("\u2022 "),
    "double-spaced": double_spaced,
    "double-spaced, indented": lambda text: before("    ")(double_spaced(text)),
    "typographic": typographic,
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "zero-width spaces": lambda text: re.sub(r"(?<=[/_,.-])(?=\w)", "\u200b", text),
}
CHANGED: dict[str, Change] = {  # blanks with a possible meaning are lost
    "tabs between columns": with_tabs,
    "tables of Markdown": in_markdown,
    "zero-width spaces between numbers": lambda text: re.sub(r"(?<=\d) (?=\d)", "\u200b", text),
}
SHORT: dict[str, Change] = {  # parts of lines are lost, or moved to separate lines
    "cut at 80": cut(80, ""),
    "cut at 80 with \u2026": cut(80, "\u2026"),
    "cut at 100 with ...": cut(100, "..."),
    "terminal of 80": lambda text: hard(80)(text.expandtabs()),
    "terminal of 100": lambda text: hard(100)(text.expandtabs()),
    "terminal of 132": lambda text: hard(132)(text.expandtabs()),
    "mail of 72": lambda text: soft(72)(text.expandtabs()),
}


def figures(text: str) -> tuple[set[object], Counter[str], Counter[str]]:
    """Return the numbers and settings of a text, and the own and total share of each function."""
    found: set[object] = set()
    own, all_chains = Counter[str](), Counter[str]()
    for record in (reading.record for reading in readings(text.encode(), "pasted.txt")):
        match record:
            case Fact() if record.name.startswith(("thp.", "boot.t")):
                found.add((record.name, record.value))
            case Fact() if not isinstance(record.value, str) and not record.name.startswith("log."):
                found.add((record.name, record.value))
            case Sample():
                found |= set(record.values.items())
            case Profile():
                rows = zip(record.rows.chain.tolist(), record.rows.weight.tolist(), strict=True)
                for names, weight in ((record.names(chain), weight) for chain, weight in rows):
                    own.update({names[0]: weight} if names else {})
                    all_chains.update(dict.fromkeys(names, weight))
    return found, own, all_chains


def strays(whole: str, variant: str) -> list[object]:
    """Return the figures of a variant that the complete text does not have, including larger shares of a function."""
    (known, *shares), (found, *others) = figures(whole), figures(variant)
    more = [
        (name, weight)
        for here, there in zip(shares, others, strict=True)
        for name, weight in there.items()
        if name in shares[1] and weight > 1.001 * here[name] + 0.02
    ]
    return [*(found - known), *more]
