"""Each text of a document says by its type what it may tell of the customer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from thpdiag.model.document import Document
from thpdiag.model.explanation import ExplainedHost
from thpdiag.model.result import Result
from thpdiag.redact.document import choices_of, fields_of, privacy_of


def unclassified(hint: Any, at: str, met: set[type]) -> Iterator[str]:
    """Places at which a text has no kind."""
    for part in choices_of(hint):
        if part is str or part is Any:
            yield at
        elif isinstance(part, type) and issubclass(part, Document):
            if part not in met:
                met.add(part)
                for key, sub in fields_of(part).items():
                    yield from unclassified(sub, f"{part.__name__}.{key}", met)
        elif privacy_of(part) is None:
            for sub in get_args(part):
                yield from unclassified(sub, at, met) if not isinstance(sub, str) else ()


@pytest.mark.parametrize("model", [Result, ExplainedHost])
def test_each_text_is_classified(model: type[Document]) -> None:
    """What `thpdiag --redact` does with it stands at the key."""
    assert list(unclassified(model, model.__name__, set())) == []


def test_a_text_without_a_kind_is_noticed() -> None:
    """A key that somebody adds as a plain string."""

    class Careless(Result):
        remark: str | None = None

    assert list(unclassified(Careless, "", {*()})) == ["Careless.remark"]
