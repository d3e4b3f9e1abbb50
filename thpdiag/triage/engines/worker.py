"""What a worker process has: what is asked for, once, and the work."""

from __future__ import annotations

from thpdiag.triage.item import Item
from thpdiag.triage.work import Asked, Done
from thpdiag.triage.work import worked as work_on

asked: Asked | None = None


def worked(item: Item) -> list[Done]:
    """The results of an item."""
    if asked is None:
        raise RuntimeError("the worker has not begun")
    return work_on(item, asked)
