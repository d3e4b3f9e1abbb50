"""The bundles of one path of this machine that the user names, on the command line or in a list."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from thpdiag.triage.item import Item
from thpdiag.triage.worklist.folder import bundles, file
from thpdiag.triage.worklist.listing import cannot
from thpdiag.triage.worklist.unread import UnreadError
from thpdiag.triage.worklist.within import Within


def local(path: Path, told: str, besides: Sequence[Path] = ()) -> Iterator[Item]:
    """A file is one bundle, of a folder see `folder`; raises UnreadError at once if there is none."""
    try:
        mode = path.stat().st_mode
        path = path.resolve() if path.is_symlink() else path.absolute()  # the user's own links are followed
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadError("is not there") from error
    except OSError as error:
        raise UnreadError(cannot(error)) from error
    except ValueError as error:
        raise UnreadError("is no name of a file") from error
    if not stat.S_ISDIR(mode):
        return iter([file(path, told)])
    found = bundles(path, told, Within.of(path, besides))
    if (first := next(found, None)) is None:
        raise UnreadError("holds no bundle")
    return chain([first], found)
