"""The cost of reading and diagnosing perf.data, compared with perf script and inferno, and with perf report.

On a large recording made on the spot ([recording.py](recording.py)), programs in turn, CPU seconds of all processes:

- from perf.data to matched rules, symbols included ([matched_rules.py](matched_rules.py)), against
  `perf script --no-inline` piped to inferno-collapse-perf (bar 0.30) and against
  `perf report --stdio --no-children -g none` (bar 1.2);
- the same for the whole `thpdiag analyze` with its report, against perf script piped to inferno (bar 0.18);
- memory at the peak (bar 500 MB);
- 100 signatures of two parts on all samples, against the time that reading took (bar 0.25).

    python bench/perf_data.py [--recording FOLDER] [--pairs 7] [--inferno PROGRAM]

Needs root, `apt install linux-perf`, and `cargo install inferno`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cost import Pair, in_turn, ratio
from recording import Recording, perf_script, recorded

HERE = Path(__file__).resolve().parent
PIPED_BAR, WHOLE_BAR, REPORT_BAR, SIGNATURES_BAR, MEMORY_BAR = 0.30, 0.18, 1.2, 0.25, 500.0
SIGNATURES = 100
FOUND = (0, 5)  # exit codes of thpdiag: analyzed; undecided rules because of unreadable input


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recording", type=Path, help="folder of bench/recording.py; made there if it is not")
    options.add_argument("--pairs", type=int, default=7)
    options.add_argument("--inferno", type=Path, help="inferno-collapse-perf, if it is not in PATH or ~/.cargo/bin")
    chosen = options.parse_args()
    inferno = chosen.inferno or inferno_collapse()
    with tempfile.TemporaryDirectory() as folder:
        recording = recorded(chosen.recording or Path(folder))
        sys.exit(measured(recording, inferno, chosen.pairs))


def inferno_collapse() -> Path:
    """Return the program installed by `cargo install inferno`."""
    found = shutil.which("inferno-collapse-perf", path=f"{Path.home() / '.cargo' / 'bin'}")
    found = shutil.which("inferno-collapse-perf") or found
    if found is None:
        sys.exit("bench/perf_data.py needs inferno-collapse-perf (cargo install inferno), or --inferno PROGRAM")
    return Path(found)


def measured(recording: Recording, inferno: Path, pairs: int) -> bool:
    """Print all figures; return whether a bar was exceeded."""
    ours = [sys.executable, str(HERE / "matched_rules.py"), str(recording.data), str(recording.kallsyms)]
    told = steps(ours)
    print(f"{recording.data.stat().st_size / 1e6:.0f} MB, {told['read']} samples read, {told['kept']} kept, ", end="")
    print(f"{told['chains']} chains, {told['frames']} frames, {told['unnamed']} samples with unnamed functions")
    print("CPU s by step: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in told["seconds"].items()))
    script = shlex.join(perf_script(recording.data))
    piped = ["sh", "-c", f"{script} 2>/dev/null | {shlex.quote(str(inferno))}"]
    report = ["perf", "report", "--force", "--stdio", "--no-children", "-g", "none", "-i", str(recording.data)]
    files = [str(recording.data), str(recording.kallsyms)]
    whole = [sys.executable, "-m", "thpdiag", "analyze", "--no-progress", *files]
    against_report = in_turn(ours, report, pairs)
    missed = ratio("to matched rules / perf report -g none", against_report, REPORT_BAR)
    against_piped = in_turn(ours, piped, pairs)
    missed |= ratio("to matched rules / perf script | inferno", against_piped, PIPED_BAR)
    against_whole = in_turn(whole, piped, max(1, pairs // 2), keep=FOUND)
    missed |= ratio("thpdiag analyze / perf script | inferno", against_whole, WHOLE_BAR)
    missed |= memory([*against_report, *against_piped])
    return missed | signatures(ours, pairs)


def steps(command: list[str]) -> dict[str, Any]:
    """Return the output of bench/matched_rules.py for one run."""
    done = subprocess.run(command, check=True, capture_output=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def memory(pairs: list[Pair]) -> bool:
    peak = max(own.peak for own, _ in pairs)
    print(f"memory at the peak: {peak:.0f} MB (bar {MEMORY_BAR:.0f} MB)")
    return peak > MEMORY_BAR


def signatures(command: list[str], runs: int) -> bool:
    """Measure the evaluation of many checks compared with reading and naming, in one process."""
    ratios: list[float] = []
    for _ in range(runs):
        seconds = steps([*command, "--signatures", str(SIGNATURES)])["seconds"]
        ratios.append(seconds[f"signatures {SIGNATURES}"] / (seconds["read"] + seconds["named"]))
    median: float = statistics.median(ratios)
    print(f"{SIGNATURES} signatures / reading: median of {runs} runs {median:.3f}, least {min(ratios):.3f}", end=" ")
    print(f"(bar {SIGNATURES_BAR})")
    return median > SIGNATURES_BAR


if __name__ == "__main__":
    main()
