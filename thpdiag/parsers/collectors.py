"""What collectors say of their own run: sos (manifest, logs), supportconfig.

What sos says of its own run: its manifest, its logs.

What sos says of its own run: sos_reports/manifest.json, of sos 4.0 and later.

    {"version": "4.0", "start_time": "2026-11-20 09:46:58.504570", "components": {"report": {"plugins": {"memory":
     {"timeout_hit": false, "commands": [{"exec": "free", "filepath": "sos_commands/memory/free", "return_code": 0}]

Times are the wall clock of the host without its zone; from about 4.5 on the begin of each command is there too, in
seconds since 1970, and the two together tell the zone. A plugin that took longer than its `timeout` (in seconds, since
4.5) was stopped: `timeout_hit` is true, and what it had not copied by then is missing. A command that took longer than
its own has `return_code` 124, and `filepath` then holds what it had printed. `sos collect` writes a manifest without
plugins. Source: sos/report/plugins/__init__.py (set_timeout_hit, _collect_cmd_output), sos/report/__init__.py.

What sos wrote while it ran: sos_logs/sos.log, sos_logs/ui.log, and version.txt.

    2026-11-20 09:47:00,815 WARNING: [plugin:kernel] command 'sysctl -a' timed out after 300s
     Plugin memory timed out
    sosreport: 4.0

Times are the wall clock of the host. sos stops a command after its time-out since 3.1 and a whole plugin since 3.6,
which stands in ui.log, and in sos.log only of late. The version is `sosreport: 3.2` up to 4.2 and `sos report: 4.3`
later; sos 2.2 writes no number (`sosreport: unversioned` or none). Source: sos/sosreport.py, sos/report/__init__.py
(_collect_plugin, version), sos/plugins/__init__.py.

What supportconfig, SUSE's collector, says of its own run: supportconfig.txt, the title of basic-environment.txt.

                         Support Utilities - Supportconfig
                              Script Version: 3.2.8-1
      Script Version:       3.2.8-1
      Memory Details...                            Done
      SYSFS...                                     Excluded
      Hardware...                                  hwinfo --all - Timed Out, Done

The script writes a line for each of its parts: Done, Excluded (switched off, EXCLUDED for those that should not be) or
Skipped (there was nothing to be had); what took longer than VAR_OPTION_BIN_TIMEOUT_SEC is named before that. In the
other files stands below a command that it was not found, or was stopped:

    ERROR: Command not found or not executable
    # ERROR: Command did not complete within the timeout period.

Varies: up to 3.1 `executible`, and no library version. What the sections of these files hold is found by
thpdiag.detect. Source: supportutils, bin/supportconfig (title, printlog, echolog), supportconfig.rc (log_cmd,
timed_log_cmd).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.knowledge.paths import SUPPORTCONFIG
from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Lines, Parser, Source

_MANIFEST_PATH = re.compile(r"(?:^|/)sos_reports/manifest\.json$")
_MAX_MANIFEST_BYTES = 64 * 2**20  # bytes; a manifest of all plugins has about one
TIMED_OUT = 124  # what timeout(1), which sos uses, returns
_ZONES = 900.0  # seconds: time zones differ by quarters of an hour
_NEAR = 120.0  # seconds from the begin of a plugin to that of its first command


def parse_sos_manifest(source: Source, content: Content) -> Iterator[Record]:
    """capture.tool, capture.time, capture.plugins, capture.timed_out, host.utc_offset."""
    data = bytearray()
    for chunk in content.chunks:
        data += chunk
        if len(data) > _MAX_MANIFEST_BYTES:
            yield Problem(source.cite(1), "is longer than any manifest of sos", ProblemKind.LIMIT, SOS_MANIFEST.name)
            return
    text = data.decode("utf-8", "replace")
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield Problem(source.cite(1), "is not JSON; what sos gave up on is unknown", ProblemKind.ODD, SOS_MANIFEST.name)
        return
    yield from _Manifest(source, text, _map(whole)).records()


class _Manifest:
    """One manifest and the text it was read from."""

    def __init__(self, source: Source, text: str, whole: Mapping[str, Any]) -> None:
        self.source, self.text, self.whole = source, text, whole
        self.plugins = _map(_map(_map(whole.get("components")).get("report")).get("plugins"))

    def records(self) -> Iterator[Record]:
        if isinstance(version := self.whole.get("version"), str):
            yield Fact("capture.tool", f"sos {version[:40]}", self._cite('"version"'))
        for key, what in (("start_time", "begun"), ("end_time", "ended")):
            if moment := _local(self.whole.get(key)):
                labels = (("what", what), ("clock", moment.clock.value))
                yield Fact("capture.time", moment.seconds, self._cite(f'"{key}"'), labels, moment)
        if self.plugins:
            yield Fact("capture.plugins", " ".join(sorted(self.plugins)), self._cite('"plugins"'))
        for name, plugin in self.plugins.items():
            yield from self._given_up(name, _map(plugin))
        yield from self._zone()

    def _given_up(self, name: str, plugin: Mapping[str, Any]) -> Iterator[Fact]:
        """The plugin itself if it was stopped, and each of its commands that was."""
        limit = plugin.get("timeout")
        if plugin.get("timeout_hit") is True:
            yield timed_out(name, self._cite(f'"{name}": {{'), seconds=limit if isinstance(limit, int) else None)
        for command in map(_map, _list(plugin.get("commands"))):
            if command.get("return_code") == TIMED_OUT and isinstance(said := command.get("exec"), str):
                path = command.get("filepath")
                file = path if isinstance(path, str) else ""
                yield timed_out(name, self._cite(json.dumps(said)), said, seconds=_run_seconds(command), file=file)

    def _zone(self) -> Iterator[Fact]:
        """How far the wall clock was ahead of UTC: the begins of a plugin and of its first command, on two clocks."""
        for plugin in map(_map, self.plugins.values()):
            begun = _local(plugin.get("start_time"))
            commands = (_number(_map(c).get("start_time")) for c in _list(plugin.get("commands")))
            first = min((seconds for seconds in commands if seconds), default=None)
            if begun and first:
                ahead = round((begun.seconds - first) / _ZONES) * _ZONES
                if abs(begun.seconds - first - ahead) <= _NEAR and abs(ahead) <= 14 * 3600:
                    cite = self._cite(f'"start_time": {first!r}')
                    yield Fact("host.utc_offset", ahead, cite, time=Moment(first, Clock.UTC))
                    return

    def _cite(self, key: str) -> Citation:
        at = max(self.text.find(key), 0)
        return self.source.cite(self.text.count("\n", 0, at) + 1, key)


def timed_out(plugin: str, cite: Citation, command: str = "", *, seconds: int | None = None, file: str = "") -> Fact:
    """What sos gave up on: a plugin, or one of its commands."""
    more = {"command": command, "seconds": "" if seconds is None else str(seconds), "file": file}
    labels = (("plugin", plugin), *((key, value) for key, value in more.items() if value))
    return Fact("capture.timed_out", command or plugin, cite, labels)


def _run_seconds(command: Mapping[str, Any]) -> int | None:
    seconds = _number(command.get("run_time"))
    return None if seconds is None else int(seconds)


def _local(text: object) -> Moment | None:
    """A time of the host's wall clock, as Python's datetime prints it."""
    try:
        told = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if told is None or told.tzinfo is not None:
        return None
    return Moment(told.replace(tzinfo=UTC).timestamp(), Clock.LOCAL)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**40:
        return None
    return float(value) if math.isfinite(value) else None


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


SOS_MANIFEST = BulkParser(
    "sos_manifest", "sos_reports/manifest.json of sos", lambda path, _head, _size: _MANIFEST_PATH.search(path),
    parse_sos_manifest, opens=re.compile(rb"\s*\{"),
)  # fmt: skip


_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} ")
_SOS_COMMAND = re.compile(
    r".{0,80}\[plugin:(?P<plugin>[\w-]{1,64})\] command '(?P<command>.{1,2000})' timed out after (?P<seconds>\d{1,7})s"
)
_SOS_PLUGIN = re.compile(r"(?:.{0,80}[A-Z]{4,8}: )?\s{0,4}Plugin (?P<plugin>[\w-]{1,64}) timed out\s*$")
_SOS_VERSION = re.compile(r"(?:sosreport|sos report): (?P<version>\d[\w.+~-]{0,40})\s*$")


def parse_sos_log(source: Source, lines: Lines) -> Iterator[Record]:
    """capture.timed_out, capture.tool, and capture.time from the first and the last line."""
    ends: list[tuple[Moment, Citation]] = []
    moment_of = cache(parse_timestamp)  # many lines are of one second
    for number, line in lines:
        if "timed out" in line:
            yield from _given_up(source, number, line)
        if found := _STAMP.match(line):
            if (moment := moment_of(found[1])) is not None:
                ends[1:] = [(moment, source.cite(number, line))]
        elif told := _SOS_VERSION.match(line):
            yield Fact("capture.tool", f"sos {told['version']}", source.cite(number, line))
    for what, (moment, cite) in zip(("begun", "ended"), ends, strict=False):
        yield Fact("capture.time", moment.seconds, cite, (("what", what), ("clock", moment.clock.value)), moment)


def _given_up(source: Source, number: int, line: str) -> Iterator[Fact]:
    cite = source.cite(number, line)
    if found := _SOS_COMMAND.match(line):
        yield timed_out(found["plugin"], cite, found["command"], seconds=int(found["seconds"]))
    elif found := _SOS_PLUGIN.match(line):
        yield timed_out(found["plugin"], cite)


SOS_LOG = Parser(
    "sos_log", "sos.log, ui.log and version.txt of sos", parse_sos_log,
    paths=(
        re.compile(r"(?:^|/)sos_logs/(?:sos|ui)\.log$"),
        re.compile(r"(?:^|/)(?:sosreport|sos-collector)-[^/]{1,200}/version\.txt$|^version\.txt$"),
    ),
)  # fmt: skip


_TITLE = r"\s{0,40}Support Utilities - Supportconfig\s*$"
_SCRIPT_VERSION = re.compile(r"\s{0,40}Script Version:\s{1,20}(\d[\w.+~-]{0,40})\s*$")
_PART = re.compile(
    r" {0,2}([A-Z][\w ./()-]{1,50}?)\.\.\. {1,50}((?:[^,]{1,200} - Timed Out,\s?){0,20})"
    r"(Done|Excluded|EXCLUDED|Skipped)\s*$"
)
_STOPPED = re.compile(r"\s?([^,]{1,200}?) - Timed Out,")
_NOT_FOUND = re.compile(r"ERROR: Command not found or not execut[ia]ble\s*$")
_LATE = re.compile(r"# ERROR: Command did not complete within the timeout period\.\s*$")
_SUPPORTCONFIG_OPENS = re.compile(
    rf"{_TITLE}|{_SCRIPT_VERSION.pattern}|{_PART.pattern}|{_NOT_FOUND.pattern}|{_LATE.pattern}"
)
_SUPPORTCONFIG_CONTINUES = re.compile(rf"{_SUPPORTCONFIG_OPENS.pattern}|\s{{0,40}}(?:Library Version|Script Date):")


def parse_supportconfig(source: Source, lines: Lines) -> Iterator[Record]:
    """capture.tool, capture.plugins (the parts that ran), capture.left_out, capture.timed_out, capture.not_found."""
    ran: list[str] = []
    first = None
    for number, line in lines:
        cite = source.cite(number, line)
        if version := _SCRIPT_VERSION.match(line):
            yield Fact("capture.tool", f"{SUPPORTCONFIG} {version[1]}", cite)
        elif part := _PART.match(line):
            first = first or cite
            name = part[1].replace(" ", "_")
            if part[3] == "Done":
                ran.append(name)
            else:
                yield Fact("capture.left_out", name, cite, (("how", part[3].lower()), ("tool", SUPPORTCONFIG)))
            for stopped in _STOPPED.findall(part[2]):
                yield _supportconfig_timed_out(source, number, line, stopped, name)
        elif _LATE.match(line) and source.command:
            yield _supportconfig_timed_out(source, number, line, source.command)
        elif _NOT_FOUND.match(line) and source.command:
            yield Fact("capture.not_found", source.command, cite, (("how", "command"), ("tool", SUPPORTCONFIG)))
    if first:
        yield Fact("capture.plugins", " ".join(ran), first)


def _supportconfig_timed_out(source: Source, number: int, line: str, command: str, part: str = "") -> Fact:
    labels = (("command", command), *((("plugin", part),) if part else ()), ("tool", SUPPORTCONFIG))
    return Fact("capture.timed_out", command, source.cite(number, line), labels)


SUPPORTCONFIG_LOG = Parser(
    "supportconfig", "the log of the supportconfig run", parse_supportconfig, opens=_SUPPORTCONFIG_OPENS,
    continues=_SUPPORTCONFIG_CONTINUES.match,
)  # fmt: skip
