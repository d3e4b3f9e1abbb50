"""`rules docs`: all rules as one page of Markdown with a section each.

Checks become sentences: `spinning: {profile: {self: spin_lock, at_least: $share}}` -> "at least 20 % of the samples
that are not idle end in spinning for locks".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.engine.expression import Expression
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import (
    Change,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    Profile,
    ProfileCheck,
    RuleCheck,
    SeriesCheck,
    Toggle,
    ToggleCheck,
    as_list,
)
from thpdiag.engine.wording import metric_words, term_meaning
from thpdiag.knowledge.mechanisms import mechanisms, remedies
from thpdiag.knowledge.switches import compared_figures
from thpdiag.knowledge.symbols import families, task_groups
from thpdiag.knowledge.vocabulary import event

FIGURES = {
    "level": "{}", "mean": "the mean of {}", "last": "the last value of {}", "rate": "{} per second",
    "delta": "the growth of {} over the recording", "slope": "the steady growth of {} per second",
    "spread": "how far {} varies, as a part of its largest value",
    "step": "the largest change of {}, relative to what was before",
    "rise": "the most that {} rises by from one sample to the next",
    "knee": "the growth of {} after its bend, relative to before",
    "since_boot_rate": "{} since boot per second of uptime",
}  # fmt: skip
PLACES = {
    "all": "the samples that are not idle", "comm": "the samples of one command", "thread": "the samples of one thread",
    "cpu": "the samples of one CPU", "symbol": "the samples in these functions",
    "callers": "the samples in what calls it",
}  # fmt: skip


def check_words(check: Check) -> str:
    """Return a check as a sentence without a full stop."""
    match check:
        case FactCheck():
            return _fact_sentence(check)
        case SeriesCheck():
            return _series_sentence(check)
        case ProfileCheck():
            return _profile_sentence(check.profile)
        case EventCheck():
            return _event_sentence(check)
        case ProcessCheck():
            return _process_sentence(check)
        case ToggleCheck():
            return _toggle_sentence(check.toggle)
        case RuleCheck():
            return f"{check.rule} {'fires' if check.is_ == 'fires' else 'does not fire'}"
        case _:
            return _change_sentence(check.change)


def subject_prefix(rule: Rule) -> str:
    """Return `for_each` as the beginning of a sentence."""
    return f"for one and the same {rule.file.for_each}: " if rule.file.for_each else ""


def _join_or(words: Iterable[object]) -> str:
    return " or ".join(map(str, words))


def _bounds(above: object, below: object, at_least: object = None) -> Iterator[str]:
    for word, bound in (("at least", at_least), ("above", above), ("below", below)):
        if bound is not None:
            yield f"{word} {bound}"


def _fact_sentence(check: FactCheck) -> str:
    tests = [f"is `{check.is_}`"] if check.is_ is not None else []
    tests += [f"is {_join_or(f'`{word}`' for word in check.one_of)}"] if check.one_of else []
    tests += [f"is not `{check.is_not}`"] if check.is_not is not None else []
    tests += [f"is {bound}" for bound in _bounds(check.above, check.below)]
    tests += [f"matches `{check.matches}`"] if check.matches is not None else []
    condition = " and ".join(tests) or "is in the input"
    return f"`{check.fact}` ({term_meaning(check.fact)}){_label_text(check.where)} {condition}"


def _label_text(labels: dict[str, str]) -> str:
    return f" with {' and '.join(f'{key} `{value}`' for key, value in labels.items())}" if labels else ""


def _series_sentence(check: SeriesCheck) -> str:
    figure = FIGURES[check.as_].format(f"`{check.series}` ({metric_words([check.series])})")
    duration = f" for {check.for_}" if check.for_ else ""
    samples = f", seen in {check.min_samples} samples or more" if check.min_samples > 1 else ""
    return f"{figure} is {' and '.join(_bounds(check.above, check.below))}{duration}{samples}"


def _change_sentence(change: Change) -> str:
    per = f" per {' + '.join(f'`{name}`' for name in as_list(change.per))}" if change.per else ""
    verb = "grew by" if change.as_ == "growth" else "rose by at most from a low to a later high"
    text = f"what {' + '.join(f'`{name}`' for name in as_list(change.of))} {verb}{per}"
    bounds = " and ".join(_bounds(change.above, change.below))
    text += f" is {bounds}" if bounds else ""
    if change.at_least is not None:
        text += f"{' and' if bounds else ' is'} at least {change.at_least}{' in all' if per else ''}"
    text += f", out of at least {change.per_at_least}" if change.per_at_least is not None else ""
    text += f", over {change.over} or more" if change.over is not None else ""
    return text + (f", in any {change.within} of it" if change.within is not None else "")


def _families(names: list[str]) -> str:
    known = families()
    return _join_or(f"`{n[1:]}`" if n.startswith("=") else known[n].title if n in known else n for n in names)


def _profile_sentence(spec: Profile) -> str:
    share = f"at least {spec.at_least}" if spec.at_least is not None else f"less than {spec.below}"
    command = f" of commands that match `{spec.comm}`" if spec.comm else ""
    command += f" without {task_groups()[spec.not_comm].title}" if spec.not_comm else ""
    command += " of tasks that are not named" if spec.unnamed else ""
    place = f"end in {_families(as_list(spec.self_))}" if spec.self_ else f"are in {_families(as_list(spec.anywhere))}"
    under = f", called by {' by '.join(_families([name]) for name in as_list(spec.under))}" if spec.under else ""
    without = f", not called by {_families(as_list(spec.not_under))}" if spec.not_under else ""
    return f"{share} of {PLACES[spec.of]}{command} {place}{under}{without}"


def _event_sentence(check: EventCheck) -> str:
    kinds = [known.means.split(" (")[0] if (known := event(kind)) else kind for kind in as_list(check.event)]
    trace = f", with {_families(as_list(check.anywhere))} in its stack" if check.anywhere else ""
    trace += f" called by {' by '.join(_families([name]) for name in as_list(check.under))}" if check.under else ""
    trace += f", without {_families(as_list(check.not_anywhere))}" if check.not_anywhere else ""
    repetitions = f", {check.at_least} times or more" if check.at_least > 1 else ""
    return f"{_join_or(kinds)}{_label_text(check.where)}{trace}{repetitions}"


def _process_sentence(check: ProcessCheck) -> str:
    spec = check.process
    conditions = [f"{what} matches `{p}`" for what, p in (("command", spec.comm), ("command line", spec.args)) if p]
    name = _join_or(as_list(spec.app)) if spec.app else f"a process whose {' and whose '.join(conditions)}"
    return f"{name} uses more than {spec.cpu_above} of a CPU" if spec.cpu_above is not None else f"{name} runs here"


def _toggle_sentence(toggle: Toggle) -> str:
    metrics = _join_or(compared_figures()[metric].title for metric in toggle.metrics)
    settings = _join_or(f"`{name}`" for name in toggle.settings)
    return f"measured with two values of {settings}, {metrics} differ by {toggle.ratio} times or more"


ROLES = {
    "root_cause": "Causes",
    "contributing": "What makes it worse",
    "configuration": "Configuration",
    "risk": "Risks",
    "alternative": "Look-alike causes that have nothing to do with huge pages",
    "context": "Context",
}
RELATION_TITLES = (
    ("excluded_by", "Not given where one of these fires"),
    ("demoted_by", "Steps back behind"),
    ("raised_by", "Becomes surer by"),
    ("explains", "Explains, if both fire"),
)


def catalogue(rules: Sequence[Rule]) -> str:
    """Return the whole page, sorted by role and id."""
    by_id = {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
    lines = ["# The rules of thpdiag", "", f"{len(by_id)} rules. `thpdiag rules docs` writes this page.", ""]
    for role, heading in ROLES.items():
        of_role = [rule for rule in by_id.values() if rule.file.role == role]
        if of_role:
            lines += [f"- [{heading}](#{_anchor(heading)}): {', '.join(_link(rule) for rule in of_role)}"]
    for role, heading in ROLES.items():
        of_role = [rule for rule in by_id.values() if rule.file.role == role]
        if of_role:
            lines += ["", f"## {heading}"]
        for rule in of_role:
            lines += ["", *_section(rule, by_id)]
    return "\n".join(lines) + "\n"


def _anchor(text: str) -> str:
    """The anchor of a heading as usual Markdown renderers make it."""
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


def _heading(rule: Rule) -> str:
    return f"{rule.id}: {rule.file.title}"


def _link(rule: Rule) -> str:
    return f"[{rule.id}](#{_anchor(_heading(rule))})"


def _section(rule: Rule, rules: Mapping[str, Rule]) -> Iterator[str]:
    file, known = rule.file, mechanisms().get(rule.file.mechanism)
    yield f"### {_heading(rule)}"
    yield ""
    mechanism = f"`{file.mechanism}`{f' ({known.title})' if known else ''}"
    yield f"{file.severity}, {file.role.replace('_', ' ')}, {file.status}; mechanism {mechanism}"
    yield ""
    yield _single_line(file.means)
    yield ""
    yield from _condition_sentence(rule)
    if rule.file.params:
        yield from ("", "| parameter | value | why |", "| --- | --- | --- |")
    for name, param in rule.file.params.items():
        yield f"| {name} | {param.default} | {_single_line(param.means).replace('|', '/')} |"
    relations = [(words, getattr(rule.file, key)) for key, words in RELATION_TITLES]
    relations = [(words, names) for words, names in relations if names]
    if relations:
        yield ""
    for words, names in relations:
        yield f"- {words}: {', '.join(_link(rules[n]) if n in rules else n for n in names)}"
    yield from _remedy_lines(rule)
    yield from _listing("Beware", file.false_positives)
    yield from _listing("From", file.references)


def _single_line(text: str) -> str:
    return " ".join(text.split())


def _condition_sentence(rule: Rule) -> Iterator[str]:
    yield f"Fires when {subject_prefix(rule)}{_condition_text(rule.when, rule)}."
    for level, expression in rule.confidence.items():
        yield f"{level.capitalize()} when {_condition_text(expression, rule)}."
    yield ""
    yield from (f"- *{name}*: {check_words(check)}" for name, check in rule.checks.items())


def _condition_text(expression: Expression, rule: Rule) -> str:
    """The condition with emphasised names of checks."""
    return re.sub(r"[A-Za-z_][\w-]*", lambda f: f"*{f[0]}*" if f[0] in rule.checks else f[0], str(expression))


def remedies_of(rule: Rule) -> Iterator[tuple[str, str]]:
    """Yield the names of a rule's remedies, each with its reason or ""."""
    known = remedies()
    for name in rule.file.remedies:
        row = known.get(name, {})
        mechanism = rule.file.mechanism
        variants = (v for v in row.get("variants", ()) if v.get("mechanism", mechanism) == mechanism)
        reason = row.get("because", {}).get(mechanism) or row.get("reason")
        reason = reason or next((v["reason"] for v in variants if "reason" in v), "")
        yield name, _single_line(reason)


def _remedy_lines(rule: Rule) -> Iterator[str]:
    if rule.file.remedies:
        yield from ("", "What to do, as far as it fits the host:", "")
    yield from (f"- `{name}`{f': {reason}' if reason else ''}" for name, reason in remedies_of(rule))
    if rule.file.verify:
        yield from ("", f"Verify: {_single_line(rule.file.verify)}")


def _listing(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from ("", f"{title}:", "")
    yield from (f"- {_single_line(text)}" for text in texts)
