"""The exceptions that the command line reports to the user, and the meaning of all exit codes."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

# The first that applies, in the order 70, 2, 4, 1, 3, 6, 5, 0 (DESIGN: contracts).
EXIT_CODES: Mapping[int, str] = MappingProxyType(
    {
        0: "the analysis finished, with or without findings; single files may be reported as unreadable",
        1: "a finding at or above `--fail-on` (of `compare`: if it is new or worse), an open rule with "
        "`--fail-on-missing`, a failing case in `rules test`",
        2: "the command line, or a file of suppressions or a baseline that it names, is invalid",
        3: "the input is missing or unreadable, or nothing in it was recognized",
        4: "a rule file is invalid",
        5: "a damaged or unreadable part of the input left a rule undecided, or may have left out rows of `series`",
        6: "a limit (size, number of files, ratio, depth, time, memory) cut the input, the disk has no room for "
        "results, the scheduler of a cluster was lost, worker processes exit at once or may open too few files, "
        "or a layer of the sandbox that `--require-sandbox` demands is missing",
        70: "a bug in thpdiag",
        130: "interrupted",
        141: "the reader closed the pipe (`| head`); `analyze`, `compare`, `render` and `triage` end with the "
        "code of the result all the same",
    }
)


BUG_EXIT_CODE = 70


class ThpdiagError(Exception):
    """An error that the command line prints as one sentence, without a traceback."""

    exit_code = 2


class UsageError(ThpdiagError):
    """An option or argument that is invalid."""

    exit_code = 2


class InputError(ThpdiagError):
    """The input is unreadable, or nothing in it is recognised."""

    exit_code = 3


class AcceptanceError(ThpdiagError):
    """A suppression file or baseline is invalid; the message has file and position."""

    exit_code = 2


class RuleError(ThpdiagError):
    """A rule file is invalid; the message has file, line, column, the line itself and a caret."""

    exit_code = 4


class StorageError(ThpdiagError):
    """Stored results or data of the server cannot be read or written."""


class StoreError(StorageError):
    """A store cannot be read or written: it is damaged, of a later version, or not a store."""

    exit_code = 3


class StoreBusyError(StorageError):
    """Another run writes to the same output folder."""

    exit_code = 2


class StoreFullError(StorageError):
    """The disk is full; results that were stored before are complete."""

    exit_code = 6


class StoreUnwritableError(StorageError):
    """Writing fails for a reason other than a full disk, such as a disk that became read-only."""

    exit_code = 6


class ClusterError(ThpdiagError):
    """The scheduler of a cluster cannot be reached, or was lost on the way."""

    exit_code = 6


class SandboxError(ThpdiagError):
    """A layer of the sandbox is missing that the user demands."""

    exit_code = 6


class WorkersError(ThpdiagError):
    """The processes that work on the bundles of a batch end as soon as they begin."""

    exit_code = 6


# Of a disk that was mounted read-only after errors, does not answer, or belongs to somebody else by now.
UNWRITABLE_ERRNOS = frozenset({errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM})
_WRITE_REMEDIES: Mapping[int | None, str] = MappingProxyType(
    {
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free space and run it again"),
        **dict.fromkeys((errno.EACCES, errno.EPERM), "choose a place that this user may write to"),
        errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
        errno.EROFS: "choose a place on another file system",
        errno.ENOENT: "choose a folder that exists",
        **dict.fromkeys((errno.EIO, errno.ESTALE), "check the disk, or choose another place"),
    }
)


def describe_unwritable(path: Path, error: OSError) -> str:
    """`PATH: cannot be written (REASON); WAY OUT`."""
    return f"{path}: cannot be written ({error.strerror}); {_WRITE_REMEDIES.get(error.errno, 'choose another place')}"
