"""The cost of reading two hours of collectl, compared with collectl's own playback.

Records this machine for some seconds as the daemon does (all processes and slabs, gzip), repeats its intervals to two
hours of 10 s, processes every 60 s, and measures in turn, CPU seconds of all processes, from the start of the process
to its end:

- from the .raw.gz to facts and series of the host, CPUs, zones and processes, with lines and times;
- `collectl -p FILE -P -scm` and `collectl -p FILE -P -sZ`, one after the other (bar 0.1 of the sum; memory 250 MB).

    python bench/collectl.py [--recording FILE.raw.gz] [--pairs 5]

Needs `apt install collectl`. Other lengths: `--hours 24`.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from cost import in_turn, ratio

from thpdiag.model import Problem, Series
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.collectl import raw as collectl_raw

BAR, MEMORY_BAR = 0.1, 250.0
CHUNK = 1 << 16
EVERY, PROCESSES_EVERY = 10, 60  # seconds
OPTIONS = ("-sbcdfijmnstYZ", "-i1:2", "-c9")
HERE = Path(__file__).resolve()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recording", type=Path, help="a recording of two hours that is there already")
    options.add_argument("--hours", type=float, default=2)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--read", type=Path, help="only read this recording, and say what was in it")
    chosen = options.parse_args()
    if chosen.read:
        print(read(chosen.read))
        return
    with tempfile.TemporaryDirectory() as folder:
        compiled_once(Path(folder) / "compiled")
        sys.exit(measured(chosen.recording or made(Path(folder), chosen.hours), chosen.pairs))


def compiled_once(folder: Path) -> None:
    """Compile modules by the first run, which is not counted, as those of an installed program are compiled."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def read(file: Path) -> str:
    """Return a summary of the records of a recording."""
    found = list(collectl_raw.BULK_PARSER.read(Source(file.name), Content(chunks(file))))
    series = [record for record in found if isinstance(record, Series)]
    host = next(rows for rows in series if rows.kind == "system")
    problems = [record.text for record in found if isinstance(record, Problem)]
    rows = sum(len(rows) for rows in series if rows.kind == "process")
    return f"{len(host)} rows of the host, {len(host.values)} metrics; {rows} rows of processes; problems: {problems}"


def chunks(file: Path) -> Iterator[bytes]:
    """Yield decompressed chunks; intake.py measures the other costs of walking a bundle."""
    with gzip.open(file) as content:
        while chunk := content.read(CHUNK):
            yield chunk


def measured(recording: Path, pairs: int) -> bool:
    with gzip.open(recording) as file:
        lines = sum(1 for _ in file)
    print(f"{recording.stat().st_size / 1e6:.1f} MB of gzip, {lines:,} lines")
    printed = subprocess.run(["collectl", "-p", str(recording), "-P", "-scm"], check=True, capture_output=True).stdout
    if printed.count(b"\n") < 100:
        sys.exit("collectl does not play the recording")
    ours = [sys.executable, str(HERE), "--read", str(recording)]
    print(subprocess.run(ours, check=True, capture_output=True, text=True).stdout.strip(), flush=True)
    theirs = ["sh", "-c", f"collectl -p '{recording}' -P -scm && collectl -p '{recording}' -P -sZ"]
    found = in_turn(ours, theirs, pairs)
    failed = ratio("two hours of collectl / collectl -p -P, -scm and -sZ", found, BAR)
    peak = max(pair[0].peak for pair in found)
    print(f"peak memory {peak:.0f} MB (bar {MEMORY_BAR:.0f})")
    return failed or peak > MEMORY_BAR


def made(folder: Path, hours: float) -> Path:
    """Write a recording of this many hours from the intervals of a short one."""
    subprocess.run(["collectl", *OPTIONS, "-f", str(folder)], check=True, capture_output=True)
    file = next(folder.glob("*.raw.gz"))  # collectl accepts only names with the host's name
    short = gzip.decompress(file.read_bytes())
    head, *parts = re.split(rb"(?m)^(?=>>> )", short)
    head = head.replace(b" Interval: 1:2 ", b" Interval: %d:%d " % (EVERY, PROCESSES_EVERY))
    with gzip.open(file, "wb", compresslevel=6) as out:
        out.write(head)
        for part in repeated(parts, round(hours * 3600) // EVERY):
            out.write(part)
    return file


def repeated(parts: list[bytes], count: int) -> Iterator[bytes]:
    """Yield this many intervals with new times; processes in every sixth. The last one is a time without counters."""
    begun = float(parts[0].split(None, 2)[1])
    full = cycle([part for part in parts if b"\nproc:" in part])
    light = cycle([part for part in parts[:-1] if b"\nproc:" not in part])
    for number in range(count):
        part = next(full if number % (PROCESSES_EVERY // EVERY) == 0 else light)
        yield b">>> %.3f <<<\n" % (begun + number * EVERY) + part.partition(b"\n")[2]
    yield b">>> %.3f <<<\n" % (begun + count * EVERY)


if __name__ == "__main__":
    main()
