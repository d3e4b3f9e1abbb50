"""What lies beside the archives of a collection, written out as a folder: it may be evidence of one more host.

As `inner`, which calls it, in the guard only. The paths in that folder are those of the collection, as far as they are
harmless, for a path says which file of a host it is.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from thpdiag.bundle.failure import StreamError
from thpdiag.triage.worklist.listing import harmless

FOLDER: Final = "beside"
_MOST: Final = 10_000  # files
_NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


@dataclass(slots=True)
class Beside:
    """How many files were written and their bytes; how many could not be, for want of room or for their names."""

    kept: int = 0
    size: int = 0
    lost: int = 0

    def keep(self, folder: Path, path: str, chunks: Iterable[bytes], room: int) -> str:
        """Write one, of at most `room` bytes; the answer is why it ends early, if it does: the stream is damaged."""
        if self.kept + self.lost >= _MOST:
            self.lost += 1
            return ""
        place = folder / FOLDER / Path(*(harmless(part) or "_" for part in path.split("/")))
        trouble = ""
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                file.writelines(_within(room, chunks))
        except StreamError as failure:
            trouble = failure.text
        except OSError as error:
            self.lost += 1
            if error.errno in _NO_ROOM:
                with suppress(OSError):
                    place.unlink()
            return ""
        self.kept += 1
        self.size += place.stat().st_size
        return trouble


def _within(room: int, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks; raises what a full disk does if they are more than there is room for."""
    for chunk in chunks:
        room -= len(chunk)
        if room < 0:
            raise OSError(errno.ENOSPC, "no room")
        yield chunk
