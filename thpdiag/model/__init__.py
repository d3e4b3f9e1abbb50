"""What the stages pass to one another. Imports nothing else of thpdiag."""

from thpdiag.model.case import Case, InputRecord, Note, State
from thpdiag.model.citation import Citation
from thpdiag.model.event import Event
from thpdiag.model.fact import Fact
from thpdiag.model.finding import CONFIDENCES, SEVERITIES, Evidence, Finding, RuleOutcome, Verdict3
from thpdiag.model.moment import Clock, Moment
from thpdiag.model.problem import Problem, ProblemKind
from thpdiag.model.profile import Frame, Ledger, Profile, ProfileRow, Stacks
from thpdiag.model.record import Record
from thpdiag.model.series import Sample

__all__ = [
    "CONFIDENCES",
    "SEVERITIES",
    "Case",
    "Citation",
    "Clock",
    "Event",
    "Evidence",
    "Fact",
    "Finding",
    "Frame",
    "InputRecord",
    "Ledger",
    "Moment",
    "Note",
    "Problem",
    "ProblemKind",
    "Profile",
    "ProfileRow",
    "Record",
    "RuleOutcome",
    "Sample",
    "Stacks",
    "State",
    "Verdict3",
]
