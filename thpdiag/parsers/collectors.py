"""Records of collectors about their own run: sos (manifest, logs) and supportconfig.

The manifest of sos 4.0 and later: sos_reports/manifest.json.

    {"version": "4.0", "start_time": "2026-11-20 09:46:58.504570", "components": {"report": {"plugins": {"memory":
     {"timeout_hit": false, "commands": [{"exec": "free", "filepath": "sos_commands/memory/free", "return_code": 0}]

Times are the wall clock of the host without its zone. From about 4.5 on, the start of each command is also given in
seconds since 1970, so that both together determine the zone. A plugin that exceeded its `timeout` (in seconds, since
4.5) was stopped: `timeout_hit` is true, and files that it had not copied by then are missing. A command that exceeded
its own has `return_code` 124, and `filepath` holds its output up to then. `sos collect` writes a manifest without
plugins. Source: sos/report/plugins/__init__.py (set_timeout_hit, _collect_cmd_output), sos/report/__init__.py.

The logs of sos: sos_logs/sos.log, sos_logs/ui.log, and version.txt.

    2026-11-20 09:47:00,815 WARNING: [plugin:kernel] command 'sysctl -a' timed out after 300s
     Plugin memory timed out
    sosreport: 4.0

Times are the wall clock of the host. sos stops a command after its timeout since 3.1, and a whole plugin since 3.6,
which is logged in ui.log and in recent versions also in sos.log. The version is `sosreport: 3.2` up to 4.2 and
`sos report: 4.3` later; sos 2.2 writes no number (`sosreport: unversioned` or none). Source: sos/sosreport.py,
sos/report/__init__.py (_collect_plugin, version), sos/plugins/__init__.py.

The log of supportconfig, SUSE's collector: supportconfig.txt, and the title of basic-environment.txt.

                         Support Utilities - Supportconfig
                              Script Version: 3.2.8-1
      Script Version:       3.2.8-1
      Memory Details...                            Done
      SYSFS...                                     Excluded
      Hardware...                                  hwinfo --all - Timed Out, Done

The script writes a line for each of its parts: Done, Excluded (switched off; EXCLUDED for parts that should not be) or
Skipped (no data available). Commands that exceeded VAR_OPTION_BIN_TIMEOUT_SEC are named before that. The other files
report below a command that it was not found or was stopped:

    ERROR: Command not found or not executable
    # ERROR: Command did not complete within the timeout period.

Varies: up to 3.1 `executible`, and no library version. thpdiag.detect finds the contents of the sections of these
files. Source: supportutils, bin/supportconfig (title, printlog, echolog), supportconfig.rc (log_cmd, timed_log_cmd).
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
_MAX_MANIFEST_BYTES = 64 * 2**20  # a manifest of all plugins has about 1 MiB
TIMEOUT_STATUS = 124  # exit status of timeout(1), which sos uses
_ZONE_STEP_SECONDS = 900.0  # time zones differ by quarters of an hour
_MAX_START_DELAY = 120.0  # seconds between the start of a plugin and that of its first command


def parse_sos_manifest(source: Source, content: Content) -> Iterator[Record]:
    """Yield capture.tool, capture.time, capture.plugins, capture.timed_out and host.utc_offset."""
    data = bytearray()
    for chunk in content.chunks:
        data += chunk
        if len(data) > _MAX_MANIFEST_BYTES:
            yield Problem(source.cite(1), "is longer than any manifest of sos", ProblemKind.LIMIT, SOS_MANIFEST.name)
            return
    text = data.decode("utf-8", "replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        yield Problem(source.cite(1), "is not JSON; what sos gave up on is unknown", ProblemKind.ODD, SOS_MANIFEST.name)
        return
    yield from _Manifest(source, text, _map(document)).records()


class _Manifest:
    """A manifest of sos and its text, in which citations are located."""

    def __init__(self, source: Source, text: str, document: Mapping[str, Any]) -> None:
        self.source, self.text, self.document = source, text, document
        self.plugins = _map(_map(_map(document.get("components")).get("report")).get("plugins"))

    def records(self) -> Iterator[Record]:
        if isinstance(version := self.document.get("version"), str):
            yield Fact("capture.tool", f"sos {version[:40]}", self._cite('"version"'))
        for key, what in (("start_time", "begun"), ("end_time", "ended")):
            if moment := _local_moment(self.document.get(key)):
                labels = (("what", what), ("clock", moment.clock.value))
                yield Fact("capture.time", moment.seconds, self._cite(f'"{key}"'), labels, moment)
        if self.plugins:
            yield Fact("capture.plugins", " ".join(sorted(self.plugins)), self._cite('"plugins"'))
        for name, plugin in self.plugins.items():
            yield from self._timeouts(name, _map(plugin))
        yield from self._utc_offset()

    def _timeouts(self, name: str, plugin: Mapping[str, Any]) -> Iterator[Fact]:
        """Yield a fact for the plugin if it was stopped, and for each of its commands that was."""
        limit = plugin.get("timeout")
        if plugin.get("timeout_hit") is True:
            yield timeout_fact(name, self._cite(f'"{name}": {{'), seconds=limit if isinstance(limit, int) else None)
        for entry in map(_map, _list(plugin.get("commands"))):
            if entry.get("return_code") == TIMEOUT_STATUS and isinstance(command := entry.get("exec"), str):
                path, seconds = entry.get("filepath"), _number(entry.get("run_time"))
                cite, file = self._cite(json.dumps(command)), path if isinstance(path, str) else ""
                yield timeout_fact(name, cite, command, seconds=None if seconds is None else int(seconds), file=file)

    def _utc_offset(self) -> Iterator[Fact]:
        """Yield the UTC offset: the start of a plugin (wall clock) less the start of its first command (UTC)."""
        for plugin in map(_map, self.plugins.values()):
            start = _local_moment(plugin.get("start_time"))
            commands = (_number(_map(c).get("start_time")) for c in _list(plugin.get("commands")))
            first = min((seconds for seconds in commands if seconds), default=None)
            if start and first:
                ahead = round((start.seconds - first) / _ZONE_STEP_SECONDS) * _ZONE_STEP_SECONDS
                if abs(start.seconds - first - ahead) <= _MAX_START_DELAY and abs(ahead) <= 14 * 3600:
                    cite = self._cite(f'"start_time": {first!r}')
                    yield Fact("host.utc_offset", ahead, cite, time=Moment(first, Clock.UTC))
                    return

    def _cite(self, key: str) -> Citation:
        return self.source.cite(self.text.count("\n", 0, max(self.text.find(key), 0)) + 1, key)


def timeout_fact(plugin: str, cite: Citation, command: str = "", *, seconds: int | None = None, file: str = "") -> Fact:
    """Return the fact that sos stopped a plugin, or one of its commands."""
    more = {"command": command, "seconds": "" if seconds is None else str(seconds), "file": file}
    labels = (("plugin", plugin), *((key, value) for key, value in more.items() if value))
    return Fact("capture.timed_out", command or plugin, cite, labels)


def _local_moment(text: object) -> Moment | None:
    """Parse a time of the host's wall clock, as Python's datetime prints it."""
    try:
        time = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if time is None or time.tzinfo is not None:
        return None
    return Moment(time.replace(tzinfo=UTC).timestamp(), Clock.LOCAL)


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
    """Yield capture.timed_out, capture.tool, and capture.time of the first and the last line."""
    ends: list[tuple[Moment, Citation]] = []
    cached_timestamp = cache(parse_timestamp)  # many lines have the same second
    for number, line in lines:
        if "timed out" in line:
            cite = source.cite(number, line)
            if match := _SOS_COMMAND.match(line):
                yield timeout_fact(match["plugin"], cite, match["command"], seconds=int(match["seconds"]))
            elif match := _SOS_PLUGIN.match(line):
                yield timeout_fact(match["plugin"], cite)
        if match := _STAMP.match(line):
            if (moment := cached_timestamp(match[1])) is not None:
                ends[1:] = [(moment, source.cite(number, line))]
        elif version := _SOS_VERSION.match(line):
            yield Fact("capture.tool", f"sos {version['version']}", source.cite(number, line))
    for what, (moment, cite) in zip(("begun", "ended"), ends, strict=False):
        yield Fact("capture.time", moment.seconds, cite, (("what", what), ("clock", moment.clock.value)), moment)


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
_COMMAND_TIMEOUT = re.compile(r"# ERROR: Command did not complete within the timeout period\.\s*$")
_SUPPORTCONFIG_OPENS = re.compile(
    rf"{_TITLE}|{_SCRIPT_VERSION.pattern}|{_PART.pattern}|{_NOT_FOUND.pattern}|{_COMMAND_TIMEOUT.pattern}"
)
_SUPPORTCONFIG_CONTINUES = re.compile(rf"{_SUPPORTCONFIG_OPENS.pattern}|\s{{0,40}}(?:Library Version|Script Date):")


def parse_supportconfig(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield capture.tool, .plugins (the parts that ran), .left_out, .timed_out and .not_found."""
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
        elif _COMMAND_TIMEOUT.match(line) and source.command:
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
