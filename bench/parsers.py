"""The cost of each parser per line, compared with splitting the lines of the same text at blanks in Python.

The largest fixture of each parser is read as a whole, repeated to about half a megabyte where it is a text that can be;
of several turns the least CPU time counts. Recognizing the format, taking prompts off and checksums are part of it:
what is measured is `read_input`. A repeated text is many short recordings, which costs more per line than one long
recording (for those see vmstat.py, sysstat.py, collectl.py, and perf_script.py); one small text costs a start.

    python bench/parsers.py [PARSER ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

from thpdiag.host.options import Options
from thpdiag.host.reading import read_input

FIXTURES = Path(__file__).parents[1] / "fixtures" / "readers"
BYTES, COPIES, TURNS = 500_000, 200, 3
MIN_TURN_SECONDS = 0.1  # of CPU: some kernels count it in ticks of 10 ms


def largest(parser: Path) -> Path:
    """Return the largest recorded input of a parser: a file, or a folder."""
    inputs = [path for path in parser.iterdir() if path.name != "ORIGIN.md" and ".golden." not in path.name]
    return max(inputs, key=lambda path: sum(file.stat().st_size for file in files(path)))


def files(path: Path) -> list[Path]:
    """Return the files of an input."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def record_count(source: Path) -> int:
    """Return the number of records of an input."""
    return sum(row.records or 0 for row in read_input([source], Options()).inputs)


def least_cpu(work: Callable[[], object]) -> float:
    """Return the least CPU seconds of several turns, long enough for the clock; the first run loads modules."""
    work()
    spent, runs = [0.0], 1
    while spent[0] < MIN_TURN_SECONDS:
        runs *= 2
        spent = [_cpu(work, runs)]
    spent += [_cpu(work, runs) for _ in range(TURNS - 1)]
    return min(spent) / runs


def _cpu(work: Callable[[], object], runs: int) -> float:
    begun = process_time()
    for _ in range(runs):
        work()
    return process_time() - begun


def row_of(parser: Path, scratch: Path) -> str:
    """Return a row of the table."""
    source, records = largest(parser), record_count(largest(parser))
    (first, *others) = sorted(files(source), key=lambda file: -file.stat().st_size)
    data = first.read_bytes()
    binary = b"\0" in data or data[:2] in (b"\x1f\x8b", b"\x28\xb5")
    copies = max(1, min(COPIES, BYTES // max(1, len(data))))
    repeated = scratch / first.name
    repeated.write_bytes((data if data.endswith(b"\n") else data + b"\n") * copies)
    if not others and not binary and (more := record_count(repeated)) > records * copies / 2:
        source, records = repeated, more  # else the format cannot be repeated, or is detected by its path
    lines = [line for file in files(source) for line in file.read_bytes().decode("utf-8", "replace").split("\n")]
    reading = least_cpu(lambda: read_input([source], Options()))
    splitting = least_cpu(lambda: [line.split() for line in lines])
    per_line = "" if binary else f"{reading / max(1, len(lines)) * 1e6:.1f}"
    ratio = "" if binary else f"{reading / splitting:.0f}"
    total = sum(file.stat().st_size for file in files(source))
    return f"| {parser.name} | {len(lines):,} | {records:,} | {per_line} | {ratio} | {reading / total * 1e9:.0f} |"


def main(names: list[str]) -> None:
    """Print the table of all parsers, or of those named."""
    import tempfile

    print("| parser | lines | records | us per line | times splitting | ns per byte |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for parser in sorted(path for path in FIXTURES.iterdir() if path.is_dir()):
            if not names or parser.name in names:
                print(row_of(parser, Path(folder)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
