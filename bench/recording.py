"""Makes the large recording that bench/perf_data.py and bench/perf_script.py measure with, on the spot.

Two million samples and more of everything that this machine does while huge pages are touched, forked and compacted
([hog.c](hog.c)), files are packed, C is compiled and Python runs. Needs root, `apt install linux-perf`, a C compiler.
It discloses this machine (all processes, paths, the host's name): keep it private, in a temporary folder.

    python bench/recording.py FOLDER [--samples 2100000]

writes to FOLDER what is missing there: `perf.data`; `kallsyms`, the addresses of the kernel's functions; `perf.script`,
the text by `perf script --no-inline`. No setting of the kernel is changed; memory is compacted while it records.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = 2_100_000
FREQUENCY = 12_000  # samples per second and CPU; the kernel takes a little fewer
SPARE = 1.08
WRITTEN = re.compile(r"perf\.data \((\d+) samples\)")

# Each runs repeatedly in a folder of its own while perf records
PACKING = "while :; do tar cf - /usr/include /usr/share/doc 2>/dev/null | gzip -1 >packed.gz; done"
COMPILING = "while :; do cc -O2 -w -c -o module.o module.c; done"
COPYING = "while :; do dd if=/dev/zero of=zeros bs=64k count=800 status=none; sort -u words >sorted; rm -f zeros; done"
PYTHON = """
import compileall, json, re, sys, tempfile
while True:
    table = {str(i): [i * 3 % 97, {"name": "x" * (i % 50)}] for i in range(20000)}
    json.loads(json.dumps(table, indent=1))
    sorted(table.items(), key=lambda item: (item[1][0], item[0]))
    re.findall(r"(\\w+)\\W+(\\w+)", repr(table)[:400000])
    with tempfile.TemporaryDirectory() as folder:
        sys.pycache_prefix = folder
        compileall.compile_dir(json.__path__[0] + "/../asyncio", quiet=2, force=True)
"""


@dataclass(frozen=True, slots=True)
class Recording:
    """The files of a large recording."""

    data: Path
    kallsyms: Path
    script: Path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--samples", type=int, default=SAMPLES)
    chosen = options.parse_args()
    recording = recorded(chosen.folder, chosen.samples)
    for path in (recording.data, recording.kallsyms, recording.script):
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")


def recorded(folder: Path, samples: int = SAMPLES) -> Recording:
    """Return the recording in a folder, and make it if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Recording(folder / "perf.data", folder / "kallsyms", folder / "perf.script")
    if not made.data.exists():
        needed(made.data.name)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            taken = record(Path(scratch), samples)
            shutil.copyfile("/proc/kallsyms", made.kallsyms)
            made.script.unlink(missing_ok=True)
            taken.rename(made.data)
    if not made.script.exists():
        part = made.script.with_suffix(".part")
        with part.open("wb") as out:
            subprocess.run([*perf_script(made.data)], check=True, stdout=out, stderr=subprocess.DEVNULL)
        part.rename(made.script)
    return made


def perf_script(data: Path) -> list[str]:
    """Return the command that turns the recording into text, as the documentation describes it."""
    return ["perf", "script", "--no-inline", "--force", "-i", str(data)]


def needed(what: str) -> None:
    missing = [program for program in ("perf", "cc") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        sys.exit(f"to make {what}: root, perf (apt install linux-perf) and a C compiler are needed")


def record(scratch: Path, samples: int) -> Path:
    """Record until there are enough samples."""
    data = scratch / "perf.data"
    cpus = os.cpu_count() or 1
    seconds = samples * SPARE / (FREQUENCY * cpus)
    while True:
        print(f"recording {seconds:.0f} s on {cpus} CPUs", file=sys.stderr)
        # -N: writes nothing to ~/.debug; -m: without it samples are lost
        command = ["perf", "record", "-F", str(FREQUENCY), "-a", "-g", "-N", "-m", "16M", "-o", str(data)]
        with working(scratch, seconds):
            done = subprocess.run([*command, "--", "sleep", f"{seconds:.0f}"], capture_output=True, text=True)
        found = WRITTEN.search(done.stderr)
        if done.returncode or not found:
            sys.exit(f"perf record failed:\n{done.stderr}")
        print(done.stderr.strip(), file=sys.stderr)
        if int(found[1]) >= samples:
            return data
        seconds *= samples / int(found[1]) * SPARE


@contextmanager
def working(scratch: Path, seconds: float) -> Iterator[None]:
    """Run work of many kinds for perf to record, until the end of the block."""
    hog = scratch / "hog"
    flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread"]
    subprocess.run(["cc", *flags, "-o", hog, HERE / "hog.c"], check=True)
    (scratch / "words").write_text("".join(f"{i * 7919 % 100003}\n" for i in range(300_000)))
    (scratch / "module.c").write_text("".join(function(number) for number in range(400)))
    commands = [[str(hog), f"{seconds + 5:.0f}"], [sys.executable, "-c", PYTHON]]
    commands += [["sh", "-c", loop] for loop in (PACKING, COMPILING, COPYING)]
    with ExitStack() as stack:
        for command in commands:
            stack.enter_context(running(command, scratch))
        yield


def function(number: int) -> str:
    """Return C code that keeps a compiler busy."""
    return (
        f"int f{number}(int a, int *b) {{ int s = {number}; for (int i = 0; i < a; i++) "
        f"{{ if (b[i] > {number}) s += b[i] * i; else s ^= b[i] >> (i & 7); switch (s & 3) "
        f"{{ case 0: s++; break; case 1: s -= a; break; default: s += b[0]; }} }} return s; }}\n"
    )


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[None]:
    """Run a command until the end of the block, then end it with its children."""
    with subprocess.Popen(command, cwd=folder, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        try:
            yield
        finally:
            os.killpg(child.pid, 9)


if __name__ == "__main__":
    main()
