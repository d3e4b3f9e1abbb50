"""What a reader may yield."""

from __future__ import annotations

from thpdiag.model.event import Event
from thpdiag.model.fact import Fact
from thpdiag.model.moment import Moment
from thpdiag.model.problem import Problem
from thpdiag.model.profile import Profile
from thpdiag.model.series import Sample, Series
from thpdiag.model.symbol_table import SymbolList, SymbolTable

Record = Fact | Sample | Series | Profile | Event | Problem | SymbolList | SymbolTable


def ended(record: Record) -> Moment | None:
    """When its last part was recorded, None if the source does not say."""
    if isinstance(record, Series):
        return record.time(len(record) - 1) if len(record) else None
    return record.end if isinstance(record, Profile) else begun(record)


def begun(record: Record) -> Moment | None:
    """When it was read or began, None if the source does not say."""
    if isinstance(record, Problem | SymbolList | SymbolTable):
        return None
    if isinstance(record, Series):
        return record.time(0) if len(record) else None
    return record.start if isinstance(record, Profile) else record.time
