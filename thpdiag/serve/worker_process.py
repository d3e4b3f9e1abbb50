"""The process of a job: runs the analysis in a sandboxed child and packs the result for storage.

The result document is that of `thpdiag analyze NAME`. A failed analysis has a reason in place of a document.

The fork server imports this module: rules are loaded and compiled once and shared by all processes.
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
    """Return the rules of thpdiag, of installed packages and of folders."""
    return rule_set(folders)


def analyse_order(order: AnalysisOrder) -> PackedResult:
    """Analyze a bundle; the result of a failed analysis has no document."""
    stages, rules = StageWriter(order.scratch), _order_rules(order)
    if not rules:
        return PackedResult(order.sha256, order.name, order.size, "not begun", RULES_CHANGED)

    def call() -> Answer:
        document = analyze(order.files, rules, OPTIONS, progress=stages.count, timings=_StageTimings(writer=stages))
        return Answer(json.dumps(document, default=dict).encode())

    outcome = note_missing_layers(run_in_child(call, order.limits, allowed_files(order.files, order.scratch)))
    stages.write(STAGE_PACKING)
    return _pack_outcome(order, outcome)


def _order_rules(order: AnalysisOrder) -> tuple[Rule, ...]:
    """Return the rules of the server; none if rules in its folders were changed or have become invalid."""
    try:
        rules = server_rules(order.rules)
    except ThpdiagError:
        return ()
    return rules if not order.rules or digest(rules) == order.rules_digest else ()


def _pack_outcome(order: AnalysisOrder, outcome: Outcome) -> PackedResult:
    if outcome.status is not Status.OK:
        reason = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        folder = f"{order.files[0].parent}/"  # removed, since users must not see paths of the server
        return PackedResult(order.sha256, order.name, order.size, outcome.name, reason.replace(folder, ""))
    document = json.loads(outcome.content)
    status, reason = status_of_document(document)
    rows = tuple((host, tuple(findings)) for host, findings in host_rows(document))
    packed = zlib.compress(outcome.content, ZLIB_LEVEL)
    return PackedResult(order.sha256, order.name, order.size, status, reason, 1, packed, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StageTimings(Timings):
    """Reports the stage of the analysis instead of measuring its duration."""

    writer: StageWriter

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.writer.stage(name):
            yield


preload_analysis(server_rules())
freeze_memory()
