"""One row of a time series: what one source said about one entity at one moment.

Readers yield rows; `thpdiag.derive.series` joins those of one source and entity to a pandas frame when a check asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from thpdiag.model.citation import Citation
from thpdiag.model.moment import Moment

NOTHING: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one entity at one moment.

    `kind` is the entity kind: `system`, `cpu`, `process`, `zone` or `device`; `entity` names it (`(("pid", "4711"),
    ("comm", "java"))`), empty for `system`. `values` maps canonical metric names (vocabulary, base units: bytes,
    seconds, ratios 0..1) to numbers; what the source did not print is not in it. `resolution` is the quantum of
    values that were printed rounded (collectl's `24G` has 2**30). A `since_boot` row is an average since boot
    (first row of vmstat) and takes part in no rate. `reader` names the source format.
    """

    kind: str
    values: Mapping[str, float]
    cite: Citation
    reader: str
    entity: tuple[tuple[str, str], ...] = ()
    time: Moment | None = None
    resolution: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    since_boot: bool = False
