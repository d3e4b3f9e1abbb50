"""The cost of reading a day of vmstat, compared with `pandas.read_csv`.

Makes a day of rows, one a second, with a header every 21 rows as a terminal gets them, with and without the times of
`vmstat -t`. Then measures in turn the CPU seconds of reading it to a Series (values in base units, lines, times, text
of the rows) and of `pandas.read_csv(sep=r"\\s+")` of the same rows without headers and without times, both from bytes
in memory, and takes the least of each. The bar is 1.5, and 250 MB for a process that reads it.

    python bench/vmstat.py [--runs 15]
"""

from __future__ import annotations

import argparse
import io
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd

from thpdiag.model import Series
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.vmstat import BULK_PARSER

ROWS = 86_400
SCREEN = 21
BAR = 1.5
MEMORY = 250  # MB
CHUNK = 1 << 16
BANNER = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----"
HEADER = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st"
READ = """
import sys
from pathlib import Path
from thpdiag.host.reading import read_input
from thpdiag.host.options import Options
given = read_input([Path(sys.argv[1])], Options())
assert given.inputs[0].records == 86400, given.inputs
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=15)
    runs = options.parse_args().runs
    rows = list(numbers())
    clean = ("\n".join(rows) + "\n").encode()
    failed = False
    for label, text in (("without times", recording(rows)), ("with times", recording(rows, "CET"))):
        ours, peer = least(runs, lambda text=text: series(text), lambda: read_csv(clean))  # type: ignore[misc]
        kilobytes = memory(text)
        print(
            f"{ROWS} rows {label}, {len(text) / 1e6:.1f} MB: {1000 * ours:.0f} ms, read_csv {1000 * peer:.0f} ms, "
            f"ratio {ours / peer:.2f}, bar {BAR}; reading it peaks at {kilobytes / 1024:.0f} MB"
        )
        failed = failed or ours > BAR * peer or kilobytes > MEMORY * 1024
    sys.exit(failed)


def least(runs: int, *works: Callable[[], None]) -> list[float]:
    """Return the least CPU seconds of each function, run in turn."""
    found = [float("inf")] * len(works)
    for _ in range(runs):
        for number, work in enumerate(works):
            start = time.process_time()
            work()
            found[number] = min(found[number], time.process_time() - start)
    return found


def series(text: bytes) -> None:
    chunks = (text[at : at + CHUNK] for at in range(0, len(text), CHUNK))
    (found,) = BULK_PARSER.read(Source("vmstat.log"), Content(chunks, len(text)))
    assert isinstance(found, Series)
    assert len(found) == ROWS


def read_csv(clean: bytes) -> None:
    assert len(pd.read_csv(io.BytesIO(clean), sep=r"\s+", header=None)) == ROWS


def memory(text: bytes) -> int:
    """Return the peak KiB of a process that reads it as a bundle."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vmstat.log"
        file.write_bytes(text)
        done = subprocess.run([sys.executable, "-c", READ, str(file)], check=True, capture_output=True)
    return int(done.stdout)


def numbers() -> Iterator[str]:
    """Yield rows of a busy host with 64 GB."""
    chance = random.Random(86_400)
    for _ in range(ROWS):
        free, cache = (4 * chance.randrange(500_000, 15_000_000) for _ in range(2))
        system, user, wait = chance.randrange(30), chance.randrange(60), chance.randrange(10)
        cpu = f"{user:2} {system:2} {100 - user - system - wait:2} {wait:2}  0"
        work = " ".join(f"{chance.randrange(most):{width}}" for most, width in IO)
        queue = f"{chance.randrange(30):2} {chance.randrange(3):2}"
        yield f"{queue}      0 {free:6} 311900 {cache:6}    0    0 {work} {cpu}"


IO = ((3_000, 5), (9_000, 5), (20_000, 4), (50_000, 4))  # maximum and width of bi, bo, in, cs


def recording(rows: list[str], zone: str = "") -> bytes:
    """Return the rows as vmstat prints them, with times if there is a zone."""
    start = datetime(2026, 11, 20, tzinfo=UTC)
    head = [BANNER + " -----timestamp-----" * bool(zone), HEADER + f"                 {zone}" * bool(zone)]
    lines: list[str] = []
    for number, row in enumerate(rows):
        lines += head if number % SCREEN == 0 else []
        stamp = f" {start + timedelta(seconds=number):%Y-%m-%d %H:%M:%S}" if zone else ""
        lines.append(row + stamp)
    return ("\n".join(lines) + "\n").encode()


if __name__ == "__main__":
    main()
