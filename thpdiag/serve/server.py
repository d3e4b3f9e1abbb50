"""What the parts of a running server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thpdiag.engine.load import Rule
from thpdiag.serve.access.bearer import Bearer
from thpdiag.serve.access.modes import Access
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.uploads.intake import Intake
from thpdiag.triage.store.bundle import Analysis


@dataclass(frozen=True, slots=True)
class Server:
    """Made once at the start; everything in it may be used by several threads, and waits for a disk unless said.

    `analysis` and `rules` are what each bundle is diagnosed with. `wake` tells the workers that a job waits; it returns
    at once. `clock` gives seconds since 1970 in UTC.
    """

    storage: Storage
    access: Access
    key: bytes  # seals sessions and CSRF tokens
    bearer: Bearer
    intake: Intake
    rules: tuple[Rule, ...]
    analysis: Analysis
    terms: Terms
    workers: int
    wake: Callable[[], None]
    clock: Callable[[], float]
