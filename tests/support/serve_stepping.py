"""`thpdiag serve` with a clock that steps: the seconds in a file are added to the time of the machine.

Run as a program: `python serve_stepping.py FILE serve --data ...`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from serve_process import TESTS, Running


class Stepping(Running):
    """A server whose clock the test moves."""

    @property
    def _ahead(self) -> Path:
        return self.folder.with_suffix(".ahead")

    def command(self) -> list[str]:
        self.step_to(0.0)
        program, _, _, *arguments = super().command()
        return [program, str(TESTS / "serve_stepping.py"), str(self._ahead), *arguments]

    def step_to(self, seconds: float) -> None:
        """Set the offset of the clock, in seconds ahead or behind."""
        new = self._ahead.with_suffix(".new")
        new.write_text(f"{seconds}")
        new.replace(self._ahead)


def main(file: Path, *arguments: str) -> None:
    machine_time = time.time
    time.time = lambda: machine_time() + float(file.read_text())

    from thpdiag.cli import main as command  # whose modules take the function that they find

    command(arguments)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
