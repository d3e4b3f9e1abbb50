"""What one child may use before it is ended, and what it may touch.

The reading of a bundle has limits of its own (`thpdiag.bundle.limits`), which cut the input and still give a document.
The guard's are the net below them: with 300 s of CPU for reading, more is left to judge what was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes unless said otherwise.

    `memory` is address space beyond that of the process which forks, for a preloaded one has much of it that is not
    used. `files` are open ones: a folder that is walked holds one per level, of which there may be 128. Time limits
    hold for the child; programs that it starts have their own and end with it.
    """

    cpu_seconds: int = 420
    wall_seconds: float = 3900.0
    memory: int = 2048 * MIB
    file_size: int = 256 * MIB
    files: int = 256
    answer: int = 64 * MIB
    said: int = MIB  # on stdout and stderr, which nobody reads but for the end of a crash


@dataclass(frozen=True, slots=True)
class Cell:
    """What the child may touch: it reads these paths and the interpreter's own, and writes into `scratch` or nowhere.

    `names` are folders of which it may see what is in them. `stdin` is the open file that it gets as standard input.
    """

    read: tuple[Path, ...] = ()
    names: tuple[Path, ...] = ()
    scratch: Path | None = None
    stdin: int | None = None
