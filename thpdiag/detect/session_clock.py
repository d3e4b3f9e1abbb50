"""Times for the output of a pasted session that prints no clock, derived from the pauses in its commands.

    [root@db1 ~]# grep compact_stall /proc/vmstat; sleep 300; grep compact_stall /proc/vmstat
    compact_stall 1000000                                                                          0 s
    compact_stall 1600000                                                                        300 s

The output of a command consists of rounds: a new round begins where a value is repeated. Rounds get the times that the
command's plan (`thpdiag.detect.shell`) assigns to them, if there are as many as planned; a loop may have fewer.
Commands typed one by one share a clock as long as every pause between them was typed too. Where a value is repeated
after an unknown pause, or counters restart, a new stretch begins. If a time is printed above the first output, times
are counted from it. A stretch in which no value is repeated gets no times, because they would have no use.

Records of a stretch are held back until this is known, except in a loop that has already repeated a value.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from thpdiag.detect.shell import MAX_COMMAND_CHARS, Plan, Round, base_name, plan_of, script_of
from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Event, Fact, Listing, Moment, Problem, ProblemKind, Record, Sample
from thpdiag.model.facts import Pace

MAX_HELD_RECORDS = 4000  # records of one stretch
MAX_ROUND_CHECKS = 1_000_000  # rounds of commands that print something else, in one member
MAX_LATER_ROUNDS = 10_000  # rounds of a command that are searched for an omitted output
MAX_NAMED_PAUSES = 2  # pauses of one stretch that its pace names
MAX_SCRIPTS = 50  # scripts whose text is remembered
MIN_REMARK_WORDS = 4  # words that make a line without a format a remark
WRAPPED_COUNTER = (2.0**31, 2.0**32)  # previous value of a 32-bit counter that may have wrapped without a reboot
MAX_RESET_RATIO = 0.5  # of the previous value, below which a counter restarted: CPU time may decrease slightly
_WORD = re.compile(r"[^\W\d_]{2,}")
_NUMBERS = re.compile(r"(?:^|\s)\d+\s+\d+(?:\s|$)|^\s*[\w.()/-]{1,60}:\s{0,20}\d+(?:\s|$)")  # a row of a table
_LEFT_OUT = re.compile(r"\W*(?:\.\.\.|\u2026|snip\b|\[?(?:cut|truncated|omitted)\]?\W*$)", re.IGNORECASE)
_SHOWN = re.compile(
    r"(?:sudo\s+)?(?:cat|more|less|head|tail|nl)\s+(?:-\w+\s+){0,4}['\"]?(?P<name>[\w./~-]{1,200})['\"]?\s*$"
)

_Key = tuple[object, ...]
# Speaker and host, followed by True if the host was reached by a remote command and is not the host of the shell.
Group = tuple[str, str] | tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class TaggedRecord:
    """A record with the parser it came from and the group (speaker and host) that the text puts it in."""

    record: Record
    reader: str
    group: Group


def with_time(record: Record, stamps: Mapping[int, str]) -> Record:
    """Return the record with the time that preceded its line, if it has no time of its own."""
    if not isinstance(record, Fact | Sample | Event | Listing) or record.time is not None:
        return record
    line = record.first if isinstance(record, Listing) else record.cite.line or 0
    moment = parse_timestamp(stamps.get(line, ""))
    return replace(record, time=moment) if moment else record


def named_host(record: Record) -> str:
    """Return the host that a record names; empty if it names none."""
    return str(record.value) if isinstance(record, Fact) and record.name == "host.name" else ""


@dataclass(slots=True)
class _Stretch:
    """Commands of one host between which all pauses are known."""

    number: int  # in the member
    host: str
    origin: float  # session clock in seconds at `cursor` 0
    cursor: float = 0.0  # start of the next command, in seconds
    last: float = 0.0  # time of the last output, in seconds
    pauses: dict[str, None] = field(default_factory=dict)  # as typed, in order
    is_loose: bool = False  # more time than the pauses may have passed
    base: Moment | None = None  # a printed time, at `base_seconds`
    base_seconds: float = 0.0
    seen: dict[_Key, tuple[float, int]] = field(default_factory=dict)  # time and command of the last occurrence
    values: dict[_Key, float] = field(default_factory=dict)  # last values of system-wide metrics
    is_paired: bool = False  # a value was repeated

    def moment(self, seconds: float) -> Moment:
        """Return the time of an output."""
        pace = Pace(" and ".join(islice(self.pauses, MAX_NAMED_PAUSES)), self.number, self.is_loose)
        if self.base is None:
            return Moment(self.origin + seconds, Clock.SESSION, pace=pace)
        if seconds == self.base_seconds:
            return self.base
        return replace(self.base.plus(seconds - self.base_seconds), pace=pace)


@dataclass(slots=True)
class _Running:
    """The command whose output is being read."""

    number: int
    plan: Plan
    rounds: Iterator[Round]
    current: Round | None
    first: int  # index of its first record among the held ones
    printed_time: Moment | None  # the time printed above the command
    last: Round | None = None  # the last round with output
    time_lines: int = 0  # in the output
    keys: set[_Key] = field(default_factory=set)  # of the system-wide rows of this round
    first_keys: dict[tuple[str, ...], set[_Key]] = field(default_factory=dict)  # of the first round, by its commands
    readers: set[str] = field(default_factory=set)  # parsers of the output


_Held = tuple[TaggedRecord, "tuple[_Stretch, float] | None"]


class SessionClock:
    """Assigns times to the records of one member, in their order."""

    def __init__(self, member: str) -> None:
        self._member = member
        self.scripts: dict[str, str] = {}  # the texts of scripts, by name
        self._held: list[_Held] = []
        self._ready: deque[TaggedRecord] = deque()
        self._stretch: _Stretch | None = None
        self._running: _Running | None = None
        self._is_streaming = False  # records get their times at once instead of being held
        self._commands = self._stretches = 0  # number so far
        self._origin = 0.0
        self._checks_left = MAX_ROUND_CHECKS
        self._last_base: Moment | None = None  # the printed time that the last stretch counted from

    def ready(self) -> Iterator[TaggedRecord]:
        """Yield the records whose times are known."""
        while self._ready:
            yield self._ready.popleft()

    # Commands and lines between records

    def add_command(self, command: str, host: str, printed_time: Moment | None) -> None:
        """Start a typed command; `printed_time` is the time printed above it."""
        self._end_command()
        script = script_of(command)
        if script is not None and len(self.scripts) < MAX_SCRIPTS:
            self.scripts[script[0]] = script[1]
        plan = plan_of(command, self.scripts)
        stretch = self._stretch
        has_pauses = plan is not None and plan.prints and plan.seconds != 0
        if stretch and (plan is None or has_pauses or (host and stretch.host and host != stretch.host)):
            self._close_stretch()
        if plan is None:
            return
        if self._stretch is None:
            self._stretches += 1
            self._stretch = _Stretch(self._stretches, host, self._origin)
        stretch = self._stretch
        stretch.host = stretch.host or host
        if printed_time is not None and printed_time not in (stretch.base, self._last_base):
            stretch.base, stretch.base_seconds = printed_time, stretch.cursor
        self._commands += 1
        rounds = plan.rounds()
        self._running = _Running(self._commands, plan, rounds, next(rounds, None), len(self._held), printed_time)
        stretch.pauses.update(dict.fromkeys(plan.pauses))
        stretch.is_loose |= plan.is_rough

    def add_script(self, command: str, lines: list[str]) -> None:
        """Remember the text of a script that a command printed."""
        match = _SHOWN.match(command)
        if match and len(self.scripts) < MAX_SCRIPTS and any("sleep" in text or "hugepage" in text for text in lines):
            self.scripts[base_name(match["name"])] = "\n".join(lines)[:MAX_COMMAND_CHARS]

    @staticmethod
    def shows_file(command: str) -> bool:
        """Whether a command prints a file that may be a script."""
        match = _SHOWN.match(command)
        return match is not None and not match["name"].startswith(("/proc/", "/sys/"))

    def add_time_line(self, moment: Moment) -> None:
        """Note a printed time. Several in the output of one command are a better clock than its pauses."""
        running, stretch = self._running, self._stretch
        if running is None or stretch is None:
            return
        running.time_lines += 1
        if running.time_lines > 1 or running.last:
            self._forget_command()
            return
        stretch.base = running.printed_time = moment
        stretch.base_seconds = stretch.cursor + (running.current.seconds if running.current else 0.0)

    def add_other_line(self, text: str) -> None:
        """Note a line without a format: a remark, or a mark that lines are omitted, ends the stretch."""
        is_remark = len(_WORD.findall(text)) >= MIN_REMARK_WORDS and not _NUMBERS.search(text)
        if self._stretch and (is_remark or _LEFT_OUT.match(text)):
            self.end_stretch()

    def end_stretch(self) -> None:
        """End the command and the stretch: at the end of the text, at a remark, or where the speaker changes."""
        self._end_command()
        self._close_stretch()

    # Records

    def take(self, reading: TaggedRecord) -> None:
        """Add a record of the text."""
        place = None
        if self._stretch and self._running and self._is_undated(reading.record):
            place = self._place(reading)
        if self._stretch is None:
            self._ready.append(reading)
        elif self._is_streaming:
            self._ready.append(_with_session_time(reading, place))
        else:
            self._held.append((reading, place))
            if len(self._held) > MAX_HELD_RECORDS:
                self._stop_holding()

    def _is_undated(self, record: Record | Listing) -> bool:
        """Whether a record has no time, or only the time printed above the command."""
        if not isinstance(record, Sample | Listing):
            return False
        return record.time is None or (self._running is not None and record.time == self._running.printed_time)

    def _place(self, reading: TaggedRecord) -> tuple[_Stretch, float] | None:
        """Return stretch and seconds of an output; None if it does not fit the command."""
        running, stretch, record = self._running, self._stretch, reading.record
        assert running is not None
        assert stretch is not None
        assert isinstance(record, Sample | Listing)
        keys = _keys(reading.reader, record)
        if running.current is not None:
            repeated = stretch.cursor + running.current.seconds, running.number
            if any(stretch.seen.get(key) == repeated for key in keys):
                running.current = next(running.rounds, None) if _is_like_first_round(running) else None
        if running.plan.names(reading.reader):  # otherwise any of its commands may have printed the record
            while running.current is not None and not running.current.may_be_of(reading.reader):
                running.current = next(running.rounds, None) if self._may_check_round() else None
        if running.current is None or len(set(running.current.texts)) < len(running.current.texts):
            self._forget_command()
            return None
        if running.current is not running.last:
            running.last, running.keys = running.current, set()
        running.readers.add(reading.reader)
        seconds = stretch.cursor + running.current.seconds
        no_pause = any(stretch.seen[key][0] >= seconds for key in keys if key in stretch.seen)
        if no_pause or self._is_reset(reading, stretch):
            stretch = self._stretch = self._next_stretch(stretch)
        for key in keys:
            previous = stretch.seen.get(key)
            stretch.is_paired |= previous is not None and previous[0] < seconds
            stretch.seen[key] = seconds, running.number
        if record.kind == "system":
            running.keys |= keys
        stretch.last = max(stretch.last, seconds)
        return stretch, seconds

    def _is_output_missing(self, running: _Running) -> bool:
        """Whether an expected output is missing, so that another may have been mistaken for it."""
        unnamed = not all(map(running.plan.names, running.readers))
        for later in islice(running.rounds, MAX_LATER_ROUNDS):
            once = Round(later.seconds, later.once)
            if not self._may_check_round() or (later.once and (unnamed or any(map(once.may_be_of, running.readers)))):
                return True
        return False

    def _may_check_round(self) -> bool:
        """Whether another round may be examined: a text may have thousands of commands with millions of rounds."""
        self._checks_left -= 1
        return self._checks_left >= 0

    def _is_reset(self, reading: TaggedRecord, stretch: _Stretch) -> bool:
        """Whether the host's counters restarted because of a reboot. Stores the values for the next comparison."""
        record = reading.record
        if not isinstance(record, Sample) or record.kind != "system":
            return False
        is_reset = False
        low, high = WRAPPED_COUNTER
        for name, value in record.values.items():
            previous = stretch.values.get((reading.reader, name))
            stretch.values[reading.reader, name] = value
            if previous is not None and value < MAX_RESET_RATIO * previous and not low < previous < high:
                is_reset = is_reset or ((metric := term(name)) is not None and metric.kind == "counter")
        if is_reset:
            text = "counters restarted since the output above, so the two cannot be compared"
            self._held.append((replace(reading, record=Problem(record.cite, text, ProblemKind.ODD)), None))
        return is_reset

    # Stretches

    def _next_stretch(self, last: _Stretch) -> _Stretch:
        """Return a new stretch that begins with the current record, an unknown time after the last stretch."""
        self._stretches += 1
        self._last_base = last.base
        origin = last.origin + float(last.is_paired)
        stretch = _Stretch(self._stretches, last.host, origin, last.cursor, last.last, last.pauses, last.is_loose)
        stretch.values = last.values
        return stretch

    def _end_command(self) -> None:
        """End the command: check that its output fits the plan, and advance the clock by its duration."""
        running, stretch = self._running, self._stretch
        self._running, self._is_streaming = None, False
        if running is None or stretch is None:
            return
        plan = running.plan
        if running.last and self._is_output_missing(running):
            self._running = running
            self._forget_command()
            return
        if plan.seconds is None or (plan.prints and plan.seconds):
            self._close_stretch()
            return
        stretch.cursor += plan.seconds
        stretch.is_loose |= plan.seconds > 0

    def _forget_command(self) -> None:
        """Give the command's output no session times: it has printed times, or does not fit the command."""
        running = self._running
        self._running, self._is_streaming = None, False
        if running is not None:
            self._held[running.first :] = [(reading, None) for reading, _ in self._held[running.first :]]
        self._close_stretch()

    def _stop_holding(self) -> None:
        """Stop holding records: those of a loop that repeated a value get times at once, all others get none."""
        stretch, running = self._stretch, self._running
        if stretch and running and stretch.is_paired and running.plan.has_loop:
            self._release()
            self._is_streaming = True
        else:
            self._forget_command()

    def _close_stretch(self) -> None:
        """Close the stretch: the time until the next output is unknown."""
        self._release()
        if self._stretch and self._stretch.is_paired:
            self._origin = self._stretch.origin + self._stretch.last + 1.0
            self._last_base = self._stretch.base or self._last_base
        self._stretch, self._running, self._is_streaming = None, None, False

    def _release(self) -> None:
        held, self._held = self._held, []
        self._ready.extend(_with_session_time(reading, place) for reading, place in held)


def _is_like_first_round(running: _Running) -> bool:
    """Whether a round of several commands in a loop has the same keys as the first round."""
    if running.current is None or not running.plan.has_loop or len(running.current.texts) < 2:
        return True
    return running.first_keys.setdefault(running.current.texts, running.keys) == running.keys


def _keys(reader: str, record: Sample | Listing) -> set[_Key]:
    """Return the keys of the values in a record."""
    if isinstance(record, Listing):
        return {(reader, record.kind, entity) for entity in record.entities}
    return {(reader, record.kind, record.entity, name) for name in record.values}


def _with_session_time(reading: TaggedRecord, place: tuple[_Stretch, float] | None) -> TaggedRecord:
    """Return the record with its session time, if its stretch has a repeated value."""
    if place is None or not place[0].is_paired or not isinstance(reading.record, Sample | Listing):
        return reading
    return replace(reading, record=replace(reading.record, time=place[0].moment(place[1])))
