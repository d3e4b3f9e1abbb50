"""The clock of a pasted session in which no time is printed: seconds that its own commands name.

    [root@db1 ~]# grep compact_stall /proc/vmstat; sleep 300; grep compact_stall /proc/vmstat
    compact_stall 1000000                                                                          0 s
    compact_stall 1600000                                                                        300 s

The outputs of a command are rounds: a new one begins where something is said again. They have the times that the
command's plan (`thpdiag.detect.shell`) gives them, if there are as many as it says; of a loop there may be fewer. What
was typed line by line has one clock as long as every pause in between was typed too: where something is said again and
nobody knows how long after, or the counters began anew, another stretch begins. Times are counted from a printed one
where one stands above the first output. A stretch in which nothing is said twice gets no times: it proves nothing.

Records of a stretch are held back until that is known, but for a loop that has proved its pace.
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

MAX_HELD = 4000  # records of one stretch
MAX_LOOKS = 1_000_000  # at rounds of commands that print something else, in one member
MAX_LATER_ROUNDS = 10_000  # of a command, in which an output is looked for that was left out
MAX_NAMED = 2  # pauses of one stretch
MAX_SCRIPTS = 50  # whose text is remembered
PROSE_WORDS = 4  # from which a line that no parser knows is somebody's remark
WRAPPED = (2.0**31, 2.0**32)  # between these a counter of 32 bits may have begun anew without a reboot
FALLEN = 0.5  # of its value before, below which a counter began anew: CPU time may fall by a little
_WORD = re.compile(r"[^\W\d_]{2,}")
_NUMBERS = re.compile(r"(?:^|\s)\d+\s+\d+(?:\s|$)|^\s*[\w.()/-]{1,60}:\s{0,20}\d+(?:\s|$)")  # a row of a table
_LEFT_OUT = re.compile(r"\W*(?:\.\.\.|\u2026|snip\b|\[?(?:cut|truncated|omitted)\]?\W*$)", re.IGNORECASE)
_SHOWN = re.compile(
    r"(?:sudo\s+)?(?:cat|more|less|head|tail|nl)\s+(?:-\w+\s+){0,4}['\"]?(?P<name>[\w./~-]{1,200})['\"]?\s*$"
)

_Key = tuple[object, ...]
# Speaker and host; True behind them if a command on another host reached it, which then is not the one of the shell.
Group = tuple[str, str] | tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class TaggedRecord:
    """A record with the parser it came from and the group (speaker and host) that the text puts it in."""

    record: Record
    reader: str
    group: Group


def with_time(record: Record, stamps: Mapping[int, str]) -> Record:
    """The record with the time that stood before its line, if it has none of its own."""
    if not isinstance(record, Fact | Sample | Event | Listing) or record.time is not None:
        return record
    line = record.first if isinstance(record, Listing) else record.cite.line or 0
    moment = parse_timestamp(stamps.get(line, ""))
    return replace(record, time=moment) if moment else record


def named_host(record: Record) -> str:
    """The host that a record names; empty if it names none."""
    return str(record.value) if isinstance(record, Fact) and record.name == "host.name" else ""


@dataclass(slots=True)
class _Stretch:
    """Commands of one host between which all pauses are known."""

    number: int  # in the member
    host: str
    origin: float  # of the session's clock, at `cursor` 0
    cursor: float = 0.0  # when the next command begins
    last: float = 0.0  # the last moment of an output
    words: dict[str, None] = field(default_factory=dict)  # the pauses
    loose: bool = False
    base: Moment | None = None  # a time that was printed, at `base_at`
    base_at: float = 0.0
    seen: dict[_Key, tuple[float, int]] = field(default_factory=dict)  # when something was said last, by which command
    totals: dict[_Key, float] = field(default_factory=dict)
    is_paired: bool = False

    def moment(self, at: float) -> Moment:
        """An output's time."""
        pace = Pace(" and ".join(islice(self.words, MAX_NAMED)), self.number, self.loose)
        if self.base is None:
            return Moment(self.origin + at, Clock.SESSION, pace=pace)
        if at == self.base_at:
            return self.base
        return replace(self.base.plus(at - self.base_at), pace=pace)


@dataclass(slots=True)
class _Running:
    """The command whose output is read."""

    number: int
    plan: Plan
    rounds: Iterator[Round]
    now: Round | None
    first: int  # of the records that are held, the first of it
    known: Moment | None  # the printed time above
    last: Round | None = None  # of which something was seen
    stamps: int = 0  # time lines in the output
    totals: set[_Key] = field(default_factory=set)  # what the host's rows of this round hold
    usual: dict[tuple[str, ...], set[_Key]] = field(default_factory=dict)  # the same of a first round, by its commands
    readers: set[str] = field(default_factory=set)  # of what was printed


_Held = tuple[TaggedRecord, "tuple[_Stretch, float] | None"]


