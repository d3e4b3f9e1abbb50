"""How many wrong tokens an address may present: a bucket of attempts that fills up again with time.

The secret cannot be guessed; what is limited is the load of those who try, on the database and in the log. Only
failures count, so that a team behind one address is not slowed. Those who try many at once, before the first has
failed, run into debt and wait the longer. All is called on the one thread of the event loop.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

BURST: Final = 10.0  # failures at once
EVERY: Final = 6.0  # seconds until one more is allowed
DEBT: Final = -90.0  # so that an address waits ten minutes at most
ADDRESSES: Final = 10_000  # kept at a time: memory is bounded whoever comes; the longest unseen goes first


class Attempts:
    """Attempts left per address; the clock gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_addresses: int = ADDRESSES) -> None:
        self._clock = clock
        self._most = most_addresses
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address: attempts, and when it was so

    def wait(self, address: str) -> float:
        """Seconds until this address may present a token again; 0: now."""
        left = self._refilled(address, self._clock())
        return 0.0 if left >= 1 else (1 - left) * EVERY

    def failed(self, address: str) -> None:
        """Counts a wrong token."""
        now = self._clock()
        self._left[address] = (max(DEBT, self._refilled(address, now) - 1), now)
        self._left.move_to_end(address)
        while len(self._left) > self._most:
            self._left.popitem(last=False)

    def _refilled(self, address: str, now: float) -> float:
        left, then = self._left.get(address, (BURST, now))
        return min(BURST, left + (now - then) / EVERY)
