"""Java Flight Recorder: recordings (FLR), by an installed `jfr`, and the text that it prints.

    jdk.JVMInformation {
      startTime = 17:53:35.325
      jvmVersion = "OpenJDK 64-Bit Server VM (17.0.15+6-Debian-1deb12u1) for linux-amd64 JRE (17.0.15+6-...), ..."
      jvmArguments = "-XX:+UseTransparentHugePages -Xmx1g"
      javaArguments = "Busy 9"
      pid = 15481
    }

Of the events that tells which virtual machine ran, with which options: process.command and app.version. Stacks of
ExecutionSample are of Java alone, and what they count is no CPU time of the kernel; they are not read. The recording is
never decoded here: where `jfr` is installed it prints that event, else the report asks for the text.
Source: OpenJDK jdk.jfr tool Print, JVM metadata.xml of 11 to 25; recorded with 17.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import chain
from tempfile import NamedTemporaryFile

from thpdiag.model import Fact, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source
from thpdiag.model.text import path_name
from thpdiag.parsers._lines import ParseErrors, parse_member, printable, with_errors
from thpdiag.parsers._programs import ending_of, path_on_host, printed_records, request
from thpdiag.sandbox.programs import Ending, ProgramLimits, find_program

NAME = "jfr"
EVENTS = "jdk.JVMInformation"
MAX_SPOOLED_BYTES = 1 << 30
_LIMITS = ProgramLimits(seconds=60, cpu_seconds=60, output=64 << 20, memory=16 << 30)  # a virtual machine reserves much
_BEGIN = re.compile(r"jdk\.JVMInformation \{\s*$")
_FIELD = re.compile(r"\s{2}(?P<name>\w{1,40}) = (?:\"(?P<text>.*)\"|(?P<plain>\S.{0,400}))\s*$")
_VM = re.compile(r".{0,80}? \((?P<version>\d{1,3}(?:\.\d{1,4}){0,3})[^()]{0,80}\)")


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """process.command and app.version of each virtual machine."""
    fields: dict[str, tuple[int, str, str]] = {}
    for number, text in lines:
        if found := _FIELD.match(text):
            fields[found["name"]] = (number, text, found["text"] if found["text"] is not None else found["plain"])
        elif text.startswith("}"):
            yield from _facts(source, fields)
            fields = {}
        elif text.strip() and not _BEGIN.match(text):
            odd.note(number, text, "not a line of this event")
    yield from _facts(source, fields)


def _facts(source: Source, fields: dict[str, tuple[int, str, str]]) -> Iterator[Fact]:
    if "jvmVersion" in fields and (version := _VM.match(fields["jvmVersion"][2])):
        cite = source.cite(*fields["jvmVersion"][:2])
        yield Fact("app.version", version["version"], cite, (("app", "jvm"),), source.time)
    if "jvmArguments" in fields:
        cite = source.cite(*fields["jvmArguments"][:2])
        words = [fields[name][2] for name in ("jvmArguments", "javaArguments") if name in fields]
        command = printable(" ".join(["java", *(word for word in words if word != "N/A")]))[:4000]
        pid = printable(fields["pid"][2])[:10] if "pid" in fields else ""
        yield Fact("process.command", command, cite, (("pid", pid), ("comm", "java")), source.time)


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """What an installed `jfr` prints of it, or what to ask for."""
    front = next(content.chunks, b"")
    program = find_program("jfr")
    if not front.startswith(b"FLR\0"):
        yield _ask(source, "the recording is damaged", ProblemKind.DAMAGED)
        return
    if program is None:
        yield _ask(source, "no jfr is installed here, so this recording was not read", ProblemKind.UNREADABLE)
        return
    with NamedTemporaryFile(suffix=".jfr") as file:  # jfr takes no other name, and no pipe
        if content.file is not None:
            with content.file.open("rb") as own:
                shutil.copyfileobj(own, file)
        else:
            for chunk in chain((front,), content.chunks):
                file.write(chunk)
                if file.tell() > MAX_SPOOLED_BYTES:
                    yield _ask(source, "the recording is too long and was not read", ProblemKind.LIMIT)
                    return
        file.flush()
        options = ["-J-Xmx512m", "-J-XX:TieredStopAtLevel=1", "print", "--events", EVENTS, file.name]
        run = yield from printed_records(
            program, [options], _LIMITS, lambda printed: parse_member(source, printed, NAME, read)
        )
    if run.ending is not Ending.DONE:
        how, kind = ending_of(run, file.name)
        yield _ask(source, f"jfr {how}", kind)


def _ask(source: Source, text: str, kind: ProblemKind) -> Record:
    command = f"jfr print --events {EVENTS},CPULoad,ThreadCPULoad {path_name(path_on_host(source))} > jfr.txt"
    return request(source, NAME, text, kind, command)


PARSER = Parser(
    NAME, "events that jfr prints (Java Flight Recorder)", read, opens=_BEGIN,
    continues=lambda text: _FIELD.match(text) or text.startswith("}"),
)  # fmt: skip
BULK_PARSER = BulkParser(
    NAME, "recordings of Java Flight Recorder (by an installed jfr)", None, read_bulk, opens=re.compile(rb"FLR\0")
)
