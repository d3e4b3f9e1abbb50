"""Reports of a store with pseudonyms in place of the customers' names: made of a copy that has only those.

The copy is made bundle by bundle in the order of paths, so that the same store gives the same pseudonyms, one for a
host in however many bundles it is; it lies beside the store while reports are made of it. What is accepted is decided
by the real names, before. The store itself keeps them: `--resume` and baselines need them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from thpdiag.fleet.ci import DAMAGED_RESULT, MALFORMED
from thpdiag.fleet.work import status_of_document
from thpdiag.model.result import as_document
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import Names
from thpdiag.redact.words import Words
from thpdiag.report.baseline import Accepted, Judge
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import (
    UNREAD_PREFIX,
    Analysis,
    BundleResult,
    PackedResult,
    StoredResult,
    pack_result,
    unread_key,
)
from thpdiag.store.schema import database_path
from thpdiag.store.store import BUNDLES_PER_TRANSACTION, Store

FOLDER_PREFIX: Final = ".thpdiag-redacted-"
_FOREIGN: Final = re.compile(r"[/'\"@\\=]|\.\w")


@contextmanager
def redacted_copy(store: StoreReader, judge: Judge, names: Names) -> Iterator[tuple[StoreReader, Judge]]:
    """A store with pseudonyms, and what accepts in it what `judge` accepts in the other; `names` learns the names."""
    accepted: dict[tuple[str, str | None, str | None], Accepted] = {}

    def redacted(stored: StoredResult) -> PackedResult:
        result = _redact(stored, judge, names)
        for one in _accepted(result.document or {}):
            accepted.setdefault((one.fingerprint, one.severity, one.confidence), one)
        return pack_result(result)

    with TemporaryDirectory(prefix=FOLDER_PREFIX, dir=store.file.parent) as folder:
        for analysis, group in groupby(store.current(), key=lambda stored: stored.analysis):
            with Store.open(Path(folder), analysis) as copy:
                while portion := [*map(redacted, islice(group, BUNDLES_PER_TRANSACTION))]:
                    copy.put_all(portion)
        if not database_path(Path(folder)).exists():  # nothing is stored
            Store.open(Path(folder), Analysis("", "")).close()
        with StoreReader.at(Path(folder)) as reader:
            yield reader, Judge(list(accepted.values()), judge.today, judge.options if accepted else {})


def _redact(stored: StoredResult, judge: Judge, names: Names) -> BundleResult:
    """A bundle with pseudonyms; accepted findings are marked in its document. One without the form of a result goes."""
    result, document = stored.result, stored.result.document
    status, reason = result.status, result.reason
    if document is not None:
        try:
            marked = as_document(judge.mark_document(document)) if judge.entries else document
            document = redact_result(marked, names)
            reason = status_of_document(document)[1] if reason else ""
        except MALFORMED as error:
            document, status, reason = None, DAMAGED_RESULT, type(error).__name__
    path = Words(names).place(result.path)
    if document is None:
        reason = redact_message(reason, names)
    key = unread_key(path) if result.sha256.startswith(UNREAD_PREFIX) else result.sha256
    return replace(result, sha256=key, path=path, status=status, reason=reason, document=document)


def redact_message(text: str, names: Names) -> str:
    """A sentence of ours about a bundle; what in it may be a path, an address or quoted becomes a pseudonym."""
    words = Words(names)
    return " ".join(words.line(one) if _FOREIGN.search(one) else words.sentence(one) for one in text.split(" "))


def _accepted(document: Mapping[str, Any]) -> Iterator[Accepted]:
    """The findings of a document that somebody accepts, as entries by their pseudonyms."""
    for case in document.get("cases") or [document]:
        for finding in case.get("findings") or ():
            if (mark := finding.get("suppressed")) and finding.get("fingerprint"):
                expires = date.fromisoformat(mark["expires"]) if mark.get("expires") else None
                yield Accepted(
                    mark["by"], mark.get("reason") or "", expires, finding["rule"], "",
                    finding["fingerprint"], finding.get("severity"), finding.get("confidence"), case.get("case"),
                )  # fmt: skip
