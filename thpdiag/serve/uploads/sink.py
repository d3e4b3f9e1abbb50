"""What keeps the bytes of an upload: what this room asks of the storage behind it, and what it asks about a sender.

All methods of a sink are called in threads. Its errors are those of `thpdiag.errors`: StoreFullError for no room (of
the quota or of the disk), StoreBusyError for a second writer, any other StoreError for what went wrong beside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

RECEIVING: Final = "receiving"
FINISHED: Final = "finished"


class Held(Protocol):
    """What is known of an upload. `offset` is how many bytes would outlive a crash; it only grows.

    `size` is None while it is not known (a body of no announced length). `state` is `receiving`, `arrived` (all of it
    is there, nothing was made of it yet) or `finished`. `expires` is in seconds since 1970.
    """

    @property
    def name(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def size(self) -> int | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def expires(self) -> float: ...


class Sink(Protocol):
    """Where bytes go; one that lives in a database and a folder, or in memory."""

    def begin(self, name: str, size: int | None, owner: str) -> str:
        """Have room for so many bytes, or say that there is none. An id is 32 hexadecimal digits, not to be guessed."""
        ...

    def found(self, key: str) -> Held | None:
        """None if there is none of that id, or no longer."""
        ...

    def append(self, key: str, offset: int, block: bytes) -> int:
        """Write the whole block at the end, or nothing of it; the new end. `offset` must be the end as it is."""
        ...

    def arrive(self, key: str) -> tuple[str, int]:
        """sha256 and size of all of it, once it is safely on the disk; the same answer again until it is finished."""
        ...

    def abandon(self, key: str) -> bool:
        """Forget it and remove its bytes; whether there was one that was not finished."""
        ...


class Sender(Protocol):
    """Who sends. An upload of others does not exist for them."""

    @property
    def owner(self) -> str: ...

    def may_touch(self, owner: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Arrived:
    """An upload that is whole."""

    id: str
    name: str
    owner: str
    sha256: str
    size: int
