"""What a request was answered, for those who note it: the log and the counters."""

from __future__ import annotations

from typing import Final

from starlette.types import Message, Send

GONE: Final = 499  # what is noted where no answer was sent: the client went away, or a mistake of ours


class Answered:
    """Passes an answer on; `status` is that of the answer as far as it came."""

    def __init__(self, send: Send) -> None:
        self.status = GONE
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
