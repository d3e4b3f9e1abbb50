"""What a reader may yield."""

from __future__ import annotations

from thpdiag.model.event import Event
from thpdiag.model.fact import Fact
from thpdiag.model.problem import Problem
from thpdiag.model.profile import Profile
from thpdiag.model.series import Sample

Record = Fact | Sample | Profile | Event | Problem
