"""Where in a quoted line values stand that are the customer's whatever they look like: arguments, passwords, numbers of
accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

# But not what `ls -l` begins a line with
_OPTION = re.compile(r"(?:^|(?<=\s))-{1,2}(?![rwxsStT-]{9}[\s.+])[A-Za-z]")
# A program with its path, which the prompt's folder and a file of the kernel are not
_PROGRAM = re.compile(r"(?:^|(?<=[\s|(]))/(?!(?:proc|sys|dev|run)/)[\w.@+%~-]+/[^\s\]#$>,;:()]+(?=\s)")
# In any part of a name; and those that are common parts of others (`nr_foll_pin_acquired`) alone
_LABELS = (
    r"[\w-]*(?:passw(?:or)?d|passphrase|passcode)[\w-]*"
    r"|[\w-]*(?:secret|credential|api_?key|access_?key|token)[\w-]*(?=[\"']?\s?[:=])|--[\w-]*(?:secret|token|key)[\w-]*"
)
_ALONE = r"(?:pass|pwd|pw|pin|bearer|basic|iban|phone|tel|fax)"
_WITH_NUMBER = (  # `license key 1234567`; with fewer digits it may be a count
    r"(?:licen[cs]e|serial|account|activation|customer|contract|ticket)(?:\s(?:number|no\.?|nr\.?|key|id|code))?"
    r"(?=[\s#]{1,3}\d{5})"
)
_WITH_SIGN = r"(?:key|account|acct|card|mobile|serial|sn|ssn|login|license)(?=[\"']?\s?[:=])"
_LABELLED = re.compile(
    rf"(?<![\w-])-{{0,2}}(?:{_LABELS}|{_ALONE}|{_WITH_SIGN}|{_WITH_NUMBER})(?![\w-])[\"']?\s{{0,3}}[:=#]?\s{{0,3}}[\"']?"
    r"([A-Z]{2}\d\d(?: [\dA-Z]{4}){2,7}(?: \d{1,4})?|\+?\d[\d ./-]*\d(?![\w])|[^\s\"',;]+)",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w.])\+\d{1,3}[ -]?\(\d{1,5}\)[\d ./-]{4,}\d(?!\w)")
_WEB = re.compile(r"[A-Za-z]\w*://[^\s\"'<>]+")
# `comm:4711` is a pid, and `Comm: 1.5` nobody's number
_NAMED = re.compile(r"(?<![\w.@%-])([\w.@%-]*[^\W\d][\w.@%-]*)[\"']?(?:=[\"']?|(:)(?:\s{1,3}[\"']?|[\"']))[+-]?$")
_LONG = re.compile(r"\d{4,}(?![\d.:])")
_NEAR = 80
# `jan` is a man too, and `sun` a host: a month has a day beside it, a day of the week a month
_CALENDAR = re.compile(
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?= {1,2}[0-3]?\d(?:[ ,]|$))"
    r"|(?<=\d[ /-])(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(?=[ /-]\d{2,4}\b)"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?=,? {1,2}(?:\d|[A-Z][a-z]{2} ))"
)
_PEOPLE = frozenset({"jan", "jun", "mar", "sun", "sat", "dec"})

Span = tuple[int, int]


def arguments(text: str) -> int:
    """Where the arguments of a program begin; the end of the line if none do."""
    option, program = _OPTION.search(text), _PROGRAM.search(text)
    return min(option.start() if option else len(text), program.end() if program else len(text))


def webs(text: str) -> list[Span]:
    """Addresses of the web: what they have behind the host is the customer's."""
    return [found.span() for found in _WEB.finditer(text)]


def labelled(text: str) -> list[Span]:
    """Values of which the word in front says that they are secret, and numbers of telephones."""
    phones = [found.span() for found in _PHONE.finditer(text)]
    return phones + [found.span(1) for found in _LABELLED.finditer(text)]


def label(text: str, at: int) -> str | None:
    """The word of which what stands there is the value: `NAME=4711`, `"name": "4711"`."""
    found = _NAMED.search(text[max(0, at - _NEAR) : at])
    return None if found is None or (found[2] and not _LONG.match(text, at)) else found[1]


def people(text: str) -> Iterator[Span]:
    """Words of the calendar that are names where no date is."""
    dated = {found.start() for found in _CALENDAR.finditer(text)}
    for found in re.finditer(r"(?<!\w)[A-Za-z]+(?!\w)", text):
        if found[0].casefold() in _PEOPLE and found.start() not in dated:
            yield found.span()
