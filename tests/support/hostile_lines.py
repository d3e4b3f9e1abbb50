"""Reads files with lines made to slow down the patterns of a parser, each file in a child with limits.

    python tests/support/hostile_lines.py 60000

Ten lines at a time are put into a fixture of the parser, so that this parser reads them. Prints the slowest, and exits
with 1 if a file took more than 4 s, or any failed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fuzz
from regex_timing import astray, patterns

SECONDS = 4
LINES = 10
TOP = 3  # lines of the fixture above those


def main(length: int) -> int:
    from thpdiag.parsers import constants

    by_module = defaultdict(list)
    for pattern, place in patterns().items():
        by_module[place.module.removeprefix("thpdiag.parsers.")].append(pattern)
    fuzz.preload_analysis(fuzz.rules())
    fuzz.freeze_memory()
    tried, failed = [], False
    for module, _, parser in constants():
        fixtures = [f for f in fuzz.fixtures().get(parser.name, ()) if not f.path.endswith(".gz")]  # which is no line
        texts = {t.encode("utf-8", "replace") for p in by_module[module] for t in astray(p, length, plain=False)}
        for fixture in fixtures[:1]:
            begin, rest = fixture.data.split(b"\n")[:TOP], fixture.data.split(b"\n")[TOP:]
            hostile = sorted(texts)
            for at in range(0, len(hostile), LINES):
                lines = hostile[at : at + LINES]
                data = {fixture.path: b"\n".join([*begin, *lines, *rest])}
                (found,) = fuzz.try_batch([(partial(fuzz.Input, "text", parser.name, data, {}, {}), False)])
                tried.append((found.seconds, parser.name, found.fault))
                if found.fault or found.seconds > SECONDS:
                    failed = True
                    print(
                        f"{parser.name}: {found.seconds:.1f} s {found.fault} {[line[:60] for line in lines]}",
                        flush=True,
                    )
    for seconds, name, fault in sorted(tried, reverse=True)[:10]:
        print(f"{seconds:6.2f} s {name} {fault}")
    print(f"{len(tried)} files")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
