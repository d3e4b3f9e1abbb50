"""Metric names as people say them."""

from __future__ import annotations

from collections.abc import Sequence

from thpdiag.knowledge.vocabulary import term


def spelled(names: Sequence[str], entity: str = "") -> str:
    """Metrics for people: what the vocabulary says of them, counters of the kernel by their own names."""
    words = []
    for name in names:
        known = term(name)
        own = known is None or known.name.startswith("node_")
        words.append(name.removeprefix("node_vmstat_") if own else (known.means if known else name))
    told = " + ".join(words).replace("of the process", f"of {entity}" if entity else "of the process")
    return f"{told} of {entity}" if entity and entity not in told else told
