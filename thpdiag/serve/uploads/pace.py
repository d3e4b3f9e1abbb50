"""How slowly a sender may send: how long nothing may come, and how few bytes a second.

Only the time spent waiting for the sender counts, so that a slow disk of ours is not held against them. The rate is
that of each stretch of waiting on its own: what came fast before does not pay for what trickles now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic
from typing import Final

from starlette.types import Message, Receive

from thpdiag.serve.uploads.refused import RefusedError

TIMED_OUT: Final = HTTPStatus.REQUEST_TIMEOUT


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds without a byte, bytes per second, and seconds of waiting after which the rate is looked at."""

    idle: float = 30.0
    rate: float = 1024.0
    stretch: float = 10.0
    clock: Callable[[], float] = monotonic


class Waiting:
    """One request's waiting for its sender."""

    def __init__(self, receive: Receive, pace: Pace) -> None:
        self._receive, self._pace = receive, pace
        self._waited, self._came = 0.0, 0

    async def message(self) -> Message:
        """The next message; RefusedError if it takes too long, or if those before it brought too little."""
        if self._waited >= self._pace.stretch:
            self._look()
        began = self._pace.clock()
        try:
            async with asyncio.timeout(self._pace.idle):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError(TIMED_OUT, f"no byte came for {self._pace.idle:g} seconds") from None
        self._waited += self._pace.clock() - began
        self._came += len(message.get("body", b""))
        return message

    def _look(self) -> None:
        if self._came < self._pace.rate * self._waited:
            raise RefusedError(TIMED_OUT, f"fewer than {self._pace.rate:g} bytes a second came")
        self._waited, self._came = 0.0, 0
