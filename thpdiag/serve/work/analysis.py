"""What the process of a job does: the analysis in a guarded child, and its answer in the form that is stored.

The document is that of `thpdiag analyze NAME`. An analysis that came to no end has no document, only its reason.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from thpdiag.analyze import analyze
from thpdiag.case.options import Options
from thpdiag.engine.load import Rule
from thpdiag.engine.rule_set import rule_set
from thpdiag.engine.timing import Timings
from thpdiag.guard.outcome import Answer, Outcome, Status
from thpdiag.guard.supervise import guarded
from thpdiag.isolated import cell
from thpdiag.serve.work.order import Order
from thpdiag.serve.work.stages import PACKING, Stages
from thpdiag.triage.store.packed import LEVEL, Packed
from thpdiag.triage.store.rows import hosts
from thpdiag.triage.work import ended, mistake

OPTIONS = Options()


@cache
def rules() -> tuple[Rule, ...]:
    """Those that come with thpdiag and with installed packages, as the server has them."""
    return rule_set()


def analysed(order: Order) -> Packed:
    """What came of a bundle; without a document its reason says why there is none."""
    stages = Stages(order.room)

    def call() -> Answer:
        document = analyze([order.file], rules(), OPTIONS, progress=stages.file, timings=_Told(says=stages))
        return Answer(json.dumps(document, default=dict).encode())

    outcome = guarded(call, order.limits, cell([order.file], order.room))
    stages.tell(PACKING)
    return _packed(order, outcome)


def _packed(order: Order, outcome: Outcome) -> Packed:
    if outcome.status is not Status.OK:
        why = mistake(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
        here = f"{order.file.parent}/"  # nobody needs to know where our folders are
        return Packed(order.sha256, order.name, order.size, outcome.name, why.replace(here, ""))
    document = json.loads(outcome.content)
    status, reason = ended(document)
    rows = tuple((host, tuple(findings)) for host, findings in hosts(document))
    packed = zlib.compress(outcome.content, LEVEL)
    return Packed(order.sha256, order.name, order.size, status, reason, 1, packed, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told(Timings):
    """Tells where the analysis is, in place of how long it takes."""

    says: Stages

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        with self.says.stage(name):
            yield
