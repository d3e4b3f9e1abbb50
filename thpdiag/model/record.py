"""What a reader may yield."""

from __future__ import annotations

from thpdiag.model.event import Event
from thpdiag.model.fact import Fact
from thpdiag.model.moment import Moment
from thpdiag.model.problem import Problem
from thpdiag.model.profile import Profile
from thpdiag.model.series import Sample
from thpdiag.model.symbol_table import SymbolTable

Record = Fact | Sample | Profile | Event | Problem | SymbolTable


def begun(record: Record) -> Moment | None:
    """When it was read or began, None if the source does not say."""
    if isinstance(record, Problem | SymbolTable):
        return None
    return record.start if isinstance(record, Profile) else record.time