class SessionClock:
    """Gives the records of one member their times, in the order in which they come."""

    def __init__(self, member: str) -> None:
        self._member = member
        self.scripts: dict[str, str] = {}  # the texts of scripts, by name
        self._held: list[_Held] = []
        self._ready: deque[TaggedRecord] = deque()
        self._stretch: _Stretch | None = None
        self._running: _Running | None = None
        self._streams = False
        self._commands = self._stretches = 0  # how many there were
        self._origin = 0.0
        self._looks = MAX_LOOKS
        self._used: Moment | None = None  # the printed time that the last stretch counted from

    def ready(self) -> Iterator[TaggedRecord]:
        """The records whose times are known by now."""
        while self._ready:
            yield self._ready.popleft()

    # What the text holds besides records

    def command(self, command: str, host: str, known: Moment | None) -> None:
        """A command was typed; `known` is the printed time above it."""
        self._end_command()
        script = script_of(command)
        if script is not None and len(self.scripts) < MAX_SCRIPTS:
            self.scripts[script[0]] = script[1]
        plan = plan_of(command, self.scripts)
        stretch = self._stretch
        own = plan is not None and plan.prints and plan.seconds != 0  # it has its pauses itself
        if stretch and (plan is None or own or (host and stretch.host and host != stretch.host)):
            self._break()
        if plan is None:
            return
        if self._stretch is None:
            self._stretches += 1
            self._stretch = _Stretch(self._stretches, host, self._origin)
        stretch = self._stretch
        stretch.host = stretch.host or host
        if known is not None and known not in (stretch.base, self._used):
            stretch.base, stretch.base_at = known, stretch.cursor
        self._commands += 1
        rounds = plan.rounds()
        self._running = _Running(self._commands, plan, rounds, next(rounds, None), len(self._held), known)
        stretch.words.update(dict.fromkeys(plan.words))
        stretch.loose |= plan.is_rough

    def shown(self, command: str, lines: list[str]) -> None:
        """A command that prints a file, and what stands below it: the text of a script."""
        found = _SHOWN.match(command)
        if found and len(self.scripts) < MAX_SCRIPTS and any("sleep" in text or "hugepage" in text for text in lines):
            self.scripts[base_name(found["name"])] = "\n".join(lines)[:MAX_COMMAND_CHARS]

    @staticmethod
    def shows_file(command: str) -> bool:
        """Whether a command prints a file that may be a script."""
        found = _SHOWN.match(command)
        return found is not None and not found["name"].startswith(("/proc/", "/sys/"))

    def time_line(self, moment: Moment) -> None:
        """A time was printed. Several in the output of one command are its own clock, and better."""
        running, stretch = self._running, self._stretch
        if running is None or stretch is None:
            return
        running.stamps += 1
        if running.stamps > 1 or running.last:
            self._forget_command()
            return
        stretch.base, stretch.base_at = moment, stretch.cursor + (running.now.seconds if running.now else 0.0)
        running.known = moment

    def other_line(self, text: str) -> None:
        """A line that no parser knows: a remark, or a sign that something was left out, ends what is known."""
        remark = len(_WORD.findall(text)) >= PROSE_WORDS and not _NUMBERS.search(text)
        if self._stretch and (remark or _LEFT_OUT.match(text)):
            self._end_command()
            self._break()

    def speaker(self) -> None:
        """Somebody else speaks."""
        self._end_command()
        self._break()

    def finish(self) -> None:
        """The text is over."""
        self._end_command()
        self._break()

    # Records

    def take(self, reading: TaggedRecord) -> None:
        """A record of the text."""
        place = None
        if self._stretch and self._running and self._is_undated(reading.record):
            place = self._place(reading)
        if self._stretch is None:
            self._ready.append(reading)
        elif self._streams:
            self._ready.append(_with_time(reading, place))
        else:
            self._held.append((reading, place))
            if len(self._held) > MAX_HELD:
                self._stop_holding()

    def _is_undated(self, record: Record | Listing) -> bool:
        """Whether it has no time but that which is printed above the command."""
        if not isinstance(record, Sample | Listing):
            return False
        return record.time is None or (self._running is not None and record.time == self._running.known)

    def _place(self, reading: TaggedRecord) -> tuple[_Stretch, float] | None:
        """Stretch and seconds of an output; None if it does not fit the command."""
        running, stretch, record = self._running, self._stretch, reading.record
        assert running is not None
        assert stretch is not None
        assert isinstance(record, Sample | Listing)
        keys = _keys(reading.reader, record)
        if running.now is not None and any(self._is_repeated(key, stretch, running) for key in keys):
            usual = _is_usual(running)
            running.now = next(running.rounds, None) if usual else None
        if running.plan.names(reading.reader):  # else anything may print it
            while running.now is not None and not running.now.may_be_of(reading.reader):
                running.now = next(running.rounds, None) if self._may_look() else None
        if running.now is None or len(set(running.now.texts)) < len(running.now.texts):
            self._forget_command()
            return None
        if running.now is not running.last:
            running.last, running.totals = running.now, set()
        running.readers.add(reading.reader)
        at = stretch.cursor + running.now.seconds
        if self._said_before(keys, stretch, at) or self._is_reset(reading, stretch):
            stretch = self._stretch = self._next_stretch(stretch)
        for key in keys:
            before = stretch.seen.get(key)
            stretch.is_paired |= before is not None and before[0] < at
            stretch.seen[key] = at, running.number
        if record.kind == "system":
            running.totals |= keys
        stretch.last = max(stretch.last, at)
        return stretch, at

    def _is_left_out(self, running: _Running) -> bool:
        """Whether an output is missing that should have been printed, so that another may have been taken for it."""
        unnamed = not all(map(running.plan.names, running.readers))
        for later in islice(running.rounds, MAX_LATER_ROUNDS):
            once = Round(later.seconds, later.once)
            if not self._may_look() or (later.once and (unnamed or any(map(once.may_be_of, running.readers)))):
                return True
        return False

    def _may_look(self) -> bool:
        """Whether another round may be looked at: a text may hold thousands of commands with millions of rounds."""
        self._looks -= 1
        return self._looks >= 0

    @staticmethod
    def _is_repeated(key: _Key, stretch: _Stretch, running: _Running) -> bool:
        """Whether the command said it already in this round."""
        at = stretch.cursor + (running.now.seconds if running.now else 0.0)
        return stretch.seen.get(key) == (at, running.number)

    @staticmethod
    def _said_before(keys: set[_Key], stretch: _Stretch, at: float) -> bool:
        """Whether an earlier command said it, and no pause is known since."""
        return any(stretch.seen[key][0] >= at for key in keys if key in stretch.seen)

    def _is_reset(self, reading: TaggedRecord, stretch: _Stretch) -> bool:
        """Whether the host's counters began anew: it was booted in between. The values are kept for the next time."""
        record = reading.record
        if not isinstance(record, Sample) or record.kind != "system":
            return False
        fallen = False
        for name, value in record.values.items():
            before = stretch.totals.get((reading.reader, name))
            stretch.totals[reading.reader, name] = value
            if before is not None and value < FALLEN * before and not WRAPPED[0] < before < WRAPPED[1]:
                fallen = fallen or ((known := term(name)) is not None and known.kind == "counter")
        if fallen:
            text = "counters restarted since the output above, so the two cannot be compared"
            self._held.append((replace(reading, record=Problem(record.cite, text, ProblemKind.ODD)), None))
        return fallen

    # Stretches

    def _next_stretch(self, before: _Stretch) -> _Stretch:
        """Another stretch, from this record on: how long after the one before is not known."""
        self._stretches += 1
        self._used = before.base
        origin = before.origin + float(before.is_paired)
        after = _Stretch(self._stretches, before.host, origin, before.cursor, before.last, before.words, before.loose)
        after.totals = before.totals
        return after

    def _end_command(self) -> None:
        """What was printed has come to its end: whether it fits the command, and how long that took."""
        running, stretch = self._running, self._stretch
        self._running, self._streams = None, False
        if running is None or stretch is None:
            return
        plan = running.plan
        if running.last and self._is_left_out(running):
            self._running = running
            self._forget_command()
            return
        if plan.seconds is None or (plan.prints and plan.seconds):
            self._break()
            return
        stretch.cursor += plan.seconds
        stretch.loose |= plan.seconds > 0

    def _forget_command(self) -> None:
        """The command's output has no times of the session: printed ones are there, or it does not fit."""
        running = self._running
        self._running, self._streams = None, False
        if running is not None:
            self._held[running.first :] = [(reading, None) for reading, _ in self._held[running.first :]]
        self._break()

    def _stop_holding(self) -> None:
        """Too much is held: a loop that proved its pace goes on without, all else gets no times."""
        stretch, running = self._stretch, self._running
        if stretch and running and stretch.is_paired and running.plan.loops:
            self._release()
            self._streams = True
        else:
            self._forget_command()

    def _break(self) -> None:
        """Nobody knows how much later anything else was."""
        self._release()
        if self._stretch and self._stretch.is_paired:
            self._origin = self._stretch.origin + self._stretch.last + 1.0
            self._used = self._stretch.base or self._used
        self._stretch, self._running, self._streams = None, None, False

    def _release(self) -> None:
        held, self._held = self._held, []
        self._ready.extend(_with_time(reading, place) for reading, place in held)


def _is_usual(running: _Running) -> bool:
    """Whether a round of several commands in a loop holds what the first did; else one says what another says."""
    if running.now is None or not running.plan.loops or len(running.now.texts) < 2:
        return True
    return running.usual.setdefault(running.now.texts, running.totals) == running.totals


def _keys(reader: str, record: Sample | Listing) -> set[_Key]:
    """What a record says something of."""
    if isinstance(record, Listing):
        return {(reader, record.kind, entity) for entity in record.entities}
    return {(reader, record.kind, record.entity, name) for name in record.values}


def _with_time(reading: TaggedRecord, place: tuple[_Stretch, float] | None) -> TaggedRecord:
    """The record with its time, if its stretch says something twice."""
    if place is None or not place[0].is_paired or not isinstance(reading.record, Sample | Listing):
        return reading
    return replace(reading, record=replace(reading.record, time=place[0].moment(place[1])))
