"""The document of `thpdiag explain` for a terminal: 80 columns, the condition as a tree, the smallest change last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.reports.columns import WIDTH, fold
from thpdiag.reports.verdict import REDACTED
from thpdiag.reports.visible import lines, prose, visible

MARKS = {"yes": "+", "no": "-", "unknown": "?"}
DEEPEST = WIDTH // 3  # columns of indentation
LONGEST = 140  # characters of a quoted line
MOST_STATES = 12
MOST_STEPS = 2  # of a state that is told in a line

Document = Mapping[str, Any]


def render(document: Document) -> str:
    """What the rule means, then each host."""
    out = list(_rule(document["rule"]))
    for host in document["hosts"]:
        out += ["", *_host(document["rule"], host)]
    if document["hosts"] and document["tool"]["options"]:
        asked = "; ".join(f"{name}={value}" for name, value in sorted(document["tool"]["options"].items()))
        out += ["", *fold(prose(asked), "Options that change the analysis: ", "  ")]
    if document["tool"].get("redacted"):
        out += ["", *fold(REDACTED)]
    return "\n".join(line.rstrip() for line in out) + "\n"


def _rule(rule: Document) -> Iterator[str]:
    yield from fold(prose(rule["title"]), f"{visible(rule['id'])}  ", "  ")
    yield f"{rule['severity']}, {rule['role'].replace('_', ' ')}, mechanism {visible(rule['mechanism'])}"
    yield ""
    yield from fold(prose(rule["means"]))
    yield ""
    yield from fold(prose(rule["when"]), "Fires when: ", "  ")
    for level, expression in rule["confidence"].items():
        yield from fold(prose(expression), f"{level}: ", "  ")
    for param in rule["params"]:
        told = " (set for this run)" if param["set"] else ""
        yield from fold(prose(f"{param['value']}{told}: {param['means']}"), f"${visible(param['name'])} = ", "  ")
    for label, key in (("Silenced by", "excluded_by"), ("Only contributes beside", "demoted_by")):
        if rule[key]:
            yield from fold(", ".join(rule[key]), f"{label}: ", "  ")
    for label, texts in (
        ("Verify", [rule["verify"]]), ("Beware", rule["false_positives"]), ("Source", rule["references"]),
    ):  # fmt: skip
        for text in filter(None, texts):
            yield from fold(prose(text), f"{label}: ", "  ")


def _host(rule: Document, host: Document) -> Iterator[str]:
    finding = host["finding"]
    told = f": {finding['confidence']}, {finding['role'].replace('_', ' ')}" if finding else ""
    yield from fold(prose(f"{host['outcome']}{told}"), f"On {visible(host['case'])[:30] or 'this host'}: ", "  ")
    yield from _looked_at(host)
    yield ""
    yield "Condition (+ yes, - no, ? unknown)"
    yield from _node(host["tree"], 2)
    for level in host["levels"]:
        yield from fold(prose(level["expr"]), f"{MARKS[level['value']]} {level['level']}: ", "    ")
        for check in level["checks"]:
            yield from _node(check, 4)
    yield from _beside(host)
    if finding:
        yield from ["", *_confidence(finding)]
    yield from ["", *_change(host["change"])]
    yield from _states(host)


def _looked_at(host: Document) -> Iterator[str]:
    """What decided beside the condition; the state, entity and time that the tree is of."""
    rows = [("Note", note) for note in host["notes"]]
    rows += [("State", host["state"]["text"])] if host["state"] else []
    rows += [("Of", host["entity"])] if host["entity"] else []
    rows += [("Window", host["window"]["text"])] if host["window"] else []
    for label, text in rows:
        yield from fold(prose(text), f"  {label}: ", "    ")


def _beside(host: Document) -> Iterator[str]:
    """What the rules say that would silence or demote it."""
    for label, key in (("Would silence it", "excluders"), ("Would demote it", "demoters")):
        if host[key]:
            yield f"{label}:"
        for other in host[key]:
            yield from _other(other)


def _node(node: Document, indent: int) -> Iterator[str]:
    margin = " " * min(indent, DEEPEST)
    mark = f"{margin}{MARKS[node['value']]} "
    if node["op"] != "check":
        yield f"{mark}{node['op']}"
        for child in node["children"]:
            yield from _node(child, indent + 2)
        return
    yield from fold(visible(node["expr"]), mark, f"{margin}  ")
    yield from _labelled("is:     ", _said(node), margin)
    if node["needed"]:
        yield from _labelled("needed: ", str(node["needed"]), margin)
    for bound in node["bounds"]:
        yield from _labelled("        ", bound["text"], margin)
    yield from _cited(node, margin)
    if node["window"]:
        yield from _labelled("seen:   ", node["window"]["text"], margin)


def _said(node: Document) -> str:
    aside = [word for word in ("weak", "assumed") if node[word] and word not in node["text"]]
    return f"{node['text']} ({node['class']}{', ' + ', '.join(aside) if aside else ''})"


def _labelled(label: str, text: str, margin: str) -> list[str]:
    return fold(prose(text), f"{margin}    {label}", f"{margin}    {' ' * 8}")


def _cited(node: Document, margin: str) -> Iterator[str]:
    """Where it stands, and what stands there."""
    if not node["member"]:
        return
    line = node["source_line"] if node["source_line"] is not None else node["line"]
    place = f"{node['member']}:{line}" if line is not None else node["member"]
    yield from _labelled("in:     ", place, margin)
    if node["source"]:
        text = visible(node["source"].strip())
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
        yield from fold(" ".join(text.split()), f"{margin}            | ", f"{margin}            | ")


def _other(other: Document) -> Iterator[str]:
    sure = f", {other['confidence']}" if other["confidence"] else ""
    lacks = f"; lacks {', '.join(other['missing'])}" if other["outcome"] == "unknown" and other["missing"] else ""
    text = f": {other['text']}" if other["text"] else ""
    yield from fold(prose(f"{other['outcome']}{sure}{text}{lacks}"), f"  {visible(other['rule'])} ", "    ")
    yield from _cited(other, "")


def _confidence(finding: Document) -> Iterator[str]:
    yield f"Confidence: {finding['confidence']}"
    for label, key in (("Spoke", "classes_spoken"), ("Missing", "classes_missing")):
        if finding[key]:
            yield from fold(", ".join(finding[key]), f"  {label}: ", "    ")
    for text in finding["raise_confidence"]:
        yield from fold(prose(text), "  Surer with: ", "    ")
    for way in finding["surer"]:
        what = " and ".join(way["classes"]) or "what would explain it otherwise decided"
        yield from fold(
            prose(f"{way['to']} with {what}; ask the customer for" if way["ask_for"] else f"{way['to']} with {what}"),
            "  ",
            "    ",
        )
        yield from _commands(way["ask_for"])


def _commands(commands: list[str]) -> Iterator[str]:
    """Unbroken, each alone on its line, to be copied."""
    yield from ("      " + line for command in commands for line in lines(command))


def _change(change: Document | None) -> Iterator[str]:
    """What it would take, check by check."""
    if change is None:
        yield "No change of at most four checks would have turned it."
        return
    turned = "Would have fired with" if change["to"] == "fire" else "Would not have fired with"
    steps = change["steps"]
    yield f"{turned}{f' all {len(steps)} of' if len(steps) > 1 else ''}:"
    for step in steps:
        name = f"{visible(step['check'])} {step['to']}: " if step["check"] else ""
        when = f" ({step['window']})" if step["window"] else ""
        told = f"{step['needed']}; {step['by']}" if step["by"] else f"{step['needed']}; now {step['text']}"
        yield from fold(prose(told + when), f"  {name}", "    ")
    if commands := list(dict.fromkeys(command for step in steps for command in step["ask_for"])):
        yield "  To decide it ask the customer for"
        yield from _commands(commands)


def _states(host: Document) -> Iterator[str]:
    """Several states in short; the one above is among them."""
    states = host["states"]
    if len(states) < 2:
        return
    yield from ["", f"In each of {len(states)} states:"]
    for state in states[:MOST_STATES]:
        settings = state["state"]["text"] if state["state"] else "?"
        sure = f", {state['confidence']}" if state["confidence"] else ""
        when = f" ({state['window']['text']})" if state["window"] else ""
        near = _near(state["change"]) if state["outcome"] != "fires" else ""
        yield from fold(prose(f"{settings}: {state['outcome']}{sure}{when}{near}"), "  ", "    ")
    if len(states) > MOST_STATES:
        yield f"  and {len(states) - MOST_STATES} more"


def _near(change: Document | None) -> str:
    steps = change["steps"] if change else []
    if len(steps) > MOST_STEPS:
        return f"; {len(steps)} checks would have to be otherwise"
    return f"; would have fired with {' and '.join(s['by'] or s['needed'] for s in steps)}" if steps else ""
