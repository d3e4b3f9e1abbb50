"""Folded stacks, as flamegraph.pl, inferno, speedscope and others read them: one line per stack, root first.

    java;start_thread;page_fault;do_huge_pmd_anonymous_page;compact_zone 417

Lines are sorted; those of samples without a stack stand last.
"""

from __future__ import annotations

from thpdiag.flame.labelled import Labelled


def folded(known: Labelled) -> str:
    """The text, with a line end after each stack."""
    names = known.labels
    texts = [";".join([names[i] for i in stack]) for stack in known.stacks]
    lines = [
        (f"{names[root]};{texts[stack]}" if texts[stack] else names[root]) if root >= 0 else texts[stack]
        for root, stack in zip(known.roots, known.of_row, strict=True)
    ]
    both = sorted(zip(lines, known.counts, strict=True), key=lambda item: (";" not in item[0], item))
    return "".join([f"{line} {count}\n" for line, count in both])
