"""The types that pass between the stages. Imports nothing else of thpdiag."""

from thpdiag.model.case import Case, InputRecord, Note, Record, State
from thpdiag.model.facts import Citation, Clock, Event, Fact, Moment, Pace, Problem, ProblemKind
from thpdiag.model.finding import CONFIDENCES, EXCLUDED, SEVERITIES, Evidence, Finding, Raise, RuleOutcome, Verdict3
from thpdiag.model.profile import (
    Chains,
    Frame,
    KernelImage,
    Ledger,
    Measure,
    Module,
    Profile,
    Rows,
    StackCounts,
    Stacks,
    SymbolList,
    SymbolTable,
    TableKind,
    Task,
)
from thpdiag.model.series import Entity, Listing, Sample, Series, Subject

__all__ = [
    "CONFIDENCES", "EXCLUDED", "SEVERITIES", "Case", "Chains", "Citation", "Clock", "Entity", "Event", "Evidence",
    "Fact", "Finding", "Frame", "InputRecord", "KernelImage", "Ledger", "Listing", "Measure", "Module", "Moment",
    "Note", "Pace", "Problem", "ProblemKind", "Profile", "Raise", "Record", "Rows", "RuleOutcome", "Sample", "Series",
    "StackCounts", "Stacks", "State", "Subject", "SymbolList", "SymbolTable", "TableKind", "Task", "Verdict3",
]  # fmt: skip
