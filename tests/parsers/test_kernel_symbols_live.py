"""Names against those that perf gives: the kernel's own list, and a recording made on the spot."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_symbol_files import samples
from thpdiag.host.kernel_symbols import symbolize
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Profile, SymbolList, SymbolTable
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import kernel_symbols
from thpdiag.parsers.perf import data as perf_data
from thpdiag.perf import kallsyms as tables

LOAD = """
for i in 1 2 3 4 5 6; do dd if=/dev/zero of=load bs=64k count=400; cat load load > load2; rm load load2; done
for i in $(seq 150); do /bin/true; done
find /proc /sys -maxdepth 4 -type f | head -3000 | wc
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernel chains of a load that opens, writes, forks, maps and faults."""
    perf = shutil.which("perf")
    if perf is None or os.geteuid() != 0:
        pytest.skip("needs perf and root")
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "load.sh").write_text(LOAD)
    command = [
        perf,
        "record",
        "-q",
        "-N",
        "-o",
        "perf.data",
        "-g",
        "--kernel-callchains",
        "-e",
        "cpu-clock:k",
        "-F",
        "5000",
    ]
    done = subprocess.run([*command, "--", "sh", "load.sh"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / "perf.data").is_file():
        pytest.skip(f"perf cannot record here: {done.stderr.strip()[:200]}")
    return folder / "perf.data"


def own_list() -> SymbolTable:
    data = Path("/proc/kallsyms").read_bytes()
    (listed,) = kernel_symbols.read_kallsyms(Source("proc/kallsyms"), Content(iter([data])))
    assert isinstance(listed, SymbolList)
    table, problems = tables.read(listed)
    assert problems == []
    return table


def printed(recording: Path) -> Iterator[str]:
    """The chains of all samples as perf names them, leaf first."""
    command = ["perf", "script", "--no-inline", "-i", str(recording), "-F", "ip,sym"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for block in text.split("\n\n"):
        names = [normalise(line.split(None, 1)[1]) for line in block.splitlines() if line.strip()]
        if names:
            yield " < ".join(names)


def test_each_sample_has_the_names_that_perf_gives(recorded: Path) -> None:
    """All chains of all samples, every alias and border among them."""
    records = list(perf_data.BULK_PARSER.read(Source("perf.data"), Content(iter([recorded.read_bytes()]))))
    (profile,) = [r for r in records if isinstance(r, Profile)]
    named, problems = symbolize(profile, [own_list()])

    expected = Counter(printed(recorded))
    assert sum(expected.values()) > 200
    assert len(expected) > 50
    assert Counter(samples(named)) == expected
    assert problems == []
    assert len(named.chains) <= len(profile.chains)
