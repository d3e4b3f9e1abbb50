"""The document of `thpdiag explain` for a terminal: 80 columns, the condition as a tree, the smallest change last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.model.explanation import (
    Change,
    ExplainedFinding,
    ExplainedHost,
    ExplainedRule,
    Explanation,
    Node,
    OtherRule,
    StateOutcome,
)
from thpdiag.report.escaping import prose, visible
from thpdiag.report.layout import WIDTH, fold
from thpdiag.report.messages import REDACTED, command_lines
from thpdiag.report.text import MARKS

MAX_INDENT = WIDTH // 3  # columns
MAX_QUOTATION = 140  # characters of a quoted line
MAX_STATES = 12
MAX_STEPS = 2  # printed for a state that has one line


def render(explanation: Explanation) -> str:
    """Return what the rule means, then each host."""
    out = list(_rule(explanation.rule))
    for host in explanation.hosts:
        out += ["", *_host(host)]
    if explanation.hosts and explanation.tool.options:
        options = "; ".join(f"{name}={value}" for name, value in sorted(explanation.tool.options.items()))
        out += ["", *fold(prose(options), "Options that change the analysis: ", "  ")]
    if explanation.tool.redacted:
        out += ["", *fold(REDACTED)]
    return "\n".join(line.rstrip() for line in out) + "\n"


def _rule(rule: ExplainedRule) -> Iterator[str]:
    yield from fold(prose(rule.title), f"{visible(rule.id)}  ", "  ")
    yield f"{rule.severity}, {rule.role.replace('_', ' ')}, mechanism {visible(rule.mechanism)}"
    yield ""
    yield from fold(prose(rule.means))
    yield ""
    yield from fold(prose(rule.when), "Fires when: ", "  ")
    for level, expression in rule.confidence.items():
        yield from fold(prose(expression), f"{level}: ", "  ")
    for param in rule.params:
        chosen = " (set for this run)" if param.set else ""
        yield from fold(prose(f"{param.value}{chosen}: {param.means}"), f"${visible(param.name)} = ", "  ")
    for label, others in (("Silenced by", rule.excluded_by), ("Only contributes beside", rule.demoted_by)):
        if others:
            yield from fold(", ".join(others), f"{label}: ", "  ")
    notes = {"Verify": [rule.verify], "Beware": rule.false_positives, "Source": rule.references}
    for label, texts in notes.items():
        for text in filter(None, texts):
            yield from fold(prose(text), f"{label}: ", "  ")


def _host(host: ExplainedHost) -> Iterator[str]:
    finding = host.finding
    grade = f": {finding.confidence}, {finding.role.replace('_', ' ')}" if finding else ""
    yield from fold(prose(f"{host.outcome}{grade}"), f"On {visible(host.case)[:30] or 'this host'}: ", "  ")
    rows = [("Note", note) for note in host.notes]  # what else decided, and the subject of the tree
    rows += [("State", host.state.text)] if host.state else []
    rows += [("Of", host.entity)] if host.entity else []
    rows += [("Window", host.window.text)] if host.window else []
    for label, text in rows:
        yield from fold(prose(text), f"  {label}: ", "    ")
    yield ""
    yield "Condition (+ yes, - no, ? unknown)"
    yield from _node(host.tree, 2)
    yield from _levels_and_others(host)
    if finding:
        yield from ["", *_confidence(finding)]
    yield from ["", *_change(host.change)]
    if len(host.states) > 1:
        yield from ["", *_states(host.states)]


def _levels_and_others(host: ExplainedHost) -> Iterator[str]:
    """Yield the conditions of each confidence level, and the rules that would silence or demote this one."""
    for level in host.levels:
        yield from fold(prose(level.expr), f"{MARKS[level.value]} {level.level}: ", "    ")
        for check in level.checks:
            yield from _node(check, 4)
    for label, others in (("Would silence it", host.excluders), ("Would demote it", host.demoters)):
        if others:
            yield f"{label}:"
        for other in others:
            yield from _other_rule(other)


def _node(node: Node, indent: int) -> Iterator[str]:
    margin = " " * min(indent, MAX_INDENT)
    mark = f"{margin}{MARKS[node.value]} "
    if node.op != "check":
        yield f"{mark}{node.op}"
        for child in node.children:
            yield from _node(child, indent + 2)
        return
    text = node.text or ""
    aside = "".join(f", {word}" for word in ("weak", "assumed") if getattr(node, word) and word not in text)
    yield from fold(visible(node.expr), mark, f"{margin}  ")
    yield from _labelled_lines("is:     ", f"{text} ({node.class_}{aside})", margin)
    if node.needed:
        yield from _labelled_lines("needed: ", node.needed, margin)
    for bound in node.bounds:
        yield from _labelled_lines("        ", bound.text, margin)
    yield from _citation(node, margin)
    if node.window:
        yield from _labelled_lines("seen:   ", node.window.text, margin)


def _labelled_lines(label: str, text: str, margin: str) -> list[str]:
    return fold(prose(text), f"{margin}    {label}", f"{margin}    {' ' * 8}")


def _citation(cited: Node | OtherRule, margin: str) -> Iterator[str]:
    """Yield the place, and the line at that place."""
    if not cited.member:
        return
    line = cited.source_line if cited.source_line is not None else cited.line
    yield from _labelled_lines("in:     ", f"{cited.member}:{line}" if line is not None else cited.member, margin)
    if cited.source:
        text = visible(cited.source.strip())
        text = text if len(text) <= MAX_QUOTATION else f"{text[:MAX_QUOTATION]} ..."
        yield from fold(" ".join(text.split()), f"{margin}            | ", f"{margin}            | ")


def _other_rule(other: OtherRule) -> Iterator[str]:
    confidence = f", {other.confidence}" if other.confidence else ""
    missing = f"; lacks {', '.join(other.missing)}" if other.outcome == "unknown" and other.missing else ""
    text = f": {other.text}" if other.text else ""
    yield from fold(prose(f"{other.outcome}{confidence}{text}{missing}"), f"  {visible(other.rule)} ", "    ")
    yield from _citation(other, "")


def _confidence(finding: ExplainedFinding) -> Iterator[str]:
    yield f"Confidence: {finding.confidence}"
    for label, classes in (("Support", finding.classes_spoken), ("Missing", finding.classes_missing)):
        if classes:
            yield from fold(", ".join(classes), f"  {label}: ", "    ")
    for text in finding.raise_confidence:
        yield from fold(prose(text), "  Surer with: ", "    ")
    for step in finding.surer:
        evidence = " and ".join(step.classes) or "the alternative explanations decided"
        ask = "; ask the customer for" if step.ask_for else ""
        yield from fold(prose(f"{step.to} with {evidence}{ask}"), "  ", "    ")
        yield from command_lines("", step.ask_for, "  ")


def _change(change: Change | None) -> Iterator[str]:
    """Yield the smallest change that would reverse the outcome, check by check."""
    if change is None:
        yield "No change of up to four checks would change the outcome."
        return
    effect = "Would have fired with" if change.to == "fire" else "Would not have fired with"
    yield f"{effect}{f' all {len(change.steps)} of' if len(change.steps) > 1 else ''}:"
    for step in change.steps:
        name = f"{visible(step.check)} {step.to}: " if step.check else ""
        when = f" ({step.window})" if step.window else ""
        text = f"{step.needed}; {step.by}" if step.by else f"{step.needed}; now {step.text}"
        yield from fold(prose(text + when), f"  {name}", "    ")
    if commands := dict.fromkeys(command for step in change.steps for command in step.ask_for):
        yield from command_lines("To decide it ask the customer for", list(commands), "  ")


def _states(states: Sequence[StateOutcome]) -> Iterator[str]:
    """Yield the outcome in each state in one line; the state shown above is among them."""
    yield f"In each of {len(states)} states:"
    for state in states[:MAX_STATES]:
        settings = state.state.text if state.state else "?"
        confidence = f", {state.confidence}" if state.confidence else ""
        when = f" ({state.window.text})" if state.window else ""
        missing, steps = "", state.change.steps if state.change and state.outcome != "fires" else []
        if len(steps) > MAX_STEPS:
            missing = f"; {len(steps)} checks would have to differ"
        elif steps:
            missing = f"; would have fired with {' and '.join(step.by or step.needed for step in steps)}"
        yield from fold(prose(f"{settings}: {state.outcome}{confidence}{when}{missing}"), "  ", "    ")
    if len(states) > MAX_STATES:
        yield f"  and {len(states) - MAX_STATES} more"
