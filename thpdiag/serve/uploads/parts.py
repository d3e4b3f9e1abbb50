"""The parts of a form (multipart/form-data) as they come: small fields, and the bytes of one file, which are not kept.

A framework's own form would spool the file into the folder for temporary files, which is memory on many hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from thpdiag.serve.uploads.refused import RefusedError

MOST_FIELDS: Final = 64 << 10  # bytes of all fields beside the file
MOST_PARTS: Final = 32


@dataclass(frozen=True, slots=True)
class Begins:
    """A file begins; all bytes behind it are its own, up to another. `fields` came before it."""

    filename: str
    fields: Mapping[str, str]


Event = Begins | bytes


class Parts:
    """Takes the body in pieces of any size."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise _wrong(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the form is no multipart/form-data")
        self._fields: dict[str, str] = {}
        self._events: list[Event] = []
        self._header, self._value, self._disposition = bytearray(), bytearray(), b""
        self._name, self._is_file, self._data = "", False, bytearray()
        self._small, self._parts, self._whole = 0, 0, False
        callbacks = {
            name: getattr(self, f"_{name}")
            for name in (
                "on_part_begin", "on_part_data", "on_part_end", "on_header_field", "on_header_value", "on_header_end",
                "on_headers_finished", "on_end",
            )
        }  # fmt: skip
        try:
            self._parser = MultipartParser(options[b"boundary"], callbacks)  # type: ignore[arg-type]  # names as there
        except FormParserError:
            raise _wrong(HTTPStatus.BAD_REQUEST, "the boundary of the form cannot be used") from None

    def feed(self, piece: bytes) -> list[Event]:
        """What the piece brings; neighbouring bytes of the file are one."""
        try:
            self._parser.write(piece)
        except FormParserError:
            raise _wrong(HTTPStatus.BAD_REQUEST, "the form is damaged") from None
        found, self._events = self._events, []
        return _joined(found)

    def end(self) -> None:
        """RefusedError unless the form, and so its file, came to its end."""
        if not self._whole:
            raise _wrong(HTTPStatus.BAD_REQUEST, "the form ends before its end")

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _wrong(HTTPStatus.BAD_REQUEST, f"the form has more than {MOST_PARTS} parts")
        self._disposition, self._is_file, self._data = b"", False, bytearray()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = b"filename" in options
        if self._is_file:
            filename = options[b"filename"].decode("utf-8", "replace")
            self._events.append(Begins(filename, dict(self._fields)))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._events.append(data[start:end])
            return
        self._small += end - start
        if self._small > MOST_FIELDS:
            raise _wrong(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the fields of the form are too long")
        self._data += data[start:end]

    def _on_part_end(self) -> None:
        if self._is_file:
            return
        if self._name in self._fields:
            raise _wrong(HTTPStatus.BAD_REQUEST, "the form has a field twice")
        self._fields[self._name] = self._data.decode("utf-8", "replace")

    def _on_end(self) -> None:
        self._whole = True


def _joined(events: list[Event]) -> list[Event]:
    joined: list[Event] = []
    run: list[bytes] = []
    for event in events:
        if isinstance(event, bytes):
            run.append(event)
            continue
        if run:
            joined.append(b"".join(run))
            run = []
        joined.append(event)
    if run:
        joined.append(b"".join(run))
    return joined


def _wrong(status: HTTPStatus, sentence: str) -> RefusedError:
    return RefusedError(status, sentence)
