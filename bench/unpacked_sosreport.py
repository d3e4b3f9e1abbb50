"""The cost of diagnosing a large unpacked sosreport, compared with hotsos on the same tree.

The tree is the one that hotsos tests itself on: the sosreport of an OpenStack compute node, 77,978 files and 300 MB on
disk (tests/unit/fake_data_root/openstack of canonical/hotsos). A tree made up here would be of no use, for hotsos ends
after a second where it finds none of the products it knows. hotsos goes into an environment of its own. Both are run
in alternating pairs on the whole tree with its rotated logs, thpdiag with all rules, hotsos with all of its plugins.
The bars: 0.15 of hotsos' CPU time, 250 MB. Needs git and the network, or --tree and --hotsos.

    python bench/unpacked_sosreport.py [--pairs 3] [--tree FOLDER] [--hotsos PROGRAM]
"""

from __future__ import annotations

import argparse
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from cost import in_turn, ratio

REPOSITORY = "https://github.com/canonical/hotsos"
TREE = "tests/unit/fake_data_root/openstack"
RATIO_BAR = 0.15
MEMORY_BAR = 250.0  # MB


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=3)
    options.add_argument("--tree", type=Path)
    options.add_argument("--hotsos", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = chosen.tree or cloned(Path(folder) / "repository")
        hotsos = chosen.hotsos or installed(Path(folder) / "hotsos")
        describe(tree)
        ours = [sys.executable, "-m", "thpdiag", "analyze", str(tree)]
        pairs = in_turn(ours, [str(hotsos), "--all-logs", str(tree)], chosen.pairs, keep=(0, 5))
    missed = ratio("unpacked sosreport, thpdiag / hotsos", pairs, RATIO_BAR)
    peak = max(own.peak for own, _ in pairs)
    print(f"peak {peak:.0f} MB (bar {MEMORY_BAR:.0f} MB), hotsos {max(other.peak for _, other in pairs):.0f} MB")
    sys.exit(missed or peak > MEMORY_BAR)


def cloned(folder: Path) -> Path:
    """Return the tree, with as little else of its repository as git allows."""
    partial = ["--depth", "1", "--filter=blob:none", "--no-checkout", REPOSITORY, str(folder)]
    subprocess.run(["git", "clone", "--quiet", *partial], check=True)
    subprocess.run(["git", "-C", str(folder), "sparse-checkout", "set", TREE], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet"], check=True)
    return folder / TREE


def installed(folder: Path) -> Path:
    """Return the program `hotsos` in an environment of its own."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "hotsos"]
    subprocess.run([folder / "bin" / "python", *install], check=True)
    return folder / "bin" / "hotsos"


def describe(tree: Path) -> None:
    files = size = blocks = 0
    for path in tree.rglob("*"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            files, size, blocks = files + 1, size + status.st_size, blocks + status.st_blocks
    print(f"tree: {files:,} files, {size / 1e6:.0f} MB, {blocks * 512 / 1e6:.0f} MB on disk", flush=True)


if __name__ == "__main__":
    main()
