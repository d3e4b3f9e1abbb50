"""Reduce recordings of the lab to fixtures: python lab/cut.py build/lab/set fixtures/lab KERNEL/CASE/PHASE...

Files without use for the diagnosis (slab, zones, other sizes of huge pages, KSM) are left out, and of the profile every
n-th sample is kept; nothing else is changed. labels.json has the labels of the complete recording by labels.py.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import sys
import tarfile
from pathlib import Path

MAX_SAMPLES = 200
MAX_BYTES = 60_000
_LEFT_OUT = re.compile(
    r"mpstat\.txt|startup\.txt|/mm/ksm/|/proc/(zoneinfo|pagetypeinfo|slabinfo)|/sys/kernel/debug/"
    r"|hugepages-(?!64kB|2048kB)"
)


def profile(text: bytes) -> bytes:
    """Return every n-th sample."""
    samples = [block for block in text.strip(b"\n").split(b"\n\n") if block]
    return b"\n\n".join(samples[:: max(1, len(samples) // MAX_SAMPLES)]) + b"\n\n"


def cut(bundle: Path) -> bytes:
    """Return a smaller bundle, the same bytes each time."""
    packed = io.BytesIO()
    with tarfile.open(bundle) as source, tarfile.open(fileobj=packed, mode="w") as target:
        for member in sorted((m for m in source if m.isfile() and not _LEFT_OUT.search(m.name)), key=lambda m: m.name):
            data = source.extractfile(member).read()  # type: ignore[union-attr]
            if member.name.endswith("/perf-script.txt"):
                data = profile(data)
            row = tarfile.TarInfo(member.name)
            row.size, row.mtime = len(data), member.mtime
            target.addfile(row, io.BytesIO(data))
    return lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    """The command line."""
    source, target, *names = (Path(argument) for argument in sys.argv[1:])
    index = target / "labels.json"
    labels = json.loads(index.read_text("utf-8")) if index.exists() else {}
    for name in map(str, names):
        data = cut(source / name / "bundle.tar.gz")
        if len(data) > MAX_BYTES:
            raise SystemExit(f"{name}: {len(data)} bytes")
        path = target / f"{name}.tar.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        labels[name] = json.loads((source / name / "label.json").read_text("utf-8"))
    index.write_text(json.dumps(labels, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
