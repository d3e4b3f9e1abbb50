"""The file format of speedscope.app: one sampled profile, a stack and a weight per entry.

    {"$schema": ..., "shared": {"frames": [{"name": "main"}]}, "profiles": [{"type": "sampled", "unit": "none",
     "startValue": 0, "endValue": 417, "samples": [[0, 1]], "weights": [417]}]}

Stacks are root first, as numbers of frames. Source: speedscope's documentation of its file format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag import __version__
from thpdiag.flame.labelled import Labelled

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope(known: Labelled, title: str) -> Mapping[str, Any]:
    """The document; what the weights count stands in the name of the profile."""
    rows = zip(known.roots, known.of_row, strict=True)
    return {
        "$schema": SCHEMA,
        "exporter": f"thpdiag {__version__}",
        "name": title,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": label} for label in known.labels]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{title}, {known.unit}",
                "unit": "none",
                "startValue": 0,
                "endValue": sum(known.counts),
                "samples": [([root] if root >= 0 else []) + known.stacks[stack] for root, stack in rows],
                "weights": known.counts,
            }
        ],
    }
