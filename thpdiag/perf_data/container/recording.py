"""An opened recording: from its data section to windows, then the features behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from thpdiag.perf_data.columns import EventInfo, Features, Window
from thpdiag.perf_data.container.contents import Contents
from thpdiag.perf_data.container.features import Feature
from thpdiag.perf_data.container.header import Header, sections
from thpdiag.perf_data.container.packed import Inner, Unpacked
from thpdiag.perf_data.container.samples import no_samples
from thpdiag.perf_data.container.stream import ByteStream, Stretch
from thpdiag.perf_data.container.view import View
from thpdiag.perf_data.container.walk import Ragged, realigned, walk, walk_ragged

MOST_BEHIND = 64 << 20  # bytes behind the records: features


class OpenRecording:
    """A `Recording`. `found` is the header of a file, None for a pipe; no stream: there is nothing to read."""

    def __init__(
        self, contents: Contents, stream: ByteStream | None, found: Header | None = None, size: int | None = None
    ) -> None:
        self._contents = contents
        self._stream = stream
        self._header = found
        self._size = size
        self._unpacked: Unpacked | None = None

    @property
    def events(self) -> Sequence[EventInfo]:
        return self._contents.events.infos

    @property
    def features(self) -> Features:
        return self._contents.features.known

    def windows(self) -> Iterator[Window]:
        if self._stream is not None:
            for window in self._records(self._stream):
                window.problems += self._contents.troubles.taken()
                yield window
            self._behind(self._stream)
        if self._contents.troubles:
            yield Window(no_samples(), problems=self._contents.troubles.taken())

    def _records(self, stream: ByteStream) -> Iterator[Window]:
        length = self._header.data.size if self._header else 0
        stretch = Stretch(stream, length or None, self._size)
        view = View(stretch.buffer, self._contents.order)
        consumed = payload = 0
        while stretch.fetch(consumed, payload):
            found = walk(view, stretch.used)
            consumed, payload = found.end, 0
            if len(found.at):
                yield self._contents.window(view, found.at, (found.at << 3) + stretch.base)
            if found.ragged:
                rest = walk_ragged(view, found.end, stretch.used)
                consumed, payload = rest.end, rest.payload
                yield from self._ragged(view, rest, stretch.base)
                if rest.size is not None:
                    self._broken(stretch, rest)
                    break
        yield from self._last_unpacked()
        self._judge_end(stretch)

    def _judge_end(self, stretch: Stretch) -> None:
        """What is still in the window is the beginning of a record that has no end."""
        if stretch.left:
            text = f"is cut: {stretch.left} bytes of records are missing"
        elif stretch.used:
            text = f"ends inside a record, of which {stretch.used} bytes are there"
        elif stretch.unpaid:
            text = f"ends inside trace data, of which {stretch.unpaid} bytes are missing"
        else:
            return
        self._contents.troubles.damaged(text)

    def _broken(self, stretch: Stretch, rest: Ragged) -> None:
        begin = stretch.base + rest.end
        left = stretch.used - rest.end + stretch.skip()
        text = f"has a record at byte {begin} that is {rest.size} bytes long, which cannot be: {left} bytes of records"
        self._contents.troubles.damaged(f"{text} from there on are not read")
        stretch.used = 0

    def _ragged(self, view: View, rest: Ragged, base: int) -> Iterator[Window]:
        if rest.begins:
            begins, sizes = np.array(rest.begins, np.int64), np.array(rest.sizes, np.int64)
            copy, at = realigned(view.bytes, begins, sizes)
            yield self._contents.window(View(copy, self._contents.order), at, begins + base)
        for begin, end, place in rest.packed:
            self._unpacked = self._unpacked or Unpacked()
            for inner in self._unpacked.feed(view.bytes[begin:end].tobytes(), base + place):
                yield from self._inner(self._unpacked, inner)

    def _inner(self, unpacked: Unpacked, inner: Inner) -> Iterator[Window]:
        """Records that were compressed are multiples of eight bytes long; what is not is damage."""
        view = View(inner.buffer, self._contents.order)
        found = walk(view, inner.used)
        if len(found.at):
            yield self._contents.window(view, found.at, inner.offset(found.at))
        if found.ragged:
            unpacked.spoil(inner.used - found.end)
        else:
            unpacked.keep(inner, found.end)

    def _last_unpacked(self) -> Iterator[Window]:
        unpacked, troubles = self._unpacked, self._contents.troubles
        if unpacked is None:
            return
        if unpacked.waiting:
            yield from self._inner(unpacked, unpacked.window())
        if unpacked.waiting:
            troubles.damaged(f"ends inside a compressed record, of which {unpacked.waiting} bytes are there")
        if unpacked.trouble:
            unpacked.tell(troubles)

    def _behind(self, stream: ByteStream) -> None:
        """The features of a file: their places, then they themselves."""
        if self._header is None or not self._header.data.size or not self._header.features:
            return
        begin, troubles = stream.position, self._contents.troubles
        raw = stream.read(MOST_BEHIND)
        numbers = self._header.features
        table = sections(raw, len(numbers), self._header.order)
        unread = len(numbers) - len(table)
        if Feature.DIR_FORMAT in numbers:
            troubles.limit("is one file of a directory: samples in the others are not read")
        for number, section in zip(numbers, table, strict=False):
            at = section.offset - begin
            there = at >= 0 and at + section.size <= len(raw)
            if not there or not self._contents.features.add(number, raw[at : at + section.size], self._header.order):
                unread += 1
        if unread:
            troubles.damaged("has features behind its records that cannot be read", unread)
