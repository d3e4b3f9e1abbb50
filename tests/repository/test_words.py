"""What a person reads is plain English: docs/style.md lists the words that no help, report, rule, or document has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import visible_text
from conftest import ROOT

STYLE = ROOT / "docs" / "style.md"
# Where a word is right: part of the place, the word, and why.
ALLOWED = (
    ("knowledge/testimony.yaml", "", "patterns of what customers write"),
    ("knowledge/paths.yaml", "", "patterns of paths"),
    ("thpdiag/report/messages.py", "tell", "the status `cannot_tell` of a verdict, as people read it"),
    ("thpdiag/compare/", "tell", "the status `cannot_tell` of a comparison"),
    ("thpdiag/mcp/answers.py", "tell", "the status `cannot_tell` of a comparison, as the answer is worded"),
    ("docs/glossary.md", "tell", "the status `cannot_tell`"),
    ("docs/how-to/compare.md", "tell", "the status `cannot_tell`"),
    ("docs/how-to/agents.md", "tell", "the status `cannot_tell`"),
    ("docs/style.md", "", "the list itself"),
    ("SECURITY.md", "speaks", "a server speaks a protocol"),
)


def banned_words() -> dict[str, str]:
    """The words of the first table of the style guide, each with what to write instead."""
    table = STYLE.read_text("utf-8").partition("## Words to avoid")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!Avoid|---)([^|]+?) \| ([^|]+?) \|$", table, re.MULTILINE)
    return {word.strip(): instead for words, instead in rows for word in words.split(",")}


def pattern(word: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)


KINDS = ("of_commands", "of_rules", "of_knowledge", "of_pages", "of_code", "of_documents")


@pytest.mark.parametrize("kind", KINDS)
def test_no_visible_text_has_a_word_to_avoid(kind: str) -> None:
    """Each is named with its place and what to write instead."""
    words = {word: pattern(word) for word in banned_words()}
    assert len(words) > 20
    found = [
        f"{text.place}: {word!r} in {' '.join(text.text.split())[:120]!r}; {banned_words()[word]}"
        for text in getattr(visible_text, kind)()
        for word, expression in words.items()
        if expression.search(text.text) and not allowed(text.place, word)
    ]
    assert found == []


def allowed(place: str, word: str) -> bool:
    return any(part in place and only in ("", word) for part, only, _ in ALLOWED)


def test_texts_of_all_kinds_are_found(tmp_path: Path) -> None:
    """A collector that found nothing would forbid nothing."""
    for kind, least in zip(KINDS, (150, 1000, 1500, 100, 2000, 150), strict=True):
        assert sum(1 for _ in getattr(visible_text, kind)()) > least, kind
    assert visible_text.count_syllables("compaction") == 3
    ease, _, _ = visible_text.reading_ease(iter(["The cat sat on the mat."]))
    assert 110 < ease < 120
