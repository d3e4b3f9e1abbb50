"""Connections of one address, and the head of a request while it comes in: how large it may become, and how slowly.

uvicorn with httptools has neither limit: it collects headers as long as they come, before any application is called,
and waits for ever for the first ones of a connection. Trailers of a chunked body it adds to the headers of a request
that is being served. Here bytes are counted that were read and led to nothing: no whole head, no byte of a body. That
holds for a head, for trailers and for the extensions of chunks alike. Trailers are dropped.

A proxy in front is one address; it can have as many connections as anybody, and has to limit its clients itself.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class LimitedHttpProtocol(HttpToolsProtocol):
    """The protocol of one connection; `uvicorn.Config(http=LimitedHttpProtocol)`."""

    most_bytes: ClassVar[int] = 32 << 10  # beyond the read in which it begins, which is 256 KiB at most
    most_seconds: ClassVar[float] = 10.0
    most_connections: ClassVar[int] = 512  # of one address: half of the files that a process may have open by default

    _in_head = False  # from the first byte of a request to the end of its headers
    _in_body = False  # from there to the end of its body and trailers
    _fruitless = 0  # bytes since the last progress
    _progress = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._is_crowded():
            transport.close()
        else:
            self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._progress = False
        super().data_received(data)
        self._fruitless = 0 if self._progress else self._fruitless + len(data)
        if self._fruitless > self.most_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._deadline is None and not self._in_body and not self._is_answering():
            self._start_deadline()  # empty lines between two requests

    def on_message_begin(self) -> None:
        self._progress = self._in_head = True
        self._start_deadline()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._progress, self._in_head, self._in_body = True, False, True
        self._cancel_deadline()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress, self._in_body = True, False
        super().on_message_complete()

    def _is_crowded(self) -> bool:
        """Whether this is one connection too many of its address; on a Unix socket there is none to count by."""
        if self.client is None:
            return False
        clients = [getattr(connection, "client", None) for connection in self.connections]
        same = [client for client in clients if client is not None and client[0] == self.client[0]]
        return len(same) > self.most_connections

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(self.most_seconds, self._on_deadline)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        if self._is_answering():  # of a second request nothing is read while the first is being answered
            self._start_deadline()
        else:
            self._refuse(b"408 Request Timeout")

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: bytes) -> None:
        """Ends the connection, with an answer if a request has begun and no other is being answered."""
        self._cancel_deadline()
        if not self.transport.is_closing():
            if self._in_head and not self._is_answering():
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()


UVICORN_OPTIONS: Final = MappingProxyType[str, Any](
    {
        "http": LimitedHttpProtocol,
        "ws": "none",
        "interface": "asgi3",
        "proxy_headers": False,  # would put what X-Forwarded-For claims in the place of the address that is trusted
        "access_log": False,  # would write queries
        "log_config": None,  # its own handlers would write past the formatter that blots out secrets
        "server_header": False,
    }
)
