"""Sentences know the customer's names in them, however they are put together."""

from __future__ import annotations

import json
import pickle

from thpdiag.model.document import plain_document
from thpdiag.model.result import Note, SampleLoss, UnknownRule
from thpdiag.model.text import (
    Name,
    NameKind,
    Text,
    entity_name,
    names_in,
    path_name,
    process_name,
    quoted,
    sentence,
)

WRITTEN = sentence(f"only 3 samples of {process_name('payrolld')} in {path_name('var/log/a.txt:7')}")
NAMES = (Name(NameKind.PROCESS, "payrolld"), Name(NameKind.PATH, "var/log/a.txt:7"))


def test_a_sentence_reads_as_plain_text() -> None:
    """The marks are gone, and the names are known with their kinds."""
    assert WRITTEN == "only 3 samples of payrolld in var/log/a.txt:7"
    assert json.dumps(WRITTEN) == '"only 3 samples of payrolld in var/log/a.txt:7"'
    assert names_in(WRITTEN) == NAMES
    assert names_in(pickle.loads(pickle.dumps(WRITTEN))) == NAMES


def test_a_part_brings_its_names_along() -> None:
    """In another sentence, before or behind plain words, without its begin."""
    wholes = [sentence(f"{WRITTEN}; but not now"), WRITTEN + "; x", "x: " + WRITTEN, WRITTEN[5:]]
    assert [names_in(whole) for whole in wholes] == [NAMES] * 4
    assert wholes[0] == f"{WRITTEN!s}; but not now"


def test_what_names_nothing_is_a_plain_text() -> None:
    """Nor does a name without letters make one."""
    assert not isinstance(sentence(f"nothing{quoted('')}"), Text)


def test_a_name_forges_no_other() -> None:
    """A name that holds the marks is one name all the same."""
    forged = entity_name("a\ufdd2 is ours \ufdd0host\ufdd1b")
    assert [name.kind for name in names_in(sentence(f"{forged} runs"))] == [NameKind.ENTITY]


def test_each_object_lists_the_names_of_its_own_sentences() -> None:
    """Also those in lists of sentences and in keys; the sentences themselves are plain texts."""
    fields = [{"kind": "process", "value": "payrolld"}, {"kind": "path", "value": "var/log/a.txt:7"}]
    note = Note.model_construct(text=WRITTEN)
    assert type(note.text) is str
    assert plain_document(note) == {"text": str(WRITTEN), "fields": fields}
    assert plain_document(SampleLoss.model_construct(odd={WRITTEN: 1}))["fields"] == fields
    assert plain_document(UnknownRule.model_construct(rule="THP-001", because=[WRITTEN]))["fields"] == fields
    assert "fields" not in plain_document(Note.model_construct(text="plain"))
