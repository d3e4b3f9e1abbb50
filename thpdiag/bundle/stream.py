"""A forward stream of bytes with a buffer that can be looked into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.bundle.failure import StreamError

CHUNK = 64 * 1024


class Stream:
    """Bytes that can be read once.

    When the source breaks, all bytes before the break are still given and `failure` then says why there are no more;
    it stays None at an ordinary end. `buffer` and `at` are public for the tar walker, which passes over most members
    without a call.
    """

    __slots__ = ("_base", "_source", "at", "buffer", "failure")

    def __init__(self, source: Iterable[bytes]) -> None:
        self._source: Iterator[bytes] = iter(source)
        self._base = 0
        self.buffer = b""
        self.at = 0
        self.failure: StreamError | None = None

    @property
    def offset(self) -> int:
        """Bytes consumed since the start."""
        return self._base + self.at

    def fill(self, need: int) -> bool:
        """Has the buffer hold `need` bytes ahead, as far as the source has them."""
        have = len(self.buffer) - self.at
        if have >= need:
            return True
        parts = [self.buffer[self.at :]] if have else []
        while have < need and (chunk := self._next()):
            parts.append(chunk)
            have += len(chunk)
        self._base += self.at
        self.buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        self.at = 0
        return have >= need

    def peek(self, size: int) -> bytes:
        self.fill(size)
        return self.buffer[self.at : self.at + size]

    def take(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end."""
        data = self.peek(size)
        self.at += len(data)
        return data

    def read(self, most: int = CHUNK) -> bytes:
        """Some bytes, at most `most`; none at the end."""
        self.fill(1)
        data = self.buffer[self.at : self.at + most]
        self.at += len(data)
        return data

    def back(self, size: int) -> None:
        """Gives back the last `size` bytes of what `read` gave last."""
        self.at -= size

    def skip(self, size: int) -> int:
        """Passes over `size` bytes and says how many there were."""
        left = size
        while left and self.fill(1):
            step = min(left, len(self.buffer) - self.at)
            self.at += step
            left -= step
        return size - left

    def skip_zeros(self) -> None:
        """Passes over padding."""
        while data := self.read():
            if rest := data.lstrip(b"\0"):
                self.back(len(rest))
                return

    def chunks(self) -> Iterator[bytes]:
        """The rest of the stream; raises its failure at the end."""
        while data := self.read():
            yield data
        if self.failure:
            raise self.failure

    def _next(self) -> bytes:
        if self.failure:
            return b""
        try:
            return next((chunk for chunk in self._source if chunk), b"")
        except StreamError as failure:
            self.failure = failure
        return b""
