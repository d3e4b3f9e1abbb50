"""A scheduler and workers on this machine, as a program: `python -m ... COUNT FOLDER`.

It has a session of its own, so that Ctrl-C in a terminal, which is for the run, does not end workers in the midst of
their talk. It writes its address, and ends when its standard input does: with the run, however that ends.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from thpdiag.errors import ClusterError

CLOSING: Final = 10.0  # seconds


@contextmanager
def local_cluster(count: int, scratch: Path) -> Iterator[str]:
    """The address of one with so many workers of one thread each, which write below `scratch`."""
    command = [sys.executable, "-m", __name__, str(count), str(scratch)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    ) as program:  # fmt: skip
        try:
            if not (address := program.stdout.readline().strip() if program.stdout else ""):
                raise ClusterError("no cluster can be begun on this machine")
            yield address
        finally:
            with suppress(subprocess.TimeoutExpired):
                program.communicate(timeout=CLOSING)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(program.pid, signal.SIGKILL)


def main(count: str, scratch: str) -> None:
    """Be the cluster."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=int(count), threads_per_worker=1, dashboard_address=None, protocol="tcp", local_directory=scratch,
        silence_logs=logging.CRITICAL + 1,
    ) as cluster:  # fmt: skip
        sys.stdout.write(f"{cluster.scheduler_address}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
