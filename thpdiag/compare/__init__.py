"""Two result documents of a host, before and after, or of a good and a bad one: what became of each finding.

The comparison is a document of its own (`comparison.schema.json`), from which every output is made. Nothing is called
mended because it was not seen: the rule must be decided, and its own counters or stacks must say so, at a comparable
load.
"""

from __future__ import annotations
