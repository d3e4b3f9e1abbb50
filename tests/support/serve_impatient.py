"""`thpdiag serve` with short timeouts for slow clients: `python serve_impatient.py serve --data ...`."""

from __future__ import annotations

import sys
from functools import partial
from unittest.mock import patch

from serve_process import TESTS, Running
from thpdiag.cli import main


class Hasty(Running):
    """A server that waits one second instead of ten."""

    def command(self) -> list[str]:
        _, _, _, *rest = super().command()
        return [sys.executable, str(TESTS / "serve_impatient.py"), *rest]


def hasty(*arguments: str) -> None:
    from thpdiag.serve import running
    from thpdiag.serve.access.http import LimitedHttpProtocol
    from thpdiag.serve.uploads.intake import SendLimits

    with (
        patch.object(running, "Intake", partial(running.Intake, send_limits=SendLimits(idle=5.0, interval=1.0))),
        patch.object(LimitedHttpProtocol, "max_head_seconds", 1.0),
    ):
        main(arguments)


if __name__ == "__main__":
    hasty(*sys.argv[1:])
