"""Everything under fixtures/ that `thpdiag analyze` can be given, by the name of its recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from contract.run_command import ROOT

FIXTURES = ROOT / "fixtures"
GROUPS = {
    "readers": "*/*",
    "stories": "*/bundle",
    "captures": "*/bundle",
    "healthy": "*/bundle",
    "acceptance": "*/bundle",
    "comparisons": "*/*",
    "collectors": "*",
    "recordings": "*",
}
PUBLIC_STORIES = (
    "hadoop-centos62",
    "voltdb-rhel66-kvm",
    "mero-centos7",
    "bioinformatics-ubuntu1404",
    "redis-shop-ubuntu",
)


def fixture_inputs() -> dict[str, Path]:
    """`GROUP/NAME` and the folder (or, of single recordings, the file) below the repository."""
    return dict(sorted(_inputs()))


def _inputs() -> Iterator[tuple[str, Path]]:
    for group, pattern in GROUPS.items():
        for path in (FIXTURES / group).glob(pattern):
            if path.is_dir():
                yield path.relative_to(FIXTURES).as_posix().removesuffix("/bundle"), path.relative_to(ROOT)


def first_of_each_reader() -> set[str]:
    """The names of the first fixture of each reader."""
    first: dict[str, str] = {}
    for name in fixture_inputs():
        group, case, *_ = name.split("/")
        if group == "readers":
            first.setdefault(case, name)
    return set(first.values())
