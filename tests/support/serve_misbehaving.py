"""`thpdiag serve` with a misbehaving parser in its analyses and low limits.

Run as a program: `python serve_misbehaving.py SECONDS serve --data ...`; SECONDS is how long an analysis may take.
"""

from __future__ import annotations

import sys
from functools import partial
from unittest.mock import patch

from thpdiag.cli import main
from thpdiag.sandbox.outcome import MIB, Limits


def mocked(seconds: str, *arguments: str) -> None:
    from thpdiag.serve import running, workers

    little = partial(Limits, wall_seconds=float(seconds), memory=512 * MIB)
    with (
        patch.object(workers, "PRELOAD", ("misbehaving_parser",)),
        patch.object(running, "Limits", little),
    ):
        main(arguments)


if __name__ == "__main__":
    mocked(*sys.argv[1:])
