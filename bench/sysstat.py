"""The cost of reading a month of `sar -A`, compared with `sadf -d` of the binary files that it was made of.

Records this machine with sadc, 145 records a second apart as a day of ten-minute ones has, and makes a month of it: 30
binary files, their `sar -A` texts one by one (as sosreports hold them) and all in one file. In turn, CPU seconds of all
processes, from the start of the process to its end:

- from the texts to Series of the host and its CPUs, with the line and the time of each row;
- `sadf -d FILE -- -A` of each of the 30 files (bar 0.3 of it; memory 250 MB).

    python bench/sysstat.py [--recording saDD] [--pairs 7]

Needs `apt install sysstat`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cost import in_turn, ratio

from thpdiag.bundle import Member, members
from thpdiag.model import Problem, Record, Series
from thpdiag.model.parser import Content, Foreign, Source
from thpdiag.parsers.sysstat import sar

BAR, MEMORY_BAR = 0.3, 250.0
DAYS, RECORDS = 30, 145
SADC = Path("/usr/lib/sysstat/sadc")
HERE = Path(__file__).resolve()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recording", type=Path, help="a day of sadc that is there already")
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--read", type=Path, nargs="+", help="only read these texts, and say what was in them")
    chosen = options.parse_args()
    if chosen.read:
        print(read(chosen.read))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, by a run that is not counted
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        sys.exit(measured(made(Path(folder), chosen.recording), chosen.pairs))


def read(texts: list[Path]) -> str:
    """Return a summary of the records of texts."""
    found: list[Record | Foreign] = []
    for member in members(texts, lambda _: True):
        assert isinstance(member, Member), member
        assert sar.BULK_PARSER.claims(member.path, member.head(), member.size), member.path
        found += sar.BULK_PARSER.read(Source(member.path, path=member.path), Content(member.chunks(), member.size))
    series = [record for record in found if isinstance(record, Series)]
    rows = {kind: sum(len(one) for one in series if one.kind == kind) for kind in ("system", "cpu")}
    metrics = len({name for one in series for name in one.values})
    odd = [record.text for record in found if isinstance(record, Problem)]
    return f"{rows['system']:,} rows of the host, {rows['cpu']:,} of CPUs, {metrics} metrics; problems: {odd}"


def made(folder: Path, recording: Path | None) -> Path:
    """Write saDD and sarDD of 30 days, and `month`."""
    first = recording or folder / "recorded"
    if recording is None:
        subprocess.run([SADC, "-S", "XALL", "1", str(RECORDS), first], check=True)
    environment = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.environ["PATH"]}
    text = subprocess.run(["sar", "-A", "-f", first], check=True, capture_output=True, env=environment).stdout
    for day in range(1, DAYS + 1):
        (folder / f"sa{day:02}").write_bytes(first.read_bytes())
        (folder / f"sar{day:02}").write_bytes(text)
    (folder / "month").write_bytes(text * DAYS)
    return folder


def measured(folder: Path, pairs: int) -> bool:
    size, lines = (folder / "month").stat().st_size, (folder / "month").read_bytes().count(b"\n")
    print(f"{size / 1e6:.1f} MB of text, {lines:,} lines")
    theirs = ["sh", "-c", f"for day in {folder}/sa[0-9][0-9]; do sadf -d $day -- -A; done"]
    days = sorted(str(file) for file in folder.glob("sar[0-9][0-9]"))
    failed = False
    for label, texts in (("30 files", days), ("one file", [str(folder / "month")])):
        ours = [sys.executable, str(HERE), "--read", *texts]
        print(subprocess.run(ours, check=True, capture_output=True, text=True).stdout.strip(), flush=True)
        found = in_turn(ours, theirs, pairs)
        failed |= ratio(f"a month of sar -A in {label} / sadf -d -- -A", found, BAR)
        peak = max(pair[0].peak for pair in found)
        print(f"peak memory {peak:.0f} MB (bar {MEMORY_BAR:.0f})", flush=True)
        failed |= peak > MEMORY_BAR
    return failed


if __name__ == "__main__":
    main()
