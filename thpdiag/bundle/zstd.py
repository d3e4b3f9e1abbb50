"""Zstandard, through the `zstandard` package (an extra of thpdiag).

Its decompressor has no bound on what one call may give: a block of 4 bytes can stand for 128 KiB. So the input goes
in by pieces of 512 bytes, which bounds the output of a call at 16 MiB. Frames one after another are one file;
skippable frames pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.bundle.failure import StreamError, damaged, spoiled
from thpdiag.bundle.stream import CHUNK, Stream
from thpdiag.model import ProblemKind

try:
    import zstandard
except ImportError:  # pragma: no cover - the extra is not installed
    zstandard = None  # type: ignore[assignment]

_PIECE = 512


def unzstd(packed: Stream, memory: int) -> Iterator[bytes]:
    if zstandard is None:
        text = "is compressed by zstd, which needs the Python package zstandard (pip install zstandard)"
        raise StreamError(ProblemKind.UNREADABLE, text)
    while packed.fill(1):
        yield from _frame(packed, memory)
    if packed.failure:
        raise packed.failure


def _frame(packed: Stream, memory: int) -> Iterator[bytes]:
    decoder = zstandard.ZstdDecompressor(max_window_size=memory).decompressobj()
    while not decoder.eof:
        data = packed.read(_PIECE)
        if not data:
            raise packed.failure or damaged("zstd data end early")
        try:
            out = decoder.decompress(data)
        except zstandard.ZstdError as error:
            raise _failure(error, packed.offset, memory) from error
        for start in range(0, len(out), CHUNK):
            yield out[start : start + CHUNK]
    packed.back(len(decoder.unused_data))


def _failure(error: Exception, offset: int, memory: int) -> StreamError:
    if "memory" in str(error):
        return StreamError(ProblemKind.LIMIT, f"needs more than {memory} bytes of memory (limit codec_memory)")
    return spoiled(f"zstd data are damaged before byte {offset}")
