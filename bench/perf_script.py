"""The cost of reading the text of perf script, compared with inferno-collapse-perf.

On the text of a large recording made on the spot ([recording.py](recording.py)), programs in turn, from the start of
the process to its end:

- text to profile, against `inferno-collapse-perf -n 1` (CPU seconds, bar 1.5);
- memory at the peak.

    python bench/perf_script.py [--recording FOLDER] [--pairs 7] [--inferno PROGRAM]

Needs root and `apt install linux-perf` to make the recording, and `cargo install inferno`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cost import in_turn, ratio
from perf_data import inferno_collapse
from recording import recorded

from thpdiag.model import Profile
from thpdiag.model.parser import Source

HERE = Path(__file__).resolve()
BAR = 1.5
CHUNK = 1 << 16


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recording", type=Path, help="folder of bench/recording.py; made there if it is not")
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--inferno", type=Path, help="inferno-collapse-perf, if it is not in PATH or ~/.cargo/bin")
    options.add_argument("--read", type=Path, help="only read this text, and say what was in it")
    chosen = options.parse_args()
    if chosen.read:
        print(read(chosen.read))
        return
    inferno = chosen.inferno or inferno_collapse()
    with tempfile.TemporaryDirectory() as folder:
        compiled_once(Path(folder) / "compiled")
        text = recorded(chosen.recording or Path(folder) / "recording").script
        sys.exit(measured(text, inferno, chosen.pairs))


def compiled_once(folder: Path) -> None:
    """Compile modules by the first run, which is not counted, as those of an installed program are compiled."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def read(text: Path) -> str:
    """Return a summary of the profiles of a text."""
    from thpdiag.parsers.perf._script_samples import read_bytes  # imports numpy, which the other program does not need

    found = [r for r in read_bytes(Source(text.name), chunks(text)) if isinstance(r, Profile)]
    return "; ".join(
        f"{p.event}: {p.ledger.kept} of {p.ledger.read} samples, {len(p.chains)} chains, {len(p.frames)} frames, "
        f"{len(p.tasks)} tasks, {len(p.rows)} rows that weigh {p.rows.weight.sum():.0f}"
        for p in found
    )


def chunks(text: Path) -> Iterator[bytes]:
    with text.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def measured(text: Path, inferno: Path, pairs: int) -> bool:
    """Print all figures; return whether a bar was exceeded."""
    ours = [sys.executable, str(HERE), "--read", str(text)]
    told = subprocess.run(ours, check=True, capture_output=True, text=True).stdout.strip()
    print(f"thpdiag: {told}")
    print(f"inferno: {folded(inferno, text)}", flush=True)
    alone = in_turn(ours, [str(inferno), "-n", "1", str(text)], pairs)
    missed = ratio("thpdiag / inferno -n 1", alone, BAR)
    ratio("thpdiag / inferno -n 1", alone, figure="wall")
    print(f"memory at the peak: {max(own.peak for own, _ in alone):.0f} MB, inferno {alone[0][1].peak:.0f} MB")
    return missed


def folded(inferno: Path, text: Path) -> str:
    """Return inferno's output for the text."""
    with subprocess.Popen([inferno, "-n", "1", text], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        counts = [int(line.rpartition(b" ")[2]) for line in child.stdout]
    return f"{len(counts)} folded stacks that weigh {sum(counts)}"


if __name__ == "__main__":
    main()
