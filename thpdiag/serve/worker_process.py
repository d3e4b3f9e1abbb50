"""What the process of a job does: the analysis in a guarded child, and its answer in the form that is stored.

The document is that of `thpdiag analyze NAME`. An analysis that came to no end has no document, only its reason.

Imported by the fork server: what every bundle needs is loaded and compiled once, and shared by all processes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from thpdiag.engine.load import Rule, digest, rule_set
from thpdiag.engine.timing import Timings
from thpdiag.errors import ThpdiagError
from thpdiag.fleet.work import describe_bug, status_of_document
from thpdiag.host.options import Options
from thpdiag.isolated import allowed_files, note_missing_layers, preload_analysis
from thpdiag.pipeline import analyze
from thpdiag.sandbox.outcome import Answer, Outcome, Status
from thpdiag.sandbox.preload import freeze_memory
from thpdiag.sandbox.supervise import run_in_child
from thpdiag.serve.work_order import STAGE_PACKING, AnalysisOrder, StageWriter
from thpdiag.store.results import ZLIB_LEVEL, PackedResult, host_rows

OPTIONS = Options()
RULES_CHANGED = "the rules in the folders of this server have changed since it started; restart it"


@cache
def server_rules(folders: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """Those that come with thpdiag and with installed packages, and those of folders, as the server has them."""
    return rule_set(folders)


def analyse_order(order: AnalysisOrder) -> PackedResult:
    """What came of a bundle; without a document its reason says why there is none."""
    stages, rules = StageWriter(order.room), _rules_of(order)
    if not rules:
        return PackedResult(order.sha256, order.name, order.size, "not begun", RULES_CHANGED)

    def call() -> Answer:
        document = analyze(order.files, rules, OPTIONS, progress=stages.count, timings=_StageTimings(says=stages))
        return Answer(json.dumps(document, default=dict).encode())

    outcome = note_missing_layers(run_in_child(call, order.limits, allowed_files(order.files, order.room)))
    stages.tell(STAGE_PACKING)
    return _pack_outcome(order, outcome)


def _rules_of(order: AnalysisOrder) -> tuple[Rule, ...]:
    """The rules of the server; none if those of its folders are others by now, or have become mistaken."""
    try:
        rules = server_rules(order.rules)
    except ThpdiagError:
        return ()
    return rules if not order.rules or digest(rules) == order.rules_digest else ()


def _pack_outcome(order: AnalysisOrder, outcome: Outcome) -> PackedResult:
    if outcome.status is not Status.OK:
        why = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        here = f"{order.files[0].parent}/"  # nobody needs to know where our folders are
        return PackedResult(order.sha256, order.name, order.size, outcome.name, why.replace(here, ""))
    document = json.loads(outcome.content)
    status, reason = status_of_document(document)
    rows = tuple((host, tuple(findings)) for host, findings in host_rows(document))
    packed = zlib.compress(outcome.content, ZLIB_LEVEL)
    return PackedResult(order.sha256, order.name, order.size, status, reason, 1, packed, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageTimings(Timings):
    """Tells where the analysis is, in place of how long it takes."""

    says: StageWriter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.says.stage(name):
            yield


preload_analysis(server_rules())
freeze_memory()
