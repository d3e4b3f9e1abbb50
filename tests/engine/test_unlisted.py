"""What a table of percentages does not list: it may be anything, but no function in it has more than the last row."""

from __future__ import annotations

import pytest

from analyze_bytes import document

OWN = ("parse_record", "lookup", "hash_join", "memcpy_avx", "sort_runs", "decode", "intern", "emit", "flush", "walk")
HEAD = """\
# Samples: 97K of event 'cycles'
# Event count (approx.): 68123312332
#
# Overhead  Command   Shared Object      Symbol
# ........  ........  .................  ......................
#
"""


def table(last: float, rows: int = 10, *, tasks: int = 1, compaction: float = 0.0) -> bytes:
    """A flat list of a program whose rows add up to 78 %, down to `last`."""
    own = list(OWN[: rows - 1])
    shares = [(78.0 - last - compaction) / len(own)] * len(own) + [last]
    names = [f"worker-{n % tasks}" if tasks > 1 else "worker" for n in range(rows)]
    lines = [f"    {s:5.2f}%  {c:8}  worker  [.] {f}" for s, c, f in zip(shares, names, [*own, "finish"], strict=True)]
    if compaction:
        lines.insert(-1, f"    {compaction:5.2f}%  worker    [kernel.kallsyms]  [k] isolate_freepages_block")
    return (HEAD + "\n".join(lines) + "\n").encode()


def outcome(text: bytes) -> str:
    """Of the rule that asks for a tenth of the samples in compaction."""
    (row,) = (row for row in document(text)["rules"] if row["id"] == "THP-026")
    return str(row["outcome"])


@pytest.mark.parametrize("last", [0.4, 2.0])
def test_without_a_function_of_compaction_down_to_small_shares_there_is_little_of_it(last: float) -> None:
    """22 % are not listed, and its largest function has at least a quarter of it."""
    assert outcome(table(last)) == "silent"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(table(4.0), id="the last row is large"),
        pytest.param(table(0.4, rows=4), id="a few rows are no list"),
        pytest.param(table(0.4, tasks=5), id="each of many tasks has rows of its own"),
        pytest.param(table(0.4, compaction=6.0), id="a part of it is listed"),
    ],
)
def test_else_it_may_be_all_that_is_not_listed(text: bytes) -> None:
    """Unknown, as before."""
    assert outcome(text) == "unknown"


def test_what_is_listed_of_it_bounds_the_rest() -> None:
    """One function with 1 % leaves room for 3 % more, not for 9."""
    assert outcome(table(0.4, compaction=1.0)) == "silent"
