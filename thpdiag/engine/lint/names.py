"""Names of the vocabulary, of events, symbol families, mechanisms and applications, and what they can be asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import (
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    listed,
)
from thpdiag.knowledge.aliases import meant
from thpdiag.knowledge.applications import applications
from thpdiag.knowledge.complaints import suggestion
from thpdiag.knowledge.kernels import eras
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.symbols import families
from thpdiag.knowledge.vocabulary import entities_of, event, names, term

_FIELDS = re.compile(r"\((?:labels?|fields) (?P<names>[^)]*)\)")
_ALWAYS = {"pid", "comm", "node", "zone", "cpu", "device", "size"}  # labels of entities
WORDS: Mapping[str, tuple[str, ...]] = {
    "thp.enabled": ("always", "madvise", "never"),
    "thp.defrag": ("always", "defer", "defer+madvise", "madvise", "never"),
    "thp.shmem_enabled": ("always", "within_size", "advise", "never", "deny", "force"),
    "boot.transparent_hugepage": ("always", "madvise", "never"),
    "thp.applicable": ("yes", "no"),
    "thp.khugepaged.defrag": ("0", "1", "yes", "no"),
}


def families_of(check: Check) -> list[str]:
    """The symbol families that a check asks for, without single functions (`=name`)."""
    match check:
        case ProfileCheck():
            spec = check.profile
            parts = (spec.self_, spec.anywhere, spec.under, spec.not_under)
        case EventCheck():
            parts = (check.anywhere, check.under, check.not_anywhere, None)
        case _:
            return []
    return [word for part in parts for word in listed(part) if not word.startswith("=")]


def _metrics(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        for word in check.metrics:
            if term(word) is None and not _own_name(word):
                message = f"'{word}' is not in the vocabulary{suggestion(word, names())}"
                yield Complaint(message, ("checks", name), word)


def _aliases(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        for word in check.metrics:
            if term(word) is None and (own := _own_name(word)):
                message = f"'{word}' is what another tool calls it; write {own}"
                yield Complaint(message, ("checks", name), word)


def _own_name(word: str) -> str:
    """The vocabulary's name for what other tools or the kernel's files call so."""
    known = [name for name in meant(word) if term(name) is not None and name != word]
    spelled = [name for name in known if name in names() or name == known[0]]
    return spelled[0] if spelled and re.fullmatch(r"[\w%/-]+", word) and _is_short(word) else ""


def _is_short(word: str) -> bool:
    """No typing mistake in a name of ours, which a pattern for any counter of the kernel would take for one of its."""
    return not word.startswith(("node_", "process_", "cpu_ratio", "thp.", "sysctl")) and ":" not in word


def _events(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        for word in listed(check.event) if isinstance(check, EventCheck) else ():
            if event(word) is None:
                yield Complaint(f"unknown event '{word}'{suggestion(word, names())}", ("checks", name), word)


def _families(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        for word in families_of(check):
            if word not in families():
                message = f"unknown symbol family '{word}'{suggestion(word, families())}"
                yield Complaint(message, ("checks", name), word)


def _mechanism(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    word = rule.file.mechanism
    if word not in mechanisms():
        yield Complaint(f"unknown mechanism '{word}'{suggestion(word, mechanisms())}", ("mechanism",), word)


def _applications(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    known = [app.name for app in applications()]
    for name, check in rule.checks.items():
        for word in listed(check.process.app) if isinstance(check, ProcessCheck) else ():
            if word not in known:
                yield Complaint(f"unknown application '{word}'{suggestion(word, known)}", ("checks", name), word)


def _values(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        if not isinstance(check, FactCheck) or (known := _words_of(check.fact)) is None:
            continue
        for value in (check.is_, check.is_not, *(check.one_of or ())):
            if value is not None and str(value) not in known:
                message = f"{check.fact} is never '{value}', but one of {', '.join(known)}"
                yield Complaint(message + suggestion(str(value), known), ("checks", name), str(value))


def _words_of(fact: str) -> tuple[str, ...] | None:
    if fact == "kernel.era":
        return eras()
    if fact == "app":
        return tuple(app.name for app in applications())
    return WORDS.get(fact)


def _fields(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for name, check in rule.checks.items():
        if isinstance(check, FactCheck) and (known := term(check.fact)):
            fields = _told(known.means) | _ALWAYS
        elif isinstance(check, EventCheck):
            fields = {word for kind in listed(check.event) if (one := event(kind)) for word in _told(one.means)}
        else:
            continue
        for word in check.where:
            if word not in fields:
                hint = suggestion(word, fields) or (f"; it has {', '.join(sorted(fields))}" if fields else "")
                yield Complaint(f"nothing of that kind has a '{word}'{hint}", ("checks", name, "where", word))


def _told(means: str) -> set[str]:
    """The labels or fields that the vocabulary names in brackets."""
    found = _FIELDS.search(means)
    return set(re.findall(r"[a-z_]+", found["names"])) if found else set()


def _entity(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    wanted = rule.file.for_each
    if wanted is None:
        return
    kinds = {kind for check in rule.checks.values() for word in check.metrics for kind in entities_of(word)}
    if wanted not in kinds:
        message = f"no check looks at a metric of a {wanted}; take for_each out, or ask for one"
        yield Complaint(message, ("for_each",), wanted)


LINTS = (
    Lint("unknown-metric", "a fact or metric that the vocabulary does not have", _metrics),
    Lint("alias-of-metric", "a metric by the name of another tool", _aliases),
    Lint("unknown-event", "an event that no reader yields", _events),
    Lint("unknown-family", "a symbol family that symbols.yaml does not have", _families),
    Lint("unknown-mechanism", "a mechanism that mechanisms.yaml does not have", _mechanism),
    Lint("unknown-application", "an application that applications.yaml does not have", _applications),
    Lint("unknown-value", "a word that a setting never has", _values),
    Lint("unknown-field", "a label or field that such facts and events do not have", _fields),
    Lint("for-each-unused", "for_each of something that no check looks at", _entity),
)
