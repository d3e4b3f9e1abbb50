"""Parts of a text that may not be in chronological order: mails above the mail they answer, pastes with earlier dates.

    On Mon, 9 Nov 2026 at 12:00, Bob Miller <bob@example.com> wrote:   above a quoted mail, with `>` or without
    From: Bob Miller
    Sent: Monday, November 9, 2026 12:00 PM                            Outlook; `Date:` elsewhere
    2026-11-09 12:00:00 - Bob Miller (Additional comments)             ServiceNow: the newest comment comes first
    Mon Nov  9 12:00:00 UTC 2026                                       date(1), below the output of a later one

Each part becomes an event of kind `text_part` at its first line, with its date as time, and with its depth of quoting
if the quoted person is named. `thpdiag.host.text_order` sorts the parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from thpdiag.detect.timestamps import MONTHS
from thpdiag.detect.transcript import TextLine
from thpdiag.model import Citation, Clock, Event, Moment
from thpdiag.model.facts import zoned_moment

TEXT_PART = "text_part"
MAX_PARTS = 2000  # in one text; with more, its lines are assumed to be in order
MIN_STEP_BACK_SECONDS = 60.0  # by which a date precedes the last one: clocks of two hosts differ by seconds
MAX_HEADER_LINES = 6  # of a mail
# Commands that print dates other than the current one.
_OTHER_DATE = re.compile(
    r"(?:^|[;&|]\s{0,4})(?:sudo\s+)?(?:(?:uptime|who|last|stat|ls|find|rpm|dpkg|hwclock|systemctl)\b"
    r"|date\b.{0,40}\s(?:-[dr]|--))"
)
_SENT = re.compile(r"(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado)\s?:\s")
_MONTH = "|".join(MONTHS)
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)")
_DOTTED = re.compile(r"\b(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{4})")
_DAY_FIRST = re.compile(rf"\b(?P<day>\d\d?)\.? (?P<name>{_MONTH})[^\W\d_]*\.?,? (?P<year>\d{{4}})", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b(?P<name>{_MONTH})[^\W\d_]*\.? (?P<day>\d\d?),? (?P<year>\d{{4}})", re.IGNORECASE)
_CLOCK = re.compile(r"\b(\d\d?):(\d\d)(?::(\d\d))?(?:\s?([AaPp])\.?[Mm]\b)?(?:\s?([+-]\d\d:?\d\d|UTC|GMT)\b)?")


def mail_date(text: str) -> Moment | None:
    """Return the first date with a time of day in a line; None if there is none, or if day and month are ambiguous.

    >>> mail_date("Sent: Monday, November 9, 2026 12:00 PM") == mail_date("Am 09.11.2026 um 12:00 schrieb Jan Maier:")
    True
    """
    date = next((match for form in (_ISO, _DOTTED, _DAY_FIRST, _MONTH_FIRST) if (match := form.search(text))), None)
    clock = _CLOCK.search(text, date.end()) or _CLOCK.search(text) if date else None
    if date is None or clock is None:
        return None
    parts = date.groupdict()
    month = int(parts["month"]) if "month" in parts else MONTHS[parts["name"].lower()]
    hour = int(clock[1]) if not clock[4] else int(clock[1]) % 12 + 12 * (clock[4] in "Pp")
    try:
        date_time = datetime(
            int(parts["year"]), month, int(parts["day"]), hour, int(clock[2]), int(clock[3] or 0), tzinfo=UTC
        )
    except ValueError:
        return None
    return zoned_moment(date_time.timestamp(), clock[5] or "")


@dataclass(slots=True)
class _Part:
    cite: Citation
    depth: int
    time: Moment | None
    is_quote: bool = False
    printed: Moment | None = None  # the last date printed by a command


class TextParts:
    """Collects the parts of one member from its lines."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._parts = [_Part(Citation(member, 1), 0, None)]
        self._dates: dict[int, Moment | None] = {}  # of the quoted mails, by depth of quoting

    def add_line(self, line: TextLine) -> None:
        """Begin a part if the depth of quoting changes."""
        if line.depth != self._parts[-1].depth:
            self._begin(line, line.depth, self._dates.get(line.depth))

    def add_heading(self, lines: Sequence[TextLine]) -> None:
        """Add a line that introduces a speaker, with the lines after it, which may have the date of a mail."""
        line, *below = lines
        date = mail_date(line.text) or mail_date(next((each.text for each in below if _SENT.match(each.text)), ""))
        following = next((each.depth for each in below if each.text), 0)
        depth = max(following, line.depth) if line.text.endswith(":") else line.depth
        self._dates = {quoted: sent for quoted, sent in self._dates.items() if quoted < depth} | {depth: date}
        if depth == line.depth:
            self._begin(line, depth, date)

    def add_date(self, line: TextLine, moment: Moment, command: str) -> None:
        """Add a line that consists of a date; `command` printed it, or is empty."""
        part = self._parts[-1]
        if moment.clock not in (Clock.UTC, Clock.LOCAL) or _OTHER_DATE.search(command):
            return
        step_back = part.printed.minus(moment) if part.printed else None
        if step_back is not None and step_back > MIN_STEP_BACK_SECONDS:
            self._begin(line, part.depth, moment)
        elif part.printed is None:
            part.time = moment
        self._parts[-1].printed = moment

    def _begin(self, line: TextLine, depth: int, time: Moment | None) -> None:
        if len(self._parts) <= MAX_PARTS:
            cite = Citation(self._member, line.number, line.text)
            self._parts.append(_Part(cite, depth, time, depth > 0 and depth in self._dates))

    def events(self) -> list[Event]:
        """Return all parts, empty if their order is unknown."""
        is_known = any(part.is_quote for part in self._parts) or sum(bool(part.time) for part in self._parts) > 1
        if not is_known or len(self._parts) > MAX_PARTS:
            return []
        return [
            Event(TEXT_PART, part.cite, part.time, {"quoted": str(part.depth if part.is_quote else 0)})
            for part in self._parts
        ]
