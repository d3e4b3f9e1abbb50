"""`dmesg --json`: an array of messages with their level and the seconds since boot.

    {
       "dmesg": [
          {
             "pri": 6,
             "time":  1055.188049,
             "msg": "INFO: task khugepaged:136 blocked for more than 122 seconds."
          },{

With `--time-format iso` the time is a text. Source: util-linux 2.38, sys-utils/dmesg.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.kernel_log import log

_VALUE = re.compile(r'\s*"(?P<name>pri|time|msg|fac|caller)": *(?P<value>.*?),?$')
_CONTINUES = re.compile(r'\s*(?:[{}\[\]],?|\},\{|"[a-z]{1,16}": .*)\s*$')


def _texts(lines: Lines, odd: Oddities) -> Iterator[tuple[int, str]]:
    """The messages as `dmesg -r` prints them."""
    known: dict[str, object] = {}
    for number, line in lines:
        found = _VALUE.match(line)
        if not found:
            known = {} if "{" in line else known
            continue
        try:
            known[found["name"]] = json.loads(found["value"])
        except ValueError:
            odd.note(number, line, "no JSON value; the message is left out")
            continue
        if found["name"] == "msg":
            yield number, _line(known)


def _line(known: dict[str, object]) -> str:
    time, said = known.get("time"), str(known.get("msg", ""))
    if isinstance(time, (int, float)):
        return f"<{known.get('pri', 6)}>[{time:12.6f}] {said}"
    return f"{time} {said}" if isinstance(time, str) else said


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """What a kernel log says, citing the lines of the messages."""
    odd = Oddities(source, READER.name)
    yield from log.records(source, READER.name, _texts(lines, odd))
    yield from odd.problems()


READER = Reader(
    name="dmesg_json",
    title="dmesg --json",
    read=read,
    opens=re.compile(r"\s{0,8}\{$|\s{0,8}\"dmesg\": \["),
    continues=_CONTINUES.match,
    confirm=lambda lines: any(re.match(r'\s*"dmesg": \[', line) for line in lines[:2]),
    priority=13,
)
