"""`rules docs`: all rules as one page of Markdown, a section each, for those who have no YAML before them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from thpdiag.engine.expression import Expression
from thpdiag.engine.load import Rule
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.remedies import remedies
from thpdiag.workbench.check_words import check_words, for_whom

ROLES = {
    "root_cause": "Causes",
    "contributing": "What makes it worse",
    "configuration": "Configuration",
    "risk": "Risks",
    "alternative": "Causes that look alike and are none of huge pages",
    "context": "Context",
}
LISTS = (
    ("excluded_by", "Not given where one of these fires"),
    ("demoted_by", "Steps back behind"),
    ("raised_by", "Becomes surer by"),
    ("explains", "Explains, if both fire"),
)


def catalogue(rules: Sequence[Rule]) -> str:
    """The whole page, by role and id."""
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
    """As the usual renderers of Markdown make them of a heading."""
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
    yield _flat(file.means)
    yield ""
    yield from _when(rule)
    yield from _parameters(rule)
    yield from _related(rule, rules)
    yield from _what_to_do(rule)
    yield from _listing("Beware", file.false_positives)
    yield from _listing("From", file.references)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _when(rule: Rule) -> Iterator[str]:
    yield f"Fires when {for_whom(rule)}{_quoted(rule.when, rule)}."
    for level, expression in rule.confidence.items():
        yield f"{level.capitalize()} when {_quoted(expression, rule)}."
    yield ""
    yield from (f"- *{name}*: {check_words(check)}" for name, check in rule.checks.items())


def _quoted(expression: Expression, rule: Rule) -> str:
    """The condition with the names of checks set off."""
    return re.sub(r"[A-Za-z_][\w-]*", lambda f: f"*{f[0]}*" if f[0] in rule.checks else f[0], str(expression))


def _parameters(rule: Rule) -> Iterator[str]:
    if rule.file.params:
        yield from ("", "| parameter | value | why |", "| --- | --- | --- |")
    for name, param in rule.file.params.items():
        yield f"| {name} | {param.default} | {_flat(param.means).replace('|', '/')} |"


def _related(rule: Rule, rules: Mapping[str, Rule]) -> Iterator[str]:
    told = [(words, getattr(rule.file, key)) for key, words in LISTS]
    told = [(words, names) for words, names in told if names]
    if told:
        yield ""
    for words, names in told:
        yield f"- {words}: {', '.join(_link(rules[n]) if n in rules else n for n in names)}"


def advised(rule: Rule) -> Iterator[tuple[str, str]]:
    """The remedies of a rule by name, each with why it helps; empty if nothing is said of that."""
    known = remedies()
    for name in rule.file.remedies:
        row = known.get(name, {})
        own = (
            one for one in row.get("variants", ()) if one.get("mechanism", rule.file.mechanism) == rule.file.mechanism
        )
        reason = row.get("because", {}).get(rule.file.mechanism) or row.get("reason")
        reason = reason or next((one["reason"] for one in own if "reason" in one), "")
        yield name, _flat(reason)


def _what_to_do(rule: Rule) -> Iterator[str]:
    if rule.file.remedies:
        yield from ("", "What to do, as far as it fits the host:", "")
    yield from (f"- `{name}`{f': {reason}' if reason else ''}" for name, reason in advised(rule))
    if rule.file.verify:
        yield from ("", f"Verify: {_flat(rule.file.verify)}")


def _listing(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield from ("", f"{title}:", "")
    yield from (f"- {_flat(text)}" for text in texts)
