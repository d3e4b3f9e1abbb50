"""What supportconfig, SUSE's collector, says of its own run: supportconfig.txt, the title of basic-environment.txt.

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

import re
from collections.abc import Iterator

from thpdiag.knowledge.paths import SUPPORTCONFIG
from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source

_TITLE = r"\s{0,40}Support Utilities - Supportconfig\s*$"
_VERSION = re.compile(r"\s{0,40}Script Version:\s{1,20}(\d[\w.+~-]{0,40})\s*$")
_PART = re.compile(
    r" {0,2}([A-Z][\w ./()-]{1,50}?)\.\.\. {1,50}((?:[^,]{1,200} - Timed Out,\s?){0,20})"
    r"(Done|Excluded|EXCLUDED|Skipped)\s*$"
)
_STOPPED = re.compile(r"\s?([^,]{1,200}?) - Timed Out,")
_NOT_FOUND = re.compile(r"ERROR: Command not found or not execut[ia]ble\s*$")
_LATE = re.compile(r"# ERROR: Command did not complete within the timeout period\.\s*$")
_OPENS = re.compile(rf"{_TITLE}|{_VERSION.pattern}|{_PART.pattern}|{_NOT_FOUND.pattern}|{_LATE.pattern}")
_CONTINUES = re.compile(rf"{_OPENS.pattern}|\s{{0,40}}(?:Library Version|Script Date):")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """capture.tool, capture.plugins (the parts that ran), capture.left_out, capture.timed_out, capture.not_found."""
    ran: list[str] = []
    first = None
    for number, line in lines:
        cite = source.cite(number, line)
        if version := _VERSION.match(line):
            yield Fact("capture.tool", f"{SUPPORTCONFIG} {version[1]}", cite)
        elif part := _PART.match(line):
            first = first or cite
            name = part[1].replace(" ", "_")
            if part[3] == "Done":
                ran.append(name)
            else:
                yield Fact("capture.left_out", name, cite, (("how", part[3].lower()), ("tool", SUPPORTCONFIG)))
            for stopped in _STOPPED.findall(part[2]):
                yield _timed_out(source, number, line, stopped, name)
        elif _LATE.match(line) and source.command:
            yield _timed_out(source, number, line, source.command)
        elif _NOT_FOUND.match(line) and source.command:
            yield Fact("capture.not_found", source.command, cite, (("how", "command"), ("tool", SUPPORTCONFIG)))
    if first:
        yield Fact("capture.plugins", " ".join(ran), first)


def _timed_out(source: Source, number: int, line: str, command: str, part: str = "") -> Fact:
    labels = (("command", command), *((("plugin", part),) if part else ()), ("tool", SUPPORTCONFIG))
    return Fact("capture.timed_out", command, source.cite(number, line), labels)


PARSER = Parser("supportconfig", "the log of the supportconfig run", read, opens=_OPENS, continues=_CONTINUES.match)
