"""What the stages pass to one another. Imports nothing else of thpdiag."""

from thpdiag.model.case import Case, InputRecord, Note, State
from thpdiag.model.citation import Citation
from thpdiag.model.event import Event
from thpdiag.model.fact import Fact
from thpdiag.model.finding import CONFIDENCES, EXCLUDED, SEVERITIES, Evidence, Finding, Raise, RuleOutcome, Verdict3
from thpdiag.model.moment import Clock, Moment
from thpdiag.model.problem import Problem, ProblemKind
from thpdiag.model.profile import Chains, Frame, KernelImage, Ledger, Module, Profile, Rows, Stacks, Task
from thpdiag.model.record import Record
from thpdiag.model.series import Entity, Sample, Series, Subject
from thpdiag.model.stack_counts import StackCounts
from thpdiag.model.symbol_table import SymbolList, SymbolTable, TableKind

__all__ = [
    "CONFIDENCES",
    "EXCLUDED",
    "SEVERITIES",
    "Case",
    "Chains",
    "Citation",
    "Clock",
    "Entity",
    "Event",
    "Evidence",
    "Fact",
    "Finding",
    "Frame",
    "InputRecord",
    "KernelImage",
    "Ledger",
    "Module",
    "Moment",
    "Note",
    "Problem",
    "ProblemKind",
    "Profile",
    "Raise",
    "Record",
    "Rows",
    "RuleOutcome",
    "Sample",
    "Series",
    "StackCounts",
    "Stacks",
    "State",
    "Subject",
    "SymbolList",
    "SymbolTable",
    "TableKind",
    "Task",
    "Verdict3",
]
