"""Words: a title is a state, nobody is blamed, no advice hides in the explanation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule, Where

LONGEST = 360  # characters of a line of a rule file
ORDERS = (
    "Add", "Adjust", "Avoid", "Change", "Check", "Configure", "Decrease", "Disable", "Do", "Enable", "Ensure",
    "Increase", "Lower", "Make", "Raise", "Reduce", "Remove", "Set", "Stop", "Switch", "Tune", "Turn", "Try", "Update",
    "Upgrade", "Use", "Verify",
)  # fmt: skip
_BLAME = re.compile(
    r"\b(?:user error|operator error|your (?:fault|mistake)|misconfigur\w+|careless\w*|foolish\w*|stupid\w*|"
    r"(?:wrong|bad)ly (?:configured|tuned|sized|written)|obviously|of course|simply|should have known|forgot\w*)\b",
    re.IGNORECASE,
)
_DISABLE = re.compile(
    r"(?:(?:^|[.;:] )(?:please )?(?:disable|turn off|switch off)|(?:must|should|please|better|has to|have to) "
    r"(?:be )?(?:disabled?|(?:turn(?:ed)?|switch(?:ed)?) (?:it |them |THP |huge pages )?off))\b",
    re.IGNORECASE,
)
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b")
_SENTENCE = re.compile(r"[.!?)]\"?$")


def _texts(rule: Rule) -> Iterator[tuple[Where, str]]:
    """What readers of a report or of the catalogue get to see."""
    file = rule.file
    yield ("title",), file.title
    yield ("means",), file.means
    yield ("verify",), file.verify
    yield from ((("false_positives", i), text) for i, text in enumerate(file.false_positives))
    yield from ((("references", i), text) for i, text in enumerate(file.references))
    yield from ((("params", name, "means"), param.means) for name, param in file.params.items())


def _order(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    first = rule.file.title.split()[0]
    if first in ORDERS:
        yield Complaint(f"the title gives an order ('{first}'); it says what is", ("title",), first)


def _title(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    title = rule.file.title
    if title.endswith("."):
        yield Complaint("a title has no full stop", ("title",))
    elif title.endswith(("!", "?")):
        yield Complaint(f"a title ends without '{title[-1]}'; it says what is", ("title",))
    elif title.isupper():
        yield Complaint("a title in capitals shouts; write it as a sentence", ("title",))


def _sentences(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for key, text in (("means", rule.file.means), ("verify", rule.file.verify)):
        if text and not _SENTENCE.search(text.strip()):
            yield Complaint(f"{key} ends without a full stop; write whole sentences", (key,))


def _repeated(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    means, title = (" ".join(text.lower().split()) for text in (rule.file.means, rule.file.title))
    if title in means and len(means) < 3 * len(title):
        yield Complaint("means says what the title says; explain how it comes about and why it hurts", ("means",))


def _blame(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, text in _texts(rule):
        if found := _BLAME.search(text):
            word = found[0].split()[0]
            message = f"'{found[0]}' blames or talks down to who reads it; say what is set and what follows from it"
            yield Complaint(message, where, word)


def _disable(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, text in _texts(rule):
        if where[0] in ("means", "verify") and (found := _DISABLE.search(text)):
            words = found[0].strip(" .;:")
            message = f"'{words}' is an advice; remedies give it, with command, cost and undo"
            yield Complaint(message, where, words.split()[0])


def _todo(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for where, text in _texts(rule):
        if found := _TODO.search(text):
            yield Complaint(f"{text.strip()[:80]}", where, found[0])


def _lines(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for number, row in enumerate(rule.source.text.splitlines(), 1):
        if len(row) > LONGEST:
            message = f"line {number} has {len(row)} characters; fold it (>-) or break it at a comma, below {LONGEST}"
            yield Complaint(message, rule.source.key_at(number))


LINTS = (
    Lint("title-is-an-order", "a title that says what to do instead of what is", _order),
    Lint("title-ending", "a title with a full stop, or in capitals", _title),
    Lint("no-sentence", "an explanation that does not end as a sentence", _sentences),
    Lint("means-repeats-title", "an explanation that only repeats the title", _repeated),
    Lint("blaming-word", "words that blame the reader", _blame),
    Lint("advice-in-text", "an advice to disable huge pages outside the remedies", _disable),
    Lint("todo", "something that is left to write", _todo),
    Lint("long-line", "a line too long to read", _lines),
)
