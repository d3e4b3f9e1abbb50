"""Free memory by block size (/proc/buddyinfo), for a histogram: the first and the last of each zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from thpdiag.derive.zones import free_blocks
from thpdiag.engine.judged import Scene
from thpdiag.model import Sample
from thpdiag.result.moments import spoken

MOST = 12  # of a document
_FIRST = "node_buddyinfo_blocks_order0"


def free_block_documents(all_scenes: Sequence[Scene]) -> list[dict[str, Any]]:
    """Free blocks by order from 0 on. Of many zones the ones with most free memory stay."""
    found = [_document(sample) for sample in _ends(all_scenes)]
    found.sort(key=lambda told: -sum(count * 2**order for order, count in enumerate(told["counts"])))
    kept = found[:MOST]
    return sorted(kept, key=lambda told: (told["node"], told["zone"], told["member"], told["line"] or 0))


def _ends(all_scenes: Sequence[Scene]) -> Iterator[Sample]:
    """The first and the last sample of each zone, source and state."""
    for scene in all_scenes:
        for table in scene.catalogue.having(_FIRST):
            rows = [row for row in (table.samples[0], table.samples[len(table.samples) - 1]) if free_blocks(row)]
            yield from rows[:1] if len(table.samples) == 1 else rows


def _document(sample: Sample) -> dict[str, Any]:
    labels, blocks = dict(sample.entity), free_blocks(sample)
    when = {"when": spoken(sample.time)} if sample.time else {}
    return {
        "node": labels.get("node", ""), "zone": labels.get("zone", ""),
        "counts": [int(blocks.get(order, 0)) for order in range(max(blocks) + 1)],
        "member": sample.cite.member, "line": sample.cite.line, **when,
    }  # fmt: skip
