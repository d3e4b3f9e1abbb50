"""`sadf -x` piece by piece, by expat: no file is opened, no entity may be declared, depth and length have an end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from thpdiag.model import Record
from thpdiag.readers.sysstat.sadf_activities import Activities, TreeError

DEEPEST = 32
LONGEST = 1 << 20  # bytes that make no element
_TEXT = 1000  # characters of an element's text that are kept


@dataclass(slots=True)
class _Open:
    name: str
    line: int
    values: dict[str, str]
    text: str = ""
    children: int = 0


@dataclass(slots=True)
class _Tree:
    activities: Activities
    parser: expat.XMLParserType
    stack: list[_Open] = field(default_factory=list)
    found: list[Record] = field(default_factory=list)

    def start(self, name: str, given: dict[str, str]) -> None:
        if len(self.stack) >= DEEPEST:
            raise TreeError("it is nested too deeply")
        line = self.parser.CurrentLineNumber
        if self.stack:
            self.stack[-1].children += 1
        self.stack.append(_Open(name, line, given))
        if name == "timestamp":
            self.activities.stamp(given)
        elif name == "host":
            self.found.extend(self.activities.scalar(line, "nodename", given.get("nodename", "")))

    def text(self, text: str) -> None:
        if self.stack and len(self.stack[-1].text) < _TEXT:
            self.stack[-1].text += text

    def end(self, _: str) -> None:
        ended = self.stack.pop()
        text, parent = ended.text.strip(), self.stack[-1] if self.stack else None
        if parent is None:
            return
        if not ended.children and not ended.values and text:
            if parent.name == "host":
                self.found.extend(self.activities.scalar(ended.line, ended.name, text))
            else:
                parent.values[ended.name] = text
        elif ended.values:
            self.found.extend(self.activities.element(ended.line, parent.name, ended.name, ended.values))

    def taken(self) -> list[Record]:
        """What was found since the last time."""
        found, self.found = self.found, []
        return found

    def refuse(self, *_: object) -> None:
        raise TreeError("it declares entities, which sadf never does")


def read_xml(activities: Activities, chunks: Iterator[bytes]) -> Iterator[Record]:
    """The records of the tree in these bytes; TreeError where it cannot go on."""
    parser = expat.ParserCreate()
    tree = _Tree(activities, parser)
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.CharacterDataHandler = tree.text
    parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = tree.refuse
    given, lines, begun = 0, 0, 0
    for chunk in chunks:
        given += len(chunk)
        lines, begun = lines + chunk.count(b"\n"), int(not chunk.endswith(b"\n"))
        failure = _fed(parser, chunk.replace(b"\r", b" "))  # expat takes a lone one for the end of a line
        if not failure and given - parser.CurrentByteIndex > LONGEST:
            failure = "an element is too long"
        yield from tree.taken()
        if failure:
            raise TreeError(failure, parser.CurrentLineNumber)
    if failure := _fed(parser, None):
        raise TreeError(failure, min(parser.CurrentLineNumber, max(lines + begun, 1)))  # expat is a line further on


def _fed(parser: expat.XMLParserType, chunk: bytes | None) -> str:
    """Gives the parser more, or with None the end; in words what is wrong."""
    try:
        parser.Parse(chunk or b"", chunk is None)
    except TreeError as error:
        return error.text
    except expat.ExpatError as error:
        return f"it is no XML: {expat.errors.messages.get(error.code, 'broken')}"
    return ""
