"""What a rule says of other rules, and whether it fits its role and mechanism."""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import RuleCheck
from thpdiag.knowledge.mechanisms import look_alikes, mechanisms

LISTS = ("excluded_by", "demoted_by", "raised_by", "explains")
KINDS = {"root_cause": ("thp",), "alternative": ("alternative", "none")}


def _itself(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for key in LISTS:
        if rule.id in getattr(rule.file, key):
            yield Complaint(f"a rule cannot name itself in {key}; take it out", (key,), rule.id)


def _both(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    file = rule.file
    for one, other in (("excluded_by", "demoted_by"), ("excluded_by", "raised_by"), ("demoted_by", "raised_by")):
        for name in dict.fromkeys(getattr(file, one)):
            if name in getattr(file, other):
                yield Complaint(f"{name} stands in {one} too; keep one of the two", (other,), name)


def _twice(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for key in (*LISTS, "remedies", "references", "examples", "false_positives"):
        seen: set[str] = set()
        for i, word in enumerate(getattr(rule.file, key)):
            if word in seen:
                yield Complaint(f"'{word}' stands twice in {key}; take one out", (key, i))
            seen.add(word)


def _mutual(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    for name in rule.file.explains:
        other = whole.rules.get(name)
        decided = other and (name in rule.file.demoted_by or rule.id in other.file.demoted_by)
        if other and rule.id in other.file.explains and name != rule.id and not decided:
            message = f"{name} explains {rule.id} too; let one of them be demoted_by the other"
            yield Complaint(message, ("explains",), name)


def _explained_excluder(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    file = rule.file
    for name in file.explains:
        if name in file.excluded_by:
            message = f"{name} cannot follow from this rule and exclude it; keep one of explains and excluded_by"
            yield Complaint(message, ("explains",), name)


def _checked(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    """`excluded_by` and a check on the same rule say the same twice."""
    for name, check in rule.checks.items():
        if isinstance(check, RuleCheck) and check.is_ == "silent" and check.rule in rule.file.excluded_by:
            message = f"excluded_by names {check.rule} already; take the check or the entry out"
            yield Complaint(message, ("checks", name), check.rule)


def _look_alikes(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    """A cause says what it must not be mixed up with: by a rule that excludes or demotes it, or in words."""
    file = rule.file
    known = look_alikes(file.mechanism)
    if file.role != "root_cause" or not known or file.excluded_by or file.demoted_by or file.false_positives:
        return
    message = (
        f"{', '.join(known)} can look like {file.mechanism}; add excluded_by or demoted_by with a rule of these, or "
    )
    yield Complaint(message + "say in false_positives what tells them apart", ("role",))


def _role(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    known = mechanisms().get(rule.file.mechanism)
    wanted = KINDS.get(rule.file.role)
    if known and wanted and known.kind not in wanted:
        message = f"{known.name} is of kind {known.kind}, which no {rule.file.role} has (mechanisms.yaml); mend one"
        yield Complaint(message, ("role",))


LINTS = (
    Lint("refers-to-itself", "a rule in one of its own lists", _itself),
    Lint("excluded-and-demoted", "one rule in two lists that contradict each other", _both),
    Lint("listed-twice", "an entry that stands twice in a list", _twice),
    Lint("explain-each-other", "two rules that explain each other", _mutual),
    Lint("explains-its-excluder", "a rule that both follows from this one and excludes it", _explained_excluder),
    Lint("excluder-checked-too", "a check for a rule that excludes anyway", _checked),
    Lint("look-alikes-not-faced", "a cause that does not say how its look-alikes are told apart", _look_alikes),
    Lint("role-against-mechanism", "a root cause without huge pages, or an alternative with them", _role),
)
